from remembered_plans import remembered_schedules  # noqa: F401
