"""Each example of the gallery runs as a script: alone and without a warning."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import skdp

EXAMPLES = sorted((Path(__file__).resolve().parents[1] / "examples").glob("plot_*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(example, tmp_path):
    pytest.importorskip("matplotlib")
    path = os.pathsep.join([str(Path(skdp.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "MPLBACKEND": "agg", "PYTHONWARNINGS": "error"}
    result = subprocess.run(
        [sys.executable, str(example)], cwd=tmp_path, env=environment, capture_output=True,
        text=True, timeout=300, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_have_the_form_of_the_gallery(example):
    """A title, cells that begin with a sentence, and no downloads."""
    text = example.read_text(encoding="utf-8")
    assert re.match(r'"""\n(.+)\n(=+)\n\n', text)
    cells = re.split(r"^# %%\n", text, flags=re.M)[1:]
    assert cells and all(cell.startswith("# ") for cell in cells)
    assert not re.search(r"fetch_|urlopen|https?://", text.partition('"""\n\n')[2])
