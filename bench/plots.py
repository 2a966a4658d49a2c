"""Line and bar plots as SVG, without a dependency."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from itertools import cycle

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 190, 40, 45
COLOURS = ("#d62728", "#1f77b4", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#e377c2", "#7f7f7f", "#17becf", "#bcbd22")
Points = Sequence[tuple[float, float]]


def lines(title: str, x: str, y: str, series: Mapping[str, Points]) -> str:
    """Lines over a straight x axis and a logarithmic y axis. Names stand at the ends of the lines."""
    values = [each for points in series.values() for each in points]
    low, high = _decades([value for _, value in values])
    most = max(at for at, _ in values)
    parts = _frame(title, x, y)
    for exponent in range(low, high + 1):
        level = _y(10.0**exponent, low, high)
        parts.append(_rule(level, f"{10.0**exponent:g}"))
    for step in range(5):
        at = most * step / 4
        parts.append(f'<text x="{_x(at, most):.0f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{at:.0f}</text>')
    ends = _spread({name: _y(points[-1][1], low, high) for name, points in series.items()})
    for (name, points), colour in zip(series.items(), cycle(COLOURS), strict=False):
        path = " ".join(f"{_x(at, most):.1f},{_y(value, low, high):.1f}" for at, value in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 8}" y="{ends[name] + 4:.0f}" fill="{colour}">{escape(name)}</text>')
    return _svg(parts, HEIGHT)


def bars(title: str, unit: str, values: Mapping[str, float]) -> str:
    """Horizontal bars on a logarithmic scale, the value at the end of each."""
    low, high = _decades(list(values.values()))
    width, row, left = WIDTH - 320, 24, 210
    parts = [f'<text x="20" y="24" font-size="15" font-weight="bold">{escape(title)} ({escape(unit)})</text>']
    for number, (name, value) in enumerate(values.items()):
        top = 44 + number * row
        long = max(2.0, (math.log10(value) - low) / (high - low) * width)
        colour = COLOURS[0] if name.startswith("Outrider") else COLOURS[1]
        parts.append(f'<text x="{left - 8}" y="{top + 14}" text-anchor="end">{escape(name)}</text>')
        parts.append(f'<rect x="{left}" y="{top}" width="{long:.1f}" height="{row - 6}" fill="{colour}"/>')
        parts.append(f'<text x="{left + long + 6:.1f}" y="{top + 14}">{value:,.0f}</text>')
    note = f"logarithmic scale, from {10.0**low:g}"
    bottom = 44 + len(values) * row
    parts.append(f'<text x="{left}" y="{bottom + 14}" fill="#777">{note}</text>')
    return _svg(parts, bottom + 28)


def _frame(title: str, x: str, y: str) -> list[str]:
    middle = (TOP + HEIGHT - BOTTOM) / 2
    turned = f'transform="rotate(-90 18 {middle:.0f})"'
    return [
        f'<text x="20" y="24" font-size="15" font-weight="bold">{escape(title)}</text>',
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 10}" text-anchor="middle">{escape(x)}</text>',
        f'<text x="18" y="{middle:.0f}" text-anchor="middle" {turned}>{escape(y)}</text>',
    ]


def _rule(level: float, label: str) -> str:
    line = f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{level:.1f}" y2="{level:.1f}" stroke="#ddd"/>'
    return line + f'<text x="{LEFT - 8}" y="{level + 4:.1f}" text-anchor="end">{label}</text>'


def _decades(values: list[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _x(at: float, most: float) -> float:
    return LEFT + at / most * (WIDTH - LEFT - RIGHT)


def _y(value: float, low: int, high: int) -> float:
    return HEIGHT - BOTTOM - (math.log10(value) - low) / (high - low) * (HEIGHT - TOP - BOTTOM)


def _spread(ends: dict[str, float]) -> dict[str, float]:
    """The places of names, pushed down where they would lie upon each other."""
    placed: dict[str, float] = {}
    last = -math.inf
    for name, at in sorted(ends.items(), key=lambda each: each[1]):
        last = placed[name] = max(at, last + 14)
    return placed


def _svg(parts: list[str], height: float) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" font-family="sans-serif" '
    body = "\n".join(parts)
    return f'{head}font-size="12">\n<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
