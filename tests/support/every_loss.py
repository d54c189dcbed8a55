"""Smooth losses of all kinds, and targets for them."""

from skdp.problems import (
    HalfSquaredLoss,
    HingeLoss,
    LogisticLoss,
    OneVsRestLoss,
    QuantileLoss,
    SoftmaxLoss,
    SquaredHingeLoss,
    huber_loss,
)

#: On the targets that are numbers.
BOUND = 1.5
LOSSES = {
    "logistic": LogisticLoss(),
    "squared": HalfSquaredLoss(BOUND),
    "softmax": SoftmaxLoss(3),
    "squared hinge": SquaredHingeLoss(),
    "huber": huber_loss(BOUND, 0.4),
    "hinge": HingeLoss().smoothed(0.3),
    "quantile": QuantileLoss(BOUND, 0.8).smoothed(0.2),
    "one vs rest": OneVsRestLoss(SquaredHingeLoss(), 3),
}


def targets_for(loss, rng, n, extreme=False):
    """Random targets in the encoding of a loss; `extreme`: numbers at their bound."""
    if loss.n_classes > 2 or isinstance(loss, SoftmaxLoss):
        return rng.integers(0, loss.n_classes, n)
    if loss.target_bound:
        return loss.target_bound * (
            rng.choice([-1.0, 1.0], n) if extreme else rng.uniform(-1, 1, n)
        )
    return rng.integers(0, 2, n).astype(float)


#: Whose slopes can be clipped: of one margin, of several, and all.
CLIPPED = {
    "squares": HalfSquaredLoss(1.0),
    "log loss": LogisticLoss(),
    "hinge": HingeLoss().smoothed(0.1),
    "squared hinge": SquaredHingeLoss(),
    "huber": huber_loss(1.0, 0.2),
    "quantile": QuantileLoss(1.0, 0.3).smoothed(0.05),
}

SEVERAL = {"classes": SoftmaxLoss(5), "one against the rest": OneVsRestLoss(SquaredHingeLoss(), 3)}

ALL = {**CLIPPED, **SEVERAL}
