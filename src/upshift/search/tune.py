"""The search: look, bind, try, verify, confirm. It is given functions that run things and knows no processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from upshift.errors import NothingMeasured, UpshiftError
from upshift.knobs.binding import Binding, Variable
from upshift.knobs.change import Change
from upshift.knobs.discover import Candidate, Seen, candidates
from upshift.knobs.knob import EXACT, GRAD_ACCUM, MICRO_BATCH, NUMERIC, OTHERS, Knob
from upshift.plan import Plan, Setting
from upshift.search.confirm import Speedup, confirm
from upshift.search.model import next_micro_batch
from upshift.search.trial import OOM, Run, Trial
from upshift.verify.verdict import Verdict

WORTH = 1.03
"""A setting is taken if it is this many times as fast; less is noise or not worth a changed config."""
_LOADER_BOUND = 0.5
_WAITING = 0.03
_MOST_BINDINGS = 6
THREADS = "threads"


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user asked for."""

    now: Change
    bindings: Mapping[str, Binding] = field(default_factory=dict)
    only: frozenset[str] = frozenset()
    skip: frozenset[str] = frozenset()
    plan: str = "conservative"
    budget_seconds: float = 600.0
    cores: int = 1
    threads: int | None = None
    """OMP_NUM_THREADS as the user has it; None: unset, which means all cores."""

    def wants(self, knob: str) -> bool:
        """May this knob be turned?"""
        return knob not in self.skip and (not self.only or knob in self.only)


Look = Callable[[Change], tuple[Trial, Seen]]
"""The run as it is: how fast, and where its settings come from."""
Prove = Callable[[Change, Mapping[str, object]], Verdict]
"""Is the changed run the same training? Raises where there is no verdict."""
Pair = Callable[[Change, Mapping[str, object], int], float | None]
"""Ratio of one pair of runs, changed over as it is."""
Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A knob and where it was shown to be set."""

    micro_batch: Binding
    grad_accum: Binding | None
    """None: it follows by itself."""


class Tuner:
    """One tuning from start to plan."""

    def __init__(self, request: Request, look: Look, run: Run, prove: Prove, pair: Pair, tell: Tell) -> None:
        self.request = request
        self._look, self._run, self._prove, self._pair, self._tell = look, run, prove, pair, tell
        self._begun = time.perf_counter()
        self._trials: list[Trial] = []
        self._rejected: list[tuple[str, str]] = []
        self._notes: list[str] = []
        self._longest = 0.0

    # ---- budget ----

    def _time_for(self, trials: float = 1.0) -> bool:
        used = time.perf_counter() - self._begun
        fits = used + trials * self._longest <= self.request.budget_seconds
        if not fits and "budget" not in dict(self._rejected):
            self._rejected.append(("budget", "no time left for further trials; give more with --budget"))
        return fits

    def _try(self, change: Change, settings: Mapping[str, object]) -> Trial:
        trial = self._run(change, settings)
        self._trials.append(trial)
        self._longest = max(self._longest, trial.seconds)
        told = ", ".join(f"{k} {v}" for k, v in settings.items())
        speed = f"{trial.samples_per_second:.4g} samples/s" if trial.ok else f"{trial.outcome}: {trial.why}"
        self._tell(f"{told}: {speed}")
        return trial

    # ---- the way through ----

    def tune(self) -> Plan:
        """Raises the error that says why there is no plan."""
        now = self.request.now
        self._tell("as it is")
        baseline, seen = self._look(now)
        if not baseline.ok:
            raise NothingMeasured(
                f"the run as it is could not be measured: {baseline.outcome} {baseline.why}"
            )
        self._trials.append(baseline)
        self._longest = baseline.seconds
        self._tell(f"as it is: {baseline.samples_per_second:.4g} samples/s, {_batch(baseline)}")
        best, change = baseline, now
        settings: list[Setting] = []
        for step in (self._micro_batch, self._others):
            best, change, found = step(baseline, best, change, seen, tuple(settings))
            settings.extend(found)
        return self._finish(baseline, best, change, settings)

    def _finish(self, baseline: Trial, best: Trial, change: Change, settings: list[Setting]) -> Plan:
        now = self.request.now
        speedup: Speedup | None = None
        verdict: Verdict | None = None
        if settings:
            values = {s.knob: s.after for s in settings}
            verdict = self._proven(change, values)
            if verdict is None or not verdict.same:
                why = verdict.because if verdict else "no verdict on the whole plan"
                self._rejected.extend((f"{s.knob} → {s.after}", why) for s in settings)
                settings, change, best = [], now, baseline
            else:
                self._tell("confirming in pairs of runs")
                speedup = confirm(lambda n: self._pair(change, values, n))
                if speedup is None or not speedup.claimed:
                    held = f"{speedup.low:.2f} to {speedup.high:.2f}" if speedup else "a run failed"
                    self._rejected.extend(
                        (f"{s.knob} → {s.after}", f"not confirmed in pairs ({held})") for s in settings
                    )
                    settings, change, best = [], now, baseline
        return Plan(
            now=now,
            change=change,
            settings=tuple(settings),
            baseline=baseline,
            best=best,
            speedup=speedup,
            verdict=verdict,
            trials=tuple(self._trials),
            rejected=tuple(self._rejected),
            tuning_seconds=time.perf_counter() - self._begun,
            notes=tuple(self._notes),
        )

    def _proven(self, change: Change, values: Mapping[str, object]) -> Verdict | None:
        self._tell("is it the same training?")
        try:
            verdict = self._prove(change, values)
        except UpshiftError as error:
            self._notes.append(f"no verdict: {error.message}")
            return None
        self._tell(f"{verdict.kind}: {verdict.because}")
        for sentence in verdict.today:
            if sentence not in self._notes:
                self._notes.append("today: " + sentence)
        return verdict

    # ---- micro-batch and accumulation ----

    def _micro_batch(
        self, baseline: Trial, best: Trial, change: Change, seen: Seen, so_far: tuple[Setting, ...]
    ) -> tuple[Trial, Change, list[Setting]]:
        nothing: tuple[Trial, Change, list[Setting]] = (best, change, [])
        if not self.request.wants(MICRO_BATCH.name):
            return nothing
        micro, accum = baseline.micro_batch, baseline.grad_accum
        if micro is None or accum is None:
            self._rejected.append((MICRO_BATCH.name, "the batch could not be observed"))
            return nothing
        if (baseline.data_share or 0.0) > _LOADER_BOUND:
            self._rejected.append(
                (
                    MICRO_BATCH.name,
                    f"{baseline.data_share:.0%} of a step waits for data: the loader comes first",
                )
            )
            return nothing
        effective = micro * accum
        points = [(micro, baseline.samples_per_second or 0.0)]
        target = next_micro_batch(points, [], effective)
        if target is None:
            self._rejected.append((MICRO_BATCH.name, f"{micro} × {accum} is all one batch already"))
            return nothing
        bound, first = self._bind(baseline, change, seen, target, effective)
        if bound is None or first is None:
            return nothing
        verdict = self._proven(
            self._set(bound, change, target, effective), self._values(bound, target, effective)
        )
        if verdict is None or not verdict.same:
            why = verdict.because if verdict else "no verdict could be had"
            self._rejected.append((f"micro_batch → {target}", f"not the same training: {why}"))
            return nothing
        tried = {target: first}
        failed: list[int] = []
        if first.ok:
            points.append((target, first.samples_per_second or 0.0))
        else:
            failed.append(target)
        while self._time_for():
            size = next_micro_batch(points, failed, effective)
            if size is None:
                break
            trial = self._try(self._set(bound, change, size, effective), self._values(bound, size, effective))
            if trial.ok and trial.effective_batch == baseline.effective_batch:
                points.append((size, trial.samples_per_second or 0.0))
                tried[size] = trial
            else:
                failed.append(size)
                if trial.outcome == OOM:
                    self._rejected.append((f"micro_batch → {size}", "does not fit in memory"))
        size, rate = max(points, key=lambda p: p[1])
        gain = rate / points[0][1]
        if size == micro or gain < WORTH:
            told = ", ".join(f"{b}: {r / points[0][1]:.2f}×" for b, r in sorted(points[1:]))
            self._rejected.append((MICRO_BATCH.name, f"no other micro-batch is faster ({told})"))
            return nothing
        turned = [
            Setting(
                knob=MICRO_BATCH.name,
                before=micro,
                after=size,
                effect=EXACT,
                gain=gain,
                reason=MICRO_BATCH.why,
                binding=bound.micro_batch,
                verdict=verdict,
            )
        ]
        if bound.grad_accum is not None:
            turned.append(
                Setting(
                    knob=GRAD_ACCUM.name,
                    before=accum,
                    after=effective // size,
                    effect=EXACT,
                    gain=None,
                    reason=GRAD_ACCUM.why,
                    binding=bound.grad_accum,
                    verdict=verdict,
                )
            )
        return tried[size], self._set(bound, change, size, effective), turned

    def _set(self, bound: Bound, change: Change, size: int, effective: int) -> Change:
        change = bound.micro_batch.apply(change, size)
        return change if bound.grad_accum is None else bound.grad_accum.apply(change, effective // size)

    def _values(self, bound: Bound, size: int, effective: int) -> dict[str, object]:
        values: dict[str, object] = {MICRO_BATCH.name: size}
        if bound.grad_accum is not None:
            values[GRAD_ACCUM.name] = effective // size
        return values

    def _bind(
        self, baseline: Trial, change: Change, seen: Seen, target: int, effective: int
    ) -> tuple[Bound | None, Trial | None]:
        """Try candidates until a run shows what was set. Also the trial that showed it."""
        attempts = 0
        dead: set[str] = set()
        for bound in self._pairs_of_places(baseline, change, seen):
            if str(bound.micro_batch) in dead:
                continue
            if attempts == _MOST_BINDINGS or not self._time_for():
                break
            attempts += 1
            try:
                changed = self._set(bound, change, target, effective)
            except UpshiftError as error:
                self._rejected.append((str(bound.micro_batch), error.message))
                continue
            trial = self._try(changed, self._values(bound, target, effective))
            if trial.outcome == OOM:
                return bound, trial
            if not trial.ok:
                self._rejected.append(
                    (f"micro_batch → {target} through {bound.micro_batch}", trial.why or trial.outcome)
                )
                continue
            if trial.micro_batch != target:
                dead.add(str(bound.micro_batch))
                self._rejected.append((str(bound.micro_batch), "set, and the micro-batch stayed what it was"))
                continue
            if trial.effective_batch == baseline.effective_batch:
                return bound, trial
            self._rejected.append(
                (
                    str(bound.grad_accum or "accumulation"),
                    f"set, and the effective batch became {trial.effective_batch}",
                )
            )
        if not attempts:
            self._rejected.append(
                (
                    MICRO_BATCH.name,
                    "no place that sets it was found; say it with --bind micro_batch=… and --bind grad_accum=…",
                )
            )
        return None, None

    def _pairs_of_places(self, baseline: Trial, change: Change, seen: Seen) -> Iterator[Bound]:
        """(where the batch is set, where the accumulation is) in the order of likelihood."""
        given = self.request.bindings
        batches = _places(MICRO_BATCH, baseline.micro_batch, change, seen, given)
        accumulations: list[Binding | None] = list(
            _places(GRAD_ACCUM, baseline.grad_accum, change, seen, given)
        )
        for batch in batches:
            for accumulation in [*accumulations, None]:
                yield Bound(micro_batch=batch, grad_accum=accumulation)

    # ---- everything else ----

    def _others(
        self, baseline: Trial, best: Trial, change: Change, seen: Seen, so_far: tuple[Setting, ...]
    ) -> tuple[Trial, Change, list[Setting]]:
        turned: list[Setting] = []
        for knob, candidate, values in self._worth_trying(best, change, seen):
            for value in values:
                if not self._time_for():
                    return best, change, turned
                try:
                    changed = candidate.binding.apply(change, value)
                except UpshiftError as error:
                    self._rejected.append((f"{knob.name} → {value}", error.message))
                    continue
                settings = {s.knob: s.after for s in (*so_far, *turned)}
                trial = self._try(changed, {**settings, knob.name: value})
                gain = (trial.samples_per_second or 0.0) / (best.samples_per_second or 1.0)
                if not trial.ok or trial.effective_batch != best.effective_batch or gain < WORTH:
                    why = f"{gain:.2f}×" if trial.ok else (trial.why or trial.outcome)
                    self._rejected.append((f"{knob.name} → {value}", why))
                    continue
                verdict = self._proven(changed, {**settings, knob.name: value})
                if verdict is None or not verdict.same:
                    why = verdict.because if verdict else "no verdict could be had"
                    self._rejected.append((f"{knob.name} → {value}", f"not the same training: {why}"))
                    continue
                turned = [s for s in turned if s.knob != knob.name]
                turned.append(
                    Setting(
                        knob=knob.name,
                        before=candidate.value,
                        after=value,
                        effect=knob.effect,
                        gain=gain,
                        reason=knob.why,
                        binding=candidate.binding,
                        verdict=verdict,
                    )
                )
                best, change = trial, changed
        return best, change, turned

    def _worth_trying(
        self, best: Trial, change: Change, seen: Seen
    ) -> Iterator[tuple[Knob, Candidate, list[object]]]:
        if self.request.wants(THREADS):
            yield from self._threads(change)
        for knob in OTHERS:
            if not self.request.wants(knob.name) or (
                knob.effect == NUMERIC and self.request.plan == "conservative"
            ):
                continue
            if knob.name == "workers" and (best.data_share or 0.0) < _WAITING:
                continue
            found = candidates(knob, None, change, seen)
            if knob.name in self.request.bindings:
                binding = self.request.bindings[knob.name]
                found = [Candidate(binding=binding, value=binding.now(change), where="given")]
            if not found:
                continue
            if knob.name == "checkpointing" and found[0].value is not True:
                continue  # turning it on saves memory, not time
            yield knob, found[0], list(knob.values(found[0].value))

    def _threads(self, change: Change) -> Iterator[tuple[Knob, Candidate, list[object]]]:
        """OMP_NUM_THREADS: small models are often faster on one."""
        variable = Variable("OMP_NUM_THREADS")
        now = self.request.threads or self.request.cores
        knob = replace(
            OTHERS[0],
            name=THREADS,
            effect=EXACT,
            why="threads that wait for each other cost more than they bring",
        )
        values: list[object] = [n for n in dict.fromkeys((1, self.request.cores)) if n != now]
        if self.request.cores > 1:
            yield knob, Candidate(binding=variable, value=now, where="environment"), values


def _places(
    knob: Knob, value: object, change: Change, seen: Seen, given: Mapping[str, Binding]
) -> list[Binding]:
    if knob.name in given:
        return [given[knob.name]]
    return [c.binding for c in candidates(knob, value, change, seen)]


def _batch(trial: Trial) -> str:
    return f"micro-batch {trial.micro_batch} × {trial.grad_accum}" + (
        f" × {trial.world_size} ranks" if trial.world_size > 1 else ""
    )
