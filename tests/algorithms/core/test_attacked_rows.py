"""Sums of clipped gradients under attack, against the largest loss of one record at a time."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest
from laboratory import Laboratory
from scipy.special import logsumexp

from skdp.algorithms.core.attacked_rows import AttackedGradients, Moves
from skdp.algorithms.core.centered_rows import CenteredRows, Centering
from skdp.problems import Attack, HalfSquaredLoss, LogisticLoss, Records, SoftmaxLoss
from skdp.robust import DPAdversarialRegressor

RADIUS, D = 0.15, 3
CORNERS = np.array(list(itertools.product([-1.0, 1.0], repeat=D)))
#: Vertices of the attacker's sets for radius 1. One is asymmetric, given by its support function.
TRIANGLE = np.array([[1.0, 0.2, 0.0], [-0.3, 0.5, 0.0], [0.0, -0.8, 0.4], [0.0, 0.0, -0.1]])
VERTICES = {1: np.concatenate([np.eye(D), -np.eye(D)]), math.inf: CORNERS, "hull": TRIANGLE}
LOSSES = {"odds": LogisticLoss(), "squares": HalfSquaredLoss(2.0), "classes": SoftmaxLoss(4)}
every_loss = pytest.mark.parametrize("kind", LOSSES)
every_set = pytest.mark.parametrize("norm", [1, 2, math.inf, "hull"])


def attack_of(norm):
    if norm == "hull":
        return Attack(lambda w: TRIANGLE[(TRIANGLE @ w).argmax()], RADIUS, 0.3)
    return Attack(norm, RADIUS, 0.3)


def rise(norm, w):
    """Largest ``p . w``, by the vertices of the set."""
    return RADIUS * (np.linalg.norm(w) if norm == 2 else (VERTICES[norm] @ w).max())


def worst(kind, norm, weights, z, target):
    """Largest loss of a record with margins (or scores of classes) z, by weights of features."""
    if kind == "classes":
        moved = [z[j] + rise(norm, weights[j] - weights[target]) for j in range(len(z))]
        moved[target] = z[target]
        return logsumexp(moved) - z[target]
    low, high = z[0] - rise(norm, -weights[0]), z[0] + rise(norm, weights[0])
    if kind == "odds":
        return max(np.logaddexp(0.0, end) - target * end for end in (low, high))
    return max((end - target) ** 2 / 2 for end in (low, high))


def made(kind, norm, n, clip, rng, scale=1.0):
    """Gradients, and records with their targets."""
    loss, X = LOSSES[kind], rng.normal(size=(n, D)) / 4.0
    targets = {
        "odds": rng.integers(0, 2, n).astype(float),
        "squares": rng.choice([-2.0, 2.0, 0.3], n),
        "classes": rng.integers(0, 4, n),
    }[kind]
    centering = Centering(
        mean=np.array([0.1, 0.0, -0.2]), scale=0.6, offsets=rng.normal(size=loss.n_outputs)
    )
    rows = CenteredRows(Records(X, 1.0, 0.1, targets=targets), centering)
    weights = scale * rng.normal(size=(loss.n_outputs, D + 1))
    gradients = AttackedGradients(
        loss=loss,
        weights=rows.weights(weights),
        offset=centering.offsets.squeeze(),
        clip_norm=clip,
        moves=Moves.worst(attack_of(norm), loss, rows.weights(weights), rows),
    )
    return gradients, rows, weights, X, targets


@every_loss
@every_set
def test_sums_are_gradients_of_the_largest_losses(kind, norm):
    """By central differences of the losses of single records, in coordinates of centered rows."""
    rng = np.random.default_rng(0)
    gradients, rows, weights, X, targets = made(kind, norm, 8, math.inf, rng)
    loss, centering = LOSSES[kind], rows.centering
    basis = loss.basis if kind == "classes" else np.eye(1)

    def total(flat):
        point = basis @ flat.reshape(weights.shape)
        found, features = 0.0, point[:, :D] / centering.scale
        for x, target in zip(X, targets, strict=True):
            A = np.append((x - centering.mean) / centering.scale, 0.2)
            z = point @ A + basis @ centering.offsets
            found += worst(kind, norm, features, z, target)
        return found

    steps = 1e-6 * np.eye(weights.size)
    expected = [(total(weights.ravel() + h) - total(weights.ravel() - h)) / 2e-6 for h in steps]
    found = rows.sums(rows.full_total(gradients))
    np.testing.assert_allclose(found.ravel(), expected, rtol=1e-6, atol=1e-6)


@every_loss
@every_set
@pytest.mark.parametrize("scale", [0.0, 1.0, 100.0])
def test_no_record_adds_more_than_the_clipping_norm(kind, norm, scale):
    rng, clip, largest = np.random.default_rng(1), 0.3, 0.0
    for _ in range(15):
        gradients, rows, *_ = made(kind, norm, 1, clip, rng, scale)
        largest = max(largest, float(np.linalg.norm(rows.sums(rows.full_total(gradients)))))
    # moved rows are about as long as is assumed only where move and row point the same way
    assert 0.5 * clip < largest <= clip * (1.0 + 1e-12)


@pytest.mark.parametrize("norm", [1, math.inf, "hull"])
def test_no_single_move_is_worse_for_several_classes(norm):
    rng = np.random.default_rng(2)
    attack = attack_of(norm)
    for _ in range(200):
        weights, z, target = 3.0 * rng.normal(size=(4, D)), rng.normal(size=4), rng.integers(4)
        bound = worst("classes", norm, weights, z, target)
        moved = z + RADIUS * VERTICES[norm] @ weights.T
        losses = logsumexp(moved, axis=1) - moved[:, target]
        assert losses.max() <= bound + 1e-12  # convex: largest at a vertex
        assert attack.rise(weights[0]) == pytest.approx(rise(norm, weights[0]))


def test_no_gradient_jumps_by_the_last_bit_of_a_margin():
    """Of squares both ends of the margin 0.2 are equally bad for the target 0.2."""
    weights, found = np.array([[1.0, 0.0, 0.0, 0.0]]), []
    for moved in (0.0, 1e-15):
        records = Records(np.zeros((1, D)), 1.0, 0.1, targets=np.array([0.2]))
        rows = CenteredRows(records, Centering.unknown(D, 1))
        gradients = AttackedGradients(
            loss=LOSSES["squares"],
            weights=rows.weights(weights),
            offset=np.array(0.2 + moved),
            clip_norm=0.3,
            moves=Moves.worst(attack_of(2), LOSSES["squares"], rows.weights(weights), rows),
        )
        found.append(rows.sums(rows.full_total(gradients)))
    turned = float(np.linalg.norm(found[1] - found[0]))
    assert 0.0 < turned <= 2e-15 * (gradients.steepness + 2.0)
    # at a tie the moves cancel, and the residuals too
    assert np.abs(found[0][0, 1:]).max() < 1e-9


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_attacks_add_hardly_any_noise(relation):
    """The rounding of moves and ties beside what a record adds to a sum."""
    rng, scales = np.random.default_rng(0), []
    X, given = rng.uniform(-0.5, 0.5, (400, D)), {"neighbouring": relation, "random_state": 0}
    for radius in (0.0, 0.1):
        model = DPAdversarialRegressor(attack_radius=radius, data_norm=1.0, **given)
        with Laboratory() as laboratory, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, X[:, 0])
        scales.append(laboratory.draws[-1].mechanism.sensitivity / model.privacy_.plan["clip_norm"])
    limit = 1e-5 if relation == "replace_one" else 2e-4  # sums of up to a million records
    assert scales[1] == pytest.approx(2.0 if relation == "replace_one" else 1.0, rel=limit)
