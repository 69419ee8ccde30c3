"""import mercer is light; every public name resolves and is documented."""

import importlib
import inspect
import json
import os
import pkgutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import mercer

HEAVY = {"numba", "torch", "matplotlib", "pandas", "polars", "pyarrow", "dask", "networkx", "rich"}
HEAVY |= {"triton"}


REPORT = """
import json, sys
print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))
"""

#: What a program may do with mercer, one after the other: none of it needs what is heavy.
LIGHT = {
    "import": "import mercer",
    "dir": "mercer.__all__; dir(mercer)",
    "names": "mercer.KernelRidge, mercer.RBF, mercer.save, mercer.config",
    "a kernel": "mercer.RBF()([[0.0], [1.0]])",
    "a fit": "mercer.KernelRidge().fit([[0.0], [1.0]], [0.0, 1.0]).predict([[0.5]])",
}
LATER = {"a compiled loop": "mercer.Laplacian()([[0.0], [1.0]])"}


@cache
def modules_after(*steps):
    """The top-level modules that a fresh interpreter holds after each step of a program."""
    done = subprocess.run(
        [sys.executable, "-c", "".join(step + REPORT for step in steps)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(mercer.__file__).parents[1])},
    )
    return [set(json.loads(line)) for line in done.stdout.splitlines()]


def held_after(step):
    """The same after a step of the program that the tests share."""
    program = LIGHT | LATER
    return modules_after(*program.values())[list(program).index(step)]


@pytest.mark.parametrize("step", LIGHT)
def test_nothing_heavy_is_imported(step):
    # scikit-learn itself imports pandas where it is installed
    brought = modules_after("import sklearn.base")[0] if step != "import" else set()
    assert not (held_after(step) - brought) & HEAVY


def test_the_bare_import_takes_hardly_anything():
    assert not held_after("import") & {"scipy", "sklearn", "numpy"}


ABSENT = f"""
import sys

class Absent:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {HEAVY - {"numba"}}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent)
"""


def test_every_public_name_does_without_the_extras():
    modules_after(ABSENT + "import mercer; [getattr(mercer, name) for name in mercer.__all__]")


@pytest.mark.parametrize(
    "asked", ["mercer.KernelRidge().fit([[0.0], [1.0]], [0.0, 1.0])", "mercer.RBF()([[0.0]])"]
)
def test_a_device_without_torch_is_refused_in_words(asked):
    words = "torch is not installed; pip install 'mercer[torch]'"
    modules_after(
        ABSENT
        + f"""
import mercer
mercer.config(engine="torch")
try:
    {asked}
except mercer.errors.InvalidInput as error:
    assert {words!r} in str(error), error
else:
    raise AssertionError
"""
    )


def test_compiled_loops_are_imported_when_needed():
    assert "numba" in held_after("a compiled loop")


@pytest.mark.parametrize("name", mercer.__all__)
def test_public_names_resolve_and_are_documented(name):
    value = getattr(mercer, name)
    assert inspect.getdoc(value), f"mercer.{name} has no docstring"
    assert name in dir(mercer)
    assert getattr(mercer, name) is value


def folders():
    for module in pkgutil.walk_packages(mercer.__path__, "mercer."):
        if not module.name.rpartition(".")[2].startswith("_"):
            yield module.name


@pytest.mark.parametrize("name", list(folders()))
def test_every_module_says_what_it_is_and_lists_what_it_has(name):
    if name == "mercer.engines.device.triton":
        pytest.importorskip("triton", reason="triton is not installed")
    module = importlib.import_module(name)
    assert (module.__doc__ or "").strip(), f"{name} has no docstring"
    for public in getattr(module, "__all__", []):
        value = getattr(module, public)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), f"{name}.{public} has no docstring"


def _methods(cls):
    for name, value in vars(cls).items():
        if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
            yield name, value


@pytest.mark.parametrize("name", mercer.__all__)
def test_public_methods_are_documented(name):
    cls = getattr(mercer, name)
    if not inspect.isclass(cls):
        return
    for owner in cls.__mro__:
        if owner.__module__.startswith("mercer"):
            bare = [method for method, value in _methods(owner) if not inspect.getdoc(value)]
            assert not bare, f"{owner.__name__}: {bare} have no docstring"


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'KernelRidg'"):
        mercer.KernelRidg  # noqa: B018
    with pytest.raises(ImportError):
        exec("from mercer import Nothing")


def test_folders_are_attributes():
    for folder in (
        "kernels",
        "operators",
        "solvers",
        "rkhs",
        "models",
        "errors",
        "testing",
        "domains",
    ):
        assert getattr(mercer, folder) is importlib.import_module(f"mercer.{folder}")


def test_version():
    assert mercer.__version__.count(".") == 2


def test_names_are_listed_once_and_nothing_else():
    _ = mercer.RBF  # a name that was used is a global too
    listed = dir(mercer)
    assert len(listed) == len(set(listed))
    assert not {"importlib", "annotations"} & set(listed)


def test_processes_are_loaded_when_they_are_used():
    modules_after(
        "import sys, mercer.models\n"
        "assert 'mercer.models.gp' not in sys.modules\n"
        "mercer.models.stack_outputs\n"
        "assert 'mercer.models.gp' in sys.modules"
    )
