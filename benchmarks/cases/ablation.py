"""The core with one of its rules or tuned numbers switched off, beside the core as it is.

A rule earns its place by 0.001 of log loss, 0.002 of R2 or a point of hurt parts; see `suite` for
the sets and the columns.
"""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks.cases import suite

_CORE = "skdp.algorithms.core"
#: What takes the place of a constant: a plain value, or one that makes it void.
RULES = {
    "means, a fixed part": f"{_CORE}.fit._MEANS_SHARES=(0.12;0.12)",
    "means, equal weight of classes": f"{_CORE}.means.CLASS=1.0",
    "shares, the uniform law's variance": f"{_CORE}.means._KNOWN=1e6",
    "numbers, no prior of the mean": f"{_CORE}.means._MEAN=1e6",
    "numbers, no prior of the variance": f"{_CORE}.means._SPREAD=10.0",
    "clip of log odds, the smallest": f"{_CORE}.steps._CLIPS_OF_ODDS=(0.25;)",
    "clip of log odds, no small ones": f"{_CORE}.steps._CLIPS_OF_ODDS=(0.6;1.0)",
    "clip of log odds, the largest": f"{_CORE}.steps._CLIPS_OF_ODDS=(1.0;)",
    "clip of log odds, tables end at 3 times small margins": f"{_CORE}.margin_laws._SMALL=0.0",
    "path, the same for all losses": f"{_CORE}.steps._DRIFT=(1.2;1.2;1.2)",
    "path, half": f"{_CORE}.steps._DRIFT=(0.375;0.6;1.0)",
    "path, double": f"{_CORE}.steps._DRIFT=(1.5;2.4;4.0)",
    "steps, no fewest number": f"{_CORE}.steps._FEWEST=4",
    "steps, noise for one curvature": f"{_CORE}.steps._CURVATURES=(1.0;)",
    "steps, the constant of log odds stays": f"{_CORE}.fit._FOLLOWED=1e-9",
    "steps, the constant follows on long paths": f"{_CORE}.fit._FOLLOWED=1e9",
    "size, average moments alone": f"{_CORE}.size._MOMENTS=(1.0;)",
    "size, exact law of squares": f"{_CORE}.size._ERRORS=(0.01;0.05)",
    "size, exact law of the norm": f"{_CORE}.size._ERRORS=(0.15;0.0)",
    "size, noise as of isotropic rows": f"{_CORE}.size._DAMPED=0.0",
    "size, some signal for sure": f"{_CORE}.size._NONE=1e-9",
    "size, no square of margins": f"{_CORE}.plan.HAS_SQUARE=False",
    "size, a wide prior": f"{_CORE}.size._PRIOR=10.0",
    "size, weights of one variance": f"{_CORE}.size._VARIANCES=(1.0;)",
    "size, no sample": f"{_CORE}.forecast._SAMPLED=0.0",
    "size, all of the sample": f"{_CORE}.forecast._SAMPLED=1.0",
    "intercept, all of it is learnt": f"{_CORE}.post._LEAST_LEARNT=0.0",
    "intercept, at its base": f"{_CORE}.post._OFF_BASE=0.0",
    "last release, one round": f"{_CORE}.plan.ROUNDS=1",
    "last release, a third of its part": f"{_CORE}.plan.SIZE_SHARE=0.02",
    "last release, near margins alone": f"{_CORE}.size._FAR=0.5",
    "last release, numbers without a largest clip": f"{_CORE}.plan._TOP_OF_NUMBERS=1e9",
    "last release, one clip": f"{_CORE}.plan._TOP=1e-6",
    "solves in place of steps": "method=output",
    "solves, longer": f"method=output,{_CORE}.solves.PART=0.35",
    "solves, six": f"method=output,{_CORE}.fit.N_SOLVES=6",
    "solves, of one length": f"method=output,{_CORE}.solves._RATIOS=(1.0;)",
}


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    rules = list(RULES.items())[:1] if options.quick else RULES.items()
    return suite.compared(options, ["core:", *(f"{name}:{value}" for name, value in rules)])


summarise = suite.summarise
