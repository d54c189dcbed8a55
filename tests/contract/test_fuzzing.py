"""Strange parameters and input end in a fitted model, or in an error that says what is wrong.

A part of what ``python tests/support/fuzzing.py 10000`` tries; the cases are always the same.
"""

import pytest
from fuzzing import fuzzed_fits, problems_of
from hypothesis import HealthCheck, given, seed, settings


@pytest.mark.search
@seed(12)
@settings(max_examples=200, database=None, suppress_health_check=list(HealthCheck))
@given(fuzzed_fits())
def test_every_fit_ends_in_a_model_or_a_clear_error(case):
    assert not problems_of(case), case
