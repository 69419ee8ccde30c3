"""The reference has a page for every public name, and on it every method that a user can call."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

import mercer

EXTENSIONS = Path(__file__).parents[2] / "docs" / "_ext"


@pytest.fixture
def pages(monkeypatch):
    """The extension of Sphinx that writes the pages; it does without Sphinx."""
    monkeypatch.syspath_prepend(EXTENSIONS)
    return importlib.import_module("api_pages")


def public_names(pages):
    """Yield the address of every public name that has a page, and what it is."""
    for folder in pages.FOLDERS:
        module = importlib.import_module(f"mercer.{folder}")
        for name in module.__all__:
            if not inspect.ismodule(getattr(module, name)):
                yield f"mercer.{folder}.{name}", getattr(module, name)


def methods(cls):
    """Return the public methods of a class, by asking Python."""
    own = ("mercer", "sklearn")
    return {
        name
        for name, item in inspect.getmembers(cls, callable)
        if not name.startswith("_")
        and (getattr(item, "__module__", None) or "builtins").split(".")[0] in own
        and not inspect.isclass(item)
    }


def test_every_method_has_its_entry_and_its_row_in_the_table(pages):
    seen = 0
    for address, item in public_names(pages):
        if not inspect.isclass(item):
            continue
        page, name = pages.stub(address), address.rsplit(".")[-1]
        entries = re.findall(r"^   :members: (.*)$", page, re.M)
        told = set(entries[0].split(", ")) if entries else set()
        assert told == set(re.findall(rf"^      ~{name}\.(\w+)$", page, re.M)), address
        listed = told | set(re.findall(r"``(\w+)``", page))
        assert methods(item) <= listed, (address, methods(item) - listed)
        assert all(hasattr(item, n) for n in told), address
        seen += len(told)
    assert seen > 2000


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("SVC", {"fit", "predict", "predict_proba", "path", "get_params", "score"}),
        ("GaussianProcessRegressor", {"predict", "fit", "score", "get_params"}),
        ("KernelRidge", {"predict_interval", "loo", "fit", "score"}),
    ],
)
def test_a_page_tells_what_is_inherited(name, expected, pages):
    assert expected <= set(pages.members(getattr(mercer, name)))


def test_a_kernel_can_be_called_on_its_page(pages):
    page = pages.stub("mercer.kernels.RBF")
    assert "~RBF.__call__" in page
    assert "~Kernel.psd" in pages.stub("mercer.kernels.Kernel")  # explained by a comment


def test_functions_and_data_have_pages(pages):
    for address, item in public_names(pages):
        if not inspect.isclass(item):
            kind = "function" if callable(item) else "data"
            assert f".. auto{kind}:: {address.rsplit('.')[-1]}\n" in pages.stub(address)


def test_a_folder_lists_every_name_of_it(pages):
    text = {folder: pages.page(folder) for folder in pages.FOLDERS}
    for address, _ in public_names(pages):
        assert f"   ~{address}\n" in text[address.removeprefix("mercer.").rsplit(".", 1)[0]] + "\n"
