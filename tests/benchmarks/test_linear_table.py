"""The comparison of linear models: peers as published, scores, pairing, files."""

import importlib
import math

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("dp_accounting")

from pathlib import Path  # noqa: E402

from scipy.special import expit, softmax  # noqa: E402
from sklearn.metrics import accuracy_score, log_loss, r2_score, roc_auc_score  # noqa: E402

from skdp.privacy import gaussian_dp  # noqa: E402

ROOT = Path(__file__).parents[2]


@pytest.fixture
def modules(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    names = ("data", "linear_protocol", "linear_peers", "linear_report", "linear_page")
    found = {name: importlib.import_module(f"benchmarks.{name}") for name in names}
    found["case"] = importlib.import_module("benchmarks.cases.linear_table")
    return found


def first_split(modules, name):
    (dataset,) = (d for d in modules["data"].load(quick=True) if d.name == name)
    return next(modules["linear_protocol"].splits(dataset, 1))


def without_noise(modules, split, **setting):
    peers = modules["linear_peers"]
    given = {"sampling_rate": 1.0, "n_steps": 9, "intercept": 0.4, "learning_rate": 2.0}
    chosen = peers.Setting(**given | {"clip_norm": 0.3} | setting)
    return chosen, peers.dp_sgd(split, (chosen,), np.zeros(1), np.random.default_rng(0))


@pytest.mark.parametrize("name", ["breast_cancer", "wine", "diabetes"])
def test_dp_sgd_is_that_of_the_paper(modules, name):
    """Without noise, for two labels, several, and numbers: each record's gradient is clipped."""
    peers, split = modules["linear_peers"], first_split(modules, name)
    setting, predicted = without_noise(modules, split)
    targets, n_outputs = peers.encode(split)
    X = peers.with_intercept(split.X, setting.intercept)
    weights, total = np.zeros((n_outputs, X.shape[1])), 0.0
    for step in range(setting.n_steps):
        margins, summed = X @ weights.T, np.zeros_like(weights)
        if split.dataset.target_range is not None:
            residuals = margins - targets
        elif n_outputs == 1:
            residuals = expit(margins) - targets
        else:
            residuals = softmax(margins, axis=1) - targets
        for row, residual in zip(X, residuals, strict=True):
            gradient = np.outer(residual, row)
            summed += gradient * min(1.0, setting.clip_norm / np.linalg.norm(gradient))
        weights = weights - setting.learning_rate / setting.clip_norm * summed / len(X)
        total = total + weights if 2 * (step + 1) > setting.n_steps else total
    mean = total / (setting.n_steps - setting.n_steps // 2)
    margins = peers.with_intercept(split.X_test, setting.intercept) @ mean.T
    expected = peers.predictions(split.dataset, margins[:, :, None])
    np.testing.assert_allclose(predicted, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rate", [1.0, 0.25])
def test_dp_sgd_adds_the_noise_that_it_states(modules, rate):
    """On rows of zeros one step is the noise: 4000 of them, a false alarm in 1e8 tests."""
    peers, protocol, data = (modules[k] for k in ("linear_peers", "linear_protocol", "data"))
    d, n = 4000, 50
    dataset = data.Dataset("zeros", np.zeros((n, d)), np.zeros(n), target_range=(-1.0, 1.0))
    split = protocol.Split(dataset, 0, np.zeros((n, d)), np.zeros(n), np.eye(d), np.zeros(d))
    setting = peers.Setting(rate, 1, 0.0, 3.0, 0.5)
    scales = np.array([7.0, 70.0])
    predicted = peers.dp_sgd(split, (setting, setting), scales, np.random.default_rng(0))
    # learning_rate / clip * (scale * clip) / (q n)
    expected = 3.0 * scales / (rate * n)
    np.testing.assert_allclose(predicted.std(axis=0), expected, rtol=6.0 / math.sqrt(2 * d))


def test_noise_of_all_records_is_the_gaussian_mechanism(modules):
    """k sqrt(T) / mu, k = 1 and 2."""
    peers = modules["linear_peers"]
    mu = gaussian_dp.gaussian_mu(1.0, peers.DELTA)
    for relation, k in (("add_remove", 1.0), ("replace_one", 2.0)):
        assert peers.noise_scale(relation, 1.0, 1.0, 30) == pytest.approx(k * math.sqrt(30) / mu)


def test_adassp_noise_under_add_remove(modules):
    """Deviations per orthonormal coordinate: multiplier times X^2, X^2 and X."""
    peers = modules["linear_peers"]
    d, multiplier, norm = 3, 1e6, 2.0
    rng = np.random.default_rng(0)
    drawn = [rng.standard_normal(), rng.standard_normal((d, d)), *rng.standard_normal((2, d))]
    A, targets = np.zeros((5, d)), np.zeros(5)
    got, penalty = peers.adassp_release(
        A, targets, norm, multiplier, np.random.default_rng(0), peers.Neighbouring.ADD_REMOVE
    )
    s = multiplier * norm**2 * math.sqrt(0.5)
    upper = np.triu(s * drawn[1], 1)
    moments = upper + upper.T + np.diag(multiplier * norm**2 * drawn[2])
    lower = multiplier * norm**2 * (drawn[0] - peers.ndtri(1 - peers.ADASSP_FAILURE))
    strength = s * math.sqrt(d * math.log(2 * d**2 / peers.ADASSP_FAILURE)) - max(0.0, lower)
    assert penalty == pytest.approx(max(0.0, strength))
    expected = np.linalg.solve(moments + penalty * np.eye(d), multiplier * norm * drawn[3])
    np.testing.assert_allclose(got, expected, rtol=1e-9)


@pytest.mark.parametrize("name", ["breast_cancer", "wine", "diabetes"])
def test_scores_are_those_of_scikit_learn(modules, name):
    split = first_split(modules, name)
    rng = np.random.default_rng(0)
    if split.dataset.classes is None:
        predicted = rng.uniform(0.0, 400.0, (len(split.y_test), 2))
        clipped = np.clip(predicted[:, 1], *split.dataset.target_range)
        expected = {"R2": r2_score(split.y_test, clipped)}
    else:
        predicted = rng.dirichlet(np.ones(len(split.dataset.classes)), (2, len(split.y_test)))
        predicted = predicted.round(2).transpose(1, 2, 0) + 1e-3  # with ties
        predicted /= predicted.sum(axis=1, keepdims=True)
        P, y = predicted[:, :, 1], split.y_test
        expected = {
            "accuracy": accuracy_score(y, P.argmax(axis=1)),
            "ROC AUC": roc_auc_score(y, P if P.shape[1] > 2 else P[:, 1], multi_class="ovr"),
            "log loss": log_loss(y, P),
        }
    found = modules["linear_protocol"].score(split, predicted)
    assert set(found) == set(expected)
    for metric, value in expected.items():
        assert found[metric][1] == pytest.approx(value, rel=1e-12), metric


def test_other_half_never_sees_its_own_scores(modules):
    """The first setting is best on even seeds, the second on odd ones; each half gets the other."""
    peers = modules["linear_peers"]
    scores = np.array([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]])
    found, _ = peers.best_on_other_half(scores, "accuracy", ("a", "b"))
    assert (found == 0.0).all()
    found, name = peers.best_of(scores + np.array([[0.0], [0.1]]), "log loss", ("a", "b"))
    assert name == "a" and (found == scores[0]).all()


@pytest.mark.parametrize("metric", ["accuracy", "log loss"])
def test_other_sets_never_see_their_own_scores(modules, metric):
    """The settings that two sets like best are the worst on others."""
    peers = modules["linear_peers"]
    means = np.array([[1.0, 0.0, 0.8], [0.0, 1.0, 0.8], *[[0.2, 0.1, 1.0]] * 2])
    assert list(peers.best_on_other_sets(peers.sign(metric) * means, metric)) == [2, 2, 2, 2]
    # one very low score does not decide
    means = np.array([[0.5, 0.6], [0.5, 0.6], [0.5, 0.6], [0.5, -99.0]])
    assert list(peers.best_on_other_sets(peers.sign(metric) * means, metric)) == [1, 1, 1, 1]


def test_other_sets_setting_is_chosen_for_each_cell(modules):
    """By the mean over the seeds, for each relation and epsilon; one set has no others."""
    peers, protocol, data = (modules[k] for k in ("linear_peers", "linear_protocol", "data"))
    settings = (peers.Setting(1, 10, 0.1, 4, 0.1), peers.Setting(1, 30, 0.1, 4, 0.1))
    scores = np.zeros((2, 2, 2, 3))  # relation, epsilon, setting, seed
    best = np.array([[0, 1], [1, 0]])
    for i, j in np.ndindex(2, 2):
        scores[i, j, best[i, j]] = 0.2 + 0.1 * i
        scores[i, j, 1 - best[i, j], 0] = 0.5  # the first seed likes the other one
    given = [(data.wine(), {"accuracy": scores}), (data.breast_cancer(), {"accuracy": scores + 1})]
    kept = protocol.Scores()
    peers.add_other_sets(kept, given[:1], settings, (0.1, 1.0))
    assert not kept.rows
    peers.add_other_sets(kept, given, settings, (0.1, 1.0))
    found = {(row["dataset"], row["relation"], row["epsilon"]): row for row in kept.rows}
    assert len(found) == len(kept.rows) == 8
    for (name, relation, epsilon), row in found.items():
        i, j = protocol.RELATIONS.index(relation), (0.1, 1.0).index(epsilon)
        assert row["setting"] == str(settings[best[i, j]])
        value = 0.2 + 0.1 * i + (name == "breast_cancer")
        assert [float(v) for v in row["scores"].split()] == pytest.approx([value] * 3)


def table_of(modules, tmp_path, ours, theirs, metric="accuracy", method=None):
    protocol, report = modules["linear_protocol"], modules["linear_report"]
    dataset = modules["data"].wine()
    files = []
    method = method or modules["linear_peers"].DP_SGD_BEST
    for name, scores in ((report.OURS, ours), (method, theirs)):
        kept = protocol.Scores()
        kept.add(dataset, "add_remove", 1.0, name, metric, scores)
        kept.write(tmp_path / f"{name}.csv.gz")
        files.append(protocol.read(tmp_path / f"{name}.csv.gz"))
    return report.compare(*files)


def test_differences_are_paired(modules, tmp_path):
    """Seeds differ far more than the sides do."""
    ours = np.array([0.1, 0.5, 0.9])
    table = table_of(modules, tmp_path, ours, ours + [0.01, 0.011, 0.009, 7.0][:3])
    row = table[table["verdict"] != ""].iloc[0]
    assert row["verdict"] == "below"
    assert row["difference"] == pytest.approx(-0.01)
    assert row["difference_se"] == pytest.approx(0.001 / math.sqrt(3))
    assert row["se"] > 0.2
    page = modules["linear_page"]
    assert page.tally(page.judged(table, page.BEST)["verdict"]) == "0 / 0 / 1"
    assert "wine" in page.losses(table)
    (tmp_path / "more").mkdir()
    # a small log loss is good; more seeds of one side do not count
    table = table_of(modules, tmp_path / "more", ours, [*(ours + 0.1), 0.3], metric="log loss")
    assert table[table["verdict"] != ""].iloc[0]["verdict"] == "above"
