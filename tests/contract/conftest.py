from fit_cases import remembered_calibrations, remembered_schedules  # noqa: F401
