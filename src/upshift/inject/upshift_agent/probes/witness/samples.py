"""Which samples a micro-batch held: hashes of their contents, row by row, that padding does not change.

The same sample is padded to another length in another micro-batch. So each row is hashed whole, without the run of
equal values at its end, and without the one at its beginning; which of the three counts is decided when both sides
are known.
"""

from __future__ import annotations

import ctypes
import hashlib

from ..batch import _tensors

_MOST_BYTES = 1 << 26
_PREFIX = 4
_SKIPPED = ("mask", "position", "num_items", "cache")


def rows_of(torch, args, kwargs, dim: int, batch: int) -> dict:
    """{slot: [row, …]} for the inputs that carry the batch in `dim`; a row is [whole, end, run, …]."""
    found: dict = {}
    for number, (name, tensor) in enumerate(_tensors(torch.Tensor, args, kwargs)):
        if tensor.requires_grad or tensor.dtype == torch.bool or (name and any(w in name for w in _SKIPPED)):
            continue  # a hidden state, or what only accompanies the samples
        if tensor.dim() <= dim or tensor.shape[dim] != batch or tensor.is_sparse:
            continue
        if tensor.numel() * tensor.element_size() > _MOST_BYTES:
            continue
        slot = name or "arg%d" % number
        found[slot] = _rows(torch, tensor.detach(), dim)
        # `ids[:, :-1]` cuts a token off the longest row and padding off the others: what it was cut from tells more.
        base = tensor._base
        if (
            base is not None
            and base.dim() == tensor.dim()
            and base.shape[dim] == batch
            and base.numel() <= 4 * tensor.numel()
        ):
            found[slot + ".base"] = _rows(torch, base.detach(), dim)
    return found


def _rows(torch, tensor, dim: int) -> list:
    if dim:
        tensor = tensor.transpose(0, dim)
    tensor = tensor.cpu().contiguous()
    if tensor.dtype == torch.float64:
        tensor = tensor.float()  # the same sample, whatever precision it is looked at in
    batch = tensor.shape[0]
    whole = (
        ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size()) if tensor.numel() else b""
    )
    size = len(whole) // max(1, batch)
    if tensor.dim() < 2 or tensor.shape[1] < 2 or tensor.dim() > 3:
        return [[_hash(whole[i * size : (i + 1) * size])] for i in range(batch)]
    length = tensor.shape[1]
    steps = tensor.reshape(batch, length, -1)
    after = (steps == steps[:, -1:]).all(-1).flip(1).long().cumprod(1).sum(1).tolist()
    before = (steps == steps[:, :1]).all(-1).long().cumprod(1).sum(1).tolist()
    one = size // length
    rows = []
    for i in range(batch):
        row = whole[i * size : (i + 1) * size]
        rows.append(
            [
                _hash(row),
                _hash(row[-one:])[:6],
                after[i],
                _hash(row[: size - after[i] * one]),
                _hash(row[:one])[:6],
                before[i],
                _hash(row[before[i] * one :]),
                _hash(row[: _PREFIX * one]),
            ]
        )
    return rows


def _hash(row: bytes) -> str:
    return hashlib.blake2b(row, digest_size=6).hexdigest()
