"""The comparison of the defaults with a constant measures what its table says."""

import importlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from skdp.privacy.gaussian_dp import gaussian_mu

pd = pytest.importorskip("pandas")

ROOT = Path(__file__).parents[2]
FAMILIES = "rare", "groups", "classes", "off_centre", "mixed"


@pytest.fixture
def case(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.cases.over_constant")


class Constant:
    """The constant model, moved by `shift`, in place of an estimator."""

    shift = 0.0

    def __init__(self, epsilon, **options):
        self.options = options

    def set_params(self, **options):
        self.options |= options

    def fit(self, X, y, groups=None):
        self.mean = np.clip(np.mean(y), 0.5 / len(y), 1.0 - 0.5 / len(y)) + self.shift

    def predict(self, X):
        return np.full(len(X), self.mean)

    def decision_function(self, X):
        return np.log(self.predict(X) / (1.0 - self.predict(X)))


def excesses(case, cell, seed):
    """The excess of one fit over the constant in each part."""
    trial = case.Trial(cell, seed)
    return trial.excess(trial.predicted(cell.epsilon))


def test_table_has_two_hundred_configurations_with_every_value(case):
    cells = case.cells()
    assert len(set(cells)) == len(cells) == 200
    assert {cell.family for cell in cells} == set(FAMILIES)
    assert {cell.model for cell in cells} == set(case.MODELS)
    assert {cell.epsilon for cell in cells} == {0.1, 0.3, 1.0, 10.0, 100.0}
    assert {500, 100_000} < {cell.n for cell in cells}
    table = pd.read_csv(ROOT / "benchmarks" / "results" / "over_constant.csv", skiprows=1)
    listed = zip(table["family"], table["n"], table["epsilon"], table["model"], strict=True)
    assert list(listed) == [(c.family, c.n, c.epsilon, c.model) for c in cells]


@pytest.mark.parametrize("family", FAMILIES)
def test_new_records_have_the_law_of_the_training_records(case, family):
    cell = next(cell for cell in case.cells() if cell.family == family and cell.n > 500)
    old = case.made(cell, 200_000, np.random.default_rng(0))
    new = case.made(cell, 200_000, np.random.default_rng(1), is_new=True)
    assert (old.weights == 1.0).all()
    assert new.weights.mean() == pytest.approx(1.0, abs=0.01)
    for values in ("odds", "means"):
        mean = np.average(getattr(new, values), weights=new.weights)
        assert mean == pytest.approx(getattr(old, values).mean(), abs=0.02)
    for (name, members), (same, others) in zip(old.categories, new.categories, strict=True):
        assert name == same
        share = np.average(others, weights=new.weights)
        assert share == pytest.approx(members.mean(), rel=0.3)
        assert others.mean() > 0.03


@pytest.mark.parametrize("model", ["logistic", "ridge", "groups", "groups_ridge"])
def test_the_constant_has_no_excess_and_a_worse_one_has(case, monkeypatch, model):
    cell = next(cell for cell in case.cells() if cell.family == "groups" and cell.n == 1_000)
    cell = replace(cell, kind="5%", model=model)
    monkeypatch.setitem(case.MODELS, model, Constant)
    found = excesses(case, cell, 0)
    assert {"all", "category 0", "category 1"} <= set(found)
    assert ("group 1" in found) == model.startswith("groups")
    assert found == pytest.approx(dict.fromkeys(found, 0.0), abs=1e-12)
    monkeypatch.setattr(Constant, "shift", -0.3)
    assert excesses(case, cell, 0)["all"] > 0.1


def test_classes_that_are_the_groups_are_compared_with_one_half(case, monkeypatch):
    cell = next(cell for cell in case.cells() if cell.family == "classes" and cell.kind == 0.2)
    monkeypatch.setitem(case.MODELS, "groups", Constant)
    found = excesses(case, replace(cell, n=4_000, model="groups"), 0)
    assert set(found) == {"all", "positives", "negatives"}
    assert found["positives"] == pytest.approx(np.log(5.0) - np.log(2.0), abs=0.1)
    assert found["negatives"] < 0.0


def test_a_released_constant_has_the_noise_of_its_budget(case):
    """That of a mean of targets in [-1, 1], or of labels; of these the share is shrunk."""
    unit = 1.0 / 1_000 / gaussian_mu(0.3, 1e-6)
    for model, deviation in (("ridge", 2.0 * unit), ("logistic", unit)):
        cell = case.Cell("rare", 0.05, 1, 1_000, 0.3, model)
        values = np.array(case.Trial(cell, 0).private_constants())
        values = values if model == "ridge" else 1.0 / (1.0 + np.exp(-values))
        assert values.std() == pytest.approx(deviation, rel=0.3)
        exact = case.Trial(replace(cell, epsilon=1e6), 0)
        assert exact.private_constants() == pytest.approx([exact.constant] * 40, abs=1e-3)


def test_rivals_are_measured_on_the_same_records(case, monkeypatch):
    """A constant is above where it is noisy; a bad estimator is without noise, too."""
    monkeypatch.setitem(case.MODELS, "ridge", Constant)
    monkeypatch.setattr(case, "N_DRAWS", 3)
    monkeypatch.setattr(Constant, "shift", 0.5)
    row = case.measured(case.Cell("rare", 0.05, 1, 500, 0.1, "ridge"), 2)
    assert row["is_above"] and row["is_constant_above"] and row["is_exact_above"]
    assert row["exact_mean"] == row["mean"] and row["exact_worst"] == row["worst"]
    monkeypatch.setattr(Constant, "shift", 0.0)
    row = case.measured(case.Cell("rare", 0.05, 1, 500, 100.0, "ridge"), 2)
    assert not row["is_above"] and not row["is_constant_above"] and "exact_mean" not in row
    table = pd.DataFrame([row, row | {"is_above": True, "is_exact_above": True}])
    assert case.among(table) == (1, 0, 1)
