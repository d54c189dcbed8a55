"""Search for neighbours of which one is fitted and the other is not, or not in silence.

Features and targets from 0 through denormals to 1.7e308, duplicates, one class, one group,
constant targets; all estimators, methods and budgets from 1e-3 to 1e6. For two data sets that
differ in one record a fit ends in the same way: it returns, or raises one and the same error, which
it then also raises for ordinary records. Warnings are equal, and none comes from numerical work.
"""

import numpy as np
import pytest
from extreme_cases import extreme_records, neighbour, outcome, random_case

#: Settings in a default run, and in ``pytest -m search``, in parts.
FEW, MANY, PARTS = 8, 600, 6


def failure(seed):
    """What is wrong with the setting of a seed, or None."""
    rng = np.random.default_rng(seed)
    case = random_case(rng)
    records, sparse = extreme_records(case, rng), bool(rng.random() < 0.1)
    first, second = (
        outcome(case, data, sparse) for data in (records, neighbour(case, records, rng))
    )
    described = f"seed {seed}: {case.name}, {case.parameters}, shape ({case.n}, {case.d}): "
    if first != second:
        return f"{described}{first} and {second}"
    error, said = first
    if any(not issubclass(category, UserWarning) for category, _ in said):
        return f"{described}{said}"
    if error:  # it must be about public numbers, as for any records
        plain = case.records(0)
        if case.parameters.get("group_proportions") == "public":
            plain = plain._replace(groups=records.groups, y=records.y)
        if error[0] is not ValueError or outcome(case, plain, sparse)[0] != error:
            return f"{described}{error}"
    return None


def failures(seeds):
    return [found for found in map(failure, seeds) if found]


def test_neighbours_end_alike_in_a_few_settings():
    """A fixed part of the search below."""
    assert not failures(range(FEW))


@pytest.mark.search
@pytest.mark.parametrize("part", range(PARTS))
def test_neighbours_end_alike(part):
    """600 settings, seeded: always the same."""
    size = MANY // PARTS
    assert not failures(range(part * size, (part + 1) * size))
