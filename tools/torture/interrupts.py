"""Ctrl-C at random moments: heard within a second, nothing changed, and the same work goes on.

``python tools/torture/interrupts.py --cases 60 --seed 1`` lets work of many kinds run in processes
of their own: long ones by hand, and every estimator and kernel of `mercer.testing`. In each of them
SIGINT comes at a random moment: once while nothing is imported or compiled yet, then while the
work is done again. What arrives must be KeyboardInterrupt and nothing else, within a second; a
model must be as it was; and the same work must then give the bits that it gave before.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import json
import os
import pickle
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
SOON = 1.0  # seconds within which Ctrl-C must be heard
LATEST = 150.0  # seconds after which a case is given up
TRIALS = 2  # interrupts of work that is known already

#: What a kind of work does: the model that is fitted, if any, and how; it returns arrays.
Work = tuple[Any, Callable[[], Any]]
KINDS: dict[str, Callable[[], Work]] = {}


def kind(make: Callable[[], Work]) -> Callable[[], Work]:
    """Enter a kind of work into the list."""
    KINDS[make.__name__.replace("_", " ")] = make
    return make


def _rows(n: int, d: int = 4) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(n).standard_normal((n, d))
    return X, np.sin(2 * X[:, 0]) + 0.1 * X[:, 1]


def _fit(model: Any, X: Any, y: Any = None, ask: str = "predict") -> Work:
    def work() -> Any:
        model.fit(X) if y is None else model.fit(X, y)
        return model.labels_ if ask == "labels_" else getattr(model, ask)(X[:50])

    return model, work


# ---- long work: what takes seconds in one call of a library, or in many threads ----


@kind
def gram_matrix() -> Work:
    import mercer

    X, _ = _rows(5000)
    return None, lambda: mercer.RBF()(X)[::100, ::100]


@kind
def product_by_tiles() -> Work:
    import mercer

    X, y = _rows(12000)
    return None, lambda: mercer.operators.Gram(mercer.RBF(), X) @ y


@kind
def eigenvectors() -> Work:
    import mercer

    X, _ = _rows(1200)
    model = mercer.KernelPCA(1100, mercer.RBF(0.5), eigen_solver="dense")
    return _fit(model, X, ask="transform")


@kind
def ridge() -> Work:
    import mercer

    return _fit(mercer.KernelRidge(mercer.RBF(), 1e-3), *_rows(2500))


@kind
def ridge_left_out() -> Work:
    import mercer

    return _fit(mercer.KernelRidge(mercer.RBF(), "loo"), *_rows(1200))


@kind
def ridge_loo_by_groups() -> Work:
    import mercer

    X, y = _rows(1200)
    model = mercer.KernelRidge(mercer.RBF(), 1e-3).fit(X, y)
    return None, lambda: np.asarray(model.loo(groups=np.arange(1200) // 300))


@kind
def falkon() -> Work:
    import mercer

    model = mercer.KernelRidge(mercer.RBF(), 1e-3, solver="falkon", n_centers=1200, random_state=0)
    return _fit(model, *_rows(6000))


@kind
def conjugate_gradients() -> Work:
    import mercer

    return _fit(mercer.KernelRidge(mercer.RBF(), 1e-2, solver="cg"), *_rows(3000))


@kind
def process() -> Work:
    import mercer

    return _fit(mercer.GaussianProcessRegressor(mercer.RBF()), *_rows(600))


@kind
def process_covariance() -> Work:
    import mercer

    X, y = _rows(1500)
    model = mercer.GaussianProcessRegressor(mercer.RBF(), noise=0.1, optimizer=None).fit(
        X[:1000], y[:1000]
    )
    return None, lambda: model.predict(X, return_cov=True)[1][::50, ::50]


@kind
def process_of_classes() -> Work:
    import mercer

    X, y = _rows(400)
    return _fit(mercer.GaussianProcessClassifier(mercer.RBF(), random_state=0), X, y > 0)


@kind
def sparse_process() -> Work:
    import mercer

    model = mercer.SparseGaussianProcessRegressor(mercer.RBF(), 60, random_state=0)
    return _fit(model, *_rows(1000))


@kind
def support_vectors() -> Work:
    import mercer

    X, y = _rows(3000, 10)
    return _fit(mercer.SVC(mercer.RBF(), 100.0), X, np.digitize(y, [-0.5, 0.0, 0.5]))


@kind
def regression_tube() -> Work:
    import mercer

    return _fit(mercer.SVR(mercer.RBF(), C=100.0, epsilon=0.001), *_rows(2000))


@kind
def logistic() -> Work:
    import mercer

    X, y = _rows(1000)
    model = mercer.KernelLogisticRegression(mercer.RBF(), 1e-3)
    return _fit(model, X, np.digitize(y, [-0.5, 0.5]))


@kind
def quantiles() -> Work:
    import mercer

    model = mercer.KernelQuantileRegressor(mercer.RBF(), [0.1, 0.5, 0.9], 1e-3)
    return _fit(model, *_rows(500))


@kind
def spectral_clusters() -> Work:
    import mercer

    model = mercer.SpectralClustering(8, mercer.RBF(), random_state=0)
    return _fit(model, _rows(2000)[0], ask="labels_")


@kind
def k_means() -> Work:
    import mercer

    return _fit(mercer.KernelKMeans(20, mercer.RBF(), random_state=0), _rows(3000)[0])


@kind
def prototypes() -> Work:
    import mercer

    model = mercer.Prototypes(mercer.RBF(), "kmeans", n_prototypes=200, random_state=0)
    return _fit(model, _rows(8000)[0], ask="transform")


@kind
def landmarks() -> Work:
    import mercer

    model = mercer.Nystroem(mercer.RBF(), 800, "leverage", random_state=0)
    return _fit(model, _rows(3000)[0], ask="transform")


@kind
def tuning() -> Work:
    import mercer

    X, y = _rows(400)
    return None, lambda: mercer.tune(mercer.KernelRidge(mercer.RBF()), X, y).model.predict(X)


@kind
def grid() -> Work:
    import mercer

    X, y = _rows(800)
    settings = {"C": [0.1, 1.0, 10.0, 100.0], "kernel__length_scale": [0.5, 1.0, 2.0]}
    model = mercer.SVC(mercer.RBF())
    return None, lambda: mercer.search(model, settings, X, y > 0).decision_function(X)


@kind
def grid_of_ridges() -> Work:
    import mercer

    X, y = _rows(1000)
    settings = {"alpha": list(np.logspace(-6, 1, 12)), "kernel__length_scale": [0.5, 1.0, 2.0]}
    model = mercer.KernelRidge(mercer.RBF())
    return None, lambda: mercer.search(model, settings, X, y).predict(X)


@kind
def two_samples() -> Work:
    from mercer.statistics import mmd_test

    X, _ = _rows(1600)
    return None, lambda: [mmd_test(X[:800], X[800:], n_permutations=20000, rng=0).pvalue]


@kind
def dependence() -> Work:
    from mercer.statistics import hsic_test

    X, y = _rows(1000)
    return None, lambda: [hsic_test(X, y, n_permutations=5000, rng=0).pvalue]


@kind
def conditional_dependence() -> Work:
    from mercer.statistics import kci_test

    X, y = _rows(500)
    return None, lambda: [kci_test(X[:, :1], y, X[:, 1:2], rng=0).pvalue]


def _texts(n: int, length: int) -> list[str]:
    rng = np.random.default_rng(n)
    return ["".join(rng.choice(list("acgt"), length)) for _ in range(n)]


@kind
def subsequences() -> Work:
    import mercer

    X = _texts(150, 200)
    return None, lambda: mercer.Subsequence(4)(X)


@kind
def alignments() -> Work:
    import mercer

    X = _texts(80, 200)
    return None, lambda: mercer.LocalAlignment()(X)


@kind
def mismatches() -> Work:
    import mercer

    X = _texts(400, 300)
    return None, lambda: mercer.Mismatch(6, 1)(X)


def _graphs(n: int, nodes: int) -> list[Any]:
    import mercer

    rng = np.random.default_rng(n)
    made = []
    for _ in range(n):
        A = np.triu(rng.random((nodes, nodes)) < 4 / nodes, 1)
        edges = np.argwhere(A)
        made.append(mercer.Graph(edges=edges, n_nodes=nodes))
    return made


@kind
def random_walks() -> Work:
    import mercer

    X = _graphs(40, 100)
    return None, lambda: mercer.RandomWalk(0.01)(X)


@kind
def shortest_paths() -> Work:
    import mercer

    X = _graphs(100, 100)
    return None, lambda: mercer.ShortestPath()(X)


@kind
def weisfeiler_lehman() -> Work:
    import mercer

    X = _graphs(400, 50)
    return None, lambda: mercer.WeisfeilerLehman(5)(X)


@kind
def diffusion() -> Work:
    import mercer

    (graph,) = _graphs(1, 1200)
    return None, lambda: mercer.Diffusion(graph, 0.5)(np.arange(100))


# ---- every estimator and kernel that the laws are asked of ----


def _estimator(name: str) -> Work:
    from sklearn.base import clone, is_classifier

    from mercer.testing import estimator_examples
    from mercer.testing.examples import VectorStudy

    example = next(e for e in estimator_examples() if e.name == name)
    X, y = _rows(400, 3)
    if is_classifier(example.estimator):
        y = np.array(["red", "green", "blue"])[np.digitize(y, [-0.4, 0.4])]
    elif example.outputs > 1:
        y = np.stack([y * k for k in range(1, example.outputs + 1)], axis=1)
    study = VectorStudy(example, X, y)
    model = clone(study.estimator)

    def work() -> Any:
        study.fit(model=model)
        return study.answers(model)

    return model, work


def _kernel(name: str) -> Work:
    from mercer.testing import kernel_examples

    example = next(e for e in kernel_examples() if e.name == name)
    points = example.sample(np.random.default_rng(0), 120)
    return None, lambda: example.kernel(points)


def _names() -> list[str]:
    """Return all kinds of work: those by hand first, then estimators and kernels in turn."""
    from mercer.testing import estimator_examples, kernel_examples

    models = [f"estimator {e.name}" for e in estimator_examples()]
    kernels = [f"kernel {e.name}" for e in kernel_examples()]
    longest = max(len(models), len(kernels))
    mixed = [x[i] for i in range(longest) for x in (models, kernels) if i < len(x)]
    return [*KINDS, "command line", *mixed]


def _made(name: str) -> Work:
    if name.startswith("estimator "):
        return _estimator(name.partition(" ")[2])
    return _kernel(name.partition(" ")[2]) if name.startswith("kernel ") else KINDS[name]()


# ---- the process that is interrupted ----


def _digest(answer: Any) -> str:
    parts = list(answer.values()) if isinstance(answer, dict) else [answer]
    found = hashlib.sha256()
    for part in parts:
        part = part.toarray() if hasattr(part, "toarray") else part
        found.update(np.ascontiguousarray(np.asarray(part)).tobytes())
    return found.hexdigest()[:16]


def _tell(**facts: Any) -> None:
    print(json.dumps({"at": time.monotonic(), **facts}), flush=True)


def _state(model: Any) -> dict[str, bytes]:
    return {} if model is None else {k: pickle.dumps(v) for k, v in sorted(vars(model).items())}


def _interrupted(model: Any, work: Callable[[], Any]) -> None:
    """Do the work, tell when and how it ended, and whether the model is what it was."""
    before, how, over = _state(model), "done", False
    _tell(event="begin")
    try:
        try:
            work()
            over = True
            _tell(event="done")
            while True:  # the signal is on its way
                time.sleep(0.01)
        except KeyboardInterrupt:
            ended, how = time.monotonic(), "stopped"
    except BaseException as error:
        ended, how = time.monotonic(), f"{type(error).__name__}: {error}"
    _tell(event="end", ended=ended, how=how, over=over)
    after = _state(model)
    if how == "stopped" and not over and after != before:
        names = [k for k in {**before, **after} if before.get(k) != after.get(k)]
        _tell(event="changed", names=names)


def _child(name: str, cold: bool) -> None:
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    model, work = _made(name)
    if cold:
        _interrupted(model, work)
    first = _digest(work())
    begin = time.monotonic()
    if not cold:
        work()
    _tell(event="known", seconds=time.monotonic() - begin, digest=first)
    for _ in range(0 if cold else TRIALS):
        _interrupted(model, work)
        begin = time.monotonic()
        again = _digest(work())
        _tell(event="again", seconds=time.monotonic() - begin, digest=again)


# ---- the one who interrupts ----


class _Watched:
    """A process of ours, the lines it writes, and when Ctrl-C was sent to it."""

    def __init__(self, *words: str):
        command = [sys.executable, __file__, *words]
        path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  (closed with the process)
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            bufsize=0,
            env={**os.environ, "PYTHONPATH": path},
        )
        self.late = time.monotonic() + LATEST
        self.said = b""

    def next(self, wait: float | None = None) -> dict[str, Any]:
        """Return what it tells next; nothing when it waits, or has ended, or takes too long."""
        until = self.late if wait is None else min(self.late, time.monotonic() + wait)
        stream: Any = self.process.stdout
        while b"\n" not in self.said:
            ready, _, _ = select.select([stream], [], [], max(0.0, until - time.monotonic()))
            more = stream.read(4096) if ready else b""
            if not more:
                return {}
            self.said += more
        line, _, self.said = self.said.partition(b"\n")
        return json.loads(line)

    def interrupt(self, after: float) -> tuple[float, dict[str, Any]]:
        """Send Ctrl-C after some seconds; return how long the end took to come, and what it was."""
        time.sleep(after)
        sent = time.monotonic()
        self.process.send_signal(signal.SIGINT)
        told = self.next(SOON)
        if told.get("event") == "done":
            told = self.next(SOON)
        if not told:
            self.process.send_signal(signal.SIGUSR1)  # where is it?
            told = self.next()
        return told.get("ended", np.inf) - sent, told

    def close(self) -> str:
        """End it, and return what it wrote on stderr."""
        self.process.kill()
        self.process.wait()
        self.errors.seek(0)
        text = self.errors.read()
        self.errors.close()
        self.process.stdout.close()  # type: ignore[union-attr]
        return text


def _judged(name: str, way: str, seconds: float, told: dict, after: dict, bits: str) -> dict:
    how = told.get("how", "no answer")
    faults = []
    if how != "stopped":
        faults.append(how)
    elif seconds > SOON:
        faults.append("late")
    if after.get("event") == "changed":
        faults.append(f"the model has changed: {after['names']}")
    elif after.get("digest", bits) != bits:
        faults.append("other bits")
    elif not after:
        faults.append("does not work afterwards")
    way = f"{way}, done" if told.get("over") else way
    return {"kind": name, "way": way, "seconds": seconds, "fault": ", ".join(faults)}


def _cases(name: str, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Interrupt one kind of work while it is new, and then while it is known."""
    warm = _Watched("--child", name)
    known = warm.next()
    if not known:
        fault = "failed: " + warm.close()[-2000:]
        yield {"kind": name, "way": "warm", "seconds": np.inf, "fault": fault}
        return
    rows = []
    for _ in range(TRIALS):
        if not warm.next():
            break
        after = known["seconds"] * float(rng.random())
        seconds, told = warm.interrupt(after)
        then = warm.next()
        rows.append(_judged(name, "warm", seconds, told, then, known["digest"]))
        known["seconds"] = then.get("seconds", known["seconds"])
    yield from _with_place(rows, warm.close())
    cold = _Watched("--child", name, "--cold")
    if cold.next():
        seconds, told = cold.interrupt((known["seconds"] + 0.5) * float(rng.random()))
        rows = [_judged(name, "cold", seconds, told, cold.next(), known["digest"])]
        yield from _with_place(rows, cold.close())


def _with_place(rows: list[dict], errors: str) -> list[dict]:
    for row in rows:
        row["where"] = errors[-6000:] if row["fault"] else ""
    return rows


def _command_line(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Interrupt ``mercer fit``: exit code 130, one line, and no model file."""
    with tempfile.TemporaryDirectory() as folder:
        X, y = _rows(2500)
        table, model = os.path.join(folder, "table.csv"), os.path.join(folder, "model")
        header = ",".join([f"x{i}" for i in range(X.shape[1])] + ["y"])
        np.savetxt(table, np.column_stack([X, y]), delimiter=",", header=header, comments="")
        words = ["-m", "mercer.cli", "fit", table, "--target", "y", "-o", model]
        for _ in range(TRIALS + 1):
            process = subprocess.Popen(
                [sys.executable, *words],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            )
            time.sleep(0.8 + 3 * float(rng.random()))
            sent = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=LATEST)
            seconds = time.monotonic() - sent
            fault = "late" if seconds > SOON else ""
            if process.returncode == 0:
                os.remove(model)
            elif process.returncode != 130 or errors.strip() != "mercer: interrupted":
                fault = f"exit code {process.returncode}"
            elif os.path.exists(model):
                fault = "a model file"
            yield {
                "kind": "command line", "way": "cold", "seconds": seconds, "fault": fault,
                "where": errors[-3000:] if fault else "",
            }  # fmt: skip


def interrupts(seed: int, cases: int, first: int = 0) -> Iterator[dict[str, Any]]:
    """Interrupt kinds of work and yield a row for every Ctrl-C.

    Parameters
    ----------
    seed : int
        What the moments are drawn with.
    cases : int
        How many kinds of work.
    first : int
        How many kinds to leave out before.
    """
    for number, name in list(enumerate(_names()))[first : first + cases]:
        rng = np.random.default_rng([seed, number])
        yield from _command_line(rng) if name == "command line" else _cases(name, rng)


def main(argv: list[str] | None = None) -> int:
    """Print the table of a campaign; 1 when there was a fault."""
    # a shell ignores Ctrl-C for what it starts in the background, and children inherit that
    signal.signal(signal.SIGINT, signal.default_int_handler)
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="how many kinds to leave out before")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--cold", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.child:
        _child(options.child, options.cold)
        return 0
    rows = []
    for row in interrupts(options.seed, options.cases, options.first):
        rows.append(row)
        told = f"{row['kind']:45} {row['way']:10} {row['seconds']:7.2f} s"
        print(f"{told}  {row['fault']}", flush=True)
        if row.get("where"):
            print(row["where"], flush=True)
    heard = sorted(row["seconds"] for row in rows) or [0.0]
    faults = sum(bool(row["fault"]) for row in rows)
    kinds = len({row["kind"] for row in rows})
    print(f"{len(rows)} interrupts of {kinds} kinds, seed {options.seed}:", end=" ")
    middle = heard[len(heard) // 2]
    print(f"median {middle:.2f} s, longest {heard[-1]:.2f} s, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
