"""Draws the decision chart: ``python docs/tools/which.py``, into ``docs/images/which.svg``.

The page includes it as it is, so that its links lead on.
"""

from pathlib import Path
from xml.sax.saxutils import escape

#: Question, answer, and the page of the answer.
STEPS = (
    ("A data frame: categories, dates, missing values, curves?",
     "DPTabularClassifier, DPTabularRegressor", "frames"),
    ("Groups that must all be served, of several thousand records?",
     "DPMaxGroupLossClassifier, DPMaxGroupLossRegressor", "worst_group"),
    ("A table for many questions?", "DPSyntheticData", "synthetic"),
    ("May somebody change features to fool the model?",
     "DPAdversarialClassifier, DPAdversarialRegressor", "special_models"),
    ("A label?", "DPLogisticRegression", "linear"),
    ("A number: its mean?", "DPRidge", "linear"),
    ("Its median, a quantile, outliers?", "DPLinearRegressor(loss=...)", "linear"),
)  # fmt: skip
WIDTH, STEP, BOX = 620, 74, 46
LEFT, RIGHT = 300, 280


def wrapped(text: str, width: int) -> list[str]:
    """Break a text into lines of at most so many letters."""
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) > width:
            lines.append("")
        lines[-1] += f"{word} "
    return [line.strip() for line in lines]


def box(x: int, y: int, width: int, text: str, fill: str) -> str:
    """A box with a text of one or two lines in its middle."""
    lines = wrapped(text, width // 8)
    shape = f'<rect x="{x}" y="{y}" width="{width}" height="{BOX}" rx="6" fill="{fill}"/>'
    first = y + BOX / 2 + 4.5 - 8 * (len(lines) - 1)
    for i, line in enumerate(lines):
        shape += f'<text x="{x + width / 2:g}" y="{first + 16 * i:g}">{escape(line)}</text>'
    return shape


def chart() -> str:
    """The whole picture; the answers are links where a viewer follows them."""
    height = STEP * len(STEPS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'style="max-width: {WIDTH}px; width: 100%" role="img" aria-label="Decision chart; the '
        'same questions follow as a list" font-family="sans-serif" font-size="13" '
        'text-anchor="middle">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
    ]
    for i, (question, answer, page) in enumerate(STEPS):
        y = STEP * i + 10
        middle = y + BOX / 2
        parts.append(box(5, y, LEFT, question, "#dbeaf7"))
        parts.append(
            f'<path d="M{LEFT + 5} {middle:g}H{WIDTH - RIGHT - 5}" stroke="#555"/>'
            f'<text x="{(LEFT + WIDTH - RIGHT) / 2:g}" y="{middle - 5:g}">yes</text>'
        )
        answer = box(WIDTH - RIGHT - 5, y, RIGHT, answer, "#e2f2e4")
        parts.append(f'<a href="../guide/{page}.html">{answer}</a>')
        if i + 1 < len(STEPS):
            parts.append(
                f'<path d="M60 {y + BOX}v{STEP - BOX}" stroke="#555"/>'
                f'<text x="76" y="{y + BOX + 18}">no</text>'
            )
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    path = Path(__file__).parents[1] / "images" / "which.svg"
    path.write_text(chart(), encoding="utf-8")
