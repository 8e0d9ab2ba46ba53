"""Dropout off, however it is done: F.dropout and its kin, attention's dropout_p, nn.LSTM's own, modules by name.

The modules stay in training mode; only what they would drop at random is kept.
"""

from __future__ import annotations

import functools

_DROPOUTS = (
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "alpha_dropout",
    "feature_alpha_dropout",
)


def install(torch, recorder, _) -> None:
    """Silence the functions now, modules that draw for themselves at the model's first call."""
    functional = torch.nn.functional
    for name in _DROPOUTS:
        original = getattr(functional, name, None)
        if original is not None:
            setattr(functional, name, _identity(original))
    for name in ("dropout", "dropout_"):
        if hasattr(torch, name):
            setattr(torch, name, _identity(getattr(torch, name)))
    attention = functional.scaled_dot_product_attention

    @functools.wraps(attention)
    def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, *args, **kwargs):
        return attention(query, key, value, attn_mask, 0.0, *args, **kwargs)

    functional.scaled_dot_product_attention = scaled_dot_product_attention
    for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        setattr(torch._VF, name, _recurrent(torch, getattr(torch._VF, name)))
    recorder.on_model.append(_Modules().silence)


def _identity(original):
    """A dropout function that keeps everything: F.dropout(input, p, training) and torch.dropout alike."""

    @functools.wraps(original)
    def keep(input, *args, **kwargs):
        return input

    return keep


def _recurrent(torch, original):
    """(input, hx, weights, biases, layers, dropout, train, ...) or, packed, (data, sizes, hx, weights, ...)."""

    @functools.wraps(original)
    def without_dropout(*args):
        found = next((i for i, a in enumerate(args) if isinstance(a, float)), None)
        if found is not None:
            args = (*args[:found], 0.0, *args[found + 1 :])
        return original(*args)

    return without_dropout


class _Modules:
    """Drop-path, stochastic depth and other layers that are named after what they drop."""

    def __init__(self) -> None:
        self._done: set = set()

    def silence(self, module) -> None:
        if id(module) in self._done:
            return
        self._done.add(id(module))
        for inner in module.modules():
            name = type(inner).__name__.lower()
            if ("drop" in name or "stochasticdepth" in name) and not inner._parameters:
                inner.training = False
                inner.train = _stay(inner)


def _stay(module):
    def train(mode=True):
        return module

    return train
