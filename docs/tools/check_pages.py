"""Checks the pages that users read: ``python docs/tools/check_pages.py``.

Short pages, few rows and numbers, short sentences, and no words that only this project understands.
"""

import re
import sys
from pathlib import Path

DOCS = Path(__file__).parents[1]
WORDS, ROWS, DECIMALS, SENTENCE = 1500, 25, 40, 40
#: Words for things that readers cannot see, or that have a usual name ("simulated data").
IDIOM = re.compile(r"\bmade (?:data|sets?|tables?)\b|\bthe looks\b", re.I)


def prose(page: str) -> str:
    """A page without code, formulas, comments, directives and references; links are their text."""
    page = re.sub(r"^## References?\n.*", "", page, flags=re.S | re.M)
    page = re.sub(r"^(`{3,}|:{3,})[^\n]*\n(?:.*?^\1$)?", "", page, flags=re.S | re.M)
    page = re.sub(r"<!--.*?-->|\$\$.*?\$\$", "", page, flags=re.S)
    return re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", page)


def findings(page: str) -> list[str]:
    """What is wrong with one page."""
    text = prose(page)
    lines = text.splitlines()
    rows = [line for line in lines if line.startswith("|") and not re.match(r"\|[-: |]+\|$", line)]
    body = "\n".join(line for line in lines if not line.startswith(("|", "#")))
    found = []
    for what, count, limit in (
        ("words", len(text.split()), WORDS),
        ("rows of tables", len(rows), ROWS),
        ("decimals", len(re.findall(r"\b\d+\.\d+\b", text)), DECIMALS),
    ):
        if count > limit:
            found.append(f"{count} {what}, at most {limit}")
    for sentence in re.split(r"(?<=[.:;?!])[\s)*]|\n\s*\n|\n\s*(?:[-*]|\d+\.) ", body):
        if len(sentence.split()) > SENTENCE:
            found.append(f"{len(sentence.split())} words in a sentence: {sentence.strip()[:60]!r}")
    return found + [f"idiom: {match[0]!r}" for match in IDIOM.finditer(text)]


if __name__ == "__main__":
    pages = [path for folder in ("start", "guide") for path in sorted((DOCS / folder).glob("*.md"))]
    n_findings = 0
    for path in (DOCS / "index.md", *pages, DOCS.parent / "README.md"):
        for text in findings(path.read_text(encoding="utf-8")):
            n_findings += 1
            print(f"{path.relative_to(DOCS.parent)}: {text}")
    print(f"{len(pages) + 2} pages, {n_findings} findings")
    sys.exit(bool(n_findings))
