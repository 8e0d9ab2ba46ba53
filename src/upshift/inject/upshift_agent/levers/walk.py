"""Parameters on a fixed walk: both sides meet every step at the same point.

Left alone, two runs that differ by rounding drift apart, and after some steps nothing can be told from anything. So
each update is taken, sketched and undone, and the parameters are put where the walk has its next point: the
start, every element moved by a hundredth of itself, with other signs at each step. Zeros stay zeros (a padding row
must), except in tensors that are nothing but zeros: what starts at zero would hide all that lies behind it.
"""

from __future__ import annotations

_MOVE = 0.01
_MOVE_ZEROS = 0.001
_SHIFTS = 4096


class Walk:
    """The walk of one optimizer's parameters."""

    def __init__(self, torch, parameters: list) -> None:
        self.torch = torch
        self.parameters = parameters
        with torch.no_grad():
            self.start = [p.detach().clone() for p in parameters]
            self.at = [p.clone() for p in self.start]
            self.moved = [torch.empty_like(p) for p in self.start]
            self.zero = [number for number, p in enumerate(self.start) if not bool(p.any())]
        longest = max((p.numel() for p in parameters), default=1)
        generator = torch.Generator()
        generator.manual_seed(8191)
        signs = torch.randint(0, 2, (longest + _SHIFTS,), generator=generator, dtype=torch.int8) * 2 - 1
        self.signs = {p.dtype: signs.to(p.device, p.dtype) for p in parameters}

    def updates(self) -> list:
        """What the optimizer has just added to each parameter."""
        with self.torch.no_grad():
            self.torch._foreach_copy_(self.moved, [p.detach() for p in self.parameters])
            self.torch._foreach_sub_(self.moved, self.at)
        return self.moved

    def go_on(self, step: int) -> None:
        """Undo the update and go to the next point."""
        torch = self.torch
        signs = []
        for number, held in enumerate(self.start):
            offset = (step * 97 + number * 31) % _SHIFTS
            signs.append(self.signs[held.dtype][offset : offset + held.numel()].view(held.shape))
        with torch.no_grad():
            torch._foreach_copy_(self.at, self.start)
            torch._foreach_addcmul_(self.at, self.start, signs, _MOVE)
            for number in self.zero:
                torch.mul(signs[number], _MOVE_ZEROS, out=self.at[number])
            torch._foreach_copy_([p.data for p in self.parameters], self.at)
