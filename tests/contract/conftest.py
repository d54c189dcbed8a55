from fit_cases import remembered_calibrations  # noqa: F401
