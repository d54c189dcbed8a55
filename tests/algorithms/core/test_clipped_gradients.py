"""Sums of clipped gradients against one record at a time."""

import numpy as np
import pytest
from scipy.special import expit, softmax

from skdp.algorithms.core.centered_rows import CenteredRows, Centering, ClippedGradients
from skdp.problems import LogisticLoss, Records, SoftmaxLoss


@pytest.mark.parametrize("factors", [None, np.array([0.5, 3.0])], ids=["alike", "weighted"])
@pytest.mark.parametrize("clip", [0.4, 100.0])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_each_gradient_is_shortened_to_the_clipping_norm(n_classes, clip, factors):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3)) / 4.0
    targets, groups = rng.integers(0, n_classes, 40), rng.integers(0, 2, 40)
    loss = LogisticLoss() if n_classes == 2 else SoftmaxLoss(n_classes)
    given = targets.astype(float) if n_classes == 2 else targets
    centering = Centering(
        mean=np.array([0.1, 0.0, -0.2]), scale=0.6, offsets=rng.normal(size=loss.n_outputs)
    )
    rows = CenteredRows(Records(X, 1.0, 0.1, targets=given, groups=groups), centering)
    w = rng.normal(size=(loss.n_outputs, 4))
    expected = np.zeros_like(w)
    for x, target, group in zip(X, targets, groups, strict=True):
        A = np.append((x - centering.mean) / centering.scale, 0.2)
        margins = w @ A + centering.offsets
        if n_classes == 2:
            residual = expit(margins) - target
        else:
            residual = (softmax(loss.basis @ margins) - np.eye(3)[target]) @ loss.basis
        gradient = np.outer(residual, A)
        gradient *= min(1.0, clip / np.linalg.norm(gradient))
        expected += gradient * (1.0 if factors is None else factors[group])
    gradients = ClippedGradients(
        loss=loss,
        weights=rows.weights(w),
        offset=centering.offsets.squeeze(),
        clip_norm=clip,
        group_factors=factors,
    )
    found = rows.sums(rows.full_total(gradients))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
