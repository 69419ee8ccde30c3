"""Hostile calls drawn at random: each gets a finite answer, or a refusal that says who speaks.

``python tools/torture/fuzz.py --calls 5000 --seed 1`` draws calls of every public estimator, test
and function and prints a table of calls, answers, refusals and faults; a fault is written with the
seed that brings it back alone: ``--calls 1 --first 1234 --seed 1``. The suite draws a few hundred.
"""

from __future__ import annotations

import argparse
import inspect
import re
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError

import mercer
from mercer.errors import MercerError
from mercer.testing import estimator_examples
from mercer.testing.examples import QUESTIONS, EstimatorExample, VectorStudy

LONGEST = 2000  # characters of a message
PATIENCE = 5.0  # seconds of the processor for a call
LONG = 60.0  # seconds after which a call is stopped: 10⁹ starts are what was asked for
TRAIN, ALL, COLUMNS = 15, 20, 3
HUGE = np.array([1.7e308, -1.7e308, 1e300, 1e200, 1e155])
TINY = np.array([5e-324, 1e-300, -1e-308, 0.0, 1e-160])
MODULES = ("", "statistics", "rkhs", "selection", "kernels", "features", "models", "solvers")


# ---- Values that nobody means to give, made of an array that somebody might ----


class Subclass(np.ndarray):
    """An array of another class."""


def _spotted(A: np.ndarray, value: Any, dtype: Any = None) -> np.ndarray:
    """Return A with a value in one place."""
    out = np.array(A, dtype=dtype or A.dtype)
    out.reshape(-1)[out.size // 2] = value
    return out


def _numbers(A: np.ndarray) -> np.ndarray:
    """Return labels as their numbers, and numbers as they are."""
    if A.dtype.kind in "fiub":
        return np.asarray(A, dtype=float)
    return np.unique(A, return_inverse=True)[1].reshape(A.shape).astype(float)


def _read_only(A: np.ndarray) -> np.ndarray:
    A = A.copy()
    A.flags.writeable = False
    return A


def _structured(A: np.ndarray) -> np.ndarray:
    return np.array([(1.0, 2)] * len(A), dtype=[("a", float), ("b", int)])


def _frame(A: np.ndarray, **columns: Any) -> Any:
    import pandas

    table = A.reshape(len(A), -1)
    return pandas.DataFrame({f"c{j}": table[:, j] for j in range(table.shape[1])} | columns)


def _polars(A: np.ndarray) -> Any:
    try:
        import polars
    except ImportError:
        return A.tolist()
    table = A.reshape(len(A), -1)
    return polars.DataFrame({f"c{j}": table[:, j] for j in range(table.shape[1])})


def _broken(A: np.ndarray, **wrong: Any) -> Any:
    """Return sparse rows whose arrays were set to what they must not be."""
    table = sp.csr_array(A.reshape(len(A), -1))
    for name, change in wrong.items():
        setattr(table, name, change(getattr(table, name).copy()))
    return table


def _put(place: int, value: int) -> Callable[[np.ndarray], np.ndarray]:
    def change(positions: np.ndarray) -> np.ndarray:
        if len(positions):
            positions[place % len(positions)] = value
        return positions

    return change


#: Of what a sound array becomes, by name; a function of the array as numbers.
HOSTILE: dict[str, Callable[[np.ndarray], Any]] = {
    "as it is": lambda A: A,
    "NaN": lambda A: _spotted(A, np.nan),
    "inf": lambda A: _spotted(A, np.inf),
    "-inf": lambda A: _spotted(A, -np.inf),
    "only NaN": lambda A: np.full(A.shape, np.nan),
    "huge": lambda A: np.resize(HUGE, A.shape),
    "one huge": lambda A: _spotted(A, 1.7e308),
    "times 1e150": lambda A: A * 1e150,
    "times 1e300": lambda A: np.clip(A, -10, 10) * 1e300,
    "tiny": lambda A: np.resize(TINY, A.shape),
    "times 1e-300": lambda A: A * 1e-300,
    "zeros": np.zeros_like,
    "ones": np.ones_like,
    "negative": lambda A: -np.abs(A),
    "equal rows": lambda A: np.repeat(A[:1], len(A), axis=0),
    "1-D": lambda A: A.reshape(-1),
    "3-D": lambda A: A.reshape(len(A), 1, -1),
    "transposed": lambda A: A.reshape(len(A), -1).T,
    "a column more": lambda A: np.column_stack([A.reshape(len(A), -1), np.ones(len(A))]),
    "a row less": lambda A: A[:-1],
    "a row more": lambda A: np.concatenate([A, A[:1]]),
    "one row": lambda A: A[:1],
    "no rows": lambda A: A[:0],
    "no columns": lambda A: A.reshape(len(A), -1)[:, :0],
    "0-d": lambda A: np.array(1.0),
    "a number": lambda A: 3.5,
    "a whole number": lambda A: 7,
    "a large whole number": lambda A: 10**400,
    "None": lambda A: None,
    "True": lambda A: True,
    "a word": lambda A: "word",
    "a long word": lambda A: "x" * 100_000,
    "bytes": lambda A: b"\xff\x00",
    "an empty list": lambda A: [],
    "an empty dict": lambda A: {},
    "a set": lambda A: {1, 2, 3},
    "an iterator": lambda A: iter(A.tolist()),
    "a function": lambda A: len,
    "a class": lambda A: dict,
    "an object": lambda A: object(),
    "a list": lambda A: A.tolist(),
    "a ragged list": lambda A: [*A.tolist()[:-1], [1.0, 2.0, 3.0, 4.0, 5.0]],
    "a list of None": lambda A: [None] * len(A),
    "words": lambda A: [f"word {i % 3}" for i in range(len(A))],
    "an array of words": lambda A: np.resize(["a", "b", "1"], A.shape),
    "an array of bytes": lambda A: np.resize([b"a", b"\xff"], A.shape),
    "objects": lambda A: A.astype(object),
    "objects with None": lambda A: _spotted(A, None, object),
    "objects with a word": lambda A: _spotted(A, "a word", object),
    "objects with a dict": lambda A: _spotted(A, {"a": 1}, object),
    "objects with a list": lambda A: _nested(A),
    "numbers and words": lambda A: [1, "a", 2.5, *A.tolist()[3:]],
    "big whole numbers": lambda A: _spotted(A, 10**400, object),
    "whole numbers of 70 bits": lambda A: _spotted(A, 2**70, object),
    "complex": lambda A: A + 1j,
    "complex without imaginary part": lambda A: A.astype(complex),
    "masked": lambda A: np.ma.masked_array(A, mask=np.arange(A.size).reshape(A.shape) % 3 == 0),
    "masked nowhere": lambda A: np.ma.masked_array(A),
    "structured": _structured,
    "read-only": _read_only,
    "not contiguous": lambda A: np.repeat(A, 2, axis=0)[::2],
    "Fortran order": np.asfortranarray,
    "backwards": lambda A: A[::-1],
    "another byte order": lambda A: A.astype(A.dtype.newbyteorder()),
    "a subclass": lambda A: A.view(Subclass),
    "a matrix": lambda A: np.matrix(A.reshape(len(A), -1)),
    "booleans": lambda A: A > 0,
    "int8": lambda A: np.clip(A, -100, 100).astype(np.int8),
    "uint64": lambda A: np.full(A.shape, 2**64 - 1, dtype=np.uint64),
    "float16": lambda A: np.clip(A, -100, 100).astype(np.float16),
    "float32": lambda A: np.clip(A, -1e30, 1e30).astype(np.float32),
    "long double": lambda A: A.astype(np.longdouble),
    "long double, huge": lambda A: np.full(A.shape, np.longdouble("1e4000")),
    "dates": lambda A: np.full(A.shape, np.datetime64("2020-01-01")),
    "times": lambda A: np.full(A.shape, np.timedelta64(3, "s")),
    "a frame": _frame,
    "a frame with NaN": lambda A: _frame(_spotted(A, np.nan)),
    "a frame of words": lambda A: _frame(A, word=(["a", "b", None] * len(A))[: len(A)]),
    "a polars frame": _polars,
    "a dict of columns": lambda A: {"a": A.reshape(len(A), -1)[:, 0].tolist()},
    "CSR": lambda A: sp.csr_array(A.reshape(len(A), -1)),
    "a CSC matrix": lambda A: sp.csc_matrix(A.reshape(len(A), -1)),
    "COO": lambda A: sp.coo_array(A.reshape(len(A), -1)),
    "DOK": lambda A: sp.dok_array(A.reshape(len(A), -1)),
    "LIL": lambda A: sp.lil_array(A.reshape(len(A), -1)),
    "CSR with NaN": lambda A: sp.csr_array(_spotted(A, np.nan).reshape(len(A), -1)),
    "CSR with an index too large": lambda A: _broken(A, indices=_put(1, 10**6)),
    "CSR with an index < 0": lambda A: _broken(A, indices=_put(-1, -5)),
    "CSR with falling ends": lambda A: _broken(A, indptr=_put(3, 0)),
    "CSR with ends too large": lambda A: _broken(A, indptr=_put(-1, 10**7)),
    "CSR with short values": lambda A: _broken(A, data=lambda v: v[:-2]),
    "CSR with short ends": lambda A: _broken(A, indptr=lambda v: v[:-2]),
    "CSR with a column twice": lambda A: _broken(A, indices=_put(0, 1)),
    "CSR backwards": lambda A: _broken(A, indices=lambda v: v[::-1].copy()),
    "an array of 300 000 numbers": lambda A: np.arange(3e5),
}

#: What a parameter may be given.
PARAMETERS: tuple[Any, ...] = (
    None, True, 0, -1, 1, 10**400, 2**70, 0.0, -0.5, 0.5, 1e-320, 1e308, np.nan, np.inf, -np.inf,
    "", "word", "x" * 100_000, b"\xff", [], {}, (), [None], [1.0, "a"], {"a": 1}, object(), 1j,
    np.nan * np.ones(3), np.arange(4000.0), np.float32(0.1), np.array(2.0),
    np.array([[0.1]]),
    "precomputed", "rbf", mercer.RBF(1e-300), mercer.RBF(1e300), mercer.Polynomial(50),
    np.array(["a"], dtype=object), np.int8(3), range(3), 10**9,
)  # fmt: skip


def _nested(A: np.ndarray) -> np.ndarray:
    out = A.astype(object)
    out.reshape(-1)[0] = [1.0, 2.0]
    return out


# ---- Calls: what is asked of whom, and with what ----


@dataclass(eq=False)
class Call:
    """One drawn call: what is done, in words; whose it is; what it is given; how answers look."""

    words: str
    do: Callable[[], Any]
    given: list[Any]
    model: Any = None
    rows: int | None = None  # so many rows has an answer that is an array


@dataclass
class Verdict:
    """How a call ended: "answer", "refusal", "stopped" or "fault", and why."""

    kind: str
    words: str
    why: str = ""


def targets() -> list[tuple[str, Any]]:
    """Return every public estimator, in all its examples, and every public function, by name."""
    examples = [(example.name, example) for example in estimator_examples()]
    return examples + sorted(_functions().items())


@cache
def _functions() -> dict[str, Any]:
    """Return the public functions that are called with samples, a kernel or a model."""
    found = {}
    for name in MODULES:
        module = getattr(mercer, name) if name else mercer
        for word in module.__all__:
            value = getattr(module, word)
            stacks = word == "stack_outputs"  # puts columns side by side, whatever they hold
            if inspect.isfunction(value) and not stacks and _sound_arguments(value) is not None:
                found[word] = value
    return found


@cache
def _sample() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ALL, COLUMNS))
    return X, np.sin(2 * X[:, 0]) + X[:, 1]


@cache
def _ridge() -> Any:
    X, y = _sample()
    return mercer.KernelRidge(mercer.RBF(), 0.1).fit(X, y)


def _sound_arguments(function: Any) -> dict[str, Any] | None:
    """Return arguments that a function answers, by their names; None for other functions."""
    X, y = _sample()
    by_name = {
        "X": X, "Y": X[::-1] + 0.1, "Z": X[:, :1], "y": y,
        "k": mercer.RBF(), "kernel": mercer.RBF(), "model": _ridge(), "score": np.negative,
        "samples": [X[:9], X[9:]], "points": X[:4], "estimator": mercer.KernelRidge(mercer.RBF()),
        "frame": X, "f": _ridge(), "K": X @ X.T, "A": X @ X.T, "S": X[:4], "rank": 3,
        "log_likelihood": -10.0, "n_parameters": 2.0, "n_samples": 20.0, "noise_variance": 1.0,
        "prior_variance": 1.0, "grid": {"alpha": [0.1, 1.0]}, "mean_squared_error": 1.0,
        "models": [mercer.KernelRidge(mercer.RBF(s), 0.1) for s in (1.0, 2.0)],
        "vc_dimension": 3.0, "empirical_risk": 0.1,
    }  # fmt: skip
    out: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name == "y" or (name in by_name and parameter.default is parameter.empty):
            out[name] = by_name[name]
        elif parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD:
            return None
    if "n_permutations" in inspect.signature(function).parameters:
        out["n_permutations"] = 19
    return out or None


def draw(seed: int, number: int, names: str = "") -> Call:
    """Return a call, the same for the same seed and number."""
    rng = np.random.default_rng([seed, number])
    chosen = [(name, what) for name, what in targets() if names in name]
    name, what = chosen[rng.integers(len(chosen))]
    if isinstance(what, EstimatorExample):
        return _of_estimator(name, what, rng)
    return _of_function(name, what, rng)


def _hostile(A: Any, rng: np.random.Generator) -> tuple[str, Any]:
    """Draw a hostile value in the place of an array."""
    word = list(HOSTILE)[rng.integers(len(HOSTILE))]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return word, HOSTILE[word](_numbers(np.asarray(A)))


def _of_estimator(name: str, example: EstimatorExample, rng: np.random.Generator) -> Call:
    X, y = _sample()
    y = np.column_stack([y, -y])[:, : example.outputs] if example.outputs > 1 else y
    if is_classifier(example.estimator):
        y = np.array(["red", "green", "blue"])[np.arange(ALL) % 3]
    study = VectorStudy(example, X, y)
    study.train, study.new = np.arange(TRAIN), np.arange(TRAIN, ALL)
    rows, t = study.rows(study.train), study.targets(study.train)
    new = study.rows(study.new, study.train)
    model = clone(study.estimator)
    way = ["X", "X", "y", "sample_weight", "new", "new", "parameter"][rng.integers(7)]
    if way == "sample_weight" and not study.takes_weights:
        way = "X"
    if way == "parameter":
        parameters = sorted(model.get_params(deep=False))
        key, value = parameters[rng.integers(len(parameters))], _parameter(rng)
        words = f"{name}: fit with {key}={_told(value)}"
        return Call(words, lambda: _fit(model.set_params(**{key: value}), rows, t), [value], model)
    if way == "new":
        fitted = study.fit()
        asked = [q for q in QUESTIONS if hasattr(fitted, q)] or ["fit_predict"]
        question = asked[rng.integers(len(asked))]
        what, wrong = _hostile(new, rng)
        ask = getattr(fitted, question)
        words = f"{name}: {question} where X is {what}"
        return Call(words, lambda: {question: ask(wrong)}, [wrong], fitted)
    sound = {"X": rows, "y": t, "sample_weight": np.ones(TRAIN)}
    what, wrong = _hostile(sound[way], rng)
    given = {"X": rows, "y": t} | {way: wrong}

    def learn() -> Any:
        _fit(model, **given)
        call.model = None  # it may change, and what it then refuses does not undo that
        return {q: getattr(model, q)(new) for q in QUESTIONS if hasattr(model, q)}

    words = f"{name}: fit where {way} is {what}"
    call = Call(words, learn, list(given.values()), model, len(new))
    return call


def _fit(model: Any, X: Any, y: Any, **extra: Any) -> Any:
    return model.fit(X, y, **extra)


def _parameter(rng: np.random.Generator) -> Any:
    return PARAMETERS[rng.integers(len(PARAMETERS))]


def _told(value: Any) -> str:
    return " ".join(repr(value).split())[:60]


def _of_function(name: str, function: Any, rng: np.random.Generator) -> Call:
    given = dict(_sound_arguments(function) or {})
    signature = inspect.signature(function)
    own = {k: p.kind for k, p in signature.parameters.items() if k not in ("overwrite", "owner")}
    keys = [k for k, kind in own.items() if kind is not inspect.Parameter.VAR_KEYWORD]
    arrays = [k for k in given if isinstance(given[k], np.ndarray) or k == "samples"]
    if arrays and rng.random() < 0.6:
        key = arrays[rng.integers(len(arrays))]
        sound = given[key]
        if isinstance(sound, list):
            what, wrong = _hostile(sound[0], rng)
            wrong = [wrong, *sound[1:]]
        else:
            what, wrong = _hostile(sound, rng)
    else:
        key = keys[rng.integers(len(keys))]
        wrong = _parameter(rng)
        what = _told(wrong)
        if signature.parameters[key].kind is inspect.Parameter.VAR_POSITIONAL:
            wrong = [wrong]
    given[key] = wrong
    places = [k for k, p in signature.parameters.items() if p.kind is p.VAR_POSITIONAL]
    several = [x for k in places for x in given.pop(k, [])]
    return Call(
        f"{name} where {key} is {what}",
        lambda: function(*several, **given),
        [*several, *given.values()],
    )


# ---- The law ----


class Stopped(BaseException):
    """A call took too long; an estimator hears it as it hears Ctrl-C."""


@contextmanager
def _stopped_after(seconds: float) -> Iterator[None]:
    def stop(number: int, frame: Any) -> None:
        raise Stopped

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def judge(call: Call) -> Verdict:
    """Do what a call says, and say whether the law is kept."""
    before = [_snapshot(value) for value in call.given]
    held = None if call.model is None else dict(vars(call.model))
    began = time.process_time()
    error: BaseException | None = None
    answer: Any = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with _stopped_after(LONG):
                answer = call.do()
        except Stopped:
            return Verdict("stopped", call.words)
        except Exception as raised:
            error = raised
    spent = time.process_time() - began
    why = _fault_of(call, answer, error)
    names = ("RuntimeWarning", "ComplexWarning")  # not those derived from it, which say what to do
    odd = [w for w in caught if w.category.__name__ in names]
    if not why and odd:
        why = f"RuntimeWarning: {odd[0].message} ({odd[0].filename}:{odd[0].lineno})"
    if not why and [_snapshot(value) for value in call.given] != before:
        why = "what was given has changed"
    kept = error is None or call.model is None or held is None or _same(held, vars(call.model))
    if not why and not kept:
        why = f"the estimator has changed: {sorted(set(held) ^ set(vars(call.model)))}"
    if not why and spent > PATIENCE:
        why = f"took {spent:.1f} s of the processor"
    if why:
        return Verdict("fault", call.words, why)
    return Verdict("answer" if error is None else "refusal", call.words)


def _fault_of(call: Call, answer: Any, error: BaseException | None) -> str:
    if error is None:
        return _not_finite(answer, call.rows)
    text, kind = str(error), type(error).__name__
    if isinstance(error, NotFittedError):
        return ""
    if not isinstance(error, MercerError):
        return f"{kind}: {text[:300]}"
    if len(text) > LONGEST:
        return f"a message of {len(text)} characters: {text[:100]}"
    if not _spoken(text):
        return f"nobody says: {text[:300]}"
    return ""


@cache
def _speakers() -> frozenset[str]:
    """Return every name that a message may begin with: public names, domains and kernels."""
    names: set[str] = {"on", "Table", "mercer", "config", "SteinKernel", *_functions()}
    for name in dir(mercer):
        names.add(name)
        value = getattr(mercer, name)
        if inspect.ismodule(value):
            names.update(dir(value))
    return frozenset(names)


def _spoken(text: str) -> bool:
    """Whether a message begins with who speaks, or is scikit-learn's sentence about columns."""
    if re.match(r"X has \d+ features, but \w+ is expecting", text) or "feature names" in text:
        return True
    match = re.match(r"(?:[\d.]+(?:e[+-]?\d+)? [*+] |[( ])*([A-Za-z_]\w*)", text)
    if match is None or match[1] not in _speakers():
        return False
    return ":" in text or text[match.end() :].startswith("(")  # a kernel, as it is written


def _not_finite(answer: Any, rows: int | None = None) -> str:
    """Say what in an answer is not finite, or not as long as the points asked about."""
    for name, value in _leaves(answer, "answer"):
        if name.endswith(("predict_log_proba", "score_samples")):  # a density may be 0
            value = np.where(np.isneginf(value), 0.0, value)
        if name == "answer" and not value.ndim:  # a criterion or a bound, which may say nothing
            value = np.where(np.isinf(value), 0.0, value)
        if not np.isfinite(value).all():
            return f"{name} is not finite: {_told(value)}"
        if rows is not None and np.shape(value)[:1] != (rows,):
            return f"{name} has shape {np.shape(value)} for {rows} points"
    return ""


def _leaves(value: Any, name: str) -> Iterator[tuple[str, np.ndarray]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, str(key))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _leaves(inner, name)
    elif sp.issparse(value):
        yield name, value.toarray()
    elif isinstance(value, float | np.floating | np.ndarray):
        array = np.asarray(value)
        if array.dtype.kind in "fc":
            yield name, array
    elif hasattr(value, "pvalue"):
        yield "pvalue", np.asarray(value.pvalue, dtype=float)


def _snapshot(value: Any) -> Any:
    """Return what a value holds, to be compared."""
    if sp.issparse(value):
        inner = ("data", "indices", "indptr", "row", "col")
        return [_snapshot(getattr(value, name)) for name in inner if hasattr(value, name)]
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return (value.shape, repr(value.tolist())[:5000])
        return (value.dtype.str, value.shape, np.asarray(value).tobytes())
    if isinstance(value, list | tuple):
        return [_snapshot(inner) for inner in value]
    if hasattr(value, "columns") and hasattr(value, "to_numpy"):
        return (list(value.columns), repr(value.to_numpy().tolist()))
    return repr(value)[:5000] if isinstance(value, dict | set | str | int | float) else id(value)


def _same(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether a model holds what it held; a parameter that the call itself set aside."""
    learned = {k: v for k, v in after.items() if k.endswith("_")}
    return {k: id(v) for k, v in before.items() if k.endswith("_")} == {
        k: id(v) for k, v in learned.items()
    }


def run(calls: int, seed: int, first: int = 0, names: str = "") -> Iterator[Verdict]:
    """Draw and judge calls, one after another."""
    for number in range(first, first + calls):
        with np.errstate(all="warn", under="ignore"):
            verdict = judge(draw(seed, number, names))
        yield Verdict(verdict.kind, f"[{number}] {verdict.words}", verdict.why)


def main(argv: list[str] | None = None) -> int:
    """Print the table of a campaign; 1 when there was a fault."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first call")
    parser.add_argument("--only", default="", help="a part of the name of an estimator or function")
    options = parser.parse_args(argv)
    counts: Counter[str] = Counter()
    for verdict in run(options.calls, options.seed, options.first, options.only):
        counts[verdict.kind] += 1
        if verdict.kind == "fault":
            print(f"{verdict.words}\n    {verdict.why}", flush=True)
    print(f"{'calls':>10} {'answers':>10} {'refusals':>10} {'faults':>10}   seed")
    told = [sum(counts.values()), counts["answer"], counts["refusal"], counts["fault"]]
    print(" ".join(f"{n:>10}" for n in told) + f"   {options.seed}")
    return 1 if counts["fault"] else 0


if __name__ == "__main__":
    sys.exit(main())
