"""Persons and weights of records of a source: the releases are those of the fit in memory."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skdp.data import ArrayRecords, Chunk, ChunkSource, DataError, ParquetRecords
from skdp.linear_model import DPLinearClassifier, DPLogisticRegression, DPRidge
from skdp.mechanisms import NoiseSource
from skdp.preprocessing import DPStandardScaler, private_ranges
from skdp.privacy import BudgetAccountant
from skdp.robust import DPMaxGroupLossClassifier
from skdp.synthetic import DPSyntheticData
from skdp.tabular import DPTabularClassifier

pytestmark = pytest.mark.filterwarnings("ignore")
PERSONS = 1200
SHARED = {"data_norm": 1.0, "random_state": 0, "epsilon": 0.1}
TWO, NUMBERS = {"classes": [0, 1]}, {"target_range": (-2, 3)}
GROUPS = {"group_names": ["east", "west"]}
#: Of all cases on chunks: tests/contract/test_fits.py.
MODELS = {
    "logistic": (DPLogisticRegression, TWO),
    "squares": (DPRidge, NUMBERS),
    "squares, caps": (DPRidge, NUMBERS | {"max_records_per_user": 3}),
    "hinge, costs": (DPLinearClassifier, TWO | {"loss": "hinge", "class_weight": {0: 1, 1: 3}}),
    "groups": (DPMaxGroupLossClassifier, TWO | GROUPS),
}


def make(name, **parameters):
    estimator, own = MODELS[name]
    return estimator(**{**SHARED, **own, **parameters})


def table(name, mean=2.5, kind=int):
    """Records of 1,200 persons, sorted by their ids; their number differs with its mean."""
    rng = np.random.default_rng(0)
    numbers = np.minimum(rng.geometric(1 / mean, PERSONS), 80)
    ids = np.repeat(np.sort(rng.choice(10**6, PERSONS, replace=False)), numbers)
    X = rng.normal(size=(len(ids), 4)) * 0.6
    noise = 0.3 * rng.normal(size=len(ids))
    y = X[:, 1] + noise
    if "classes" in MODELS[name][1]:
        y = (X[:, 0] + noise > 0.0).astype(int)
    groups = rng.choice(GROUPS["group_names"], len(ids)) if name.startswith("groups") else None
    ids = ids if kind is int else np.array([f"{each:08}" for each in ids], dtype=object)
    return Chunk(X, y, groups, ids, rng.uniform(0.0, 1.3, len(ids)))


def between_persons(records, edges):
    """Chunks between some edges, which are moved to the next person."""
    ids = records.user_ids
    edges = [e if e in (0, len(ids)) else int(np.searchsorted(ids, ids[e])) for e in edges]
    return ChunkSource(lambda k: records.take(slice(edges[k], edges[k + 1])), len(edges) - 1)


def without(records, *names):
    return records._replace(**dict.fromkeys(names))


def in_memory(model, records):
    given = {k: v for k, v in records._asdict().items() if v is not None and k not in "Xy"}
    return model.fit(records.X, records.y, **given)


def assert_same(found, expected):
    assert found.privacy_.to_dict() == expected.privacy_.to_dict()
    for name in ("coef_", "intercept_"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["squares, caps", "hinge, costs"])
def test_weighted_records_and_weighted_persons(name):
    records = table(name)
    n = len(records.y)
    found = make(name).fit(between_persons(records, [0, 900, n]))
    assert_same(found, in_memory(make(name), records))
    if "caps" not in name:
        of_nobody = without(records, "user_ids")
        source = ChunkSource(lambda k: of_nobody.take(slice(900 * k, 900 * k + 900)), -(-n // 900))
        assert_same(make(name).fit(source), in_memory(make(name), of_nobody))


class Faulty(ChunkSource):
    """One pass in which records of chunk 1 are other ones."""

    def __init__(self, records, change, number):
        super().__init__(lambda k: records.take(slice(*EDGES[k])), 3)
        self.change, self.n_passes = change, 0
        self.numbers = (number,) if isinstance(number, int) else number

    def read(self, k):
        chunk = super().read(k)
        return self.change(chunk) if k == 1 and self.n_passes in self.numbers else chunk

    def reduce(self, task, merge):
        self.n_passes = task.pass_number
        return super().reduce(task, merge)


EDGES = (0, 800), (800, 1600), (1600, 2400)


def of_two_each():
    """1,200 persons of two records."""
    records = table("logistic", 8.0).take(slice(2400))
    return records._replace(user_ids=np.repeat(np.arange(1200), 2))


def changed(name, function):
    def change(chunk):
        column = getattr(chunk, name).copy()
        return chunk._replace(**{name: function(column)})

    return change


def exchanged(ids):
    ids[[0, 2]] = ids[[2, 0]]
    return ids


FAULTS = {
    "one bit of a weight": changed("sample_weight", lambda w: np.r_[np.nextafter(w[0], 2), w[1:]]),
    "a record of another person": changed("user_ids", exchanged),
    "a person less": changed("user_ids", lambda ids: np.r_[ids[2:4], ids[2:]]),
    "another id": changed("user_ids", lambda ids: np.where(ids == ids[0], ids[0] - 1, ids)),
    "no weights": lambda chunk: chunk._replace(sample_weight=None),
    "no ids": lambda chunk: chunk._replace(user_ids=None),
    "shorter": lambda chunk: chunk.take(slice(0, -1)),
}


@pytest.mark.parametrize("number", [3, 5])
@pytest.mark.parametrize("fault", FAULTS)
def test_persons_that_change_end_the_fit(fault, number, monkeypatch):
    """In a pass over all records, and in that of the labels of persons."""
    source = Faulty(of_two_each(), FAULTS[fault], number)
    words = NoiseSource.words

    def draw(noise, n):
        assert source.n_passes < number, "noise after a fault"
        return words(noise, n)

    monkeypatch.setattr(NoiseSource, "words", draw)
    with pytest.raises(DataError, match=f"[Pp]ass {number} "):
        make("logistic").fit(source)
    assert source.n_passes == number


@pytest.mark.parametrize("fault", FAULTS)
def test_a_step_of_other_persons_ends_the_fit(fault):
    """If it is of their block; those that are not read do not matter."""
    source = Faulty(of_two_each(), FAULTS[fault], range(6, 99))
    with pytest.raises(DataError):
        make("logistic").fit(source)


def second(records, **parts):
    """Two chunks, parts of the second of which are replaced."""
    chunks = [records.take(slice(1200)), records.take(slice(1200, 2400))._replace(**parts)]
    return ChunkSource(chunks.__getitem__, 2)


IDS, WEIGHTS = np.repeat(np.arange(600, 1200), 2), np.ones(1200)
INVALID = {
    "a person in two chunks": ({"user_ids": np.r_[7, IDS[1:]]}, "records of a person must be in"),
    "none in one": ({"user_ids": None}, "chunk 1 has user_ids of another kind"),
    "text in one": ({"user_ids": IDS.astype(str)}, "chunk 1 has user_ids of another kind"),
    "a missing id": ({"user_ids": np.r_[[None], IDS[1:]]}, "chunk 1: user_ids holds missing"),
    "a text of none": ({"user_ids": np.r_[["nan"], IDS[1:]]}, "chunk 1: user_ids holds missing"),
    "fractions": ({"user_ids": IDS + 0.0123}, "chunk 1: user_ids must be integers or strings"),
    "too few": ({"user_ids": IDS[1:]}, "chunk 1: 1200 rows, but 1199 user_ids"),
    "a negative weight": ({"sample_weight": -0.0123 * WEIGHTS}, "chunk 1: sample_weight must be"),
    "a missing weight": ({"sample_weight": np.nan * WEIGHTS}, "chunk 1: sample_weight must be"),
    "no weights in one": ({"sample_weight": None}, "chunk 1 differs .* sample_weight"),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_persons_are_refused_before_the_payment(name):
    parts, message = INVALID[name]
    accountant = BudgetAccountant(50.0, 1e-5)
    with pytest.raises(ValueError, match=message) as raised:
        make("logistic", accountant=accountant).fit(second(of_two_each(), **parts))
    assert "0.0123" not in str(raised.value)
    assert accountant.total().epsilon == 0.0


NAMES = list("abcd")
OTHERS = {
    "scaler": (DPStandardScaler(50.0, ranges=(-1, 1), random_state=0), int),
    "table": (DPSyntheticData(50.0, categories=[[-1, 0, 1]] * 4, random_state=0), str),
}
RANGES = {"quantiles": (0.3, 0.7), "epsilon": 50.0, "delta": 0.0, "random_state": 0}


@pytest.mark.parametrize("name", OTHERS)
def test_columns_and_tables_of_persons_are_those_in_memory(name):
    model, kind = OTHERS[name]
    records = without(table("logistic", kind=kind), "sample_weight")
    X = pd.DataFrame(np.clip(np.rint(records.X), -1, 1).astype(int), columns=NAMES)
    n = len(X)
    source = between_persons(records._replace(X=X), [0, 0, 700, 701, 2 * n // 3, n, n])
    expected = clone(model).fit(X, user_ids=records.user_ids)
    found = clone(model).fit(source)
    assert found.privacy_.to_dict() == expected.privacy_.to_dict()
    assert found.privacy_.unit == "user"
    if name == "table":
        np.testing.assert_equal(found.answer("2-way"), expected.answer("2-way"))
        return
    np.testing.assert_allclose(found.transform(X), expected.transform(X), rtol=1e-12)
    given = private_ranges(X, (-1, 1), user_ids=records.user_ids, **RANGES)
    np.testing.assert_array_equal(private_ranges(source, (-1, 1), **RANGES), given)


def test_features_are_planned_by_persons_in_several_row_groups(tmp_path):
    """They are counted before the copy is sorted by persons."""
    records = without(table("logistic"), "sample_weight")
    X = pd.DataFrame(records.X, columns=NAMES)
    frame = X.assign(y=records.y, user=records.user_ids).sample(frac=1.0, random_state=0)
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=700, index=False)
    source = ParquetRecords(tmp_path / "t.parquet", "y", user_ids="user", scratch=tmp_path)
    columns = dict.fromkeys(NAMES, (-2, 2))
    model = DPTabularClassifier(3.0, columns=columns, classes=[0, 1], random_state=0)
    expected = clone(model).fit(X, records.y, user_ids=records.user_ids)
    found = model.fit(source)
    assert found.feature_plan_ == expected.feature_plan_
    assert_same(found.model_, expected.model_)


def test_what_does_not_fit_ids_and_weights_of_a_source_is_refused():
    source = second(of_two_each()._replace(X=np.zeros((2400, 4), dtype=int)))
    of_nobody = ChunkSource(lambda k: source.read(k)._replace(user_ids=None), 2)
    for message, model, given, ids in (
        ("sample_weight need all records in memory here", OTHERS["scaler"][0], source, {}),
        ("no user_ids", make("squares, caps"), of_nobody, {}),
        ("holds .* itself", make("logistic"), source, {"user_ids": np.arange(2400)}),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(given, **ids)


def test_chunks_of_arrays_end_with_a_person(tmp_path):
    records = table("logistic")
    parts = {name: part for name, part in records._asdict().items() if part is not None}
    for name, part in parts.items():
        np.save(tmp_path / f"{name}.npy", part)
    files = {name: tmp_path / f"{name}.npy" for name in parts}
    for given in (parts, files):
        source = ArrayRecords(**given, chunk_rows=500)
        assert source.n_chunks == 7
        assert source.chunk_sizes[0] > 500
        assert sum(source.chunk_sizes) == len(records.y)
        assert_same(make("logistic").fit(source), in_memory(make("logistic"), records))
    assert ArrayRecords(**parts, chunk_rows=10**6).n_chunks == 1


def test_parquet_is_sorted_by_persons_in_its_copy(tmp_path):
    pytest.importorskip("pyarrow")
    records = table("logistic", kind=str)
    records = records.take(np.random.default_rng(0).permutation(len(records.y)))
    X = pd.DataFrame(records.X, columns=list("abcd"))
    rest = {"y": records.y, "user": records.user_ids, "w": records.sample_weight}
    X.assign(**rest).to_parquet(tmp_path / "t.parquet", row_group_size=700, index=False)
    columns = {"user_ids": "user", "sample_weight": "w"}
    expected = in_memory(make("logistic"), records._replace(X=X))
    source = ParquetRecords(tmp_path / "t.parquet", "y", **columns, scratch=tmp_path)
    assert_same(make("logistic").fit(source), expected)
    with pytest.raises(ValueError, match="makes a sorted copy"):
        make("logistic").fit(ParquetRecords(tmp_path / "t.parquet", "y", **columns))
    X.assign(**rest | {"user": "None"}).to_parquet(tmp_path / "t.parquet", index=False)
    with pytest.raises(ValueError, match="user_ids holds missing values"):
        make("logistic").fit(source)


def test_parts_of_a_chunk_end_with_a_person():
    """A person of 1,500 records in the middle of a chunk, whose gradient is clipped once."""
    rng = np.random.default_rng(0)
    ids = np.r_[np.arange(100), np.full(1500, 100), np.arange(101, 200)]
    X = rng.normal(size=(len(ids), 250)) / 16
    records = Chunk(X, 9.0 * (ids == 100) - 4.0, user_ids=ids)
    found, expected = (make("squares", epsilon=1.0) for _ in range(2))
    assert_same(found.fit(ChunkSource(lambda k: records, 1)), in_memory(expected, records))
