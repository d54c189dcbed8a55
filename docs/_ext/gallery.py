"""The order of the examples."""

#: First steps first; examples that are not named here follow by their names.
ORDER = (
    "plot_first_model",
    "plot_choose_epsilon",
    "plot_choose_bounds",
    "plot_data_frame",
    "plot_tables",
    "plot_curves",
    "plot_comparison",
    "plot_worst_group",
    "plot_worst_group_selection",
    "plot_fairness",
    "plot_reweighting",
    "plot_representation",
    "plot_self_tuning",
    "plot_search",
    "plot_quantiles",
    "plot_many_features",
    "plot_persons",
    "plot_budget",
    "plot_plan",
    "plot_cluster",
    "plot_own_solver",
)


def position(filename: str) -> tuple[int, str]:
    """Sort key of an example."""
    name = filename.removesuffix(".py")
    return (ORDER.index(name) if name in ORDER else len(ORDER), name)
