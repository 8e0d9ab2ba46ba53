"""Parameters on a fixed walk: both sides meet every step at the same point.

Left alone, two runs that differ by rounding drift apart, and after some steps nothing can be told from anything. So
each update is taken, sketched and undone, and the parameters are put where the walk has its next point: the
start, every element moved by a hundredth of itself, with other signs at each step. Zeros stay zeros (a padding row
must), except in tensors that are nothing but zeros: what starts at zero would hide all that lies behind it.
"""

from __future__ import annotations

_MOVE = 0.01
_MOVE_ZEROS = 0.001


class Walk:
    """The walk of one optimizer's parameters."""

    def __init__(self, torch, parameters: list) -> None:
        self.torch = torch
        self.parameters = parameters
        with torch.no_grad():
            self.start = [p.detach().clone() for p in parameters]
            self.zero = [not bool(p.any()) for p in self.start]
        longest = max((p.numel() for p in parameters), default=1)
        generator = torch.Generator()
        generator.manual_seed(8191)
        signs = torch.randint(0, 2, (min(longest, 1 << 20) + 4096,), generator=generator, dtype=torch.int8)
        self.signs = signs * 2 - 1
        self.at = self.start

    def updates(self) -> list:
        """What the optimizer has just added to each parameter."""
        with self.torch.no_grad():
            return [p.detach() - held for p, held in zip(self.parameters, self.at)]

    def go_on(self, step: int) -> None:
        """Undo the update and go to the next point."""
        torch = self.torch
        with torch.no_grad():
            self.at = [self._point(number, held, step) for number, held in enumerate(self.start)]
            for parameter, point in zip(self.parameters, self.at):
                parameter.data.copy_(point)

    def _point(self, number: int, held, step: int):
        size = held.numel()
        offset = (step * 97 + number * 31) % 4096
        signs = self.signs[offset : offset + min(size, self.signs.numel() - offset)]
        if signs.numel() < size:
            signs = signs.repeat(-(-size // signs.numel()))[:size]
        signs = signs.view(held.shape).to(held.device, held.dtype)
        if self.zero[number]:
            return signs * _MOVE_ZEROS
        return held + held * signs * _MOVE
