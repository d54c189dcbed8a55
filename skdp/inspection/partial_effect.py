"""Curves, bars and surfaces of models of tables, drawn from what was released."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from skdp._checks import InvalidTypeError, check_count, shown
from skdp.inspection.privacy_utility import pyplot_of
from skdp.tabular import TableEncoder
from skdp.tabular.table_effects import TableEffects
from skdp.tabular.table_model import TabularModel

#: Effects that are drawn where none are asked for.
_MOST = 6
#: Chance that a band holds the effect of the population at a point.
_LEVEL = 0.95


@dataclass(frozen=True)
class PartialEffect:
    """The effect of a column, or of a pair of columns, on its public grid.

    Attributes
    ----------
    name : str or tuple of two str
    grid : ndarray or tuple of two ndarray
        Numbers, dates, or names of values.
    values : ndarray of shape (n_points,) or (n_first, n_second)
        Of mean 0 over the grid, and for pairs over either grid.
    missing : float or None, default=None
        Effect of a missing value.
    std : ndarray or None, default=None
        Of the shape of `values`: standard deviations of what the noise of the fit adds; None where
        the method does not tell it.
    estimate, low, high : ndarray or None, default=None
        After a fit with ``intervals=True``, of the shape of `values`: debiased effects, which are
        not those of the model, and the ends of 95 % confidence intervals of the best effects that
        the features can make, each point for itself; infinite where the noise hides an effect.
    """

    name: Any
    grid: Any
    values: np.ndarray
    missing: float | None = None
    std: np.ndarray | None = None
    estimate: np.ndarray | None = None
    low: np.ndarray | None = None
    high: np.ndarray | None = None

    def to_frame(self) -> Any:
        """Return a data frame of one row per point of the grid, or pair of points.

        Returns
        -------
        frame : pandas.DataFrame
            With the columns effect, std, estimate, low and high; NaN where they are not known.
        """
        pd = importlib.import_module("pandas")
        index: Any = pd.Index(self.grid, name=self.name)
        if isinstance(self.grid, tuple):
            index = pd.MultiIndex.from_product(self.grid, names=self.name)
        names = ("values", "std", "estimate", "low", "high")
        known = {name: getattr(self, name) for name in names}
        found = {name: np.nan if each is None else each.ravel() for name, each in known.items()}
        return pd.DataFrame(found, index=index).rename(columns={"values": "effect"})


class PartialEffectDisplay:
    """Effects of columns, and of pairs of columns, in a private model of a table.

    :meth:`from_estimator` makes one, and :meth:`plot` draws it again without computing anything.

    The margin of a model behind a :class:`skdp.tabular.TableEncoder` is a constant plus a sum of
    effects, exactly, for rows that are not shortened to norm 1. The effects are functions of the
    released coefficients and of the declarations: drawing them looks at no record and costs no
    budget. Bands and bars are two standard deviations of what the noise of the fit adds to them
    (``coef_noise_``). After a fit with ``intervals=True`` they are the confidence intervals of
    :class:`PartialEffect`, around debiased effects, which are dashed; there are none where the
    noise hides an effect, and with rows that are shortened.

    Parameters
    ----------
    effects : list of PartialEffect
        What is drawn, one picture each.
    label : str, default="Effect"
        Of the axis of effects.

    Attributes
    ----------
    effects_ : list of PartialEffect
        The same as `effects`.
    axes_ : ndarray of matplotlib Axes
    figure_ : matplotlib Figure

    See Also
    --------
    feature_importance : One number for each effect.
    sklearn.inspection.PartialDependenceDisplay : Averages predictions over records, which is not
        private.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPTabularRegressor
    >>> from skdp.inspection import PartialEffectDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 24, size=(5000, 2))
    >>> y = np.sin(X[:, 0] / 4)
    >>> model = DPTabularRegressor(columns=(0, 24), target_range=(-1, 1), random_state=0).fit(X, y)
    >>> display = PartialEffectDisplay.from_estimator(model, ["x0", ("x0", "x1")])
    >>> display.effects_[0].values.shape, display.effects_[1].values.shape
    ((100,), (100, 100))
    """

    def __init__(self, *, effects: list[PartialEffect], label: str = "Effect") -> None:
        self.effects = effects
        self.label = label

    @property
    def effects_(self) -> list[PartialEffect]:
        """The effects."""
        return self.effects

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        features: Sequence[Any] | None = None,
        *,
        class_: Any = None,
        grid_resolution: int = 100,
        ax: Any = None,
    ) -> PartialEffectDisplay:
        """Compute effects and draw them.

        Parameters
        ----------
        estimator : estimator
            A fitted :class:`skdp.DPTabularClassifier` or :class:`skdp.DPTabularRegressor`, or a
            pipeline of a :class:`skdp.tabular.TableEncoder` and a linear model.
        features : sequence of str and pairs of str, or None, default=None
            Names of columns, such as "age", of parts of dates, such as "joined_month", and pairs of
            them. None: the six effects of the largest root mean square.
        class_ : object, default=None
            The class whose score is drawn; needed where there are more than two.
        grid_resolution : int, default=100
            Number of points of each range.
        ax : matplotlib Axes, array of Axes or None, default=None
            One for each effect. None: a new figure.

        Returns
        -------
        display : PartialEffectDisplay

        Raises
        ------
        ValueError
            For names that are no part of the table, and texts, which have no range.
        ImportError
            Without matplotlib.
        """
        pyplot_of(f"{cls.__name__}.from_estimator")
        check_count("grid_resolution", grid_resolution, 2)
        model, effects = _effects_of(estimator, class_, grid_resolution)
        if features is None:
            sizes = effects.root_mean_squares()
            most = sorted(sizes, key=lambda at: -sizes[at])[:_MOST]
            terms = [at for at in most if sizes[at] > 0]
        else:
            terms = [_positions(effects, each) for each in features]
        found = [_with_bands(model, class_, effects, at) for at in terms]
        label = "Effect on the log odds" if hasattr(model, "classes_") else "Effect on the target"
        return cls(effects=found, label=label).plot(ax)

    def plot(self, ax: Any = None, *, line_kw: Any = None) -> PartialEffectDisplay:
        """Draw curves of numbers, bars of categories and maps of pairs.

        Parameters
        ----------
        ax : matplotlib Axes, array of Axes or None, default=None
            One for each effect. None: a new figure.
        line_kw : dict or None, default=None
            Passed to ``plot`` of matplotlib for curves.

        Returns
        -------
        display : PartialEffectDisplay
            This one.
        """
        pyplot = pyplot_of(f"{type(self).__name__}.plot")
        n = len(self.effects)
        if ax is None:
            n_columns = min(n, 2)
            shape = math.ceil(n / max(n_columns, 1)), n_columns
            size = (3.6 * n_columns, 2.6 * shape[0])
            _, ax = pyplot.subplots(*shape, figsize=size, squeeze=False, layout="constrained")
            for spare in ax.ravel()[n:]:
                spare.set_axis_off()
        axes = np.asarray(ax, dtype=object).ravel()
        if len(axes) < n:
            raise ValueError(f"ax has {len(axes)} Axes for {n} effects.")
        for each, effect in zip(axes, self.effects, strict=False):
            if isinstance(effect.grid, tuple):
                _draw_map(each, effect, self.label)
            else:
                _draw_effect(each, effect, self.label, line_kw or {})
        self.axes_ = axes
        self.figure_ = axes[0].figure if len(axes) else None
        return self


def feature_importance(estimator: Any, *, class_: Any = None) -> dict[Any, float]:
    """Return the root mean square of each effect over its public grid, largest first.

    It is a function of released coefficients and of declarations: it looks at no record and costs
    no budget. Ranges count as if all their values were equally frequent, so that a column that
    hardly varies may look important. Texts have no grid, and 0.

    Parameters
    ----------
    estimator : estimator
        As of :meth:`PartialEffectDisplay.from_estimator`.
    class_ : object, default=None
        The class whose score is meant; needed where there are more than two.

    Returns
    -------
    dict
        From names of columns, parts of dates and pairs of them to numbers, in the units of the
        margin: log odds, or the units of the target.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPTabularRegressor
    >>> from skdp.inspection import feature_importance
    >>> X = np.random.default_rng(0).uniform(0, 1, size=(5000, 2))
    >>> model = DPTabularRegressor(columns=(0, 1), target_range=(0, 1), random_state=0)
    >>> list(feature_importance(model.fit(X, X[:, 1])))[0]
    'x1'
    """
    _, effects = _effects_of(estimator, class_, 100)
    sizes = effects.root_mean_squares()
    return {_name(effects, at): sizes[at] for at in sorted(sizes, key=lambda at: -sizes[at])}


def _effects_of(estimator: Any, class_: Any, n_points: int) -> tuple[Any, TableEffects]:
    """Return the linear model behind an encoder, and its effects."""
    if isinstance(estimator, TabularModel):
        check_is_fitted(estimator)
        encoder, model = estimator.encoder_, estimator.model_
    elif isinstance(estimator, Pipeline) and isinstance(estimator[0], TableEncoder):
        encoder, model = estimator[0], estimator[-1]
        check_is_fitted(model)
        if len(estimator) != 2 or not hasattr(model, "coef_"):
            raise ValueError("The pipeline must be a TableEncoder and a linear model.")
    else:
        raise InvalidTypeError(
            "estimator must be a model of skdp.tabular, or a pipeline of a TableEncoder and a "
            f"linear model, got {type(estimator).__name__}."
        )
    coef = np.atleast_2d(model.coef_)
    row, sign = _row_of(model, class_, len(coef))
    return model, TableEffects(encoder.schema_, encoder.row_features, sign * coef[row], n_points)


def _row_of(model: Any, class_: Any, n_rows: int) -> tuple[int, float]:
    """Return the row of the coefficients for a class, and its sign."""
    classes = np.asarray(getattr(model, "classes_", ())).tolist()
    if class_ is None:
        if n_rows > 1:
            raise ValueError(f"There are several classes: class_ must be one of {classes}.")
        return 0, 1.0
    if class_ not in classes:
        raise ValueError(f"class_ == {shown(class_)}, must be one of {classes}.")
    at = classes.index(class_)
    return (at, 1.0) if n_rows > 1 else (0, 1.0 if at == 1 else -1.0)


def _positions(effects: TableEffects, name: Any) -> tuple[int, ...]:
    """Return the positions of the parts that a name, or a pair of names, means."""
    pair = name if isinstance(name, tuple) else (name,)
    names = [part.name for part in effects.parts if part.kind != "text"]
    lacking = [each for each in pair if str(each) not in names]
    if lacking or len(pair) > 2 or len(set(pair)) < len(pair):
        raise ValueError(
            f"features must hold names and pairs of names of {names}, got {shown(name)}."
        )
    where = {part.name: k for k, part in enumerate(effects.parts)}
    return tuple(where[str(each)] for each in pair)


def _name(effects: TableEffects, at: tuple[int, ...]) -> Any:
    names = tuple(effects.parts[k].name for k in at)
    return names if len(names) > 1 else names[0]


def _partial_effect(effects: TableEffects, at: tuple[int, ...]) -> PartialEffect:
    """Return an effect on its grid; a missing value stands apart."""
    grids = [effects.labels[k] for k in at]
    sizes = [len(grid) for grid in grids]
    name = _name(effects, at)
    if len(at) == 2:
        values = effects.pair_effect(*at)[: sizes[0], : sizes[1]]
        return PartialEffect(name, tuple(grids), values)
    values = effects.effect(at[0])
    missing = float(values[-1]) if effects.parts[at[0]].has_missing else None
    return PartialEffect(name, grids[0], values[: sizes[0]], missing)


def _with_bands(
    model: Any, class_: Any, effects: TableEffects, at: tuple[int, ...]
) -> PartialEffect:
    """Return an effect, and what is known of its noise: it is a sum of coefficients."""
    found = _partial_effect(effects, at)
    noise = getattr(model, "_noise", None)
    if noise is None:
        return found
    row, sign = _row_of(model, class_, len(noise.mix))
    units = np.eye(effects.features.n_features)
    along = np.array([_partial_effect(effects.along(e), at).values.ravel() for e in units]).T
    given = {"std": noise.coef(along)[row]}
    features = effects.features
    is_exact = features.plan.spread >= features.longest  # no row is shortened
    is_exact = is_exact and not (features.pairs or features.plan.products or features.plan.n_sketch)
    if getattr(model, "_transcript", None) is not None and is_exact and along.any():
        ends = model._interval_of_sums(_LEVEL, sign * along, features.levels, row)
        given |= dict(zip(("estimate", "low", "high"), ends, strict=True))
    shape = found.values.shape
    return replace(found, **{name: each.reshape(shape) for name, each in given.items()})


def _draw_effect(ax: Any, effect: PartialEffect, label: str, line_kw: dict[str, Any]) -> None:
    ends = estimate = None
    if effect.low is not None and effect.estimate is not None:
        ends = np.array([effect.low, effect.high])
        if not np.isfinite(ends).all():
            ax.set_title("no band where noise hides it", fontsize="small", color="0.4")
        estimate = np.where(np.isfinite(effect.low), effect.estimate, np.nan)
    elif effect.std is not None:
        ends = effect.values + np.outer([-2.0, 2.0], effect.std)
    if effect.grid.dtype.kind == "U":
        labels, values = list(effect.grid), list(effect.values)
        if effect.missing is not None:
            labels, values = [*labels, "missing"], [*values, effect.missing]
        ax.axvline(0.0, color="0.8", linewidth=0.8)
        ax.barh(range(len(labels)), values, color="#0072B2", alpha=0.6)
        if ends is not None:
            ax.hlines(range(len(effect.grid)), *np.where(np.isfinite(ends), ends, np.nan), "0.2")
        if estimate is not None:
            ax.plot(estimate, range(len(estimate)), "|", color="0.2")
        ax.set_yticks(range(len(labels)), labels)
        ax.invert_yaxis()
        ax.set_xlabel(label)
        ax.set_ylabel(effect.name)
        return
    ax.axhline(0.0, color="0.8", linewidth=0.8)
    ax.plot(effect.grid, effect.values, **{"color": "#0072B2", **line_kw})
    if estimate is not None:
        ax.plot(effect.grid, estimate, "--", color="0.2", linewidth=0.8)
    if ends is not None:
        ax.fill_between(effect.grid, *ends, color="#0072B2", alpha=0.2, linewidth=0)
    if effect.missing is not None:
        ax.axhline(effect.missing, color="#D55E00", linestyle="--", label="missing")
        ax.legend()
    _set_axis(ax.set_xticks, ax.set_xscale, effect.grid)
    ax.set_xlabel(effect.name)
    ax.set_ylabel(label)


def _draw_map(ax: Any, effect: PartialEffect, label: str) -> None:
    first, second = effect.grid
    at = [np.arange(len(g)) if g.dtype.kind == "U" else g for g in (first, second)]
    largest = float(np.abs(effect.values).max()) or 1.0
    drawn = ax.pcolormesh(
        *at, effect.values.T, cmap="RdBu_r", vmin=-largest, vmax=largest, shading="nearest"
    )
    _set_axis(ax.set_xticks, ax.set_xscale, first)
    _set_axis(ax.set_yticks, ax.set_yscale, second)
    ax.set_xlabel(effect.name[0])
    ax.set_ylabel(effect.name[1])
    ax.figure.colorbar(drawn, ax=ax, label=label)


def _set_axis(set_ticks: Any, set_scale: Any, grid: np.ndarray) -> None:
    """Name levels and dates; take a logarithmic scale where the steps of the grid are not equal."""
    if grid.dtype.kind == "U":
        set_ticks(range(len(grid)), list(grid))
    elif grid.dtype.kind == "M":
        ends = grid[[0, len(grid) // 2, -1]]
        set_ticks(ends, [str(end)[:10] for end in ends])
    elif (steps := np.diff(grid)).max() > 2.0 * steps.min():
        set_scale("symlog", linthresh=10.0 * float(steps.min()))
