"""A table that does not fit the budget: plan it, fit it from files, stop, go on, predict to a file.

Run it with ``python examples/large_files.py``; it takes some seconds.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

import numpy as np

import mercer
from mercer import RBF, KernelRidge, Nystroem, RowBlocks

ROWS, FILES, COLUMNS = 60_000, 6, 5
KERNEL = RBF(1.5)


def main() -> None:
    """Tell the story."""
    with tempfile.TemporaryDirectory() as folder, mercer.config(memory="150MB"):
        path = Path(folder)
        write_files(path)
        blocks = RowBlocks.from_npy(path / "X", path / "y")
        print(f"1. {blocks}")
        X, y = (np.concatenate([np.load(f) for f in sorted((path / p).iterdir())]) for p in "Xy")

        print("\n2. What would it take in memory? The budget is 150 MB")
        print(indented(KernelRidge(KERNEL, alpha=0.1).plan(X, y)))

        print("\n3. From files, with centres: how many are enough?")
        new, truth = rows(np.random.default_rng(99), 2_000)
        print("   centres    left of tr K    error at new rows    residual")
        for m in (50, 200, 800):
            left = Nystroem(KERNEL, m, landmarks="uniform", random_state=0).fit(X[:5000])
            model = KernelRidge(KERNEL, alpha=0.1, n_centers=m, random_state=0).fit(blocks)
            error = np.sqrt(np.mean((model.predict(new) - truth) ** 2))
            print(
                f"   {m:7}    {left.trace_error_:12.1e}    {error:17.4f}"
                f"    {model.solution_.residual:8.0e}"
            )

        print("\n4. Stopped after three iterations, and gone on with")
        how = {"alpha": 0.1, "n_centers": 800, "random_state": 0}
        file = path / "fit.checkpoint"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", mercer.errors.NotConverged)
            KernelRidge(KERNEL, max_iter=3, checkpoint=file, **how).fit(blocks)
        again = KernelRidge(KERNEL, checkpoint=file, **how).fit(blocks)
        same = bool((again.dual_coef_ == model.dual_coef_).all())
        print(f"   the same bits as in one go: {same}")

        print("\n5. Predictions from file to file")
        out = path / "predicted.npy"
        mercer.write_predictions(again, blocks, out)
        predicted = np.load(out)
        print(f"   {out.name}: {len(predicted)} rows, R² {again.score(blocks):.3f}")


def rows(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points and a smooth function of them."""
    X = rng.standard_normal((n, COLUMNS))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]


def write_files(folder: Path) -> None:
    """Write rows and noisy targets, a part a file."""
    rng = np.random.default_rng(0)
    for name in "Xy":
        (folder / name).mkdir()
    for part in range(FILES):
        X, f = rows(rng, ROWS // FILES)
        np.save(folder / "X" / f"part-{part}.npy", X)
        np.save(folder / "y" / f"part-{part}.npy", f + 0.3 * rng.standard_normal(len(f)))


def indented(text: object) -> str:
    """Return text three places to the right."""
    return "\n".join(f"   {line}" for line in str(text).splitlines())


if __name__ == "__main__":
    main()
