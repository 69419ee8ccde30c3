"""New points with another number of columns are refused as all else is, whatever their dtype."""

import numpy as np
import pytest

from mercer import KernelPCA, KernelRidge
from mercer.errors import InvalidInput


@pytest.mark.parametrize("dtype", [np.float64, np.float32, int])
@pytest.mark.parametrize("model, method", [(KernelRidge(), "predict"), (KernelPCA(), "transform")])
def test_another_number_of_columns_is_refused(model, method, dtype, rng):
    X = rng.standard_normal((20, 3))
    model.fit(X, X[:, 0])
    with pytest.raises(InvalidInput, match="7 features"):
        getattr(model, method)(np.zeros((3, 7), dtype=dtype))


def test_a_matrix_to_be_overwritten_is_not_the_one_that_is_kept(rng):
    from mercer import RBF
    from mercer.operators import Gram

    X, v = rng.standard_normal((20, 3)), np.ones(20)
    K = Gram(RBF(), X)
    before = K @ v
    K.stored(1, "", "").to_dense()[:] = 0
    np.testing.assert_array_equal(K @ v, before)
