"""A fit on records in chunks is the fit in memory, draw by draw."""

from dataclasses import replace

import numpy as np
import pytest
from fit_cases import CASES, Ranges
from recorded_fits import every_case, record, recorded


def needs_all_records(case):
    """Whether the row of the method says so, or what is asked of it."""
    method = case.parameters.get("method")
    is_attacked = "Adversarial" in case.estimator.__name__ and method == "output"
    is_public = case.parameters.get("group_proportions") == "public"
    needs = is_attacked or is_public or getattr(method, "tilt", 0.0)
    return bool(needs or (case.row is not None and not case.row.chunked))


def may_be_chunked(case):
    return not (needs_all_records(case) or case.is_slow or case.estimator is Ranges)


@every_case(lambda case: may_be_chunked(case) and case.place != "sparse")
def test_a_fit_on_chunks_is_that_in_memory(name):
    """With the same releases: sums differ in their last bits, solutions by their accuracy."""
    case, fit = CASES[name], recorded(name)
    place = "chunks" if case.place == "dense" else "dense"
    other = record(replace(case, place=place), case.records(0), fit.laboratory.releases)
    assert fit.model.privacy_.to_dict() == other.model.privacy_.to_dict()
    assert (fit.warned, fit.paid) == (other.warned, other.paid)
    assert len(fit.laboratory.draws) == len(other.laboratory.draws) > 0
    for mine, its in zip(fit.laboratory.draws, other.laboratory.draws, strict=True):
        assert (mine.kind, mine.mechanism) == (its.kind, its.mechanism)
        error = 0.01 * mine.mechanism.sensitivity if "n_solves" in fit.model.privacy_.plan else 1e-9
        np.testing.assert_allclose(mine.value, its.value, rtol=1e-9, atol=error)


@every_case(lambda case: case.place == "dense" and needs_all_records(case))
def test_what_needs_all_records_says_so(name):
    case = replace(CASES[name], place="chunks")
    with pytest.raises(ValueError, match="in memory"):
        case.fit(case.records(0))
