"""Work whose result is thrown away or known already: padding, lengths nobody needs, frozen parts, recomputation."""

from __future__ import annotations

from collections.abc import Iterator

from upshift.diagnose.finding import Evidence, Finding, milliseconds, percent
from upshift.measure.modules import Module
from upshift.report import units

_LENGTH_ROOM = 0.75
"""A limit counts as far above the data when the longest sample seen fills less than this share of it."""


def find(evidence: Evidence) -> Iterator[Finding]:
    """Padding and lengths, frozen modules, checkpointing."""
    yield from _padding(evidence)
    if evidence.modules is not None:
        yield from _frozen(evidence, evidence.modules.roots)
        yield from _checkpointing(evidence)


def _padding(e: Evidence) -> Iterator[Finding]:
    batch = e.profile.batch
    if batch.padding_share is None:
        return
    model = e.phase("forward", "loss", "backward")
    rest = batch.padding_share
    read = [m for i in e.used for m in i.micro if m.longest is not None and m.length]
    fixed = len({m.length for m in read}) == 1 and len(read) >= 5
    if fixed:
        length = read[0].length or 1
        longest = max(m.longest or 0 for m in read)
        empty = 1 - longest / length
        saves = e.of_run(model * empty)
        if longest < _LENGTH_ROOM * length and saves >= e.noise:
            rest = max(0.0, (batch.padding_share - empty) / (1 - empty))
            name = e.names.of("length", length)
            yield Finding(
                kind="sequence_limit",
                title=f"sequences are filled up to {length}, the data ends at {longest}",
                evidence=(
                    f"in {len(read)} batches no row was longer than {longest}",
                    f"{percent(batch.padding_share)} of all ids are padding",
                ),
                saves=saves,
                bound=min(
                    1.0,
                    e.of_run(
                        e.phase("forward", "loss", "backward", "data_wait", "other")
                        * (1 - (longest / length) ** 2)
                    ),
                ),
                measured=False,
                fix=f"{name or 'the sequence limit'} {length} → {longest}, or pad to the longest of each batch "
                "(check that no sample later in the data is longer)",
                where=name,
                overlaps=("padding",),
            )
    saves = e.of_run(model * rest)
    if saves >= e.noise and rest >= 0.1:
        loader = e.loader
        yield Finding(
            kind="padding",
            title=f"{percent(rest)} of the model's work is padding",
            evidence=(
                f"samples of different lengths share a batch: median length {batch.length_median}, "
                f"longest {batch.length_max}",
            ),
            saves=saves,
            bound=min(
                1.0,
                e.of_run(e.phase("forward", "loss", "backward", "data_wait", "other") * min(1.0, rest * 1.3)),
            ),
            measured=False,
            fix="put samples of similar length into one batch (group_by_length, a bucketing sampler), or pack them",
            where=e.near(loader["collate_where"] or loader["where"]) if loader else None,
        )


def _frozen(e: Evidence, modules: tuple[Module, ...]) -> Iterator[Finding]:
    step = e.profile.step_mean
    for module in modules:
        if module.frozen == "constant":
            share = module.forward / step
            saves = e.of_run(share)
            if saves >= e.noise:
                yield Finding(
                    kind="frozen",
                    title=f"{module.name} is frozen and computed again in every epoch",
                    evidence=(
                        f"{milliseconds(module.forward)} a step, {percent(share)} of it",
                        "none of its parameters is trained, nothing before it is, and nothing in it is random",
                    ),
                    saves=saves,
                    bound=min(1.0, saves * 1.1),
                    measured=True,
                    fix="compute its outputs once and keep them, if the inputs are the same in every epoch "
                    "(no random augmentation)",
                    where=e.near(module.where),
                )
        else:
            yield from _frozen(e, module.inside)


def _checkpointing(e: Evidence) -> Iterator[Finding]:
    assert e.modules is not None
    share = e.modules.recomputed / e.profile.step_mean
    tried = (e.result("calls") or {}).get("variants", {}).get("seconds", {})
    if "kept" in tried and tried.get("as it is"):
        # Tried: the bookkeeping round every checkpoint goes too, not only what is computed again.
        share = e.phase("forward", "loss", "backward") * max(0.0, 1 - tried["kept"] / tried["as it is"])
    saves = e.of_run(share)
    resources = e.profile.resources
    peak, limit = resources.peak_bytes, resources.memory_bytes
    for gpu in resources.gpu if e.profile.device == "cuda" else ():
        peak, limit = int(gpu.get("peak_memory_bytes") or 0), int(gpu.get("total_bytes") or 0)
    if saves < e.noise or not peak or not limit or limit - peak < peak:
        return
    yield Finding(
        kind="checkpointing",
        title="activations are recomputed although memory is to spare",
        evidence=(
            f"{milliseconds(e.modules.recomputed)} a step goes into modules called again in the backward",
            f"peak memory {units.size(peak)} of {units.size(limit)}",
        ),
        saves=saves,
        bound=min(1.0, saves * 1.25),
        measured="kept" in tried,
        fix="switch activation (gradient) checkpointing off, for some or all of the layers, and watch the memory",
    )
