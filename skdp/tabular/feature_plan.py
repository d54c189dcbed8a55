"""Which features of a table a budget pays for, by public numbers (and parts that are left)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scipy.fft import next_fast_len

from skdp._checks import check_count, check_option, check_positive
from skdp._types import Relation
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.gaussian_dp import gaussian_mu
from skdp.tabular.columns import Part
from skdp.tabular.matching import declarations, paired_parts, parts_of

#: A model may have ``BUDGET (e - OFFSET)^POWER`` features at the effective size e, chosen on made
#: families and corrected once on real tables (docs/benchmarks/tables.md); never more than MOST, nor
#: more than fill 2 GB.
BUDGET, OFFSET, POWER, MOST, CELLS = 1.2, 40.0, 2.0 / 3.0, 1000, 2**28
#: Weights of the blocks: a number, products, the sketch, and two frequencies in it. Rows are
#: divided by ``sqrt(spread T)``, with this number so that few are longer than 1.
NUMBER_WEIGHT, PRODUCT_WEIGHT, SKETCH_WEIGHT = 1.25, 0.35, 0.3
#: Of the products of a declared pair of columns, and of further frequencies of numbers in them.
PAIR_WEIGHT = 1.0
PAIRED = {4: 0.35, 5: 0.28, 6: 0.23}
SKETCHED = {2: 0.7, 3: 0.47}
SPREAD = 1.15
#: Blocks in the order in which they are added: frequencies of curves, products P, sketch C.
ORDER: tuple[int | str, ...] = (2, 3, "P", 4, 5, 6, "C", 7, 8, 9, 10, 11, 12)
#: The sketch takes this part of what is left, within these sizes.
SKETCH_PART, SKETCH_LEAST, SKETCH_MOST = 0.7, 30, 500
#: Frequencies of the curves of a plan that is not made for a budget.
CURVES = (2, 3, 4, 5, 6)


@dataclass(frozen=True, kw_only=True)
class FeaturePlan:
    """Blocks of features of a table. The linear block is always there.

    Attributes
    ----------
    frequencies : tuple of int, default=()
        Of the cosines of each number.
    products : bool, default=False
        Whether there are products of each two numbers.
    n_sketch : int, default=0
        Number of columns of the sketch of all products of features.
    effective_size : float or None, default=None
        Number of records times the budget that the plan was made for.
    spread : float, default=1.15
        Rows are divided by the root of so many times their typical squared norm.

    Examples
    --------
    >>> from skdp.tabular import FeaturePlan
    >>> columns = {"age": (18, 90), "job": ["clerk", "cook"], "pay": (0, 9000)}
    >>> plan = FeaturePlan.for_budget(1.0, 1e-6, n_records=3000, columns=columns)
    >>> plan.frequencies, plan.products, plan.n_sketch
    ((2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12), True, 0)
    """

    frequencies: tuple[int, ...] = ()
    products: bool = False
    n_sketch: int = 0
    effective_size: float | None = None
    spread: float = SPREAD

    def __post_init__(self) -> None:
        for q in self.frequencies:
            check_count("a frequency", q, 2, 100)
        check_count("n_sketch", self.n_sketch, 0, 2**20)
        check_positive(spread=self.spread)
        object.__setattr__(self, "frequencies", tuple(self.frequencies))

    @classmethod
    def fixed(cls, features: str) -> FeaturePlan:
        """Return the plan of a name: "linear", "curves" or "pairs"."""
        check_option("features", features, ("linear", "curves", "pairs"))
        if features == "linear":
            return cls()
        is_pairs = features == "pairs"
        sketch = SKETCH_MOST if is_pairs else 0
        return cls(frequencies=CURVES, products=is_pairs, n_sketch=sketch)

    @classmethod
    def for_budget(
        cls,
        epsilon: float,
        delta: float,
        *,
        n_records: int,
        columns: Any,
        pairs: Any = (),
        neighbouring: Relation = "replace_one",
    ) -> FeaturePlan:
        """Plan for a budget, a public number of records and declarations.

        Parameters
        ----------
        epsilon, delta : float
            The budget of the model behind the encoder. With ``delta=0`` there are curves at most.
        n_records : int
            Public number of records; of add/remove neighbours a nominal one.
        columns : dict or list of declarations
        pairs : list of pairs of names, default=()
            As of :class:`TableEncoder`.
        neighbouring : {"replace_one", "add_remove"}, default="replace_one"

        Returns
        -------
        FeaturePlan
        """
        given = declarations(columns)
        if not given:
            raise ValueError("columns must declare each column, in a dict or a list.")
        parts = parts_of(given)
        check_count("n_records", n_records)
        size = effective_size(epsilon, delta, n_records, neighbouring)
        paired = paired_parts(pairs, given)
        return plan_of_parts(size, parts, n_records, paired, is_pure=delta == 0)


def effective_size(epsilon: float, delta: float, n_records: int, neighbouring: str) -> float:
    """Return ``n mu / c``, with c records that change and epsilon for mu of a pure budget."""
    budget = PrivacyBudget(epsilon, delta)
    mu = budget.epsilon if budget.is_pure else gaussian_mu(budget.epsilon, budget.delta)
    return n_records * mu / (2.0 if neighbouring == "replace_one" else 1.0)


def plan_of_parts(
    size: float,
    parts: Sequence[Part],
    n_records: int,
    pairs: Sequence[tuple[int, int]] = (),
    is_pure: bool = False,
) -> FeaturePlan:
    """Plan for an effective size, the parts that declarations expand to, and pairs of them."""
    n_numbers = sum(part.kind == "number" for part in parts)
    width = sum(part.n_counted for part in parts)
    width += sum(n_entries(parts[i]) * n_entries(parts[j]) for i, j in pairs)
    order = ORDER
    if is_pure:
        size, order = pure_size(size, n_records), tuple(q for q in ORDER if q in CURVES)
    n_columns = sum(part.kind != "constant" for part in parts)
    size = min(size, float(n_records))  # what more records than noise allow for
    return plan_features(size, n_numbers, n_columns, width, n_records, order)


def plan_features(
    effective_size: float,
    n_numbers: int,
    n_columns: int,
    width: int,
    n_records: int,
    order: Sequence[int | str] = ORDER,
) -> FeaturePlan:
    """Add blocks that fit below a bound, in a fixed order, to a linear block of some width."""
    left = feature_bound(effective_size, n_records) - width
    frequencies, products, n_sketch = [], False, 0
    n_pairs = n_numbers * (n_numbers - 1) // 2
    for step in order:
        if step == "P":
            products = 0 < n_pairs <= left
            left -= n_pairs if products else 0
        elif step == "C":
            lengths = range(1, int(min(SKETCH_PART * left, SKETCH_MOST)) + 1)  # of fast transforms
            m = max((m for m in lengths if next_fast_len(m, real=True) == m), default=0)
            if m >= SKETCH_LEAST and n_columns > 1:
                n_sketch = m
                left -= m
        elif 0 < n_numbers <= left:
            frequencies.append(int(step))
            left -= n_numbers
    return FeaturePlan(
        frequencies=tuple(frequencies),
        products=products,
        n_sketch=n_sketch,
        effective_size=float(effective_size),
    )


def pure_size(size: float, n_records: int) -> float:
    """Return the effective size of pure privacy, with noise for as many features as it pays for.

    Spherical Laplace noise of p coordinates has the deviation ``sqrt(p + 1) / epsilon`` in each.
    """
    sizes = (size / math.sqrt(p + 1.0) for p in range(MOST + 1))
    paid = (each for p, each in enumerate(sizes) if p > feature_bound(each, n_records))
    return next(paid, size / math.sqrt(MOST + 1.0))


def feature_bound(effective_size: float, n_records: int) -> float:
    """Return the number of features that a budget pays for."""
    most = min(MOST, CELLS // n_records)
    return float(min(BUDGET * max(effective_size - OFFSET, 0.0) ** POWER, most))


def n_entries(part: Part) -> int:
    """Return the number of entries that a part has in the products of declared pairs."""
    if part.kind == "number":
        return part.n_features + len(SKETCHED) + len(PAIRED)
    return 0 if part.kind == "text" else part.n_features


def squared_norm(plan: FeaturePlan, n_numbers: int, n_columns: int, n_pairs: int = 0) -> float:
    """Return the typical squared norm T of a row before it is divided, a public number."""
    share = n_numbers / n_columns
    curves = sum(curve_weight(q) ** 2 for q in plan.frequencies) * share / 2.0
    products = PRODUCT_WEIGHT**2 * share if plan.products else 0.0
    sketch = SKETCH_WEIGHT**2 if plan.n_sketch else 0.0
    return 1.0 + curves + products + PAIR_WEIGHT**2 * n_pairs / n_columns + sketch


def curve_weight(q: int) -> float:
    """Weight of the cosine of frequency q in the features."""
    return 0.45 * 2.0 / q
