"""Memory of the process that fits, beyond what it has before: that of a few chunks."""

import importlib
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
N = 400_000

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="Linux tells it"),
]


@pytest.fixture(scope="module")
def case():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        yield importlib.import_module("benchmarks.cases.scale")


@pytest.fixture(scope="module")
def folder(case, tmp_path_factory):
    pytest.importorskip("pyarrow")
    path = str(tmp_path_factory.mktemp("records"))
    case.in_fresh_process(case.write, path, N)
    return path


@pytest.mark.parametrize("kind", ["mapped", "Parquet", "scratch"])
def test_the_process_grows_by_32_mb_at_most(kind, case, folder):
    """Chunks of 10 or 21 MB, of 64 MB."""
    growth = case.in_fresh_process(case.fit, "logistic", kind, folder, N, 1)["growth"]
    assert growth < 32e6
