"""The examples run as a user runs them, on what the package itself depends on.

Those of the gallery have its form; the build of the site runs them all.
"""

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import skdp
from skdp.mechanisms import NoiseSource

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
SVG = "{http://www.w3.org/2000/svg}"


def run(script, *arguments, cwd, without=(), **environment):
    """Run an example in a process of its own that cannot import the packages `without`."""
    blocked = cwd / "blocked"
    blocked.mkdir(exist_ok=True)
    for name in without:
        (blocked / f"{name}.py").write_text("raise ImportError('blocked by the test')")
    package = Path(skdp.__file__).resolve().parents[1]
    paths = [str(blocked), str(package), os.environ.get("PYTHONPATH", "")]
    return subprocess.run(
        [sys.executable, str(EXAMPLES / script), *map(str, arguments)],
        cwd=cwd,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "PYTHONIOENCODING": "ascii",  # not every terminal prints Greek
            "PYTHONWARNINGS": "error",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


#: What an example can do without.
EXTRAS = ("matplotlib", "pandas", "polars", "dp_accounting")


def succeed(cwd, script, *arguments, without=EXTRAS, is_silent=True, **environment):
    """Run an example that has to end well, by default without a word of error; its output."""
    result = run(script, *arguments, cwd=cwd, without=without, **environment)
    assert result.returncode == 0, result.stderr
    assert result.stderr == "" or not is_silent
    return result.stdout


def fail(cwd, message, script, *arguments, **environment):
    """Run an example that has to end with a message."""
    result = run(script, *arguments, cwd=cwd, **environment)
    assert result.returncode == 1
    assert message in result.stderr
    return result.stderr


def check_picture(path, panels, lines):
    """A well-formed SVG file with that many panels of that many lines, all inside the frame."""
    root = ET.fromstring(path.read_text(encoding="utf-8"))
    assert root.tag == SVG + "svg"
    assert len(root.findall(SVG + "polyline")) == panels * lines
    width, height = float(root.get("width")), float(root.get("height"))
    for line in root.findall(SVG + "line"):
        for key, limit in [("x1", width), ("x2", width), ("y1", height), ("y2", height)]:
            assert 0 <= float(line.get(key)) <= limit
    assert root.find(SVG + "title").text
    assert "no privacy" in root.find(SVG + "desc").text


@pytest.mark.slow
def test_quickstart(tmp_path):
    picture = tmp_path / "picture.svg"
    output = succeed(tmp_path, "quickstart.py", *("--seeds", 1, "--output", picture))
    rows = re.findall(r"^replace-one, delta = 1e-6((?: +\d\.\d{3} \(\d\.\d{3}\))+)$", output, re.M)
    assert len(rows) == 2
    for row in rows:
        means = [float(cell) for cell in re.findall(r"(\d\.\d{3}) \(", row)]
        assert len(means) == 5
        assert means[-1] > 0.8  # epsilon = 10 is useful on both data sets
    assert output.count("no privacy (scikit-learn)") == 2
    check_picture(picture, panels=2, lines=3)


@pytest.fixture
def adult(tmp_path):
    """A file like the UCI Adult data, with missing values and unknown categories."""
    rng = np.random.default_rng(0)
    n = 300
    frame = pd.DataFrame(
        {
            "age": rng.integers(17, 91, n),
            "workclass": rng.choice(["Private", "State-gov", "", "?"], n),
            "fnlwgt": rng.integers(10_000, 1_000_000, n),
            "education": rng.choice(["HS-grad", "Bachelors", "Masters"], n),
            "education_num": rng.integers(1, 17, n),
            "marital_status": rng.choice(["Divorced", "Married-civ-spouse"], n),
            "occupation": rng.choice(["Sales", "Juggling", ""], n),
            "relationship": rng.choice(["Husband", "Wife", "Unmarried"], n),
            "race": rng.choice(["White", "Black", "Other"], n),
            "sex": rng.choice(["Female", "Male"], n),
            "capital_gain": rng.choice([0, 2174, 99_999], n),
            "capital_loss": rng.choice([0, 1900], n),
            "hours_per_week": rng.integers(1, 100, n),
            "native_country": rng.choice(["United-States", "Mexico", ""], n),
        }
    )
    frame["income"] = np.where(frame["education_num"] > 8, ">50K", "<=50K")
    frame["split"] = np.where(np.arange(n) < 200, "train", "test")
    path = tmp_path / "adult.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.mark.slow
def test_adult_income(adult, tmp_path):
    output = succeed(
        tmp_path,
        "adult_income.py",
        *("--csv", adult, "--epsilon", 1, 100, "--seeds", 2),
        without=("matplotlib",),
    )
    assert "200 training records, 100 test records, 65 features" in output
    assert "(1, 1e-06)-differentially private, replace-one neighbours" in output
    # the report of the model that tunes itself
    assert re.search("method 'gradient'", output)
    rows = re.findall(r"^ +100 +(\d\.\d{4}).* (\d\.\d{4})$", output, re.M)
    assert len(rows) == 2
    for accuracy, worst in rows:
        assert float(accuracy) > 0.6
        assert float(worst) < 0.7  # better than no model


@pytest.mark.slow
def test_adult_income_as_published(adult, tmp_path):
    """Names with hyphens, labels with a full stop, blanks after commas, no column `split`."""
    frame = pd.read_csv(adult, keep_default_na=False).drop(columns="split")
    frame = frame.rename(columns={"income": "class"}).rename(columns=lambda c: c.replace("_", "-"))
    frame["class"] += "."
    published = tmp_path / "published.csv"
    published.write_text(frame.to_csv(index=False).replace(",", ", "))
    output = succeed(
        tmp_path,
        "adult_income.py",
        *("--csv", published, "--epsilon", 10, "--seeds", 1),
        is_silent=False,
        without=(),
    )
    assert "200 training records, 100 test records, 65 features" in output


@pytest.mark.slow
def test_adult_income_says_what_is_wrong(tmp_path):
    fail(tmp_path, "Could not read", "adult_income.py", "--csv", tmp_path / "none.csv")
    (tmp_path / "other.csv").write_text("age,income\n30,<=50K\n")
    fail(tmp_path, "lack the columns", "adult_income.py", "--csv", tmp_path / "other.csv")
    fail(tmp_path, "pip install pandas", "adult_income.py", "--csv", "any.csv", without=("pandas",))


@pytest.mark.slow
def test_adult_income_without_a_network(tmp_path):
    nowhere = "http://127.0.0.1:9"
    result = run(
        "adult_income.py",
        cwd=tmp_path,
        SCIKIT_LEARN_DATA=str(tmp_path / "empty"),
        http_proxy=nowhere,
        https_proxy=nowhere,
    )
    assert result.returncode == 1
    assert "Could not download the data" in result.stderr
    assert "--csv PATH" in result.stderr


def test_readme_example(capsys, monkeypatch):
    """The numbers of steps and the clip depend on noisy shares: the noise has a seed here."""
    random_bytes = np.random.default_rng(0).bytes
    monkeypatch.setattr(NoiseSource.__init__, "__defaults__", (random_bytes,))
    block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.S).group(
        1
    )
    assert len(block.splitlines()) <= 15
    exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out in (ROOT / "README.md").read_text("utf-8")


@pytest.mark.parametrize(
    "name",
    ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md",
     "changelog.d/README.md", "docs/index.md"],
)  # fmt: skip
def test_links_lead_somewhere(name):
    page = ROOT / name
    links = re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8"))
    for link in links:
        if not link.startswith("http"):
            assert (page.parent / link).exists(), link


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("plot_*.py")), ids=lambda path: path.stem)
def test_examples_have_the_form_of_the_gallery(example):
    """A title, cells that begin with a sentence, and no downloads."""
    text = example.read_text(encoding="utf-8")
    assert re.match(r'"""\n(.+)\n(=+)\n\n', text)
    cells = re.split(r"^# %%\n", text, flags=re.M)[1:]
    assert cells and all(cell.startswith("# ") for cell in cells)
    assert not re.search(r"fetch_|urlopen|https?://", text.partition('"""\n\n')[2])
