"""The rules that are switched off are there, and fits are made without them."""

import ast
import importlib
import itertools
import warnings
from pathlib import Path

import numpy as np

from skdp import DPLogisticRegression, DPRidge


def test_a_rule_is_a_constant_of_the_core_and_fits_do_without(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    rules = importlib.import_module("benchmarks.cases.ablation").RULES
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.5, 0.5, (100, 3)), rng.integers(3, size=100)
    models = itertools.cycle(
        (
            DPLogisticRegression(1.0, data_norm=1.0, classes=[0, 1, 2], random_state=0),
            DPRidge(1.0, data_norm=1.0, target_range=(0, 2), random_state=0),
            DPRidge(1.0, data_norm=1.0, target_range=(0, 2), method="output"),
        )
    )
    for rule, change in rules.items():
        name, given = change.removeprefix("method=output,").split("=")
        if name == "method":
            continue
        module, constant = name.rsplit(".", 1)
        owner = importlib.import_module(module)
        value = getattr(owner, constant)
        given = ast.literal_eval(given.replace(";", ","))
        assert repr(given) != repr(tuple(value) if hasattr(value, "__len__") else value), rule
        given = np.array(given) if isinstance(value, np.ndarray) else given
        with monkeypatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            patch.setattr(owner, constant, given)
            assert np.isfinite(next(models).fit(X, y).coef_).all(), rule
