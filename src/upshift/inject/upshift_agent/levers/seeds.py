"""The same random numbers on both sides, wherever they are drawn.

One seed for torch, numpy and random, also where the program asks for a fresh one. Augmentation is seeded by the
sample, so that it does not depend on which worker draws it or on who was drawn before. The order of a shuffled
epoch depends on the epoch alone. What an evaluation draws does not move the training's random numbers.
"""

from __future__ import annotations

import functools
import importlib
import random
import sys
import zlib
from threading import get_ident

from ..arrival import when_imported

_MASK = (1 << 31) - 1


def before_torch(seed: int) -> None:
    """random and numpy may be used before torch is imported."""
    _seed_random(seed)
    # Not at the import of numpy itself: it loads this part when it is first asked for.
    when_imported("numpy.random", lambda module: _seed_numpy(module, seed))


def install(torch, recorder, seed: int) -> None:
    """Seed torch, and everything that draws on its own."""
    torch.manual_seed(seed)
    torch.seed = lambda: torch.manual_seed(seed).initial_seed()
    when_imported(
        "torch.utils.data._utils.fetch", lambda module: _seed_samples(torch, module, recorder, seed)
    )
    when_imported("torch.utils.data.sampler", lambda module: _seed_sampler(torch, module, seed))
    _shield_training(torch, recorder)


def _seed_random(seed: int) -> None:
    original = random.seed

    @functools.wraps(original)
    def seeded(a=None, *args, **kwargs):
        return original(seed if a is None else a, *args, **kwargs)

    random.seed = seeded
    random.seed(seed)


def _seed_numpy(numpy_random, seed: int) -> None:
    numpy_random.seed(seed)
    made = [0]

    def fresh(original):
        @functools.wraps(original)
        def make(given=None, *args, **kwargs):
            if given is None:
                made[0] += 1
                given = seed + made[0]
            return original(given, *args, **kwargs)

        return make

    numpy_random.default_rng = fresh(numpy_random.default_rng)
    original_seed = numpy_random.seed
    numpy_random.seed = lambda given=None: original_seed(seed if given is None else given)


def _numpy_random():
    """numpy.random, if the program has come to use it, whole."""
    module = sys.modules.get("numpy.random")
    return module if hasattr(module, "get_state") else None


class _Dice:
    """All global generators of this process: put them somewhere, and back."""

    def __init__(self, torch) -> None:
        self.generator = torch.default_generator

    def state(self) -> tuple:
        return (
            self.generator.get_state(),
            random.getstate(),
            numpy_random.get_state() if (numpy_random := _numpy_random()) is not None else None,
        )

    def restore(self, state: tuple) -> None:
        self.generator.set_state(state[0])
        random.setstate(state[1])
        if state[2] is not None:
            _numpy_random().set_state(state[2])

    def put(self, seed: int) -> None:
        self.generator.manual_seed(seed)
        random.seed(seed)
        numpy_random = _numpy_random()
        if numpy_random is not None:
            numpy_random.seed(seed)

    def drawn(self, torch, before: tuple) -> list:
        """Which generators have been used since `before`."""
        now = self.state()
        used = []
        if not torch.equal(now[0], before[0]):
            used.append("torch")
        if now[1] != before[1]:
            used.append("random")
        if before[2] is not None and (now[2][2], now[2][1][0]) != (before[2][2], before[2][1][0]):
            used.append("numpy")
        return used


class _SeededDataset:
    """The dataset, with every sample drawn from random numbers of its own."""

    __getitems__ = None  # one by one

    def __init__(self, dataset, draw) -> None:
        self._dataset = dataset
        self._draw = draw

    def __getitem__(self, index):
        return self._draw(self._dataset, index)

    def __len__(self):
        return len(self._dataset)

    def __getattr__(self, name):
        return getattr(self._dataset, name)


def _number(index) -> int:
    return zlib.crc32(repr(index).encode())


def _seed_samples(torch, module, recorder, seed: int) -> None:
    dice = _Dice(torch)
    reported: set = set()

    def report(what: str, used: list) -> None:
        if used and what not in reported:
            reported.add(what)
            recorder.emitter.emit("draws", what=what, generators=used)
            recorder.emitter.flush()

    def draw(dataset, index):
        dice.put((seed * 7919 + _number(index)) & _MASK)
        watch = "augmentation" not in reported
        before = dice.state() if watch else None
        sample = dataset[index]
        if watch:
            report("augmentation", dice.drawn(torch, before))
        return sample

    fetcher = module._MapDatasetFetcher
    original = fetcher.fetch

    @functools.wraps(original)
    def fetch(self, index):
        if "numpy" in sys.modules and "numpy.random" not in sys.modules:
            importlib.import_module("numpy.random")  # a sample that used it first would be drawn unseeded
        outside = dice.state()
        dataset, collate = self.dataset, self.collate_fn

        def seeded_collate(data):
            dice.put((seed * 104729 + _number(index)) & _MASK)
            watch = "collation" not in reported
            before = dice.state() if watch else None
            batch = collate(data)
            if watch:
                report("collation", dice.drawn(torch, before))
            return batch

        self.dataset = _SeededDataset(dataset, draw)
        self.collate_fn = seeded_collate
        try:
            return original(self, index)
        finally:
            self.dataset, self.collate_fn = dataset, collate
            dice.restore(outside)

    fetcher.fetch = fetch


def _seed_sampler(torch, module, seed: int) -> None:
    """A shuffle takes its seed from the global generator: give it one that depends on the epoch alone."""
    dice = _Dice(torch)
    original = module.RandomSampler.__iter__
    epochs = [0]

    @functools.wraps(original)
    def __iter__(self):
        inner = original(self)
        if self.generator is not None:
            yield from inner
            return
        epochs[0] += 1
        outside = dice.state()
        dice.put((seed + 31 * epochs[0]) & _MASK)
        try:
            first = next(inner, None)
        finally:
            dice.restore(outside)
        if first is not None:
            yield first
            yield from inner

    module.RandomSampler.__iter__ = __iter__


def _shield_training(torch, recorder) -> None:
    """Random numbers drawn between eval() and train() are given back."""
    dice = _Dice(torch)
    module_class = torch.nn.Module
    original = module_class.train
    saved: list = []
    inside: list = []

    @functools.wraps(original)
    def train(self, mode=True):
        if inside or (recorder.thread and get_ident() != recorder.thread):
            return original(self, mode)
        if not mode and self.training and not saved:
            saved.append(dice.state())
        elif mode and saved:
            dice.restore(saved.pop())
        inside.append(True)
        try:
            return original(self, mode)
        finally:
            inside.pop()

    module_class.train = train
