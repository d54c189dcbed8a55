"""Fits on a Dask cluster are those in memory, also when workers are killed meanwhile."""

import time
from threading import Thread

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client
from local_cluster import Slow, in_another_order, kill_worker, new_client
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from skdp.data import ArrayRecords, DataError, RecordsChangedError
from skdp.data.dask import DaskRecords
from skdp.linear_model import DPLogisticRegression
from skdp.model_selection import DPRidgeCV
from skdp.preprocessing import BoundedScaler
from skdp.privacy import BudgetAccountant
from skdp.robust import DPMaxGroupLossClassifier

N, D = 300, 3
#: An epsilon with few passes: 16 over labels.
SHARED = {"epsilon": 0.03, "data_norm": 1.0, "random_state": 0}
MODELS = {
    "logistic": lambda: DPLogisticRegression(classes=[0, 1], **SHARED),
    "tuned": lambda: DPRidgeCV(target_range=(-1, 2), **SHARED),
    "groups": lambda: DPMaxGroupLossClassifier(classes=[0, 1], group_names=[0, 1, 2], **SHARED),
}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D))
    return X, (X[:, 0] + 0.3 * rng.normal(size=N) > 0).astype(int), rng.integers(0, 3, N)


@pytest.fixture
def files(table, tmp_path):
    paths = [tmp_path / f"{k}.npy" for k in range(3)]
    for path, part in zip(paths, table, strict=True):
        np.save(path, part)
    return ArrayRecords(*paths, chunk_rows=25)


def in_memory(name, table):
    X, y, groups = table
    return MODELS[name]().fit(X, y, **({"groups": groups} if name == "groups" else {}))


def assert_same(found, expected):
    assert found.privacy_.to_dict() == expected.privacy_.to_dict()
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.intercept_, expected.intercept_, rtol=0, atol=1e-9)


class Interrupted(DaskRecords):
    """Do something while tasks of the second pass run."""

    def reduce(self, task, merge):
        self.n_passes = task.pass_number
        if task.pass_number != 2:
            return super().reduce(task, merge)
        thread = Thread(target=self._interrupt)
        thread.start()
        try:
            return super().reduce(Slow(self.folder, 0.2, task), merge)
        finally:
            thread.join()

    def _interrupt(self):
        while len([*self.folder.glob("begun-*")]) < 3:
            time.sleep(0.01)
        self.action(self.client)


def test_a_worker_is_killed_in_a_pass(own_client, table, files, tmp_path):
    source = Interrupted(files, client=own_client)
    source.folder, source.action = tmp_path, kill_worker
    assert_same(MODELS["tuned"]().fit(source), in_memory("tuned", table))


@pytest.mark.parametrize(("name", "kind"), [("logistic", "arrays"), ("groups", "frames")])
def test_collections(name, kind, client, table):
    """Partitions of unequal lengths, in the current client."""
    X, y, groups = table
    sizes = (75, 1, 150, N - 226)
    if kind == "arrays":
        parts = [da.from_array(part, chunks=(sizes,)) for part in (y, groups)]
        parts.insert(0, da.from_array(X, chunks=(sizes, (2, 1))))
    else:
        X = pd.DataFrame(X, columns=list("abc"))
        parts = [dd.from_pandas(part, npartitions=3) for part in (X, pd.Series(y))]
        parts.append(dd.from_pandas(pd.Series(groups), npartitions=3))
    groups_too = {"groups": parts[2]} if name == "groups" else {}
    found = MODELS[name]().fit(parts[0], parts[1], **groups_too)
    assert_same(found, in_memory(name, (X, y, groups)))
    assert hasattr(found, "feature_names_in_") == (kind == "frames")


def test_persons_of_partitions(client, table):
    """A sorted index keeps the records of a person in one partition."""
    X, y, _ = table
    ids = np.sort(np.random.default_rng(1).integers(0, 120, N))
    frame = pd.DataFrame(X, columns=list("abc")).assign(user=ids, y=y, w=np.linspace(0, 1, N))
    whole = dd.from_pandas(frame.set_index("user"), npartitions=3).reset_index().persist()
    model = DPLogisticRegression(classes=[0, 1], weight_bound=1.0, **SHARED)
    found, expected = (
        clone(model).fit(
            each[["user", "a", "b", "c"]], each["y"], user_ids="user", sample_weight=each["w"]
        )
        for each in (whole, frame)
    )
    assert_same(found, expected)
    assert found.privacy_.unit == "user"
    np.testing.assert_array_equal(found.predict(frame.drop(columns=["y", "w"])).shape, N)


def test_two_threads_of_this_process(table, files):
    local = {"processes": False, "n_workers": 1, "threads_per_worker": 2}
    with Client(**local, dashboard_address=None, set_as_default=False) as threads:
        found = MODELS["tuned"]().fit(DaskRecords(files, client=threads))
    assert_same(found, in_memory("tuned", table))


@pytest.mark.slow
def test_a_cluster_that_is_closed_ends_a_fit(files, tmp_path):
    accountant = BudgetAccountant(50.0, 1e-5)
    model = MODELS["tuned"]().set_params(accountant=accountant)
    with new_client(set_as_default=False) as other:
        source, start = Interrupted(files, client=other), time.monotonic()
        source.folder, source.action = tmp_path, lambda client: client.cluster.close()
        with pytest.raises(DataError, match="closed or lost"):
            model.fit(source)
        assert time.monotonic() - start < 60
        assert source.n_passes == 2 and not hasattr(model, "coef_")
        assert accountant.total().epsilon > 0.0
        with pytest.raises(DataError, match="closed or lost"):
            model.fit(source)  # before a pass


class Lost(DaskRecords):
    """A file is gone from the third pass on."""

    def reduce(self, task, merge):
        if task.pass_number == 3:
            self.path.unlink()
        return super().reduce(task, merge)


def test_files_that_vanish_end_a_fit(client, files, tmp_path):
    source, model = Lost(files, client=client, retries=0), MODELS["logistic"]()
    source.path = tmp_path / "1.npy"
    with pytest.raises(DataError, match="Pass 3 could not read") as caught:
        model.fit(source)
    assert isinstance(caught.value.__cause__, OSError)
    assert not hasattr(model, "coef_")


def test_pipelines_and_predictions_of_persisted_collections(client, table):
    """With an empty partition; nobody else holds the collections."""
    X, y, _ = table
    chunks = (75, 0, N - 75)

    def persisted():
        given = da.from_array(X, chunks=(chunks, (2, 1))), da.from_array(y, chunks=(chunks,))
        return dask.persist(*given)

    found, expected = (make_pipeline(BoundedScaler(), MODELS["logistic"]()) for _ in range(2))
    expected.fit(X, y)
    assert_same(found.fit(*persisted())[-1], expected[-1])
    scores = found.predict_proba(persisted()[0]).compute()
    np.testing.assert_allclose(scores, expected.predict_proba(X), rtol=1e-6)


def test_a_shuffle_that_is_run_again_ends_a_fit(client, table):
    X = da.from_array(table[0], chunks=75).map_blocks(in_another_order, dtype=float)
    with pytest.raises(RecordsChangedError, match="a shuffle that is computed again"):
        MODELS["tuned"]().fit(X, da.from_array(table[1], chunks=75))
