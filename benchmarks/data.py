"""Data sets of the benchmarks, prepared with public knowledge alone.

Every number below that touches a record (ranges, lists of categories, caps) is written down here
from the data set's documentation, not computed from the records, and every step works on one
record at a time. So the preparation costs no privacy and is the same for all methods.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from sklearn import datasets

__all__ = ["Dataset", "load", "numbers_and_codes"]


@dataclass(frozen=True)
class Dataset:
    """Records of unit norm (without the intercept), public labels or range of y, and columns.

    The first `n_numbers` columns are numbers, in [-1, 1] before rows are scaled; `blocks` has the
    widths of the blocks of one-hot columns behind them, where both kinds occur. `names` of one-hot
    columns are such as "sex=Female"; the values of the columns `groups` are groups of records.
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    classes: tuple | None = None
    target_range: tuple[float, float] | None = None
    n_numbers: int = 0
    blocks: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    @property
    def is_classification(self) -> bool:
        return self.classes is not None

    @property
    def task(self) -> str:
        return "classification" if self.is_classification else "regression"


def load(
    adult: str | None = None, california: str | None = None, quick: bool = False
) -> list[Dataset]:
    """All data sets for which there are data; `quick` keeps four, of at most 300 records."""
    if quick:
        return [_first(make(), 300) for make in (breast_cancer, digits, wine, diabetes)]
    found = [
        breast_cancer(), digits_above_four(), synthetic_logistic(10_000, 20),
        synthetic_logistic(10_000, 100), five_percent(), imbalanced(), digits(), wine(), diabetes(),
        friedman(), synthetic_regression(10_000, 20), synthetic_regression(10_000, 100),
    ]  # fmt: skip
    if adult is not None:
        found.append(read_adult(adult))
    if california is not None:
        found.append(read_california(california))
    return found


def _first(data: Dataset, n: int) -> Dataset:
    return replace(data, X=data.X[:n], y=data.y[:n])


def _to_unit_interval(X: np.ndarray, ranges: np.ndarray) -> np.ndarray:
    """Clip each column to its public range and map that to [-1, 1]."""
    low, high = ranges.T
    return 2.0 * (np.clip(X, low, high) - low) / (high - low) - 1.0


def _unit_rows(X: np.ndarray) -> np.ndarray:
    """Divide each record by its own norm."""
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return X / np.where(norms > 0, norms, 1.0)


def numbers_and_codes(dataset: Dataset, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Undo the one-hot coding; -1 is an unknown category."""
    if not dataset.blocks:
        return X, np.empty((len(X), 0), dtype=int)
    ends = dataset.n_numbers + np.cumsum(dataset.blocks)
    numbers, *blocks = np.split(X, [dataset.n_numbers, *ends[:-1]], axis=1)
    codes = [np.where(block.any(axis=1), block.argmax(axis=1), -1) for block in blocks]
    return numbers, np.column_stack(codes)


# ------------------------------------------------------------------------ bundled with scikit-learn

#: Ranges of the ten measurements (mean, standard error, worst) in the order of the columns, from
#: the "Summary Statistics" of the data set's description, rounded outwards.
BREAST_CANCER = np.array(
    [
        *[(6, 30), (9, 40), (40, 200), (140, 2600), (0.05, 0.17)],
        *[(0.01, 0.35), (0, 0.43), (0, 0.21), (0.1, 0.31), (0.04, 0.1)],
        *[(0.1, 3), (0.3, 5), (0.7, 22), (6, 550), (0.001, 0.032)],
        *[(0.002, 0.14), (0, 0.4), (0, 0.06), (0.007, 0.08), (0, 0.03)],
        *[(7, 37), (12, 50), (50, 260), (180, 4300), (0.07, 0.23)],
        *[(0.02, 1.1), (0, 1.3), (0, 0.3), (0.15, 0.67), (0.05, 0.21)],
    ]
)

#: Age in years, sex code, body mass index, blood pressure and six serum values (mg/dl, but the
#: ratio s4 and the logarithm s5), as plausible for a patient; the target is documented as 25-346.
_DIABETES = np.array(
    [
        *[(18, 80), (1, 2), (15, 45), (60, 140)],
        *[(90, 310), (40, 250), (20, 100), (2, 10), (3, 6.5), (50, 130)],
    ]
)


def breast_cancer(unit_rows: bool = True) -> Dataset:
    X, y = datasets.load_breast_cancer(return_X_y=True)
    X = _to_unit_interval(X, BREAST_CANCER)
    return Dataset("breast_cancer", _unit_rows(X) if unit_rows else X, y, (0, 1))


def digits() -> Dataset:
    X, y = datasets.load_digits(return_X_y=True)  # grey values 0 to 16
    return Dataset("digits", _unit_rows(X / 16.0), y, tuple(range(10)))


def digits_above_four() -> Dataset:
    """Is the digit at least five?"""
    given = digits()
    return Dataset("digits >= 5", given.X, (given.y >= 5).astype(int), (0, 1))


#: "Summary Statistics" of the data set's description, rounded outwards.
_WINE = np.array(
    [
        *[(11, 15), (0.5, 6), (1.2, 3.5), (10, 30), (70, 170), (0.9, 4)],
        *[(0.3, 5.2), (0.1, 0.7), (0.4, 3.6), (1, 13), (0.4, 1.8), (1.2, 4), (270, 1700)],
    ]
)


def wine() -> Dataset:
    X, y = datasets.load_wine(return_X_y=True)
    return Dataset("wine", _unit_rows(_to_unit_interval(X, _WINE)), y, (0, 1, 2))


def diabetes(unit_rows: bool = True) -> Dataset:
    X, y = datasets.load_diabetes(return_X_y=True, scaled=False)
    X = _to_unit_interval(X, _DIABETES)
    return Dataset("diabetes", _unit_rows(X) if unit_rows else X, y, target_range=(25.0, 346.0))


# ---------------------------------------------------------------------------------------- synthetic


def synthetic_logistic(
    n: int = 10_000, d: int = 20, seed: int = 0, shift: float = 0.0, name: str = ""
) -> Dataset:
    """Labels drawn from a logistic model with scores of standard deviation 4."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    direction = rng.standard_normal(d)
    scores = 4.0 * X @ (direction / np.linalg.norm(direction)) + shift
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-scores))).astype(int)
    return Dataset(name or f"logistic, d = {d}", _unit_rows(X), y, (0, 1))


def five_percent() -> Dataset:
    """A logistic model as above whose intercept leaves 5 % of positives."""
    return synthetic_logistic(seed=1, shift=-7.15, name="5 % positives")


def imbalanced(n: int = 3_000, d: int = 15) -> Dataset:
    """Clusters of 85 % and 15 % of the records, which no linear model describes."""
    X, y = datasets.make_classification(n, d, n_informative=5, weights=[0.85], random_state=2)
    return Dataset("85:15 clusters", _unit_rows(X), y, (0, 1))


def friedman(n: int = 4_125, d: int = 10) -> Dataset:
    """Friedman's first function of five of the features, noise of standard deviation 1."""
    X, y = datasets.make_friedman1(n, d, noise=1.0, random_state=0)
    return Dataset("friedman1", _unit_rows(2.0 * X - 1.0), y, target_range=(0.0, 30.0))


def synthetic_regression(n: int = 10_000, d: int = 20) -> Dataset:
    """A linear model on unit rows that explains three quarters of a target of unit variance."""
    rng = np.random.default_rng(0)
    X = _unit_rows(rng.standard_normal((n, d)))
    direction = rng.standard_normal(d)
    y = np.sqrt(0.76 * d) * X @ (direction / np.linalg.norm(direction))
    y += np.sqrt(0.24) * rng.standard_normal(n)
    return Dataset(f"linear, d = {d}", X, y, target_range=(-3.0, 3.0))


# ----------------------------------------------------------------------------------- given as files

#: Categories of the UCI documentation (file adult.names).
_ADULT_CATEGORIES = {
    "workclass": "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov "
    "Without-pay Never-worked",
    "marital_status": "Married-civ-spouse Divorced Never-married Separated Widowed "
    "Married-spouse-absent Married-AF-spouse",
    "occupation": "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty "
    "Handlers-cleaners Machine-op-inspct Adm-clerical Farming-fishing Transport-moving "
    "Priv-house-serv Protective-serv Armed-Forces",
    "relationship": "Wife Own-child Husband Not-in-family Other-relative Unmarried",
    "race": "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black",
    "sex": "Female Male",
    "native_country": "United-States Cambodia England Puerto-Rico Canada Germany "
    "Outlying-US(Guam-USVI-etc) India Japan Greece South China Cuba Iran Honduras Philippines "
    "Italy Poland Jamaica Vietnam Mexico Portugal Ireland France Dominican-Republic Laos Ecuador "
    "Taiwan Haiti Columbia Hungary Guatemala Nicaragua Scotland Thailand Yugoslavia El-Salvador "
    "Trinadad&Tobago Peru Hong Holand-Netherlands",
}
_ADULT_DEGREES = (
    "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th Masters "
    "1st-4th 10th Doctorate 5th-6th Preschool"
)
#: Ages of the census' top coding, coded years of schooling, hours a week; the two amounts of
#: capital enter as log10(1 + dollars).
_ADULT_RANGES = {
    "age": (17, 90), "education_num": (1, 16), "hours_per_week": (1, 99), "capital_gain": (0, 5),
    "capital_loss": (0, 5),
}  # fmt: skip


def read_adult(path: str, unit_rows: bool = True) -> Dataset:
    """UCI Adult: is the income above 50 000 dollars? An unknown category is a row of zeros."""
    table = pd.read_csv(path)
    for amount in ("capital_gain", "capital_loss"):
        table[amount] = np.log10(1.0 + table[amount])
    return _adult(table, _ADULT_RANGES, _ADULT_CATEGORIES, unit_rows)


def read_adult_in_short(path: str, unit_rows: bool = True) -> Dataset:
    """UCI Adult with fewer values of categories: amounts in dollars, one country, and degrees."""
    table = pd.read_csv(path)
    abroad = table["native_country"].ne("United-States") & table["native_country"].notna()
    table["native_country"] = table["native_country"].mask(abroad, "other")
    ranges = {**_ADULT_RANGES, "capital_gain": (0, 20_000), "capital_loss": (0, 5_000)}
    categories = {**_ADULT_CATEGORIES, "native_country": "United-States other"}
    return _adult(table, ranges, {**categories, "education": _ADULT_DEGREES}, unit_rows)


def _adult(
    table: pd.DataFrame,
    ranges: dict[str, tuple[int, int]],
    categories: dict[str, str],
    unit_rows: bool,
) -> Dataset:
    numbers = table[list(ranges)].to_numpy(dtype=np.float64)
    blocks = [_to_unit_interval(numbers, np.array(list(ranges.values())))]
    for column, values in categories.items():
        blocks.append(table[column].to_numpy()[:, None] == np.array(values.split()))
    names = [f"{name}={value}" for name, of in categories.items() for value in of.split()]
    y = table["income"].str.startswith(">50K").to_numpy(dtype=int)
    X = np.hstack(blocks).astype(np.float64)
    return Dataset(
        "adult",
        _unit_rows(X) if unit_rows else X,
        y,
        (0, 1),
        n_numbers=len(ranges),
        blocks=tuple(block.shape[1] for block in blocks[1:]),
        names=(*ranges, *names),
        groups=("sex", "race"),
    )


#: Longitude and latitude of the state, census codes of age (capped at 52) and income (capped at
#: 15, in 10 000 dollars); the four counts of a block enter as log10(1 + count).
_CALIFORNIA_RANGES = {
    "longitude": (-125, -114), "latitude": (32, 42), "housing_median_age": (1, 52),
    "median_income": (0, 15), "total_rooms": (0, 5), "total_bedrooms": (0, 5), "population": (0, 5),
    "households": (0, 5),
}  # fmt: skip
_CALIFORNIA_PLACES = ("<1H OCEAN", "INLAND", "NEAR OCEAN", "NEAR BAY", "ISLAND")


def read_california(path: str, unit_rows: bool = True) -> Dataset:
    """Median house value of census blocks, capped by the census at 15 000 and 500 000 dollars."""
    table = pd.read_csv(path)
    for count in ("total_rooms", "total_bedrooms", "population", "households"):
        table[count] = np.log10(1.0 + table[count])
    numbers = table[list(_CALIFORNIA_RANGES)].to_numpy(dtype=np.float64)
    scaled = _to_unit_interval(numbers, np.array(list(_CALIFORNIA_RANGES.values())))
    places = table["ocean_proximity"].to_numpy()[:, None] == np.array(_CALIFORNIA_PLACES)
    # a missing count becomes the middle of its range
    X = np.hstack([np.nan_to_num(scaled, nan=0.0), places.astype(np.float64)])
    y = table["median_house_value"].to_numpy(dtype=np.float64)
    X = _unit_rows(X) if unit_rows else X
    names = (*_CALIFORNIA_RANGES, *(f"ocean_proximity={place}" for place in _CALIFORNIA_PLACES))
    return Dataset(
        "california", X, y, target_range=(15_000.0, 500_000.0), n_numbers=len(_CALIFORNIA_RANGES),
        blocks=(len(_CALIFORNIA_PLACES),), names=names, groups=("ocean_proximity",),
    )  # fmt: skip
