"""Short linear sketches of long vectors: what two gradients differ by, without keeping either.

Each tensor gets a few numbers: its elements, with fixed random signs, summed by rows of 256 into its buckets. Sums of
sketches are sketches of sums, so differences, ratios and reweighted sums of gradients can be taken afterwards, per
tensor, from files of some kilobytes. Norms of differences come out right to about sqrt(2 / numbers).
"""

from __future__ import annotations

import base64

_ROW = 256
_CHUNK, _CHUNK_CPU = 1 << 22, 1 << 17
"""Elements looked at together: bounds the memory, and on a CPU stays in its cache between one pass and the next."""
_NUMBERS = 1024
"""For all tensors of a model together, if each gets at least _FEWEST."""
_FEWEST, _MOST = 4, 64


class Sketcher:
    """Sketches lists of tensors shaped like `tensors`."""

    def __init__(self, torch, tensors: list) -> None:
        self.torch = torch
        self.count = len(tensors)
        self.width = max(_FEWEST, min(_MOST, _NUMBERS // max(1, len(tensors))))
        self.dtype = torch.float64 if any(t.dtype == torch.float64 for t in tensors) else torch.float32
        self.device = tensors[0].device
        generator = torch.Generator(device="cpu")
        generator.manual_seed(20260)
        self._pieces = list(_pieces(tensors, _CHUNK_CPU if self.device.type == "cpu" else _CHUNK))
        longest = max((stop - start for chunk in self._pieces for _, start, stop in chunk), default=1)
        padded = max(sum(_padded(stop - start) for _, start, stop in chunk) for chunk in self._pieces)
        signs = torch.randint(0, 2, (max(padded, longest),), generator=generator, dtype=torch.int8)
        self._signs = (signs * 2 - 1).to(self.device, self.dtype)
        self._flat = torch.zeros(padded, dtype=self.dtype, device=self.device)
        self._signed = torch.empty_like(self._flat)  # kept: fresh memory costs more than the arithmetic
        self._targets = [self._places(tensors, chunk) for chunk in self._pieces]
        self._buckets = torch.cat([self._rows_to_buckets(chunk) for chunk in self._pieces])
        self._rows = torch.empty(len(self._buckets), dtype=self.dtype, device=self.device)

    def _rows_to_buckets(self, chunk):
        rows = []
        for number, start, stop in chunk:
            count = _padded(stop - start) // _ROW
            first = start // _ROW
            rows.extend(number * self.width + (first + r) % self.width for r in range(count))
        return self.torch.tensor(rows, device=self.device)

    def sketch(self, tensors: list) -> tuple:
        """(numbers as a float64 tensor, squared norm) of tensors, of which some may be None."""
        torch = self.torch
        numbers = torch.zeros(self.count * self.width, dtype=torch.float64, device=self.device)
        squares = []
        row = 0
        for number in range(len(self._pieces)):
            flat = self.gather(tensors, number)
            used = flat.numel()
            squares.append(flat.dot(flat))
            signed = torch.mul(flat, self._signs[:used], out=self._signed[:used])
            torch.sum(signed.view(-1, _ROW), 1, out=self._rows[row : row + used // _ROW])
            row += used // _ROW
        numbers.index_add_(0, self._buckets, self._rows.double())
        return numbers, float(torch.stack(squares).double().sum())

    def _places(self, tensors: list, chunk: list) -> tuple:
        """(elements, where each piece goes, what pads them), as views of the one buffer."""
        at, places, pads = 0, [], []
        for number, start, stop in chunk:
            place = self._flat[at : at + stop - start]
            whole = stop - start == tensors[number].numel()
            places.append(place.view(tensors[number].shape) if whole else place)
            end, at = at + stop - start, at + _padded(stop - start)
            if end < at:
                pads.append(self._flat[end:at])
        return at, places, pads

    def gather(self, tensors: list, number: int):
        """A chunk's elements side by side, each piece padded with zeros to whole rows."""
        used, places, pads = self._targets[number]
        targets, sources = [], []
        for (index, start, stop), place in zip(self._pieces[number], places):
            tensor = tensors[index]
            if tensor is None:
                place.zero_()
                continue
            tensor = _plain(tensor)
            if tensor.shape != place.shape:  # a part of a long one, or another shape than the parameter's
                tensor = tensor.reshape(-1)[start:stop].view(place.shape)
            targets.append(place)
            sources.append(tensor)
        if targets:
            self.torch._foreach_copy_(targets, sources)
        if pads:
            self.torch._foreach_zero_(pads)
        return self._flat[:used]


def _pieces(tensors: list, most: int):
    """Lists of (tensor, start, stop) that are looked at together."""
    chunk: list = []
    filled = 0
    for number, tensor in enumerate(tensors):
        size = tensor.numel()
        for start in range(0, max(size, 1), most):
            stop = min(size, start + most)
            if chunk and filled + stop - start > most:
                yield chunk
                chunk, filled = [], 0
            chunk.append((number, start, stop))
            filled += stop - start
    if chunk:
        yield chunk


def _padded(size: int) -> int:
    return -(-size // _ROW) * _ROW


def _plain(tensor):
    """The values of a tensor, whatever wraps them."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    local = getattr(tensor, "_local_tensor", None)  # DTensor
    if local is not None:
        tensor = local
    return tensor.to_dense() if tensor.is_sparse else tensor


def packed(numbers) -> str:
    """Float64 numbers as text."""
    values = numbers.cpu().contiguous()
    return base64.b64encode(_bytes(values)).decode()


def _bytes(tensor) -> bytes:
    import ctypes

    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())
