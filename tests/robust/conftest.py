from fit_cases import remembered_schedules  # noqa: F401
