"""Too little work in one call: small micro-batches, a call for every sample, a module called over and over."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import mode

from upshift.diagnose.data import making
from upshift.diagnose.finding import Evidence, Finding, milliseconds, percent
from upshift.measure.modules import Module

_MANY_CALLS = 24
_BIG_SHARE = 0.15


def find(evidence: Evidence) -> Iterator[Finding]:
    """Micro-batch, calls by sample, calls by time step."""
    by_sample = _called_by_sample(evidence)
    if by_sample is not None:
        yield by_sample
    else:
        small = _small_micro_batch(evidence)
        if small is not None:
            yield small
        yield from _many_calls(evidence)


def _fixed_share(evidence: Evidence, calls: int) -> tuple[float, float] | None:
    """(share of the model's time saved by joining `calls` calls, fixed seconds of a call), measured."""
    result = evidence.result("calls")
    if not result or "joined" not in result["seconds"] or result["used"] < 2:
        return None
    used = result["used"]
    separate, joined = result["seconds"]["separate"], result["seconds"]["joined"]
    fixed = (separate - joined) / (used - 1)  # t(n) = fixed + n * each, from n = 1 and n = used
    one = separate / used
    return max(0.0, (calls - 1) * fixed / (calls * one)), fixed


def _small_micro_batch(e: Evidence) -> Finding | None:
    batch = e.profile.batch
    accumulation = batch.grad_accum or 1
    if accumulation < 2 or not batch.micro_batch or (batch.calls or 1) > 1:
        return None
    measured = _fixed_share(e, accumulation)
    if measured is None:
        return None
    share, fixed = measured
    model = e.phase("forward", "loss", "backward")
    # What the loop and the loader do once for every micro-step, whatever its size, goes with their number.
    fewer = 1 - 1 / accumulation
    saves = e.of_run(share * model + (e.phase("other") + _asking(e)) * fewer)
    loop = e.phase("other", "logging", "host_to_device", "data_wait") * fewer
    if saves < e.noise:
        return None
    whole = batch.micro_batch * accumulation
    result = e.result("calls")
    used = result["used"]
    micro = e.names.of("micro_batch", batch.micro_batch)
    accum = e.names.of("grad_accum", accumulation)
    return Finding(
        kind="micro_batch",
        title=f"micro-batch of {batch.micro_batch} is too small",
        evidence=(
            f"{used} micro-batches one by one {milliseconds(result['seconds']['separate'])}, "
            f"in one call {milliseconds(result['seconds']['joined'])}",
            f"{milliseconds(fixed)} of every call is there whatever its size",
        ),
        saves=saves,
        bound=min(1.0, e.of_run(share * model * 1.1 + loop)),
        measured=True,
        fix=f"{micro or 'micro-batch'} {batch.micro_batch} → {whole}, "
        f"{accum or 'accumulation'} {accumulation} → 1: the same {whole} samples a step, "
        "as far as memory allows (check that the loss is averaged the same way)",
        where=micro,
    )


def _asking(e: Evidence) -> float:
    """Share of a step that asking a loader without workers for batches takes, beside getting their samples."""
    parts = making(e)
    if parts is None or e.loader is None or e.loader["workers"] or not e.used:
        return 0.0
    fetches = sum(m.fetches for i in e.used for m in i.micro) / len(e.used)
    samples = (parts.seconds - parts.collating) * fetches / e.profile.step_mean
    return max(0.0, e.phase("data_wait") - samples)


def _called_by_sample(e: Evidence) -> Finding | None:
    rows = [m for i in e.used for m in i.micro if m.calls > 1 and m.batch == 1]
    if len(rows) < 0.8 * sum(len(i.micro) for i in e.used) or not rows:
        return None
    calls = mode(m.calls for m in rows)
    if any(m.loaded is not None and m.loaded not in (m.calls, m.total) for m in rows):
        return None  # calls that are not one for each sample of a batch
    measured = _fixed_share(e, calls)
    if measured is None:
        return None
    share, fixed = measured
    model = e.phase("forward", "loss", "backward")
    saves = e.of_run(share * model)
    if saves < e.noise:
        return None
    place = _place(e, "forward")
    return Finding(
        kind="per_sample_calls",
        title=f"the model is called {calls} times a batch, once for every sample",
        evidence=(f"{milliseconds(fixed)} of every call is there whatever its size",),
        saves=saves,
        bound=min(1.0, e.of_run(share * model * 1.1 + e.phase("other") * (1 - 1 / calls))),
        measured=True,
        fix=f"stack the samples and call the model once for all {calls}",
        where=place,
    )


def _many_calls(e: Evidence) -> Iterator[Finding]:
    if e.modules is None or not e.used:
        return
    micro_steps = sum(len(i.micro) for i in e.used) / len(e.used) or 1
    step = e.profile.step_mean
    for module, looping in _topmost(e.modules.roots, _MANY_CALLS * micro_steps):
        share = module.seconds / step
        if share < _BIG_SHARE:
            continue
        inner = [m for m in module.walk() if m is not module and m.seconds / step >= 0.05][:3]
        yield Finding(
            kind="many_calls",
            title=f"{module.name} runs step by step: {module.calls / micro_steps:.0f} calls a micro-step",
            evidence=(
                f"{percent(share)} of a step, {milliseconds(module.forward / module.calls)} a call in the forward",
                *(
                    f"{m.name}: {m.calls / micro_steps:.0f} calls, {percent(m.seconds / step)} of a step"
                    for m in inner
                ),
            ),
            saves=e.of_run(share * (1 - micro_steps / module.calls)),
            # What the loop does round the calls (slicing, stacking, their backward) goes with them.
            bound=e.of_run(
                looping.seconds / step if looping else max(share, e.phase("forward", "loss", "backward"))
            ),
            measured=False,
            fix="do in one call what needs no result of the step before (projections, output layer, attention "
            "under teacher forcing); give each call more samples (micro-batch)",
            where=e.near(module.where),
            overlaps=("micro_batch",),
        )


def _topmost(
    modules: tuple[Module, ...], calls: float, looping: Module | None = None
) -> Iterator[tuple[Module, Module | None]]:
    """(module called often, the module whose forward calls it); None: the training loop itself does."""
    for module in modules:
        # A numbered list of layers is many modules, each called once: not one called often.
        if module.calls >= calls and "*" not in module.name:
            yield module, looping
        else:
            yield from _topmost(module.inside, calls, module if module.calls else looping)


def _place(e: Evidence, phase: str) -> str | None:
    found = next((p.places for p in e.profile.phases if p.name == phase), ())
    return str(found[0]) if found else None
