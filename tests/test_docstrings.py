"""Every public name is documented in numpydoc's form, parameter by parameter, with an example."""

import importlib
import inspect

import pytest
from numpydoc.validate import validate

import mercer

FOLDERS = ["datasets", "domains", "features", "io", "kernels"]
FOLDERS += [
    "models",
    "operators",
    "plot",
    "rkhs",
    "selection",
    "selection.active",
    "solvers",
    "statistics",
]
# numpydoc's codes: GL06 unknown section, GL07 order of sections, GL08 no docstring, PR01 parameter
# not documented, PR02 unknown parameter, PR03 order of parameters, EX01 no example.
EVERYWHERE = {"GL06", "GL07", "GL08", "PR02", "PR03"}
AT_THE_TOP = EVERYWHERE | {"PR01", "EX01"}
FORM = {"GL06", "GL07", "GL08"}
# Base classes document the parameters of what is derived from them; numpydoc takes the parameter
# `cls` of a function for that of a class method.
ONLY_FORM = {"mercer.Kernel", "mercer.io.register", "mercer.models.KernelEstimator"}


def everything():
    """Public names as (address, object), the names of ``mercer`` itself first."""
    seen = {}
    for name in mercer.__all__:
        seen[f"mercer.{name}"] = getattr(mercer, name)
    for folder in FOLDERS:
        module = importlib.import_module(f"mercer.{folder}")
        for name in module.__all__:
            if name not in mercer.__all__:
                seen[f"mercer.{folder}.{name}"] = getattr(module, name)
    return {a: o for a, o in seen.items() if inspect.isclass(o) or inspect.isfunction(o)}


PUBLIC = everything()


@pytest.mark.parametrize("address", PUBLIC)
def test_docstring(address):
    codes = AT_THE_TOP if address.count(".") == 1 else EVERYWHERE
    codes = FORM if address in ONLY_FORM else codes
    item = PUBLIC[address]
    # a lazy package has no attribute for numpydoc to find, so validate where the object lives
    found = validate(f"{item.__module__}.{item.__qualname__}")["errors"]
    assert [e for e in found if e[0] in codes] == []


@pytest.mark.parametrize("address", [a for a, o in PUBLIC.items() if inspect.isclass(o)])
def test_public_methods_have_docstrings(address):
    item = PUBLIC[address]
    silent = [
        name
        for name, member in vars(item).items()
        if not name.startswith("_")
        and (inspect.isfunction(member) or isinstance(member, property | classmethod))
        and not inspect.getdoc(getattr(item, name))
    ]
    assert silent == []
