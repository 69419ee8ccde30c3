"""Strings of two kinds, and the model that tests break on purpose."""

import numpy as np

from mercer import KernelRidge
from mercer.kernels.strings import Spectrum
from mercer.testing import nonvector_laws

N = 20
LAWS = dict(nonvector_laws())
KERNEL = Spectrum(2).normalized()
SIDE = np.arange(N) % 2


def strings():
    rng = np.random.default_rng(7)
    words = ["".join(rng.choice(list("acgt"), rng.integers(4, 9))) for _ in range(N)]
    return [("gattaca" if i % 2 else "") + w for i, w in enumerate(words)]


class Regressor(KernelRidge):
    """Does one thing wrong, on purpose; the classes below say which."""

    def __init__(self, kernel="rbf", alpha=1.0):
        super().__init__(kernel, alpha)
