"""The files under docs/code are importable by their own names, in tests and in pages."""

import importlib
from pathlib import Path

import pytest

CODE = Path(__file__).parents[2] / "docs" / "code"


@pytest.fixture
def code(monkeypatch):
    """Return a function that imports docs/code/<name>.py."""
    monkeypatch.syspath_prepend(CODE)
    return importlib.import_module
