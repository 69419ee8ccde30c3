"""Which laws are asked of which kernels, operators, solvers and estimators, and how many they are.

    python tools/laws.py             a table of counts
    python tools/laws.py --list      every law, and all that it is asked of
    python tools/laws.py --write     write tests/net/laws.txt, of which no pair may be dropped

The list is read off the parameters of the tests themselves: what is listed runs.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "tests" / "net" / "laws.txt"

#: Kind → laws, and the names of what they are asked of.
Table = dict[str, tuple[list[str], list[str]]]


def parameters(test: Callable) -> dict[str, list[str]]:
    """Return the ids of the values that a test is parametrised with, by the names of arguments."""
    told = {}
    for mark in (m for m in test.pytestmark if m.name == "parametrize"):
        names, values = mark.args[:2]
        ids = mark.kwargs.get("ids") or [getattr(value, "id", None) or value for value in values]
        ids = [ids(value) for value in values] if callable(ids) else ids
        key = names if names in ("law", "seed") else "of"
        told[key] = [getattr(name, "__name__", str(name)) for name in ids]
    return told


def found() -> Table:
    """Return what the tests ask now."""
    for folder in (ROOT / "src", ROOT):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    tests: Any = importlib.import_module("tests.test_laws")
    others: Any = importlib.import_module("tests.testing.laws.test_nonvector")
    table: Table = {}
    for kind in ("kernel", "operator", "solver", "estimator"):
        asked = parameters(getattr(tests, f"test_{kind}"))
        table[kind] = (sorted(asked["law"]), sorted(asked["of"]))
    asked = parameters(tests.test_kernel_psd_and_definition_for_other_points)
    laws = [f"{law}, seed {seed}" for law, seed in product(("double_loop", "psd"), asked["seed"])]
    table["kernel, other points"] = (laws, sorted(asked["of"]))
    cases = [f"{name} on {kind}" for name, kind in product(others.NAMES, others.KINDS)]
    cases += [f"{name} on {kind}" for name, kind in product(("SVC", "KernelRidge"), others.OTHERS)]
    cases += [f"{example.name} on strings" for example in others.others(others.RBF())]
    cases += ["KernelRidge on objects, pairwise", "KernelRidge on objects, counted"]
    table["estimator, other points"] = (sorted(others.LAWS), sorted(cases))
    judged = sorted({repr(estimator) for estimator in tests._for_scikit_learn()})
    return table | {"scikit-learn's checks": (["all"], judged)}


def pairs(table: Table) -> Iterator[tuple[str, str, str]]:
    """Return each law with each example: kind, law, example."""
    for kind, (laws, names) in table.items():
        yield from ((kind, law, name) for law, name in product(laws, names))


def written(table: Table) -> str:
    """Return the text of the list, in which each law of a kind is asked of each name below it."""
    lines = []
    for kind, (laws, names) in table.items():
        lines += [f"{kind}: {len(laws)} laws of {len(names)} = {len(laws) * len(names)}"]
        lines += [f"  law {law}" for law in laws] + [f"  of {name}" for name in names]
    return "\n".join(lines) + "\n"


def read(text: str) -> Table:
    """Return the table that `written` wrote."""
    table: Table = {}
    for line in text.splitlines():
        if not line.startswith(" "):
            table[line.rpartition(":")[0]] = laws, names = [], []
        elif line.startswith("  law "):
            laws.append(line.removeprefix("  law "))
        else:
            names.append(line.removeprefix("  of "))
    return table


def main() -> None:
    """Print or write the list."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="print every law and every name")
    parser.add_argument("--write", action="store_true", help=f"write {FILE.relative_to(ROOT)}")
    given = parser.parse_args()
    table = found()
    if given.write:
        FILE.write_text(written(table))
    if given.list:
        print(written(table), end="")
        return
    print(f"{'':26}{'laws':>6}{'of':>7}{'pairs':>8}")
    for kind, (laws, names) in table.items():
        print(f"{kind:26}{len(laws):6d}{len(names):7d}{len(laws) * len(names):8d}")
    print(f"{'together':39}{len(set(pairs(table))):8d}")


if __name__ == "__main__":
    main()
