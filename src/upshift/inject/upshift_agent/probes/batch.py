"""What the tensors that reach the model say: samples, tokens, padding. Shapes mostly, values seldom.

The batch is usually dim 0, but reshaped corpora and batch_first=False models carry it in dim 1. The evidence,
strongest first: the DataLoader's own count equals one of the two; a recurrent or attention layer inside
receives the input as it came and has batch_first=False; all the inputs agree in dim 1 and not in dim 0.
"""

from __future__ import annotations

from time import perf_counter, thread_time

# Integer inputs that accompany the ids and must not be counted as tokens again.
_NOT_TOKENS = ("label", "target", "mask", "position", "type_id", "index", "length")
_MOST_TENSORS = 12
_PADDING_READS = 200  # for sure: some milliseconds in all, and enough for a share
_PADDING_BUDGET = 0.002  # of run time, from then on


class BatchReader:
    """Reads the inputs of the outermost module calls into `recorder.pending_micro`."""

    def __init__(self, torch, recorder) -> None:
        self.torch = torch
        self.recorder = recorder
        self._params: dict = {}
        self._dims: dict = {}
        self._known: dict = {}
        self._last_key: tuple = ()
        self._last_shape = None
        self._last: dict = {}
        self._pad_seconds = 0.0
        self._pad_reads = 0

    def read(self, module, args, kwargs):
        """Note one call. Returns a hook handle to remove after the call, or None."""
        key = id(module)
        seen = self.recorder.pending_micro
        if seen and seen["module"] == key:  # the same model again before the backward: count, look no closer
            if seen["calls"] == 1:
                seen = self.recorder.pending_micro = dict(seen)
            seen["calls"] += 1
            size = self._again(args, kwargs, seen)
            if size is not None and seen["total"] is not None:
                seen["total"] += size
            return None
        loaded = self.recorder.loaded
        if not seen and self._last_key == (key, loaded) and not kwargs and len(args) == 1:
            tensor = args[0]
            if isinstance(tensor, self.torch.Tensor) and tensor.shape == self._last_shape:
                self.recorder.pending_micro = self._last  # what most loops do, most of the time
                return None
        params = self._params.get(key)
        if params is None:
            params = self._params[key] = sum(p.numel() for p in module.parameters())
        if seen and params <= seen["params"]:
            return None
        shapes = (key, self.recorder.loaded, self._shapes(args), self._shapes(kwargs.values()))
        known = self._known.get(shapes)
        hook = None
        if known is None:
            tensors = list(_tensors(self.torch.Tensor, args, kwargs))
            batch, dim, hook = self._batch(module, args, tensors)
            known = {"module": key, "params": params, "dim": dim, "batch": batch, "total": batch, "calls": 1}
            self._tokens(known, tensors, dim)
            if tensors and self.recorder.device is None:
                self.recorder.device = tensors[0][1].device.type
            if hook is None and shapes[2] is not None and shapes[3] is not None:
                if len(self._known) > 1000:
                    self._known.clear()
                self._known[shapes] = known
        padding = self._padding(args, kwargs, known["dim"]) if "tokens" in known else None
        if seen or padding is not None:
            padded, longest = padding or (None, None)
            known = {**known, "padded": padded, "longest": longest}
            for name in (
                "tokens",
                "padded",
                "length",
                "longest",
            ):  # an embedding called alone saw the ids, the model not
                if known.get(name) is None:
                    known[name] = seen.get(name)
        elif (
            hook is None
            and len(args) == 1
            and not kwargs
            and isinstance(args[0], self.torch.Tensor)
            and "tokens" not in known
        ):
            self._last_key, self._last_shape, self._last = (key, loaded), args[0].shape, known
        self.recorder.pending_micro = (
            known  # shared with the next batch of these shapes: copied before a change
        )
        return hook

    def _shapes(self, values):
        """The shapes of plain tensor inputs; None where something else could hide tensors."""
        found = []
        for value in values:
            if isinstance(value, self.torch.Tensor):
                found.append((value.shape, value.dtype))
            elif value is None or isinstance(value, (bool, int, float, str)):
                found.append(None)
            else:
                return None
        return tuple(found)

    def _again(self, args, kwargs, seen):
        """Samples in a repeated call, by the dimension found before."""
        if args and isinstance(args[0], self.torch.Tensor) and args[0].dim() > seen["dim"]:
            return args[0].shape[seen["dim"]]  # a cell called for every time step takes this way
        for _, tensor in _tensors(self.torch.Tensor, args, kwargs):
            if tensor.dim() > seen["dim"]:
                return tensor.shape[seen["dim"]]
        return None

    def _batch(self, module, args, tensors):
        """(samples or None, batch dimension, hook handle or None)."""
        loaded = self.recorder.loaded
        first_arg = args[0] if args else None
        if isinstance(first_arg, list) and first_arg and isinstance(first_arg[0], self.torch.Tensor):
            sizes = {t.shape[0] if t.dim() else 0 for t in first_arg}
            if loaded == len(first_arg) or len(sizes) > 1 or first_arg[0].dim() == 3:
                return len(first_arg), 0, None  # one tensor per sample, as detection models take them
        shapes = [t.shape for _, t in tensors if t.dim() >= 1]
        if not shapes:
            return None, 0, None
        first = shapes[0]
        if len(first) < 2 or first[0] == first[1]:
            return first[0], 0, None
        if loaded is not None and loaded in (first[0], first[1]):
            dim = 0 if loaded == first[0] else 1
            return first[dim], dim, None
        known = self._dims.get(id(module))
        if known is not None:
            return first[known], known, None
        others = [s for s in shapes[1:] if len(s) >= 2]
        dim = 0
        if others and not any(s[0] == first[0] for s in others):
            dim = int(all(s[1] == first[1] for s in others))
        self._dims[id(module)] = dim
        return first[dim], dim, self._watch_inner(module, first)

    def _watch_inner(self, module, first):
        """For one call, see in which layout the first layer that has one receives the input."""
        if type(module).__name__ == "OptimizedModule" or getattr(module, "_compiled_call_impl", None):
            return None  # a hook would compile the model once more
        inner = next((m for m in module.modules() if getattr(m, "batch_first", None) is False), None)
        if inner is None:
            return None

        def look(_, args):
            tensor = args[0] if args else None
            if not isinstance(tensor, self.torch.Tensor) or tensor.dim() != 3:
                return
            if tuple(tensor.shape[:2]) == tuple(first[:2]):
                self._dims[id(module)] = 1
                seen = self.recorder.pending_micro
                if seen.get("module") == id(module):
                    self.recorder.pending_micro = {**seen, "dim": 1, "batch": first[1], "total": first[1]}

        return inner.register_forward_pre_hook(look)

    def _tokens(self, entry, tensors, dim) -> None:
        """Count integer ids, source and target apart."""
        ids, _ = self._ids(tensors)
        if ids:
            entry["tokens"] = sum(t.numel() for t in ids)
            entry["length"] = max(t.shape[1 - dim] for t in ids)

    def _ids(self, tensors):
        """(id tensors, attention mask or None) among the inputs."""
        shapes = set()
        mask = None
        ids = []
        for name, tensor in tensors:
            if name and "attention_mask" in name and tensor.dim() == 2:
                mask = tensor
            if tensor.dim() != 2 or tensor.dtype not in (self.torch.int64, self.torch.int32):
                continue
            if (name and any(word in name for word in _NOT_TOKENS)) or tensor.shape in shapes:
                continue
            shapes.add(tensor.shape)
            ids.append(tensor)
        return ids, mask

    def _padding(self, args, kwargs, dim):
        """(ids that are padding, the longest row without), when the budget allows a look at values; else None."""
        elapsed = perf_counter() - self.recorder.since
        if self._pad_reads >= _PADDING_READS and self._pad_seconds > _PADDING_BUDGET * elapsed:
            return None
        begun = thread_time()  # not the wall: waiting for a core is not our cost
        ids, mask = self._ids(_tensors(self.torch.Tensor, args, kwargs))
        if ids[0].device.type != "cpu":
            return None  # reading values would synchronise
        with self.torch.no_grad():
            if mask is not None and mask.shape == ids[0].shape:
                rows = (mask.t() if dim == 1 else mask) != 0
                found = [(int(rows.numel() - rows.sum()), int(rows.sum(1).max()))]
                found += [_trailing(t, dim) for t in ids[1:]]
            else:
                found = [_trailing(t, dim) for t in ids]
        self._pad_reads += 1
        self._pad_seconds += thread_time() - begun
        return sum(padded for padded, _ in found), max(longest for _, longest in found)


def _trailing(ids, dim: int) -> tuple:
    """(how many ids are padding, the longest row without): one value repeated at the ends of the padded rows."""
    rows = ids.t() if dim == 1 else ids
    length = rows.shape[1]
    if rows.shape[0] < 2 or length < 2:
        return 0, length
    last = rows[:, -1]
    repeated = last[last == rows[:, -2]]
    if not len(repeated):
        return 0, length
    value = repeated.mode().values
    trailing = (rows != value).flip(1).cumsum(1).eq(0).sum(1)
    return int(trailing.sum()), length - int(trailing.min())


def _tensors(tensor_class, args, kwargs):
    """(name or None, tensor) for the tensors among the inputs, nested ones too, the first few."""
    found = 0
    todo = [(None, a, 0) for a in reversed(args)] + [(k, v, 0) for k, v in reversed(kwargs.items())]
    if args and kwargs:
        todo = [(k, v, 0) for k, v in reversed(kwargs.items())] + [(None, a, 0) for a in reversed(args)]
    while todo and found < _MOST_TENSORS:
        name, value, depth = todo.pop()
        if isinstance(value, tensor_class):
            found += 1
            yield name, value
        elif depth < 3:
            if isinstance(value, (list, tuple)):
                todo.extend((name, v, depth + 1) for v in reversed(value[:_MOST_TENSORS]))
            elif hasattr(value, "keys") and hasattr(value, "__getitem__"):
                try:
                    todo.extend((str(k), value[k], depth + 1) for k in reversed(list(value.keys())))
                except (KeyError, TypeError):
                    pass
            elif hasattr(value, "__dict__") and not callable(value):
                todo.extend((k, v, depth + 1) for k, v in reversed(list(vars(value).items())))
