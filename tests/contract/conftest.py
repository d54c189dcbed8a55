import pytest
from remembered_plans import remembered_calibrations, remembered_schedules  # noqa: F401


@pytest.fixture(autouse=True)
def _remembered(remembered_calibrations):  # noqa: F811
    """Calibrations of sampled releases are made once."""


pytest.register_assert_rewrite("stated_draws")  # its errors show the numbers
