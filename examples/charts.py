"""Line charts as SVG files, with the standard library alone.

A chart is one or more panels side by side, each over a logarithmic x axis.
The colours are those of Okabe and Ito, which stay apart under the common forms of colour blindness;
the shapes of the markers tell the lines apart as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

__all__ = ["Panel", "Series", "write_line_chart"]

INK, MUTED, GRID, SURFACE = "#1f2328", "#59636e", "#e6e8eb", "#ffffff"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif"

MARGIN_LEFT, MARGIN_RIGHT, GAP = 58, 24, 62  # around and between the panels, in pixels
PANEL_WIDTH, PANEL_HEIGHT = 340, 230
PANEL_TOP, BELOW_PANELS = 136, 84
INSET = 24  # from the frame of a panel to its first and last x
DODGE = 5  # between the lines at one x, so that their bars do not hide each other


@dataclass(frozen=True)
class Series:
    """One line: y over x, with a bar of `spread` up and down at each point."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    spread: Sequence[float]


@dataclass(frozen=True)
class Panel:
    """One pair of axes; `reference` is a horizontal line."""

    title: str
    series: Sequence[Series]
    reference: tuple[str, float]


def write_line_chart(
    path: Path,
    panels: Sequence[Panel],
    *,
    title: str,
    subtitle: str,
    x_label: str = "",
    footnote: str = "",
) -> None:
    """Draw the panels side by side and write the SVG file."""
    n = len(panels)
    labels = [series.label for series in panels[0].series]
    width = max(
        MARGIN_LEFT + n * PANEL_WIDTH + (n - 1) * GAP + MARGIN_RIGHT,
        math.ceil(8 + sum(map(_legend_width, labels))),
    )
    height = PANEL_TOP + PANEL_HEIGHT + BELOW_PANELS
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" font-family="{FONT}" font-size="12">',
        f"<title>{escape(title)}</title>",
        f"<desc>{escape(_description(panels))}</desc>",
        f'<rect width="{width}" height="{height}" rx="6" fill="{SURFACE}"/>',
        _text(20, 34, title, size=17, weight=600),
        _text(20, 56, subtitle, fill=MUTED, size=12.5),
        *_legend(labels, 20, 84),
    ]
    for i, panel in enumerate(panels):
        parts += _panel(panel, MARGIN_LEFT + i * (PANEL_WIDTH + GAP), x_label)
    if footnote:
        parts.append(_text(20, height - 16, footnote, fill=MUTED, size=11))
    parts.append("</svg>\n")
    path.write_text("\n".join(parts), encoding="utf-8")


def _panel(panel: Panel, left: float, x_label: str) -> list[str]:
    top, bottom = PANEL_TOP, PANEL_TOP + PANEL_HEIGHT
    right = left + PANEL_WIDTH
    ticks = _ticks(*_y_range(panel))
    low, high = ticks[0], ticks[-1]
    x_values = sorted({x for series in panel.series for x in series.x})
    x_low, x_high = math.log(x_values[0]), math.log(x_values[-1])

    def to_x(x: float) -> float:
        position = (math.log(x) - x_low) / (x_high - x_low) if x_high > x_low else 0.5
        return left + INSET + position * (PANEL_WIDTH - 2 * INSET)

    def to_y(y: float) -> float:
        return bottom - min(1.0, max(0.0, (y - low) / (high - low))) * PANEL_HEIGHT

    out = [_text(left, top - 14, panel.title, size=13, weight=600)]
    digits = max(0, -math.floor(math.log10(ticks[1] - ticks[0]) + 1e-9))
    for tick in ticks:
        out.append(_line(left, to_y(tick), right, to_y(tick), GRID))
        out.append(_text(left - 8, to_y(tick) + 4, f"{tick:.{digits}f}", MUTED, anchor="end"))
    for x in x_values:
        out.append(_line(to_x(x), bottom, to_x(x), bottom + 5, MUTED))
        out.append(_text(to_x(x), bottom + 19, f"{x:g}", MUTED, anchor="middle"))
    out.append(_line(left, bottom, right, bottom, MUTED))
    out.append(_text((left + right) / 2, bottom + 40, x_label, anchor="middle"))

    label, level = panel.reference
    out.append(_line(left, to_y(level), right, to_y(level), INK, 1.5, dash="5 4"))
    place = to_y(level) - 6 if to_y(level) - 18 > top else to_y(level) + 15
    out.append(_text(left + 4, place, f"{label} {level:.3f}", size=11.5, halo=True))

    for i, series in enumerate(panel.series):
        colour = COLOURS[i]
        shift = DODGE * (i - (len(panel.series) - 1) / 2)
        points = [(to_x(x) + shift, to_y(y)) for x, y in zip(series.x, series.y, strict=True)]
        for (px, _), y, spread in zip(points, series.y, series.spread, strict=True):
            out.append(_line(px, to_y(y - spread), px, to_y(y + spread), colour, 1.5, opacity=0.5))
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        out.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" '
            'stroke-linejoin="round"/>'
        )
        out += [_marker(i, x, y) for x, y in points]
    return out


def _legend(labels: Sequence[str], x: float, y: float) -> list[str]:
    out = []
    for i, label in enumerate(labels):
        out.append(_line(x, y, x + 26, y, COLOURS[i], 2))
        out.append(_marker(i, x + 13, y))
        out.append(_text(x + 34, y + 4, label))
        x += _legend_width(label)
    return out


def _legend_width(label: str) -> float:
    return 34 + 6.7 * len(label) + 24


def _marker(i: int, x: float, y: float) -> str:
    """A shape for each line, with a rim in the colour of the surface."""
    style = f'fill="{COLOURS[i]}" stroke="{SURFACE}" stroke-width="1.5"'
    if i == 0:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" {style}/>'
    shape = {
        1: [(-4.5, -4.5), (4.5, -4.5), (4.5, 4.5), (-4.5, 4.5)],
        2: [(0, -6), (5.5, 4), (-5.5, 4)],
        3: [(0, -6), (6, 0), (0, 6), (-6, 0)],
        4: [(0, 6), (5.5, -4), (-5.5, -4)],
        5: [(-6, -3), (6, -3), (6, 3), (-6, 3)],
    }[i]
    corners = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in shape)
    return f'<polygon points="{corners}" {style}/>'


def _line(
    x1: float,
    y1: float,
    x2: float,
    y2: float,
    stroke: str,
    width: float = 1.0,
    dash: str = "",
    opacity: float = 1.0,
) -> str:
    extra = f' stroke-dasharray="{dash}"' if dash else ""
    extra += f' stroke-opacity="{opacity}"' if opacity < 1 else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke="{stroke}" stroke-width="{width}"{extra}/>'
    )


def _text(
    x: float,
    y: float,
    text: str,
    fill: str = INK,
    size: float = 12,
    weight: int = 400,
    anchor: str = "start",
    halo: bool = False,
) -> str:
    attributes = (
        f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}"'
    )
    text = escape(text)
    out = f'<text {attributes} fill="{fill}">{text}</text>'
    if halo:  # keeps the text legible where it crosses a line
        rim = f'fill="{SURFACE}" stroke="{SURFACE}" stroke-width="4" aria-hidden="true"'
        out = f"<text {attributes} {rim}>{text}</text>\n{out}"
    return out


def _y_range(panel: Panel) -> tuple[float, float]:
    """Smallest range that shows every bar and the horizontal lines."""
    bars = [
        y + sign * spread
        for series in panel.series
        for y, spread in zip(series.y, series.spread, strict=True)
        for sign in (-1, 1)
    ]
    bars.append(panel.reference[1])
    return min(bars), max(bars)


def _ticks(low: float, high: float) -> list[float]:
    """About five round numbers that cover the range."""
    span = max(high - low, 1e-9)
    magnitude = 10.0 ** math.floor(math.log10(span / 4))
    step = next(m * magnitude for m in (1, 2, 5, 10) if m * magnitude >= span / 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [i * step for i in range(first, max(last, first + 1) + 1)]


def _description(panels: Sequence[Panel]) -> str:
    """The numbers in words, for readers who do not see the chart."""
    sentences = []
    for panel in panels:
        lines = [
            f"{series.label}: "
            + ", ".join(f"{y:.3f} at {x:g}" for x, y in zip(series.x, series.y, strict=True))
            for series in panel.series
        ]
        lines.append("{}: {:.3f}".format(*panel.reference))
        sentences.append(f"{panel.title}. {'; '.join(lines)}.")
    return " ".join(sentences)
