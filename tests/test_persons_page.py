"""The table of docs/guide/persons_and_weights.md is that of the code."""

import re
from pathlib import Path

import numpy as np
import pytest
from every_estimator import ESTIMATORS
from sklearn.base import is_classifier

import skdp
from skdp import preprocessing, robust, synthetic
from skdp.methods.choice import SYNTHETIC_METHODS, TUNING_METHODS
from skdp.privacy.events import Neighbouring

GUIDE = Path(__file__).parents[1] / "docs" / "guide"
DECLARED = {
    "data_norm": 1.0, "classes": [0, 1], "target_range": (-1, 1), "columns": (-1, 1),
    "ranges": (-1, 1), "categories": [[0, 1], [0, 1]], "weight_bound": 1.0,
}  # fmt: skip


def tables(page, header):
    """Cells of the rows of each table of a page that has a header."""
    for part in (GUIDE / page).read_text(encoding="utf-8").split(header)[1:]:
        lines = part.splitlines()[2:]
        lines = lines[: [line.startswith("|") for line in lines].index(False)]
        yield [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


MODELS = [
    (name, *cells)
    for table in tables(
        "persons_and_weights.md", "| model | `user_ids` | `sample_weight` | `class_weight` |"
    )
    for named, *cells in table
    for name in re.findall(r"`(\w+)`", named)
]


def test_every_model_has_a_row():
    others = {"DPTabularClassifier", "DPTabularRegressor", "DPSyntheticData", "DPStandardScaler"}
    assert sorted(name for name, *_ in MODELS) == sorted(
        {*others, *(e.__name__ for e in ESTIMATORS)}
    )


def says_yes(cell):
    """Whether a cell says yes; a no has its reason."""
    assert cell.startswith("yes") or re.match("no: .{10}", cell)
    return cell.startswith("yes")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "persons", "weights", "costs"), MODELS)
def test_models_take_what_the_page_says(name, persons, weights, costs):
    kind = next(
        getattr(m, name) for m in (skdp, robust, preprocessing, synthetic) if hasattr(m, name)
    )
    own = kind(**({"ranges": (-1, 1)} if name == "DPStandardScaler" else {})).get_params()
    model = kind(**{key: value for key, value in DECLARED.items() if key in own})
    rng = np.random.default_rng(0)
    X = (
        rng.uniform(-1.0, 1.0, (60, 2))
        if "categories" not in own
        else rng.integers(2, size=(60, 2))
    )
    y = None if "categories" in own else rng.integers(2, size=60)
    for cell, given in (
        (persons, {"user_ids": np.arange(60) // 2}),
        (weights, {"sample_weight": np.full(60, 0.5)}),
    ):
        if says_yes(cell):
            model.fit(X, y, **given)
            continue
        with pytest.raises((TypeError, ValueError), match=r"no proof|not supported|unexpected"):
            model.fit(X, y, **given)
    assert says_yes(weights) == ("weight_bound" in own)
    assert bool(costs) == is_classifier(model)
    if costs:
        assert says_yes(costs) == ("class_weight" in own)


def test_methods_that_have_no_table_have_the_proofs_that_are_said():
    """Of replaced persons, persons added or removed, and weights; others: test_coverage_page.py."""
    users = Neighbouring.REPLACE_USER, Neighbouring.ADD_REMOVE_USER
    said = dict.fromkeys(TUNING_METHODS, (True, True, True))
    said |= {"adaptive": (True, False, True), "mirror_descent": (True, False, False)}
    assert said == {
        name: (*(relation in row.relations for relation in users), row.is_weighted)
        for name, row in (TUNING_METHODS | SYNTHETIC_METHODS).items()
    }
