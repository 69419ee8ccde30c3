"""Writes the golden files of the net: models as files and as pickles, and what they say.

    python tests/net/make_golden.py [--add | --force]

They were written by the code as it was before the source tree was put in a new order, and say what
must not change by that. So they are not to be written again: ``--add`` writes those of classes that
are new and leaves the others as they are; an answer that changes on purpose is told in
CHANGELOG.md, and with ``--force`` everything is written anew.
"""

import json
import pickle
import sys
import tempfile
import warnings
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import sklearn

import mercer
from tests.net import authors
from tests.net.answers import ask
from tests.net.golden_items import items
from tests.net.points import encode

FOLDER = Path(__file__).parent / "golden"


def main(arguments):
    """Write every file, or refuse."""
    add = "--add" in arguments
    if FOLDER.exists() and any(FOLDER.iterdir()) and not (add or "--force" in arguments):
        raise SystemExit(f"{FOLDER.name} holds files already; --add writes what is new.")
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.iterdir() if not add else ():
        old.unlink()
    for cls in authors.OWN:
        mercer.io.register(cls)
    points, told = (_read("points.json"), _read("expected.json")) if add else ({}, {})
    versions, known = told.pop("versions", None) or _versions(), set(told)
    for item in items():
        if item.name in known:
            continue
        if item.name in told:
            raise SystemExit(f"two items are called {item.name}")
        given = encode(item.given)
        if json.dumps(points.setdefault(item.points, given)) != json.dumps(given):
            raise SystemExit(f"{item.name}: other points are called {item.points} already")
        told[item.name] = _write(item)
    _dump("points.json", points)
    _dump("expected.json", {"versions": versions, **told})
    sizes = [path.stat().st_size for path in FOLDER.iterdir()]
    print(f"{len(told)} items, {len(told) - len(known)} of them new, {sum(sizes)} bytes")


def _versions():
    found = {"mercer": mercer.__version__, "scikit-learn": sklearn.__version__}
    return {**found, "numpy": np.__version__}


def _write(item):
    pickled = pickle.dumps(item.model, protocol=4)
    (FOLDER / f"{item.name}.pickle").write_bytes(pickled)
    told = {"kind": item.kind, "class": type(item.model).__name__, "points": item.points}
    if item.saved:
        path = FOLDER / f"{item.name}.mercer"
        mercer.save(item.model, path)
        told["saved_again"] = _is_saved_again(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # A model that was just fitted may know more, such as its matrix, than one that is read.
        told["answers"] = ask(item.kind, pickle.loads(pickled), item.given)
    return told


def _is_saved_again(path):
    """Whether a loaded model, saved again, is the same bytes."""
    with tempfile.TemporaryDirectory() as folder:
        again = Path(folder) / "again.mercer"
        mercer.save(mercer.load(path), again)
        return again.read_bytes() == path.read_bytes()


def _read(name):
    return json.loads((FOLDER / name).read_text())


def _dump(name, told):
    """One line for each entry, so that a difference shows where it is."""
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in told.items()]
    (FOLDER / name).write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
