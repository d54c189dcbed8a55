"""Losses whose slopes can be clipped: of one margin, of several, and all."""

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

__all__ = ["ALL", "LOSSES", "SEVERAL"]

LOSSES = {
    "squares": HalfSquaredLoss(1.0),
    "log loss": LogisticLoss(),
    "hinge": HingeLoss().smoothed(0.1),
    "squared hinge": SquaredHingeLoss(),
    "huber": huber_loss(1.0, 0.2),
    "quantile": QuantileLoss(1.0, 0.3).smoothed(0.05),
}
SEVERAL = {"classes": SoftmaxLoss(5), "one against the rest": OneVsRestLoss(SquaredHingeLoss(), 3)}
ALL = {**LOSSES, **SEVERAL}
