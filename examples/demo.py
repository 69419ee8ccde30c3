"""The main job from end to end: a real table, a model that learns from it, unseen rows predicted.

442 patients with diabetes, ten columns each; predicted is the progress of the disease a year later.
Run it with ``make demo``; it writes its files to ``demo-output/``.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import numpy as np

import mercer
from mercer.datasets import load_diabetes_table

OUTPUT = Path("demo-output")
TARGET = "progression"


def main() -> None:
    """Run the story."""
    OUTPUT.mkdir(exist_ok=True)
    table, y = load_diabetes_table()
    rows = np.random.default_rng(0).permutation(len(y))
    new, known = np.sort(rows[:92]), np.sort(rows[92:])
    print(
        f"mercer {mercer.__version__}: {len(known)} patients to learn from, {len(new)} held out\n"
    )

    print("1. With the library")
    model = mercer.TableRegressor().fit(table.take(known), y[known])
    order = np.argsort(-model.importances_)[:5]
    shares = [f"{table.names[j]} {100 * model.importances_[j]:.0f} %" for j in order]
    print(f"   columns that matter most: {', '.join(shares)}")
    compare(model, tuned(table.take(known), y[known]), table, y, known, new)

    print("\n2. The same from the command line")
    write_csv(OUTPUT / "known.csv", table.take(known), y[known])
    write_csv(OUTPUT / "new.csv", table.take(new))
    model_file, answers = OUTPUT / "diabetes.mercer", OUTPUT / "predictions.csv"
    options = ("--target", TARGET, "--categorical", "sex", "--force", "-o", model_file)
    shell("fit", OUTPUT / "known.csv", *options)
    shell("predict", model_file, OUTPUT / "new.csv", "--force", "-o", answers)
    shell("info", model_file)

    predicted = np.loadtxt(answers, delimiter=",", skiprows=1)
    print(f"\n3. The first of the {len(new)} held-out patients")
    print("   predicted   true")
    for guess, true in list(zip(predicted, y[new], strict=True))[:5]:
        print(f"   {guess:9.0f}   {true:4.0f}")
    print(f"   RMSE over all of them: {rmse(predicted, y[new]):.1f}")

    print("\nFiles written:")
    for path in sorted(OUTPUT.iterdir()):
        print(f"   {path}  ({path.stat().st_size} bytes)")


def tuned(table, y):
    """Tune scale and ridge together by exact leave-one-out, on encoded rows."""
    encoder = mercer.TableEncoder()
    Z = encoder.fit_transform(table)
    scaled = (y - y.mean()) / y.std()
    best = mercer.tune(mercer.KernelRidge("rbf"), Z, scaled).model
    print(f"   encoded columns: {', '.join(encoder.get_feature_names_out())}")
    scale = float(best.kernel_.length_scale)
    print(f"   tuned kernel:    RBF(length_scale={scale:.4g}), alpha {best.alpha_:.4g}")
    return mercer.TableRegressor(best.kernel_, alpha=best.alpha_).fit(table, y)


def compare(model, ridge, table, y, known, new):
    """Print errors on the held-out rows beside the mean, a straight line and one kernel."""
    line = mercer.TableRegressor("linear").fit(table.take(known), y[known])
    guesses = {
        "mean of the target": np.full(len(new), y[known].mean()),
        "linear ridge": line.predict(table.take(new)),
        "tuned kernel ridge": ridge.predict(table.take(new)),
        "feature machine": model.predict(table.take(new)),
    }
    print("\n   held-out rows                    RMSE     R²")
    spread = np.mean((y[new] - y[new].mean()) ** 2)
    for name, guess in guesses.items():
        error = rmse(guess, y[new])
        print(f"   {name:22s} {error:13.1f} {1 - error**2 / spread:8.3f}")
    print(f"   (the last, at known rows that were left out: {rmse(model.loo(), y[known]):.1f})")


def rmse(guess, true):
    """Return the root mean squared error."""
    return float(np.sqrt(np.mean((guess - true) ** 2)))


def write_csv(path, table, y=None):
    """Write a table, with its target where known."""
    columns = dict(zip(table.names, table.columns, strict=True))
    if y is not None:
        columns[TARGET] = y
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*(c.tolist() for c in columns.values()), strict=True))


def shell(*arguments):
    """Run the command line as a user would, and show it."""
    words = [str(a) for a in arguments]
    print(f"\n   $ mercer {' '.join(words)}", flush=True)
    done = subprocess.run(
        [sys.executable, "-m", "mercer.cli", *words], text=True, capture_output=True, check=False
    )
    print("".join(f"   {line}\n" for line in (done.stdout + done.stderr).splitlines()), end="")
    if done.returncode:
        sys.exit(done.returncode)


if __name__ == "__main__":
    main()
