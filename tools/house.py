"""How the house stands: files, folders, walks, classes and imports, counted and drawn.

    python tools/house.py                              the table of measures
    python tools/house.py --list MEASURE               where a measure comes from, the worst first
    python tools/house.py --svg docs/_static/house.svg the folders and the imports between them
    python tools/house.py --src DIRECTORY              another tree than src/mercer

Static measures read the source and import nothing. Walks run in a process of their own, with
the compiled loops as plain Python. The first column of numbers is the same count at 1e6e9b3.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from xml.sax.saxutils import escape

SOURCE = Path(__file__).resolve().parents[1] / "src" / "mercer"

#: The corridor from the street to the cellar; folders on one floor do not see each other.
FLOORS = """cli, testing datasets, io plot, selection explain, models statistics, features,
    estimator, rkhs, solvers, losses, operators, kernels, engines, jit, domains"""

# ---- the source ----

DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def docstring_lines(node: ast.AST) -> range:
    """The lines of the docstring of a module, class or function."""
    if ast.get_docstring(node, clean=False) is None:
        return range(0)
    return range(node.body[0].lineno, node.body[0].end_lineno + 1)


class Module:
    """One file: its name with dots, its text and its syntax tree."""

    def __init__(self, name: str, path: Path):
        self.name, self.path = name, path
        self.is_door = path.name == "__init__.py"
        self.package = name if self.is_door else name.rpartition(".")[0]
        self.folder = f"{name}..".split(".")[1]
        self.text = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)
        self.nodes = list(ast.walk(self.tree))
        stub = path.with_suffix(".pyi")
        self.stub = ast.parse(stub.read_text(encoding="utf-8")) if stub.exists() else None

    @cached_property
    def code_lines(self) -> int:
        """How many lines hold a token that is neither a comment nor part of a docstring."""
        lines: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type != tokenize.COMMENT and token.string.strip():
                lines.update(range(token.start[0], token.end[0] + 1))
        for node in self.nodes:
            if isinstance(node, (ast.Module, *DEFINITIONS)):
                lines.difference_update(docstring_lines(node))
        return len(lines)


@dataclass(frozen=True)
class Use:
    """`from written import name` in importer; home is where the doors say that the name lives."""

    importer: Module
    written: str
    home: str
    #: the import goes through a door with a stub, which loads only the home of the name
    lazy: bool
    #: the import stands in the stub of a door
    listed: bool


class House:
    """The tree below a folder: what its files hold and which of them import which."""

    def __init__(self, source: Path = SOURCE):
        self.source = source.resolve()
        self.root = self.source.name
        self.modules: dict[str, Module] = {}
        for path in sorted(self.source.rglob("*.py")):
            parts = path.relative_to(self.source.parent).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            self.modules[name] = Module(name, path)
        self.doors = {m.name: dict(self._listed(m)) for m in self if m.is_door}

    def __iter__(self) -> Iterator[Module]:
        return iter(self.modules.values())

    def ours(self, nodes) -> Iterator[tuple[str, ast.alias]]:
        """Every name of this package that import statements among nodes bring."""
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(f"{self.root}."):
                yield from ((node.module, alias) for alias in node.names)

    def _listed(self, door: Module) -> Iterator[tuple[str, tuple[str, str]]]:
        """The names of a door, each with the module it comes from and its name there."""
        for tree in (door.tree, door.stub) if door.stub else (door.tree,):
            for module, alias in self.ours(ast.walk(tree)):
                yield alias.asname or alias.name, (module, alias.name)

    def home(self, module: str, name: str) -> str:
        """Where a name of a module is defined, found through the doors."""
        entry = self.doors.get(module, {}).get(name)
        if entry and entry != (module, name):
            return self.home(*entry)
        return f"{module}.{name}" if f"{module}.{name}" in self.modules else module

    def use(self, importer: Module, module: str, name: str, listed: bool) -> Use:
        through_door = name in self.doors.get(module, {})
        home = self.home(module, name)
        lazy = through_door and self.modules[module].stub is not None
        return Use(importer, module if through_door else home, home, lazy, listed)

    @cached_property
    def uses(self) -> list[Use]:
        """Every import of one of our files by another, those in functions and stubs too."""
        out = []
        for m in self:
            stub = list(ast.walk(m.stub)) if m.stub else []
            for nodes, listed in ((m.nodes, False), (stub, True)):
                for module, alias in self.ours(nodes):
                    if module in self.modules:
                        out.append(self.use(m, module, alias.name, listed))
                for node in nodes:
                    for alias in node.names if isinstance(node, ast.Import) else ():
                        if alias.name in self.modules:
                            out.append(Use(m, alias.name, alias.name, False, listed))
        return [use for use in out if use.importer.name != use.written]

    @cached_property
    def edges(self) -> set[tuple[str, str]]:
        """Importer and imported file, as written; what a stub lists is imported by its door."""
        return {(use.importer.name, use.written) for use in self.uses}

    @cached_property
    def exported(self) -> set[str]:
        return {name for names in self.doors.values() for name in names}

    @cached_property
    def walks(self) -> dict:
        """What the walks enter, told by a process of their own."""
        environment = {n: v for n, v in os.environ.items() if n != "SCIPY_ARRAY_API"}
        environment |= {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(self.source.parent)}
        done = subprocess.run(
            [sys.executable, __file__, "--src", str(self.source), "--walk"],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
        if done.returncode:
            raise RuntimeError(f"a walk failed:\n{done.stderr}")
        return json.loads(done.stdout.splitlines()[-1])


# ---- measures ----


@dataclass(frozen=True)
class Measure:
    """A number that may only fall, and the places that it comes from."""

    key: str
    words: str
    before: float
    target: float
    total: Callable
    find: Callable[[House], dict[str, float]]
    kind: str

    def value(self, house: House) -> float:
        return round(self.total(self.find(house)), 1)

    def places(self, house: House) -> list[str]:
        """Where the number comes from, the worst first."""
        found = sorted(self.find(house).items(), key=lambda item: (-item[1], item[0]))
        return [f"{count:6g}  {place}" for place, count in found]


MEASURES: dict[str, Measure] = {}


def amount(found: dict[str, float]) -> float:
    return sum(found.values())


def mean(found: dict[str, float]) -> float:
    return sum(found.values()) / max(1, len(found))


def largest(found: dict[str, float]) -> float:
    return max(found.values(), default=0)


def measure(key, words, before, target, total=amount, kind="static"):
    """Register a function that gives the places of a measure, each with its share."""

    def register(find):
        MEASURES[key] = Measure(key, words, before, target, total, find, kind)
        return find

    return register


@measure("files", "files", 636, 380)
def files_of_folders(house):
    return Counter(m.package for m in house)


@measure("crowded", "folders with more than 15 files", 14, 1, len)
def crowded_folders(house):
    folders = Counter(m.package for m in house if not m.is_door)
    return {name: n for name, n in folders.items() if n > 15}


@measure("short", "files under 60 code lines", 154, 30, len)
def short_files(house):
    """As the review counted them: all files but doors."""
    return {m.name: m.code_lines for m in house if not m.is_door and m.code_lines < 60}


@measure("paragraphs", "… that are not one public class", 139, 30, len)
def paragraphs(house):
    """By the rule: a short file is excused if a public class is all that it defines."""

    def excused(name):
        defined = [n.name for n in house.modules[name].tree.body if isinstance(n, DEFINITIONS)]
        return len(defined) == 1 and defined[0] in house.exported and defined[0][0].isupper()

    return {name: n for name, n in short_files(house).items() if not excused(name)}


@measure("one_importer", "modules with one importer", 229, 70, len)
def single_importers(house):
    """As the review counted them: a door is an importer, and what comes by it is the door's.

    Through a door with a stub the importer is the file that asks. The list of the public names
    is no importer.
    """
    importers = defaultdict(set)
    for use in house.uses:
        if use.listed and use.importer.name == house.root:
            continue
        importers[use.written].add(use.importer.name)
        if use.lazy:
            importers[use.home].add(use.importer.name)
    return {f"{name} < {min(by)}": 1 for name, by in importers.items() if len(by) == 1}


@measure("one_user", "… used by one file, seen through all doors", 186, 70, len)
def single_users(house):
    """The same with every door open: doors use nothing, those do who ask for a name."""
    users = defaultdict(set)
    for use in house.uses:
        if not use.importer.is_door:
            users[use.home].add(use.importer.name)
    return {f"{name} < {min(by)}": 1 for name, by in users.items() if len(by) == 1}


@measure("code", "code lines", 70516, 60000)
def code_lines(house):
    return {m.name: m.code_lines for m in house}


@measure("docstrings", "docstring lines on names not exported", 16113, 9000)
def inner_docstrings(house):
    """Of functions and classes that no door lists, and of their methods."""
    out = Counter()
    for m in house:
        for outer in m.tree.body:
            if isinstance(outer, DEFINITIONS) and outer.name not in house.exported:
                methods = outer.body if isinstance(outer, ast.ClassDef) else []
                for node in (outer, *(n for n in methods if isinstance(n, DEFINITIONS))):
                    out[m.name] += len(docstring_lines(node))
    return out


def walk_measure(key, words, before, target, walk, total=len):
    @measure(key, words, before, target, total, "walk")
    def find(house):
        return house.walks["entered"][walk]


walk_measure("walk_ridge", "files entered: ridge fit and predict", 49, 28, "ridge")
walk_measure("walk_svc", "files entered: SVC fit", 42, 24, "svc")
walk_measure("walk_gpr", "files entered: GPR fit", 43, 25, "gpr")
walk_measure("walk_mmd", "files entered: mmd_test", 29, 20, "mmd")
walk_measure("walk_cli", "files entered: mercer fit", 88, 50, "cli")
walk_measure("walk_falkon", "files entered: Falkon on Parquet", 62, 38, "falkon")
walk_measure("functions", "functions entered: ridge", 201, 130, "ridge", amount)


@measure("loaded", "modules loaded by a ridge fit", 321, 170, amount, "walk")
def loaded_modules(house):
    return Counter(".".join(name.split(".")[:2]) for name in house.walks["loaded"])


@measure("mro_max", "own classes of an estimator, most", 13, 4, largest, "walk")
@measure("mro_mean", "own classes of an estimator, mean", 7.9, 3.5, mean, "walk")
def own_classes(house):
    return {" > ".join(names): len(names) for names in house.walks["estimators"]}


@measure("private_bases", "private bases of estimators", 33, 12, len, "walk")
def private_bases(house):
    public = {names[0] for names in house.walks["estimators"]}
    bases = (name for names in house.walks["estimators"] for name in names)
    return {n: k for n, k in Counter(bases).items() if n not in public}


@measure("gram", "isinstance(…, GramRows) outside domains, kernels, testing", 124, 0)
def gram_questions(house):
    out = Counter()
    for m in house:
        for node in m.nodes if m.folder not in ("domains", "kernels", "testing") else ():
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
                asked = {getattr(n, "id", getattr(n, "attr", "")) for n in ast.walk(node.args[1])}
                out[m.name] += bool(asked & {"GramRows", "GramPoints"})
    return +out


@measure("owner", "parameters called owner", 350, 20)
def owners(house):
    nodes = ((m, n) for m in house for n in m.nodes)
    return Counter(m.name for m, n in nodes if isinstance(n, ast.arg) and n.arg == "owner")


@measure("windows", "edges into inner files of other folders", 719, 0)
def windows(house):
    """Imports past a door: not of one's own folder, nor of one around it.

    A door may reach down to what lies below it. The review saw folders of the first level only,
    and took doors of inner folders for inner files: 711.
    """
    out = Counter()
    for importer, target in house.edges:
        here, there = house.modules[importer], house.modules[target]
        around = f"{here.package}.".startswith(f"{there.package}.")
        below = here.is_door and target.startswith(f"{importer}.")
        if not (there.is_door or around or below):
            out[target] += 1
    return out


@measure("private", "_private accesses across files", 528, 120)
def private_accesses(house):
    """`x._name` on anything but self and cls, where this file defines no such function."""
    out = Counter()
    for m in house:
        own = {n.name for n in m.nodes if isinstance(n, DEFINITIONS)}
        for node in m.nodes:
            if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
                on = getattr(node.value, "id", "")
                parent = getattr(getattr(node.value, "func", None), "id", "") == "super"
                inner = node.attr.startswith("__") or node.attr in own
                if not (inner or parent or on in ("self", "cls")):
                    out[f"{m.name} {node.attr}"] += 1
    return out


def engine_measure(key, words, before, folders):
    @measure(key, words, before, 0, len)
    def find(house):
        users = Counter(a for a, b in house.edges if f"{b}.".startswith(f"{house.root}.engines."))
        return {name: n for name, n in users.items() if house.modules[name].folder in folders}


engine_measure("engines", "files of models that import engines", 86, ["models"])
engine_measure("engines_else", "… of selection and statistics", 26, ["selection", "statistics"])


@measure("torch", "files that import torch, outside testing", 34, 8, len)
def torch_files(house):
    out = Counter()
    for m in house:
        for node in m.nodes if m.folder != "testing" else ():
            if isinstance(node, ast.Import):
                out[m.name] += any(a.name.split(".")[0] == "torch" for a in node.names)
            elif isinstance(node, ast.ImportFrom):
                out[m.name] += (node.module or "").split(".")[0] == "torch"
    return +out


@measure("largest_cycle", "… modules in the largest", 27, 3, largest)
@measure("cycles", "import cycles, those in functions too", 11, 2, len)
@cache
def cycles(house):
    """Sets of modules that import each other.

    An eager door loads all that it imports; a door with a stub leads straight to the home of the
    name.
    """
    graph = defaultdict(set)
    for use in house.uses:
        if not use.listed:
            graph[use.importer.name].add(use.home if use.lazy else use.written)
    number, low, stack, out = {}, {}, [], {}

    def visit(name):
        number[name] = low[name] = len(number)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in number:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == number[name]:
            cycle = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(cycle) > 1:
                out[" ".join(sorted(cycle))] = len(cycle)

    sys.setrecursionlimit(10000)
    for name in house.modules:
        if name not in number:
            visit(name)
    return out


@measure("class_names", "class names with two meanings", 34, 0, len)
def class_names(house):
    where = defaultdict(list)
    for m in house:
        for node in m.tree.body:
            if isinstance(node, ast.ClassDef):
                where[node.name].append(m.name)
    return {f"{c}: {' '.join(at)}": len(at) for c, at in where.items() if len(set(at)) > 1}


@measure("stems", "stems twice in a top folder, but base", 4, 0, len)
def stems(house):
    where = defaultdict(list)
    for m in house:
        if not m.is_door and m.path.stem != "base":
            where[m.folder, m.path.stem].append(m.name)
    return {" ".join(names): len(names) for names in where.values() if len(names) > 1}


@measure("lists", "places that list KernelRidge", 5, 1)
def public_lists(house):
    """Imports and strings that spell the name in doors and their stubs."""
    out = Counter()
    for m in house:
        for node in (*m.nodes, *(ast.walk(m.stub) if m.stub else ())) if m.is_door else ():
            spelled = isinstance(node, ast.Constant) and node.value == "KernelRidge"
            imported = isinstance(node, ast.alias) and node.name == "KernelRidge"
            out[m.name] += spelled or imported
    return +out


@measure("duplicates", "pairs of six or more equal lines", 576, 250, amount, "slow")
@cache
def duplicates(house):
    """Told by the command of that name; nothing where it is not installed."""
    words = ["duplicates", "--repo", str(house.source), "--most", "200", "--seconds", "100"]
    said = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    first, *pairs = said.splitlines() or [""]
    numbers = [int(w) for w in first.replace(",", "").split() if w.isdigit()]
    return {"\n".join([first, *pairs]): numbers[0] if numbers else 0}


# ---- walks: run in a process of their own ----


def first_walks(folder: Path) -> dict[str, Callable]:
    """The six walks, on 30 rows of 3 columns, for Falkon on two files of 200 rows."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    import mercer as mc
    from mercer.cli import main
    from mercer.statistics import mmd_test

    rng = np.random.default_rng(0)
    X, X2, Y = rng.normal(size=(30, 3)), rng.normal(size=(5, 3)), rng.normal(size=(30, 3)) + 0.5
    y = np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=30)
    labels = np.where(y > 0, "yes", "no")
    table, blocks = folder / "t.csv", folder / "blocks"
    np.savetxt(table, np.c_[X, y], delimiter=",", header="a,b,c,y", comments="", fmt="%.6f")
    blocks.mkdir()
    for part in range(2):
        rows = rng.normal(size=(200, 4))
        columns = {name: rows[:, i] for i, name in enumerate(("a", "b", "c", "y"))}
        pq.write_table(pa.table(columns), blocks / f"{part}.parquet")
    words = ["fit", str(table), "--target", "y", "-o", str(folder / "m.mercer"), "--force"]

    def falkon():
        rows = mc.RowBlocks.from_parquet(blocks, target="y")
        mc.KernelRidge(mc.RBF(2.0), solver="falkon", n_centers=20).fit(rows)

    return {
        "ridge": lambda: mc.KernelRidge(mc.RBF("median"), alpha=1.0).fit(X, y).predict(X2),
        "svc": lambda: mc.SVC(mc.RBF()).fit(X, labels),
        "gpr": lambda: mc.GaussianProcessRegressor(mc.RBF()).fit(X, y),
        "mmd": lambda: mmd_test(X, Y, n_permutations=50, rng=0),
        "cli": lambda: main(words),
        "falkon": falkon,
    }


def entered(walk: Callable, source: Path) -> dict[str, int]:
    """How many functions of each file a walk enters; lambdas and comprehensions do not count."""
    seen = set()

    def note(frame, event, _):
        if event == "call" and not frame.f_code.co_name.startswith("<"):
            seen.add(frame.f_code)

    sys.setprofile(note)
    try:
        walk()
    finally:
        sys.setprofile(None)
    files = Counter(code.co_filename for code in seen)
    inside = {Path(name): n for name, n in files.items() if name.startswith(f"{source}{os.sep}")}
    return {path.relative_to(source).as_posix(): n for path, n in inside.items()}


def walk_all(source: Path) -> dict:
    """What a first fit loads, what warm walks enter, and the classes of the estimators."""
    import mercer

    mercer.KernelRidge().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0]).predict([[0.5]])
    loaded = sorted(name for name in sys.modules if name.split(".")[0] == "mercer")
    out = {"loaded": loaded, "entered": {}, "estimators": []}
    with tempfile.TemporaryDirectory() as folder:
        for name, walk in first_walks(Path(folder)).items():
            walk()
            out["entered"][name] = entered(walk, source)
    for name in mercer.__all__:
        value = getattr(mercer, name)
        if isinstance(value, type) and value.__module__.startswith("mercer.models."):
            own = [c.__name__ for c in value.__mro__ if c.__module__.split(".")[0] == "mercer"]
            if hasattr(value, "get_params") and name != "KernelEstimator":
                out["estimators"].append(own)
    return out


# ---- the drawing ----

WIDE, LEFT, RIGHT = 1000, 16, 500
CALM, ALARM, GUIDE = "#4f83b5", "#d6453d", "#dfe5eb"
FILLS = ["#eef3f8", "#dde8f2", "#cbdcec"]
STYLE = (
    "text{font-family:Helvetica,Arial,sans-serif;fill:#1f2d3d;font-size:11px}"
    ".big{font-size:13px;font-weight:600}.name{font-weight:600}.soft{fill:#5b6b7b}"
    ".end{text-anchor:end}.mid{text-anchor:middle}.tiny{font-size:9px}.white{fill:#fff}"
    "path{fill:none;stroke-linejoin:round}"
)
LEGEND = [
    "A box is a folder, its area the code lines. A dot counts the imports by files of",
    "its row from the folder of its lane, and the lane leads into that folder:",
    "down in blue; up in red, against the order of the floors.",
]


class Drawing:
    """Floors of folders on the left, a lane for each imported folder on the right.

    Lanes stand in the order of their folders, so that those that lead down never cross.
    """

    def __init__(self, house: House):
        self.house, self.out = house, []
        self.sizes: dict[tuple[str, ...], list[int]] = defaultdict(lambda: [0, 0])
        self.top = {m.name: m.folder for m in house if m.folder and m.package != house.root}
        ground = [m for m in house if m.package == house.root and m.path.stem[0] != "_"]
        self.ground = ", ".join(m.path.stem for m in ground)
        self.top |= {m.name: self.ground for m in ground}
        for m in house:
            path = (self.ground,) if m in ground else tuple(m.package.split(".")[1:])
            for depth in range(1, len(path) + 1):
                self.sizes[path[:depth]][0] += 1
                self.sizes[path[:depth]][1] += m.code_lines
        floors = [floor.split() for floor in FLOORS.split(",")] + [[self.ground]]
        strays = set(self.top.values()) - {name for floor in floors for name in floor}
        floors.insert(0, sorted(strays))
        self.floors = [[n for n in floor if (n,) in self.sizes] for floor in floors]

    def text(self, x, y, words, kind, more=""):
        self.out.append(
            f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}"{more}>{escape(words)}</text>'
        )

    def line(self, points, colour, width, more=""):
        path = "M" + " L".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.out.append(f'<path d="{path}" stroke="{colour}" stroke-width="{width:.1f}"{more}/>')

    def box(self, path, x, y, w, h):
        """A folder with its folders inside, areas by code lines."""
        files, lines = self.sizes[path]
        name, counts = path[-1], f"{files} files · {lines:,} lines"
        self.out.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" rx="4" '
            f'fill="{FILLS[min(len(path), 3) - 1]}" stroke="#8aa4bd" stroke-width="0.8">'
            f"<title>{'/'.join(path)}: {counts}</title></rect>"
        )
        squeezed = f' textLength="{w - 10:.0f}" lengthAdjust="spacingAndGlyphs"'
        kind, fits = "big" if len(path) == 1 else "name", w > 7.2 * len(name) + 8
        self.text(x + 6, y + 15, name, kind, "" if fits else squeezed)
        beside = w > 8 * len(name) + 6 * len(counts) + 20
        if beside:
            self.text(x + w - 6, y + 15, counts, "soft end")
        else:
            short = (counts, f"{files} · {lines:,}", f"{files}")
            fitting = next((words for words in short if w > 6 * len(words) + 8), "")
            self.text(x + 6, y + 28, fitting, "soft")
        head = 21 if beside else 34
        inner = [p for p in self.sizes if p[:-1] == path]
        if inner:
            files -= sum(self.sizes[p][0] for p in inner)
            lines -= sum(self.sizes[p][1] for p in inner)
            items = sorted([(self.sizes[p][1], p) for p in inner] + [(lines, ())], reverse=True)
            room = (x + 4, y + head, w - 8, h - head - 4)
            for item, (x, y, w, h) in squares([i for i in items if i[0] > 0], *room):
                if item:
                    self.box(item, x, y, w, h)
                elif w > 70 and h > 16:
                    self.text(x + w / 2, y + h / 2 + 4, f"{files} files here", "soft mid")

    def rows(self, y) -> dict[str, float]:
        """Draw the folders, floor by floor; the height of each one's row, and of the bottom."""
        rows = {}
        for floor in self.floors:
            for name in floor:
                high = max(36.0, self.sizes[name,][1] / 50)
                self.box((name,), LEFT, y, RIGHT - LEFT, high)
                rows[name] = y + min(high / 2, 60) + 6
                y += high + 3
            y += 7 if floor else 0
        return rows | {"": y}

    def lanes(self, rows: dict[str, float], top: float):
        """Draw the imports between folders."""
        ends = ((self.top.get(a), self.top.get(b)) for a, b in self.house.edges)
        edges = Counter((a, b) for a, b in ends if a and b and a != b)
        level = {name: i for i, floor in enumerate(self.floors) for name in floor}
        into = [name for name in level if any(b == name for _, b in edges)]
        step = min(30, (WIDE - RIGHT - 110) / max(1, len(into)))
        lane = {name: RIGHT + 40 + i * step for i, name in enumerate(into)}
        for name, x in lane.items():
            turned = f' transform="rotate(-50 {x:.1f} {top:.1f})"'
            first, *others = name.split(",")
            self.text(x + 2, top, f"{first} …" if others else first, "name", turned)
            self.line([(x, top + 6), (x, rows[""])], GUIDE, 0.6)
        for name in level:
            right = max((lane[b] for a, b in edges if a == name), default=RIGHT)
            self.line([(RIGHT, rows[name]), (right, rows[name])], GUIDE, 1.2)
        for name, x in lane.items():
            given = {a: n for (a, b), n in edges.items() if b == name}
            down = sorted((a for a in given if level[a] < level[name]), key=rows.get)
            up = sorted((a for a in given if level[a] >= level[name]), key=rows.get, reverse=True)
            for sources, colour, door in ((down, CALM, -12), (up, ALARM, -6)):
                flow, stops = 0, [*(rows[a] for a in sources), rows[name] + door]
                for a, start, stop in zip(sources, stops, stops[1:], strict=False):
                    flow += given[a]
                    turn = [(RIGHT + 9, stop)] if a == sources[-1] else []
                    width = 0.8 + (flow / 20) ** 0.5
                    self.line([(x, start), (x, stop), *turn], colour, width, ' opacity="0.55"')
                if sources:
                    head = f"M{RIGHT + 1},{stops[-1]:.1f} l10,-5 l0,10 z"
                    self.out.append(f'<path d="{head}" style="fill:{colour}"/>')
                for a in sources:
                    self.dot(x, rows[a], given[a], colour, f"{a} imports {name}: {given[a]}")

    def dot(self, x, y, count, colour, title):
        radius = max(2.5 + min(count**0.5, 10.5), 2.6 + 2.8 * len(str(count)))
        self.out.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{colour}">'
            f"<title>{escape(title)}</title></circle>"
        )
        self.text(x, y + 3.2, str(count), "tiny mid white")

    def svg(self) -> str:
        lines = sum(m.code_lines for m in self.house)
        title = f"The house: {len(self.house.modules)} files, {lines:,} code lines"
        self.text(LEFT, 30, title, "name", ' style="font-size:18px"')
        for i, words in enumerate(LEGEND):
            self.text(LEFT, 54 + 16 * i, words, "soft")
        rows = self.rows(102)
        self.lanes(rows, 92)
        size = f'width="{WIDE}" height="{rows[""]:.0f}"'
        view = f'viewBox="0 0 {WIDE} {rows[""]:.0f}" {size}'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {view}><title>{title}</title>'
        ground = f'<style>{STYLE}</style><rect {size} fill="#fff"/>'
        return "\n".join([head, ground, *self.out, "</svg>\n"])


def squares(items, x, y, w, h):
    """Cut a rectangle into parts by weight, strip by strip, each as square as it goes."""
    while items:
        side = min(w, h)
        scale = w * h / sum(weight for weight, _ in items)
        strips = []
        for count in range(1, len(items) + 1):
            areas = [weight * scale for weight, _ in items[:count]]
            strip = sum(areas) / side
            worst = max(max(strip**2 / area, area / strip**2) for area in areas)
            strips.append((worst, strip, [area / strip for area in areas]))
        _, strip, lengths = min(strips)
        at = 1.5
        for (_, path), length in zip(items, lengths, strict=False):
            along = (x + 1.5, y + at, strip - 3, length - 3)
            across = (x + at, y + 1.5, length - 3, strip - 3)
            yield path, along if w >= h else across
            at += length
        x, y, w, h = (x + strip, y, w - strip, h) if w >= h else (x, y + strip, w, h - strip)
        items = items[len(lengths) :]


# ---- the command ----


def table(house: House, kinds: set[str]) -> str:
    rows = [("measure", "", "at 1e6e9b3", "now", "target", "ok?")]
    for m in MEASURES.values():
        now = m.value(house) if m.kind in kinds else None
        said = "-" if now is None else f"{now:,}"
        ok = "" if now is None else "yes" if now <= m.target else "no"
        rows.append((m.words, m.key, f"{m.before:,}", said, f"{m.target:,}", ok))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for words, key, *numbers, ok in rows:
        cells = [words.ljust(widths[0]), key.ljust(widths[1])]
        cells += [n.rjust(w) for n, w in zip(numbers, widths[2:], strict=False)]
        lines.append(" | ".join([*cells, ok]).rstrip())
    lines.insert(1, "-|-".join("-" * w for w in widths))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--src", type=Path, default=SOURCE, help="the package's folder")
    parser.add_argument("--list", metavar="MEASURE", choices=MEASURES, help="places of a measure")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw the house")
    parser.add_argument("--static", action="store_true", help="leave the walks out")
    parser.add_argument("--duplicates", action="store_true", help="count them too (a minute)")
    parser.add_argument("--walk", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.walk:
        print("\n" + json.dumps(walk_all(asked.src.resolve())))
        return
    house = House(asked.src)
    if asked.svg:
        asked.svg.write_text(Drawing(house).svg(), encoding="utf-8")
    elif asked.list:
        print("\n".join(MEASURES[asked.list].places(house)))
    else:
        kinds = {"static"} | (set() if asked.static else {"walk"})
        if asked.duplicates and shutil.which("duplicates"):
            kinds.add("slow")
        print(table(house, kinds))


if __name__ == "__main__":
    main()
