"""The examples run as a user runs them, on what the package itself depends on."""

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


def check_picture(path, panels, lines, reference="no privacy"):
    """A well-formed SVG file with that many panels of that many lines, all inside the frame."""
    root = ET.fromstring(path.read_text(encoding="utf-8"))
    assert root.tag == SVG + "svg"
    assert len(root.findall(SVG + "polyline")) == panels * lines
    width, height = float(root.get("width")), float(root.get("height"))
    for line in root.findall(SVG + "line"):
        for key, limit in [("x1", width), ("x2", width), ("y1", height), ("y2", height)]:
            assert 0 <= float(line.get(key)) <= limit
    assert root.find(SVG + "title").text
    assert reference in root.find(SVG + "desc").text


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


def numbers(line):
    """The means of a row of a table: numbers that are followed by a bracket."""
    return [float(cell) for cell in re.findall(r"(\d\.\d+) \(", line)]


@pytest.mark.slow
def test_tilted_regression(tmp_path):
    picture = tmp_path / "picture.svg"
    arguments = ("--seeds", 1, "--records", 20_000, "--output", picture)
    output = succeed(tmp_path, "tilted_regression.py", *arguments)
    common, rare = (numbers(line) for line in re.findall(r"^no privacy .*$", output, re.MULTILINE))
    assert len(common) == len(rare) == 5
    assert common == sorted(common)  # a tilt takes from the common group
    assert rare == sorted(rare, reverse=True)  # and gives to the rare one
    check_picture(picture, panels=2, lines=3)
    assert succeed(tmp_path, "tilted_regression.py", *arguments) == output


@pytest.mark.slow
def test_phased_growth(tmp_path):
    output = succeed(
        tmp_path, "phased_growth.py", *("--seeds", 1, "--sizes", 1000, 30_000, "--output", tmp_path)
    )
    for model in ("ridge", "logistic"):
        check_picture(tmp_path / f"phased_growth_{model}.svg", panels=2, lines=3)
    names = re.findall(r"^epsilon = \S+ +(one shot|phased|auto) ", output, re.MULTILINE)
    assert names == 4 * ["one shot", "phased", "auto"]
    for line in re.findall(r"^epsilon = .*$", output, re.MULTILINE):
        few, many = numbers(line)
        assert many < few  # more records help
    assert (
        len(re.findall(r"^ +chosen( +(one shot|phased|objective)){2}$", output, re.MULTILINE)) == 4
    )


@pytest.mark.slow
def test_adversarial_accuracy(tmp_path):
    picture = tmp_path / "picture.svg"
    arguments = ("--seeds", 1, "--output", picture)
    output = succeed(tmp_path, "adversarial_accuracy.py", *arguments)
    check_picture(picture, panels=3, lines=4, reference="guessing")
    assert succeed(tmp_path, "adversarial_accuracy.py", *arguments) == output


@pytest.mark.slow
def test_worst_group(tmp_path):
    picture = tmp_path / "picture.svg"
    output = succeed(
        tmp_path,
        "worst_group.py",
        *("--made-only", "--seeds", 1, "--epsilon", 3, "--output", picture),
    )
    for losses in (numbers(line) for line in output.splitlines() if "(" in line):
        assert all(0.3 < loss < 1.5 for loss in losses)
    plain, ours = (
        numbers(re.search(rf"^{name} .*$", output, re.M)[0])[0] for name in ("plain", "worst group")
    )
    assert ours < plain - 0.4  # of the worst group, the first table
    check_picture(picture, panels=2, lines=3)


@pytest.mark.slow
def test_worst_group_without_a_network(tmp_path):
    """The half that needs no network is computed and drawn; the message names this script."""
    picture, nowhere = tmp_path / "picture.svg", "http://127.0.0.1:9"
    output = succeed(
        tmp_path, "worst_group.py", *("--seeds", 1, "--epsilon", 3, "--output", picture),
        SCIKIT_LEARN_DATA=str(tmp_path / "empty"), http_proxy=nowhere, https_proxy=nowhere,
        is_silent=False, without=(),
    )  # fmt: skip
    assert "worst_group.py --csv PATH" in output
    check_picture(picture, panels=2, lines=3)


@pytest.mark.slow
def test_private_tuning(tmp_path):
    output = succeed(
        tmp_path, "private_tuning.py", *("--seeds", 1, "--records", 4000, "--output", tmp_path)
    )
    rows = {line.split()[0]: numbers(line) for line in output.splitlines() if "(" in line}
    assert rows["sufficient_statistics"][1] < min(rows["newton"])  # squared errors, log losses
    assert all(len(row) == 4 for row in rows.values())
    for model, own_steps in (("ridge", 1), ("logistic", 3)):
        root = ET.fromstring((tmp_path / f"private_tuning_{model}.svg").read_text("utf-8"))
        points = [len(line.get("points").split()) for line in root.findall(SVG + "polyline")]
        # what chooses once, or not at all, is a marker without a line
        assert points[:6] == [4, 4, 4, 4, 4, own_steps]
        assert min(points[6:8]) > 5  # noisy steps
        assert points[8:] == [1, 1]
        titles = [text.text for text in root.findall(SVG + "text")]
        assert "epsilon" in titles
        assert "private steps so far" in titles
        assert root.find(SVG + "desc").text.count("no privacy") == 1


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
    picture = tmp_path / "picture.svg"
    output = succeed(
        tmp_path,
        "adult_income.py",
        *("--csv", adult, "--epsilon", 1, 100, "--seeds", 2, "--output", picture),
        without=("matplotlib",),
    )
    assert "200 training records, 100 test records, 64 features" in output
    assert "(1, 1e-06)-differentially private, replace-one neighbours" in output
    # the report of the model that tunes itself
    assert re.search("method '(rounds|gradient)'", output)
    rows = re.findall(r"^ +100 +(\d\.\d{4}).* (\d\.\d{4})$", output, re.M)
    assert len(rows) == 2
    for accuracy, worst in rows:
        assert float(accuracy) > 0.6
        assert float(worst) < 0.7  # better than no model
    check_picture(picture, panels=3, lines=2)


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
        *("--csv", published, "--epsilon", 10, "--seeds", 1, "--output", tmp_path / "p.svg"),
        is_silent=False,
        without=(),
    )
    assert "200 training records, 100 test records, 64 features" in output


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


@pytest.mark.slow
def test_nonlinear_models(tmp_path):
    """The splines follow the invented curves, the linear model does not."""
    picture = tmp_path / "picture.svg"
    arguments = ("--seeds", 1, "--output", picture)
    output = succeed(
        tmp_path,
        "nonlinear_models.py",
        *arguments,
        without=("matplotlib", "pandas", "polars", "dp_accounting", "interpret"),
    )
    splines, linear = (
        numbers(re.search(f"^{name}, private .*$", output, re.M)[0])
        for name in ("splines", "linear")
    )
    assert len(splines) == len(linear) == 5
    assert min(splines) > 0.7 and max(linear) < 0.6
    check_picture(picture, panels=2, lines=3)


@pytest.mark.slow
def test_nonlinear_models_with_files(adult, tmp_path):
    """Each file adds a panel."""
    rng = np.random.default_rng(0)
    counts = ["total_rooms", "total_bedrooms", "population", "households"]
    houses = pd.DataFrame({name: rng.integers(1, 9000, 200) for name in counts})
    houses["longitude"], houses["latitude"] = rng.uniform(-124, -115, 200), 36.0
    houses["housing_median_age"], houses["median_income"] = 30, rng.uniform(1, 10, 200)
    houses["ocean_proximity"] = rng.choice(["INLAND", "NEAR BAY"], 200)
    houses["median_house_value"] = 40_000 * houses["median_income"]
    houses.loc[:5, "total_bedrooms"] = None
    houses.to_csv(tmp_path / "houses.csv")
    picture = tmp_path / "picture.svg"
    files = ("--adult", adult, "--california", tmp_path / "houses.csv")
    arguments = ("--seeds", 1, "--output", picture, *files)
    succeed(tmp_path, "nonlinear_models.py", *arguments, without=("matplotlib",))
    check_picture(picture, panels=4, lines=3)
    fail(tmp_path, "Could not read", "nonlinear_models.py", "--california", tmp_path / "none.csv")


@pytest.mark.slow
def test_tuning_leak(tmp_path):
    """Without privacy the label is found out, with it no more often than is proven."""
    picture, trials = tmp_path / "leak.svg", 16
    output = succeed(
        tmp_path, "tuning_leak.py", *("--sizes", 100, 300, "--trials", trials, "--output", picture)
    )
    assert float(re.search(r"largest error +(\S+)", output).group(1)) < 1e-12

    def rates(label):
        row = re.search(rf"^ *{label}((?: +\d\.\d{{3}})+)$", output, re.M)
        return [float(rate) for rate in row.group(1).split()]

    assert min(rates("one hypergradient, no privacy")) == 1.0
    assert min(rates("tuned alpha, no privacy")) > 0.9
    limits = re.findall(r"right more often than +(\d\.\d{3})$", output, re.M)
    assert limits == ["0.547", "0.695"]
    # four standard deviations above what privacy permits
    found = rates('private, method="hypergradient", epsilon = 1')
    assert max(found) < 0.547 + 4 * 0.5 / trials**0.5
    check_picture(picture, panels=2, lines=3, reference="tossing a coin")
    check_picture(picture, panels=2, lines=3, reference="no attack on it exceeds: 0.695")


@pytest.mark.slow
def test_budget(tmp_path):
    """The ledger is below plain addition, and overlapping folds below all folds."""
    picture = tmp_path / "budget.svg"
    output = succeed(
        tmp_path, "budget.py", "--output", picture, without=("matplotlib", "pandas", "polars")
    )
    rows = re.findall(r"^ +(\d+) +(\S+) +(\S+) +(\S+) +-?\d\.\d{3}$", output, re.M)
    assert [int(row[0]) for row in rows] == [2, 5, 10, 20]  # a noisy accuracy can be above 1
    for _, plain, ledger, overlapping in rows:
        assert float(overlapping) < float(ledger) < float(plain)
    root = ET.fromstring(picture.read_text(encoding="utf-8"))
    assert len(root.findall(SVG + "polyline")) == 3 + 2


@pytest.mark.slow
def test_privacy_utility(tmp_path):
    """More records, less noise; accuracy grows with epsilon up to that without privacy."""
    pytest.importorskip("matplotlib")
    picture = tmp_path / "privacy_utility.svg"
    output = succeed(
        tmp_path, "privacy_utility.py", "--output", picture, "--sizes", 200, 2000, "--repeats", 3,
        is_silent=False, without=(),
    )  # fmt: skip
    rows = re.findall(r"^ +(\d+) +gradient +(\S+) (\S+)$", output, re.M)
    assert [int(row[0]) for row in rows] == [200, 2000]
    few, many = ([float(number) for number in row[1:]] for row in rows)
    assert few[0] > many[0] and few[1] > many[1]
    curves = re.findall(r"accuracy (\S+), .* (\S+) at epsilon", output)
    assert float(curves[1][1]) > float(curves[1][0])
    assert b"<svg" in picture.read_bytes()


def test_readme_example(capsys):
    block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.S).group(
        1
    )
    assert len(block.splitlines()) <= 15
    exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out in (ROOT / "README.md").read_text("utf-8")


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "CODE_OF_CONDUCT.md",
        "changelog.d/README.md",
        "docs/index.md",
    ],
)
def test_links_lead_somewhere(name):
    page = ROOT / name
    links = re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8"))
    for link in links:
        if not link.startswith("http"):
            assert (page.parent / link).exists(), link


@pytest.mark.slow
def test_mirror_descent(tmp_path):
    picture = tmp_path / "picture.svg"
    output = succeed(
        tmp_path,
        "mirror_descent.py",
        *("--records", 5000, "--features", 10, 100, "--seeds", 1, "--output", picture),
    )
    ours = numbers(re.search(r"^mirror descent .*$", output, re.M)[0])
    theirs = numbers(re.search(r"^noisy gradients .*$", output, re.M)[0])
    assert ours[-1] < theirs[-1]
    assert ours[-1] < 0.65
    check_picture(picture, panels=1, lines=2, reference="no information")


@pytest.mark.slow
def test_nonconvex_minimax(tmp_path):
    picture = tmp_path / "picture.svg"
    output = succeed(
        tmp_path,
        "nonconvex_minimax.py",
        *("--seeds", 1, "--epsilon", 8, "--records", 4000, "--output", picture),
    )
    tables = output.split("the same in both")
    plain, linear, network = (
        [numbers(re.search(rf"^{name} .*$", table, re.M)[0])[0] for table in tables]
        for name in ("plain", "worst group, linear", "worst group, network")
    )
    assert plain[0] < 0.6 and linear[0] < 0.6 < 0.75 < network[0]
    assert min(linear[1], network[1]) > 0.65
    check_picture(picture, panels=2, lines=3, reference="no linear model")


@pytest.mark.slow
def test_synthetic_adult(tmp_path):
    picture = tmp_path / "picture.svg"
    arguments = ("--records", 2000, "--seeds", 1, "--epsilon", 1, 10, "--output", picture)
    output = succeed(tmp_path, "synthetic_adult.py", *("--made-only", *arguments))
    answers, sample, noisy = (
        numbers(re.search(rf"^{name} .*$", output, re.M)[0])
        for name in ("DPSyntheticData, answers", "DPSyntheticData, sample", "Gaussian histograms")
    )
    assert answers[0] < noisy[0]
    assert answers[1] < answers[0]
    assert abs(sample[1] - answers[1]) < 0.02
    check_picture(picture, panels=1, lines=4, reference="uniform")


@pytest.mark.slow
def test_synthetic_adult_with_a_file(adult, tmp_path):
    """A copy of Adult adds a panel; values outside of the code book are no error."""
    picture = tmp_path / "picture.svg"
    arguments = ("--records", 500, "--seeds", 1, "--epsilon", 1, "--output", picture)
    succeed(tmp_path, "synthetic_adult.py", *arguments, "--csv", adult, without=())
    check_picture(picture, panels=2, lines=4, reference="uniform")
    fail(tmp_path, "Could not read", "synthetic_adult.py", "--csv", tmp_path / "none.csv")


@pytest.mark.slow
def test_plot_cluster(tmp_path):
    """Dask says on stderr that it restarts the worker."""
    options = {"without": (), "is_silent": False, "MPLBACKEND": "agg", "PYTHONWARNINGS": "default"}
    output = succeed(tmp_path, "plot_cluster.py", **options)
    (difference,) = re.findall("largest difference of a coefficient: (.*)", output)
    assert float(difference) < 1e-9


@pytest.mark.slow
def test_plot_curves(tmp_path):
    output = succeed(tmp_path, "plot_curves.py", without=("polars",), MPLBACKEND="agg")
    sizes = dict(re.findall(r"^(tenure|contract|charges) +(\d\.\d+)$", output, re.MULTILINE))
    assert max(sizes, key=sizes.get) == "tenure" and float(sizes["contract"]) > 0.3


@pytest.mark.slow
def test_plot_persons(tmp_path):
    output = succeed(tmp_path, "plot_persons.py", without=("pandas", "polars"), MPLBACKEND="agg")
    assert "differentially private for persons" in output and "800 persons" in output
