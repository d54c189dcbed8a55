"""Parts of bounded rows are as bounded as the whole: phases, folds and roles are made of them."""

import numpy as np
import pytest
import scipy.sparse as sp

from skdp.problems import Records


@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("intercept", [0.0, 0.3])
def test_parts_are_rows_of_the_whole(container, intercept):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3)) * 10.0 ** rng.uniform(-3, 200, size=(20, 1))
    rows = Records(container(X), 0.7, intercept)

    def dense(bounded):
        matrix = bounded.materialise()
        return matrix.toarray() if sp.issparse(matrix) else matrix

    whole = dense(rows)
    assert np.linalg.norm(whole, axis=1).max() <= rows.norm_bound * (1 + 1e-12)
    for positions in (slice(3, 11), slice(1, None, 3), rng.permutation(20)[:7]):
        part = rows.take(positions)
        np.testing.assert_array_equal(dense(part), whole[positions])
        np.testing.assert_array_equal(dense(part.take(slice(0, 2))), whole[positions][:2])
        assert (part.norm_bound, part.width) == (rows.norm_bound, rows.width)
        block = rows.block(positions)
        weights = rng.normal(size=(1, rows.width))
        np.testing.assert_allclose(block.margins(weights), whole[positions] @ weights[0])
    np.testing.assert_array_equal(dense(rows.take(slice(None, None, 4))), whole[::4])
