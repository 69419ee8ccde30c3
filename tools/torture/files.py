"""Damaged model files: each is refused by name, or holds the model that was saved, to the bit.

``python tools/torture/files.py --cases 5000 --seed 1`` saves a model of every public estimator and
damages the file: bytes are flipped, the end is cut off, parts of other model files are put into it,
or an array or a word of the header is forged with all digests right. The last kind may also answer
otherwise: nobody can tell a forged number from a true one.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

import mercer
from mercer.errors import MercerError
from mercer.io import container
from mercer.testing import estimator_examples
from mercer.testing.examples import VectorStudy

WORDS: tuple[Any, ...] = (None, -1, 0, 1, "x", [], {}, True, 1.5, "median", "x" * 1000)
NUMBERS = (np.nan, np.inf, -1.0, 0.0, 1e308, 2**62, -(2**63), 2**31)


@cache
def saved() -> list[tuple[str, bytes, Any, dict[str, np.ndarray]]]:
    """Return name, file, points and answers of a model of every public estimator."""
    out, seen = [], set()
    rng = np.random.default_rng(0)
    X = rng.standard_normal((16, 3))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for example in estimator_examples():
            if type(example.estimator) in seen:
                continue
            seen.add(type(example.estimator))
            y = np.array(["a", "b"])[np.arange(16) % 2] if _labels(example) else X[:, 0]
            study = VectorStudy(example, X, y)
            model, path = study.fit(), os.path.join(folder, "model")
            mercer.save(model, path)
            new = study.rows(study.new, study.train)
            out.append((example.name, Path(path).read_bytes(), new, answers(model, new)))
    return out


def _labels(example: Any) -> bool:
    from sklearn.base import is_classifier

    return is_classifier(example.estimator)


def answers(model: Any, new: Any) -> dict[str, np.ndarray]:
    """Return what a model says of new points."""
    asked = ("decision_function", "predict_proba", "predict", "transform", "score_samples")
    return {q: np.asarray(getattr(model, q)(new)) for q in asked if hasattr(model, q)}


def flipped(data: bytes, rng: np.random.Generator) -> bytes:
    """Return a file of which one to four bits are wrong."""
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 5))):
        out[rng.integers(len(out))] ^= 1 << int(rng.integers(8))
    return bytes(out)


def cut(data: bytes, rng: np.random.Generator) -> bytes:
    """Return a file without its end, or with something behind it."""
    if rng.random() < 0.2:
        return data + bytes(rng.integers(0, 256, int(rng.integers(1, 99)), dtype=np.uint8))
    return data[: int(rng.integers(len(data)))]


def spliced(data: bytes, rng: np.random.Generator) -> bytes:
    """Return a file with a part of another one, at the same or at another place."""
    other = saved()[int(rng.integers(len(saved())))][1]
    start = int(rng.integers(len(data)))
    length = int(rng.choice([1, 8, 48, 64, 1000, len(data)]))
    place = start if rng.random() < 0.5 else int(rng.integers(len(other)))
    made = data[:start] + other[place : place + length] + data[start + length :]
    return made[:-1] if made == other else made  # all of another file is no damage


def forged(data: bytes, rng: np.random.Generator) -> bytes:
    """Return a file in which one array or one word of the header is another, with right digests."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        header, arrays = container.read(file.name)
    if rng.random() < 0.5 and arrays:
        at = int(rng.integers(len(arrays)))
        arrays[at] = _other(arrays[at], rng)
    else:
        header = json.loads(json.dumps(header))
        places = list(_leaves(header["objects"]))
        *path, last = places[int(rng.integers(len(places)))]
        inner = header["objects"]
        for key in path:
            inner = inner[key]
        inner[last] = WORDS[int(rng.integers(len(WORDS)))]
    return b"".join(bytes(piece) for piece in container.pieces(header, arrays))


def _other(A: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    way = int(rng.integers(4)) if A.ndim and A.size else 3
    if way == 0 and A.dtype.kind in "fiu":
        A = A.copy()
        with np.errstate(all="ignore"):
            value = np.array(NUMBERS[int(rng.integers(len(NUMBERS)))]).astype(A.dtype)
        A.reshape(-1)[int(rng.integers(A.size))] = value
        return A
    if way == 1:
        return np.ascontiguousarray(A[: int(rng.integers(len(A)))])
    if way == 2:
        return np.concatenate([A, A])
    return A if A.dtype.kind == "U" else np.ascontiguousarray(A.astype(rng.choice(["<f4", "<i8"])))


def _leaves(tree: Any, path: tuple = ()) -> Iterator[tuple]:
    if isinstance(tree, dict | list) and tree:
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from _leaves(value, (*path, key))
    elif path:
        yield path


WAYS: dict[str, Callable[[bytes, np.random.Generator], bytes]] = {
    "flipped": flipped,
    "cut": cut,
    "spliced": spliced,
    "forged": forged,
}


def judge(way: str, number: int, seed: int) -> tuple[str, str]:
    """Return how a damaged file ended: "refused", "same", "other" (forged) or "fault", and why."""
    rng = np.random.default_rng([seed, number])
    name, data, new, expected = saved()[number % len(saved())]
    try:
        damaged = WAYS[way](data, rng)
    except (OverflowError, TypeError, ValueError):  # no file holds such a header
        return "refused", ""
    told = f"[{number}] {name}, {way}: "
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = os.path.join(folder, "model")
        Path(path).write_bytes(damaged)
        try:
            with np.errstate(all="ignore"):
                said = answers(mercer.load(path), new)
        except MercerError as error:
            long = len(str(error)) > 2000
            return ("fault", told + "a long message") if long else ("refused", "")
        except NotFittedError as error:  # a parameter asks for what this fit did not learn
            said_so = str(error).startswith(name.partition("-")[0] + ": ")
            return ("refused", "") if said_so else ("fault", f"{told}NotFittedError: {error}")
        except Exception as error:
            return "fault", f"{told}{type(error).__name__}: {str(error)[:300]}"
    same = said.keys() == expected.keys() and all(
        np.array_equal(said[q], expected[q], equal_nan=said[q].dtype.kind == "f") for q in said
    )
    if same or way == "forged":
        return ("same" if same else "other"), ""
    return "fault", f"{told}loaded with other answers"


def run(cases: int, seed: int) -> Iterator[tuple[str, str, str]]:
    """Damage files and yield the way, how each ended, and why."""
    ways = list(WAYS)
    for number in range(cases):
        way = ways[number // len(saved()) % len(ways)]
        yield way, *judge(way, number, seed)


def main(argv: list[str] | None = None) -> int:
    """Print the table of a campaign; 1 when there was a fault."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    faulthandler.enable()
    counts: Counter[tuple[str, str]] = Counter()
    for way, kind, why in run(options.cases, options.seed):
        counts[way, kind] += 1
        if kind == "fault":
            print(why, flush=True)
    kinds = ("refused", "same", "other", "fault")
    print(f"{'':>10}" + "".join(f"{kind:>10}" for kind in kinds) + f"   seed {options.seed}")
    for way in WAYS:
        print(f"{way:>10}" + "".join(f"{counts[way, kind]:>10}" for kind in kinds))
    return 1 if any(counts[way, "fault"] for way in WAYS) else 0


if __name__ == "__main__":
    sys.exit(main())
