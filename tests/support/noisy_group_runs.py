"""Records and plans of the methods that measure losses of groups."""

import numpy as np
import pytest
import scipy.sparse as sp

from skdp.algorithms import GroupObjective
from skdp.algorithms.worst_group.core_stages import plan_core_stages
from skdp.privacy import PrivacyBudget
from skdp.privacy.events import RECORD_RELATIONS, Neighbouring
from skdp.problems import Design, EmpiricalRisk, GroupWeights, Records

REPLACE, ADD = Neighbouring.REPLACE_ONE, Neighbouring.ADD_REMOVE
RELATIONS = pytest.mark.parametrize("relation", RECORD_RELATIONS)


def data_of(loss, n=100):
    """Rows from a tenth to ten times the bound; the third group has one record, the last none.

    The targets of the second group contradict those of the first one.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5)) * 10.0 ** rng.uniform(-1, 1, size=(n, 1)) + np.eye(5)[0]
    groups = np.where(rng.random(n) < 0.2, 1, 0)
    groups[7] = 2
    y = np.where(groups == 1, -1.0, 1.0) * np.sign(X[:, 1])
    if not loss.target_bound:
        return X, (y > 0).astype(int if loss.n_outputs > 1 else float), groups
    return X, loss.target_bound * y * rng.uniform(0.5, 1.0, n), groups


def records_of(X, y, groups, kind="dense", intercept=0.1):
    make = {"dense": np.asarray, "csr": sp.csr_array, "float32": lambda X: X.astype(np.float32)}
    records = Records(make[kind](X), 1.0, intercept, targets=y, groups=groups)
    records.block_size = 25  # several parts of blocks
    return records


def design_of(records, relation):
    return Design.of(records, None if relation is REPLACE else 90)  # a nominal number


def planned(
    loss, design, relation, epsilon=50.0, delta=0.01, proportions=None, *,
    make=plan_core_stages, **options,
):  # fmt: skip
    goal = GroupObjective(
        EmpiricalRisk(loss), design, neighbouring=relation, weights=GroupWeights((10.0,) * 4),
        proportions=proportions, **options,
    )  # fmt: skip
    return make(goal, PrivacyBudget(epsilon, delta))
