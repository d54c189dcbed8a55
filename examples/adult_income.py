"""Income prediction on the UCI Adult data: a whole private pipeline on a data frame.

    python examples/adult_income.py                      # downloads the data from OpenML
    python examples/adult_income.py --csv adult.csv      # or reads your copy

The columns are numeric and categorical, some values are missing, and nothing about the records may
be learned outside of the private fit. So whatever scikit-learn would usually infer is declared:

- ranges of the numeric columns (`BoundedScaler`) and categories of the others (`OneHotEncoder`
  with `categories=`; a missing or unknown category becomes a row of zeros, record by record);
- the norm of a row (`Normalizer`: each record to norm one, which `data_norm=1.0` declares);
- the labels (`classes`).

Two models are fitted: `DPLogisticRegression`, by planned noisy gradient steps, and
`DPLogisticRegressionCV`, which tunes its own penalty on what it releases.

It needs pandas besides scikit-learn. Splits and noise are seeded; leave `random_state` out where
privacy matters.
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.datasets import fetch_openml
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import Normalizer, OneHotEncoder

from skdp.linear_model import DPLogisticRegression
from skdp.model_selection import DPLogisticRegressionCV
from skdp.preprocessing import BoundedScaler

CLASSES = ["<=50K", ">50K"]
MODELS = (DPLogisticRegression, DPLogisticRegressionCV)

# General knowledge of adults, school years and working weeks, not the extremes of the records. The
# middle of a range goes to 0: typical values in the middle leave more of a row's norm to what
# distinguishes people. Most people have no capital gain, so 0 dollars should go to 0 as well.
RANGES = {
    "age": (17, 60),
    "education_num": (4, 16),
    "capital_gain": (-10_000, 10_000),
    "capital_loss": (-2_500, 2_500),
    "hours_per_week": (20, 60),
}

# From the code book of the census. Of the country only whether it is the United States.
CATEGORIES = {
    "workclass": [
        "Federal-gov",
        "Local-gov",
        "Never-worked",
        "Private",
        "Self-emp-inc",
        "Self-emp-not-inc",
        "State-gov",
        "Without-pay",
    ],
    "education": [
        "Preschool",
        "1st-4th",
        "5th-6th",
        "7th-8th",
        "9th",
        "10th",
        "11th",
        "12th",
        "HS-grad",
        "Some-college",
        "Assoc-voc",
        "Assoc-acdm",
        "Bachelors",
        "Masters",
        "Prof-school",
        "Doctorate",
    ],
    "marital_status": [
        "Divorced",
        "Married-AF-spouse",
        "Married-civ-spouse",
        "Married-spouse-absent",
        "Never-married",
        "Separated",
        "Widowed",
    ],
    "occupation": [
        "Adm-clerical",
        "Armed-Forces",
        "Craft-repair",
        "Exec-managerial",
        "Farming-fishing",
        "Handlers-cleaners",
        "Machine-op-inspct",
        "Other-service",
        "Priv-house-serv",
        "Prof-specialty",
        "Protective-serv",
        "Sales",
        "Tech-support",
        "Transport-moving",
    ],
    "relationship": [
        "Husband",
        "Not-in-family",
        "Other-relative",
        "Own-child",
        "Unmarried",
        "Wife",
    ],
    "race": ["Amer-Indian-Eskimo", "Asian-Pac-Islander", "Black", "Other", "White"],
    "sex": ["Female", "Male"],
    "native_country": ["Mexico", "United-States"],
}


class Unavailable(Exception):
    """The data could not be had; says why and what to do."""


def load(csv: Path | None) -> Any:
    """Read the data as a pandas data frame, missing categories as "?"; may raise `Unavailable`."""
    try:
        import pandas as pd
    except ImportError:
        raise Unavailable("The Adult data need pandas: pip install pandas") from None
    if csv is None:
        print("Fetching the data from OpenML (scikit-learn keeps a copy for the next time) ...")
        try:
            frame = fetch_openml("adult", version=2, as_frame=True).frame
        except Exception as error:  # whatever the network, a proxy or the server raises
            raise Unavailable(
                f"Could not download the data ({type(error).__name__}: {error}).\n"
                f"Without a network, pass a copy: {Path(sys.argv[0]).name} --csv PATH"
            ) from None
    else:
        try:
            frame = pd.read_csv(csv, na_values="?", skipinitialspace=True)
        except OSError as error:
            raise Unavailable(f"Could not read {csv}: {error}") from None
    frame.columns = [column.replace("-", "_") for column in frame.columns]
    frame = frame.rename(columns={"class": "income"})
    missing = sorted({*RANGES, *CATEGORIES, "income"} - set(frame.columns))
    if missing:
        raise Unavailable(f"The data lack the columns {missing}.")
    names = list(CATEGORIES)
    frame[names] = frame[names].astype(object).fillna("?")
    frame["income"] = frame["income"].astype(object).str.rstrip(".")  # ">50K." in the test file
    return frame


def split(frame: Any) -> tuple[Any, Any]:
    """Training and test records: as the column `split` says, or a random third for testing."""
    if "split" in frame.columns:
        return frame[frame["split"] == "train"], frame[frame["split"] == "test"]
    return train_test_split(frame, test_size=1 / 3, random_state=0)


def pipeline(classifier: Any) -> Pipeline:
    """Public preprocessing, then the classifier."""
    columns = ColumnTransformer(
        [
            ("numeric", BoundedScaler(RANGES), list(RANGES)),
            (
                "categorical",
                OneHotEncoder(categories=list(CATEGORIES.values()), handle_unknown="ignore"),
                list(CATEGORIES),
            ),
        ],
        sparse_threshold=0,
    )
    return make_pipeline(columns, Normalizer(), classifier)


def scores(model: Pipeline, test: Any) -> list[float]:
    """Accuracy, log loss and area under the ROC curve."""
    probability = model.predict_proba(test)[:, 1]
    truth = (test["income"] == CLASSES[1]).to_numpy()
    return [
        accuracy_score(truth, probability > 0.5),
        log_loss(truth, probability, labels=[False, True]),
        roc_auc_score(truth, probability),
    ]


def main() -> None:
    """Fit for every epsilon, print the table and the privacy reports."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--csv", type=Path, help="copy of the data; .csv or .csv.gz")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 0.3, 1.0, 3.0, 10.0])
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--seeds", type=int, default=5, help="number of draws of the noise")
    arguments = parser.parse_args()
    epsilons = sorted(set(arguments.epsilon))
    # the smallest budgets give little but noise, which is what the table shows
    warnings.filterwarnings("ignore", message="The noise ", category=UserWarning)

    try:
        train, test = split(load(arguments.csv))
    except Unavailable as error:
        sys.exit(str(error))
    reference = scores(
        pipeline(LogisticRegression(C=10.0, max_iter=1000)).fit(train, train["income"]), test
    )
    results = np.empty((len(MODELS), len(epsilons), arguments.seeds, 3))
    middle = min(epsilons, key=lambda epsilon: abs(math.log(epsilon)))
    reports = {}
    for k, estimator in enumerate(MODELS):
        for i, epsilon in enumerate(epsilons):
            for seed in range(arguments.seeds):
                classifier = estimator(
                    epsilon=epsilon,
                    delta=arguments.delta,
                    data_norm=1.0,
                    classes=CLASSES,
                    random_state=seed,
                )
                model = pipeline(classifier).fit(train, train["income"])
                results[k, i, seed] = scores(model, test)
            if epsilon == middle:
                reports[estimator.__name__] = model[-1].privacy_

    print(
        f"{len(train)} training records, {len(test)} test records, "
        f"{model[-1].n_features_in_} features after encoding\n"
        f"Mean (standard deviation) over {arguments.seeds} draws of the noise, "
        "and the worst log loss of them"
    )
    for estimator, table in zip(MODELS, results, strict=True):
        print(f"\n{estimator.__name__}")
        print(f"{'epsilon':>10}  {'accuracy':^15} {'log loss':^15} {'ROC AUC':^15}   worst")
        for epsilon, rows in zip(epsilons, table, strict=True):
            cells = " ".join(f"{column.mean():7.4f} ({column.std():.4f})" for column in rows.T)
            print(f"{epsilon:>10g}  {cells} {rows[:, 1].max():7.4f}")
    print(f"\n{'no privacy':>10}  " + " ".join(f"{value:7.4f}{'':9}" for value in reference))
    commoner = (test["income"] == CLASSES[0]).mean()
    print(f"(Always answering {CLASSES[0]!r}: accuracy {commoner:.4f}, ROC AUC 0.5.)")

    for name, report in reports.items():
        print(f"\nPrivacy report of one fit of {name}:\n{report}")


if __name__ == "__main__":
    main()
