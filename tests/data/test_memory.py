"""Memory of the process that fits, beyond what it has before: that of a few chunks."""

import pytest

from benchmarks.cases.memory import resident_bytes
from benchmarks.cases.scale import fit, in_fresh_process, write

N = 500_000

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(resident_bytes("RssAnon") is None, reason="Linux tells it"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pytest.importorskip("pyarrow")
    path = str(tmp_path_factory.mktemp("records"))
    in_fresh_process(write, path, N)
    return path


@pytest.mark.parametrize("kind", ["mapped", "read", "Parquet", "scratch"])
def test_the_process_grows_by_32_mb_at_most(kind, folder):
    """Chunks of 10 or 21 MB, of 80 MB."""
    assert in_fresh_process(fit, "logistic", kind, folder, N, 1)["growth"] < 32e6
