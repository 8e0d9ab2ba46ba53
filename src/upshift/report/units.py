"""Numbers as people read them."""

from __future__ import annotations

import math


def seconds(value: float) -> str:
    """Three significant digits with the unit that fits."""
    if value >= 120:
        return f"{value / 60:.1f} min"
    if value >= 1:
        return f"{value:.3g} s" if value < 100 else f"{value:.0f} s"
    if value >= 1e-3:
        return f"{value * 1e3:.3g} ms"
    return f"{value * 1e6:.3g} µs"


def rate(value: float) -> str:
    """A number per second: three digits, or whole with thin grouping above a thousand."""
    if value >= 1000:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.3g}"


def share(value: float) -> str:
    """A percentage without false precision."""
    percent = value * 100
    return f"{percent:.1f} %" if percent < 9.95 else f"{percent:.0f} %"


def size(value: float) -> str:
    """Bytes in binary units."""
    if value <= 0:
        return "0 B"
    power = min(4, int(math.log(value, 1024)))
    number = value / 1024**power
    return f"{number:.3g} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"
