"""Checks what changed against `main`, within 90 seconds: lint, types, imports, doctests, tests.

    python tools/check.py [--base COMMIT] [--jobs 2] [--seconds 75] [--list]

Changed is what differs from COMMIT, committed or not. Without one it is `main`; on `main` itself
it is `origin/main`, and where nothing differs from that either, the commit before the last.

Of a changed file of the source run its doctests, the tests of the deepest folder that stands both
in src/mercer and in tests, those that bear its name first, and the laws of the classes that are
written in it. The nearest tests run all, of the others a sample that is spread evenly, so that each
file and each class has its part. No test is begun after the time is over. How many were left to
`make test` is said.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE, TESTS = Path("src/mercer"), Path("tests")
LAWS = TESTS / "test_laws.py"
NEAREST, SAMPLE = 250, 150  # tests that run all, and of the others at most

#: Files beside the source and its tests, and the tests of them.
ELSEWHERE = {
    "Makefile": "tests/test_makefile.py",
    "pyproject.toml": "tests/test_imports.py",
    "tools/house.py": "tests/test_house.py",
    "tools/check.py": "tests/testing/test_check.py",
    "tools/laws.py": "tests/net/test_laws_told.py",
    "benchmarks/arena": "tests/test_arena.py",
    "docs": "tests/docs",
    "examples": "tests/docs/test_examples.py",
    "README.md": "tests/test_documents.py",
    "CONTRIBUTING.md": "tests/docs/test_paths.py",
    "CHANGELOG.md": "tests/test_documents.py",
}

# ---- what changed ----


def git(*words: str) -> list[str]:
    """Return the lines that git prints, none where it refuses."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def changed(base: str) -> list[str]:
    """Return the files that differ from the point where this branch left `base`."""
    fork = git("merge-base", base, "HEAD") or [base]
    files = git("diff", "--name-only", "--diff-filter=d", fork[0])
    return sorted({*files, *git("ls-files", "--others", "--exclude-standard")})


def choose_base() -> str:
    """Return the first of `main`, `origin/main` and the last commit's parent that differs."""
    names = [name for name in ("main", "origin/main") if git("rev-parse", "--verify", name)]
    return next((name for name in names if changed(name)), "HEAD~1")


# ---- what to run ----


def words(path: Path) -> set[str]:
    """Return the words of a file's name, without the s of a plural."""
    parts = path.stem.removeprefix("test_").split("_")
    return {part.rstrip("s") for part in parts} - {"base", "__init__", ""}


def tests_of_source(path: Path) -> list[str]:
    """Return the tests of the deepest folder of tests that a file of the source has."""
    inside = path.relative_to(SOURCE).parent
    folder = next(f for f in (inside, *inside.parents) if (ROOT / TESTS / f).is_dir())
    if folder == Path():  # the few files that are in no folder
        found = list((ROOT / TESTS).glob("test_*.py"))
        found = [f for f in found if words(f) & words(path)]
    else:
        found = list((ROOT / TESTS / folder).rglob("test_*.py"))
    topic = words(path) | (words(inside) if folder != inside else set())
    found.sort(key=lambda f: (-len(words(f) & topic), len(f.parts), f.name))
    return [str(f.relative_to(ROOT)) for f in found]


def tests_of_tests(path: Path) -> list[str]:
    """Return a changed test itself; of what tests share, those of its folder that name it."""
    if path.name.startswith("test_"):
        return [str(path)]
    files = sorted((ROOT / path.parent).rglob("test_*.py"))
    if path.name != "conftest.py":
        files = [f for f in files if re.search(rf"\b{path.stem}\b", f.read_text())]
    return [str(f.relative_to(ROOT)) for f in files]


def classes(path: Path) -> list[str]:
    """Return the public classes of a file of the source; of a base or of helpers, its folder's."""
    known = set(re.findall(r"\w+", (ROOT / SOURCE / "__init__.pyi").read_text()))

    def defined(file: Path) -> list[str]:
        body = ast.parse(file.read_text()).body
        return [node.name for node in body if isinstance(node, ast.ClassDef) and node.name in known]

    own = defined(ROOT / path) if path.stem != "base" else []
    return own or [name for file in (ROOT / path).parent.glob("*.py") for name in defined(file)]


def select(files: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the arguments of pytest, the nearest first, and the classes whose laws run."""
    near, far, names = [], [], []
    for file in files:
        path = Path(file)
        if path.is_relative_to(SOURCE):
            if path.suffix == ".py":
                near.append(file)
                names += classes(path)
            far += tests_of_source(path)
        elif path.is_relative_to(TESTS) and path.suffix == ".py":
            near += tests_of_tests(path)
        else:
            near += [tests for where, tests in ELSEWHERE.items() if path.is_relative_to(where)]
    if any(Path(file).is_relative_to(SOURCE) for file in files):
        far += ["tests/net/test_public_names.py", *([str(LAWS)] if names else [])]
    return list(dict.fromkeys(near + far)), sorted(set(names))


# ---- running it ----


class Part:
    """A command that runs beside others, and what became of it."""

    def __init__(self, title: str, command: list[str], **environment: str):
        self.title, self.began = title, time.monotonic()
        print(f"-- {title}: {' '.join(command)[:400]}", flush=True)
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def end(self, *, silent: bool = True) -> bool:
        """Wait, print what it said unless all is well, and return whether it is."""
        said, _ = self.process.communicate()
        good = self.process.returncode in (0, 5 if self.title == "pytest" else 0)  # 5: no tests
        if not (good and silent):
            print(said.rstrip())
        spent = time.monotonic() - self.began
        print(f"   {self.title}: {'good' if good else 'BAD'}, {spent:.1f} s", flush=True)
        return good


def run(files: list[str], jobs: int, seconds: float) -> bool:
    """Run every check of the changed files and return whether all went well."""
    began = time.time()
    binaries = Path(sys.executable).parent
    code = [f for f in files if f.endswith((".py", ".pyi"))]
    source = [f for f in files if f.startswith("src/")] or "pyproject.toml" in files
    good = True
    if code:
        good &= Part("lint", [str(binaries / "ruff"), "check", *code]).end()
        good &= Part("format", [str(binaries / "ruff"), "format", "--check", *code]).end()
    types = Part("types", [str(binaries / "mypy")]) if source else None
    if source:
        good &= Part("imports", [str(binaries / "lint-imports")], PYTHONPATH="src").end()
    arguments, names = select(files)
    if arguments:
        command = [sys.executable, "-m", "pytest", "-q", "-n", str(jobs), "--dist", "load"]
        command += ["--maxschedchunk", "8", "-p", "tools.check", *arguments]
        good &= Part(
            "pytest",
            command,
            PYTHONPATH="src:.",
            SCIPY_ARRAY_API="1",
            OPENBLAS_NUM_THREADS="1",
            OMP_NUM_THREADS="1",
            CHECK_UNTIL=str(began + seconds),
            CHECK_FILES=os.pathsep.join(files),
            CHECK_CLASSES="" if str(LAWS) in files else "|".join(names) or "none",
        ).end(silent=False)
    if types is not None:
        good &= types.end()
    print(f"{'good' if good else 'BAD'}: {len(files)} files in {time.time() - began:.0f} s")
    return good


# ---- what pytest is told: this file is a plugin of the run above ----

left, spared = 0, 0  # not begun in time, and not in the sample


def pytest_collection_modifyitems(items):
    """Of the laws, keep those of the classes that were changed; of what is far, a sample."""
    global spared
    spoken = re.compile(rf"\b({os.environ.get('CHECK_CLASSES', '')})\b")
    items[:] = [i for i in items if i.path != ROOT / LAWS or spoken.search(i.name)]
    files = {ROOT / file for file in os.environ.get("CHECK_FILES", "").split(os.pathsep)}
    own = [i for i in items if i.path in files]
    kept = own + sampled([i for i in items if i.path not in files])
    spared, items[:] = len(items) - len(kept), kept


def sampled(items: list) -> list:
    """Return the nearest tests, which come first, and a part of the others, evenly spread."""
    far = items[NEAREST:]
    return items[:NEAREST] + far[:: max(1, -(-len(far) // SAMPLE))]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    """Begin no test when the time is over."""
    global left
    if time.time() < float(os.environ.get("CHECK_UNTIL", "inf")):
        return None
    left += 1
    return True


def pytest_sessionfinish(session):
    """Tell the process that collects the results how many tests were left."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput.update(left=left, spared=spared)


def pytest_testnodedown(node, error):
    """Count what a worker has left; all workers spare the same tests."""
    global left, spared
    told = getattr(node, "workeroutput", {})
    left, spared = left + told.get("left", 0), told.get("spared", spared)


def pytest_terminal_summary(terminalreporter):
    """Say what is left to `make test`."""
    if left:
        terminalreporter.write_line(f"the time is over: {left} tests are left to `make test`")
    if spared:
        terminalreporter.write_line(f"a sample: {spared} more tests are left to `make test`")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--base", help="the commit to compare with")
    parser.add_argument("--jobs", type=int, default=2, help="processes that run tests")
    parser.add_argument("--seconds", type=float, default=75.0, help="when no test is begun")
    parser.add_argument("--list", action="store_true", help="tell what would run, and run nothing")
    given = parser.parse_args()
    base = given.base or choose_base()
    files = changed(base)
    print(f"{len(files)} files differ from {base}: {' '.join(files)[:400]}")
    if given.list:
        print(*select(files)[0], sep="\n")
        return 0
    return 0 if run(files, given.jobs, given.seconds) else 1


if __name__ == "__main__":
    sys.exit(main())
