"""Fingerprints of fits and of plans, to compare two checkouts bit by bit.

::

    PYTHONPATH=OLD python benchmarks/fingerprints.py record old.json.gz
    PYTHONPATH=NEW python benchmarks/fingerprints.py record new.json.gz
    python benchmarks/fingerprints.py compare old.json.gz new.json.gz

``record`` fits small simulated records (estimator x method x unit x place x relation, and options)
and plans fits for thousands of public inputs. ``compare`` prints what differs, by
estimator and method. The cases are those of this file alone, so that both sides run the same.
"""

import argparse
import gzip
import itertools
import json
import math
import re
import warnings
import zlib
from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, clone

LINEAR = "auto output output_perturbation phased gradient objective"
LINEAR += " exponential mirror_descent"
GROUPED = "auto phased saddle output gradient rgda mirror_descent"
TUNED = "auto gradient bilevel"
#: Of estimators: the kind of targets, the methods ("-": no parameter `method`), and parameters.
ESTIMATORS = {
    "DPLogisticRegression": ("classes", LINEAR, {}),
    "DPRidge": ("numbers", LINEAR, {}),
    "DPLinearClassifier": ("classes", LINEAR, {"loss": "hinge"}),
    "DPLinearRegressor": ("numbers", LINEAR, {"loss": "huber"}),
    "DPAdversarialClassifier": ("classes", "auto output gradient", {}),
    "DPAdversarialRegressor": ("numbers", "auto output gradient", {}),
    "DPMaxGroupLossClassifier": ("classes", GROUPED, {}),
    "DPMaxGroupLossRegressor": ("numbers", GROUPED, {}),
    "DPMaxGroupLossMLPClassifier": ("classes", "-", {"hidden_units": 3, "n_steps": 5}),
    "DPLogisticRegressionCV": ("classes", TUNED, {}),
    "DPRidgeCV": ("numbers", TUNED, {}),
    "DPTabularClassifier": ("classes", "-", {}),
    "DPTabularRegressor": ("numbers", "-", {}),
    "DPSyntheticData": ("table", "auto adaptive mirror_descent", {"categories": [[0, 1, 2]] * 3}),
    "DPStandardScaler": ("table", "-", {}),
}
#: Further fits of records in memory, with parameters of estimators or of objects of methods; what
#: lacks a parameter has no such case.
OPTIONS = {
    "delta 0": {"delta": 0.0},
    "little noise": {"epsilon": 1e4},
    "much noise": {"epsilon": 0.05},
    "alpha": {"alpha": 0.3, "fit_intercept": False},
    "ball": {"coef_norm": 1.0},
    "three classes": {"classes": [0, 1, 2]},
    "class weights": {"class_weight": {0: 0.5, 1: 1.0}},
    "ball, delta 0": {"coef_norm": 1.0, "delta": 0.0},
    "paper": {"calibration": "paper", "epsilon": 0.5},
    "population": {"population": True, "alpha": 0.1},
    "tilt": {"tilt": 0.3, "coef_norm": 1.0},
    "quantile": {"loss": "quantile", "quantile": 0.3},
    "public groups": {"group_proportions": "public"},
    "two phases": {"n_phases": 2},
    "proportions": {"group_proportions": [0.6, 0.4]},
    "group weights": {"release_group_weights": True},
    "attack, inf": {"attack_norm": math.inf},
    "folds": {"cv": 2},
    "penalty groups": {"penalty_groups": [0, 0, 1]},
    "much noise, penalty groups": {"penalty_groups": [0, 0, 1], "epsilon": 0.1},
    "published": {"as_published": True},
    "published, noisy steps": {"as_published": True, "inner": "localized_gd"},
    "columns": {"columns": (-2.0, 2.0), "features": "pairs"},
    "3-way": {"queries": "3-way"},
}


class Case(NamedTuple):
    """A fit; `shape` is (records, features)."""

    estimator: str
    method: str
    unit: str = "record"
    place: str = "dense"
    relation: str = "replace_one"
    shape: tuple = (60, 3)
    option: str = ""


def fits():
    """Yield a case for each fit."""
    product = itertools.product(
        ("record", "person", "weight"), ("dense", "chunks", "sparse", "dask"),
        ("replace_one", "add_remove"),
    )  # fmt: skip
    common = [each for each in product if each[1] in ("dense", "chunks") or each[::2] in
              (("record", "replace_one"), ("person", "replace_one"))]  # fmt: skip
    for name, (_, methods, _) in ESTIMATORS.items():
        for method in methods.split():
            yield from (Case(name, method, *each) for each in common)
            yield from (Case(name, method, option=each) for each in OPTIONS)
            yield from (Case(name, method, shape=each) for each in ((24, 8), (400, 2)))


def plans(count):
    """Yield public inputs of plans: a case, its parameters, and a shape."""
    for name, (targets, methods, _) in ESTIMATORS.items():
        for method in methods.split() if targets != "table" else ():
            rng = np.random.default_rng(zlib.crc32(f"{name} {method}".encode()))
            slowness = 4 if method == "mirror_descent" else 1
            for _ in range(count // slowness):
                n, d = int(10 ** rng.uniform(1.3, 7)), int(10 ** rng.uniform(0, 2.3))
                given = {"epsilon": float(10 ** rng.uniform(-2, 3))}
                if method != "exponential":
                    given["delta"] = float(rng.choice([0.0, 1e-6, n**-1.1], p=[0.2, 0.4, 0.4]))
                if rng.random() < 0.3:
                    given["alpha"] = float(10 ** rng.uniform(-4, 1))
                persons = max(n // int(rng.integers(1, 9)), 1) if rng.random() < 0.2 else None
                classes = int(rng.choice([2, 2, 2, 3, 7])) if targets == "classes" else None
                groups = int(rng.integers(1, 9)) if "MaxGroup" in name else None
                relation = "add_remove" if rng.random() < 0.2 else "replace_one"
                option = str(rng.choice([*OPTIONS])) if rng.random() < 0.4 else ""
                case = Case(name, method, relation=relation, shape=(n, d), option=option)
                yield case, given, (n, d, classes, groups, persons)


def make(case, **given):
    """Return the estimator of a case; None if it lacks a parameter of its option."""
    import skdp

    kind, option = getattr(skdp, case.estimator), OPTIONS.get(case.option, {})
    plain = kind()
    known = plain.get_params().keys()
    public = {"delta": 0.0 if case.method == "exponential" else 1e-3, "epsilon": 2.0,
              "random_state": 7, "method": case.method, "data_norm": 1.0, "weight_bound": 1.0,
              "group_names": [0, 1], "classes": [0, 1], "target_range": (-1.0, 2.0)}  # fmt: skip
    own = getattr(plain, "_methods", {}).get(case.method)
    parameters = own.get_params() if isinstance(own, BaseEstimator) else {}
    if "feature_bound" in parameters:
        public |= {"feature_bound": 1.0, "data_norm": None}
    if case.relation != "replace_one":
        public |= {"neighbouring": case.relation, "n_public": case.shape[0]}
    public |= {**ESTIMATORS[case.estimator][2], **given}
    public |= option
    if not option.keys() <= known | parameters.keys():
        return None
    if moved := public.keys() & parameters.keys():
        public["method"] = clone(own).set_params(**{name: public.pop(name) for name in moved})
    return kind(**{name: public[name] for name in public.keys() & known})


def fit(case):
    """Return everything public of a fit, by name."""
    if (model := make(case)) is None:
        return None
    (n, d), (targets, _, _) = case.shape, ESTIMATORS[case.estimator]
    rng = np.random.default_rng(zlib.crc32(repr((case.shape, case.estimator)).encode()))
    X = 1.2 * rng.uniform(-1, 1, (n, d)) / math.sqrt(d)  # some rows are beyond the bound
    y = X[:, 0] + 0.3 * rng.normal(size=n)
    if targets == "classes":
        y = np.digitize(y, [-0.3, 0.3] if "three" in case.option else [0.0])
    if hasattr(model, "categories"):
        X = rng.integers(0, 3, (n, 3))
    columns = {} if targets == "table" else {"y": y}
    if "MaxGroup" in case.estimator:
        columns["groups"] = rng.permutation(np.arange(n) % 2)
    if case.unit == "person":
        columns["user_ids"] = np.sort(rng.integers(0, max(n // 3, 4), n))
    if case.unit == "weight":
        columns["sample_weight"] = rng.uniform(0, 1.1, n)
    if case.place == "chunks":
        from skdp.data import ArrayRecords

        X, columns = ArrayRecords(X, **columns, chunk_rows=16), {}
    elif case.place == "sparse":
        from scipy.sparse import csr_array

        X = csr_array(X)
    elif case.place == "dask":
        import distributed
        from dask import array

        try:
            distributed.default_client()
        except ValueError:
            distributed.Client(
                processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None
            )
        X = array.from_array(X, chunks=(20, -1))
        columns = {name: array.from_array(each, chunks=20) for name, each in columns.items()}
    model.fit(X, **columns)
    names = [name for name in dir(model) if name.endswith("_") and name[0] != "_"]
    seen = {name: getattr(model, name) for name in names if hasattr(model, name)}
    return flat(seen | {"privacy_": model.privacy_.to_dict()})


def plan(given):
    """Return the numbers of a plan."""
    case, parameters, shape = given
    if case.option == "proportions":
        shape = (*shape[:3], 2, shape[4])
    else:
        parameters = {"group_names": None, "classes": range(shape[2] or 2), **parameters}
    if (model := make(case, **parameters)) is None:
        return None
    choice = model._plan_of_shape(*shape)[0]
    numbers = {"method": choice.method, "plan": choice.plan.to_dict(), "bound": choice.plan.bound(),
               "releases": [each.to_dict() for each in choice.plan.releases]}  # fmt: skip
    return flat(numbers)


def flat(value, name=""):
    """Return plain numbers and texts by their paths; an array of numbers is one list."""
    if isinstance(value, np.ndarray | np.generic) and value.dtype != object:
        return {f"{name}.type": f"{value.dtype} {value.shape}", name: value.ravel().tolist()}
    if isinstance(value, list | tuple | np.ndarray):
        value = dict(enumerate(value))
    elif hasattr(value, "__dict__") and not callable(value):
        value = {key: part for key, part in vars(value).items() if key[0] != "_"}
    if isinstance(value, dict):
        parts = (flat(part, f"{name}.{key}".strip(".")) for key, part in value.items())
        return {key: part for each in parts for key, part in each.items()}
    is_plain = value is None or isinstance(value, bool | int | float | str)
    return {name: value if is_plain else re.sub(" at 0x[0-9a-f]+", "", repr(value))}


def results(function, part):
    """Return what the cases of one method give, or their errors."""
    found = []
    for given in part:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found.append(function(given))
            except Exception as error:
                found.append({"raises": type(error).__name__, "text": str(error)})
    return {repr(given): each for given, each in zip(part, found, strict=True) if each}


def record(path, options):
    """Fit and plan all cases, and store what they give."""
    tables = {}
    for function, every in (fit, fits()), (plan, plans(options.plans)):
        parts = defaultdict(list)
        for given in every:
            case = given if function is fit else given[0]
            parts[f"{function.__name__}: {case.estimator} {case.method}"].append(given)
        parts = {group: part for group, part in parts.items() if options.only in group}
        done = Parallel(options.jobs)(delayed(results)(function, part) for part in parts.values())
        tables |= dict(zip(parts, done, strict=True))
        found = [each for part in done for each in part.values()]
        print(
            f"{function.__name__}: {len(found)}, of which {sum('raises' in x for x in found)} raise"
        )
    path.write_bytes(gzip.compress(json.dumps(tables).encode()))


def difference(old, new):
    """Return the largest relative difference of numbers; inf for anything else."""
    if json.dumps(old) == json.dumps(new):  # also NaN
        return 0.0
    try:
        a, b = np.atleast_1d(np.asarray(old, float), np.asarray(new, float))
        size = np.abs(a - b).max() / max(np.abs(a).max(), np.abs(b).max())
        return float(size) if np.isfinite(size) else math.inf
    except (TypeError, ValueError):
        return math.inf


def compare_cases(x, y):
    """Return a verdict on two results, its size, and a line about the worst number."""
    is_other = ("raises" in x) != ("raises" in y)
    names = ["raises"] if is_other else sorted(x.keys() & y.keys())
    size, name = max((difference(x.get(name), y.get(name)), name) for name in names)
    line = f"{name}: {x.get(name)!s:.60} -> {y.get(name)!s:.60} ({size:.2g})"
    if "bound" in x and "bound" in y:
        with np.errstate(all="ignore"):
            line += f"; bound x{np.divide(y['bound'], x['bound']).item():.6g}"
    verdict = "same" if size == 0 else "last bits" if size < 1e-9 else "changed"
    return "another text" if size and name == "text" and "raises" in x else verdict, size, line


def compare(old, new, shown):
    """Print what differs; return whether anything does."""
    a, b = (json.loads(gzip.decompress(path.read_bytes())) for path in (old, new))
    fields, n_same, n_all = Counter(), 0, 0
    for group in sorted(a.keys() | b.keys()):
        before, after, counts, lines = a.get(group, {}), b.get(group, {}), Counter(), []
        for case in before.keys() | after.keys():
            x, y = before.get(case), after.get(case)
            if x is None or y is None:
                counts["only in new" if x is None else "only in old"] += 1
                continue
            verdict, size, line = compare_cases(x, y)
            counts[verdict] += 1
            lines += [(-size, f"    {case}\n      {line}")] * (verdict != "same")
            if ("raises" in x) == ("raises" in y):
                fields.update(f"{name} only in old" for name in x.keys() - y.keys())
                fields.update(f"{name} only in new" for name in y.keys() - x.keys())
        n_same, n_all = n_same + counts["same"], n_all + counts.total()
        if counts["same"] < counts.total():
            print(f"{group}: {', '.join(f'{n} {what}' for what, n in counts.items())}")
            print(*(line for _, line in sorted(lines)[:shown]), sep="\n")
    for name, n in fields.most_common():
        print(f"field {name}: {n} cases")
    print(f"{n_all - n_same} of {n_all} differ, {len(fields)} fields on one side only")
    return n_same < n_all or bool(fields)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=["record", "compare"])
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--only", default="", help="record groups that contain this text alone")
    parser.add_argument("--plans", type=int, default=80, help="public inputs of each method")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--shown", type=int, default=3, help="cases that are shown of a method")
    asked = parser.parse_args()
    if asked.task == "compare":
        raise SystemExit(compare(*asked.paths, asked.shown))
    record(asked.paths[0], asked)
