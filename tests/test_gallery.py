"""Each example of the gallery has its form; the build of the site runs them all."""

import re
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[1] / "examples").glob("plot_*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_have_the_form_of_the_gallery(example):
    """A title, cells that begin with a sentence, and no downloads."""
    text = example.read_text(encoding="utf-8")
    assert re.match(r'"""\n(.+)\n(=+)\n\n', text)
    cells = re.split(r"^# %%\n", text, flags=re.M)[1:]
    assert cells and all(cell.startswith("# ") for cell in cells)
    assert not re.search(r"fetch_|urlopen|https?://", text.partition('"""\n\n')[2])
