"""The rules that are switched off are there."""

import ast
import importlib
from pathlib import Path


def test_a_rule_is_a_constant_of_the_core_with_another_value(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    rules = importlib.import_module("benchmarks.cases.ablation").RULES
    for rule, change in rules.items():
        name, given = change.split("=")
        module, constant = name.rsplit(".", 1)
        value = getattr(importlib.import_module(module), constant)
        given = ast.literal_eval(given.replace(";", ","))
        assert repr(given) != repr(tuple(value) if hasattr(value, "__len__") else value), rule
