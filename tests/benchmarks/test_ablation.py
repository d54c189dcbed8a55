"""The rules that are switched off are there."""

import ast
from importlib import import_module

import pytest

from benchmarks.cases.ablation import RULES


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_rule_is_a_constant_of_the_core_with_another_value(rule):
    name, given = rule.split("=")
    module, constant = name.rsplit(".", 1)
    value = getattr(import_module(module), constant)
    given = ast.literal_eval(given.replace(";", ","))
    assert repr(given) != repr(tuple(value) if hasattr(value, "__len__") else value)
