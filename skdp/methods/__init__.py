"""Private algorithms as objects, for the parameter `method` of estimators.

A name, such as ``method="mirror_descent"``, is short for the object with its defaults. Ours are
:class:`Gradient`, the default, :class:`Output` with any solver, and :class:`AdaptiveMeasurements`;
the others are published algorithms with errata corrected. By default their constants, and looks at
groups before them, are ours: ``calibration="paper"`` or ``as_published=True`` has those of papers.
"""

from skdp.methods.base import Method
from skdp.methods.groups import RGDA, GroupMirrorDescent, PhasedSaddle, SaddleOutputPerturbation
from skdp.methods.linear import (
    ExponentialMechanism,
    Gradient,
    MirrorDescent,
    ObjectivePerturbation,
    Output,
    OutputPerturbation,
    PhasedOutputPerturbation,
)
from skdp.methods.queries import AdaptiveMeasurements, QueryMirrorDescent
from skdp.methods.tuning import Bilevel

__all__ = [
    "RGDA",
    "AdaptiveMeasurements",
    "Bilevel",
    "ExponentialMechanism",
    "Gradient",
    "GroupMirrorDescent",
    "Method",
    "MirrorDescent",
    "ObjectivePerturbation",
    "Output",
    "OutputPerturbation",
    "PhasedOutputPerturbation",
    "PhasedSaddle",
    "QueryMirrorDescent",
    "SaddleOutputPerturbation",
]
