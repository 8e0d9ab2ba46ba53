"""Weights of convolutions with their channels last in memory; activations follow from the first convolution on.

Done when an optimizer takes the parameters: by then they have their first values, in the order these were drawn in.
"""

from __future__ import annotations

import functools


def install(torch, recorder, _) -> None:
    """Values, shapes and the parameters themselves stay what they are; only the strides change."""
    optimizer_class = torch.optim.Optimizer
    original = optimizer_class.add_param_group

    @functools.wraps(original)
    def add_param_group(self, param_group, *args, **kwargs):
        result = original(self, param_group, *args, **kwargs)
        for parameter in self.param_groups[-1]["params"]:
            if parameter.dim() == 4:
                parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
        return result

    optimizer_class.add_param_group = add_param_group
