"""Tools shared by the tests of model files: round trips, and files forged by hand."""

import hashlib
import json
import struct

import numpy as np
import pytest

from mercer.io import load, save
from mercer.io.tree import Decoder, Encoder

MAGIC = b"MERCER\x00\x01"


class Forge:
    """Writes files with right digests and anything at all inside; independent of the writer."""

    def __init__(self, folder):
        self.path = folder / "forged.mercer"

    def raw(self, content):
        self.path.write_bytes(content)
        return self.path

    def text(self, header, tail=b"", magic=MAGIC, length=None):
        """A header given as bytes, with its true digest."""
        prefix = struct.pack("<8sQ", magic, len(header) if length is None else length)
        return self.raw(prefix + hashlib.sha256(header).digest() + header + tail)

    def header(self, tree, tail=b""):
        return self.text(self.spell(tree), tail)

    @staticmethod
    def spell(tree):
        return json.dumps(tree, sort_keys=True, separators=(",", ":")).encode("ascii")

    def model(self, objects, arrays=(), change=None, **fields):
        """A whole file of objects and arrays; ``change`` may damage the list of arrays."""
        entries, blob = [], b""
        for array in arrays:
            blob += bytes(-len(blob) % 64)
            entries.append(
                {
                    "dtype": array.dtype.str,
                    "shape": list(array.shape),
                    "start": len(blob),
                    "sha256": hashlib.sha256(array.tobytes()).hexdigest(),
                }
            )
            blob += array.tobytes()
        if change is not None:
            change(entries)
        tree = {
            "schema": 1,
            "written_by": {"mercer": "0.1.0"},
            "objects": objects,
            "arrays": entries,
            **fields,
        }
        raw = self.spell(tree)
        gap = -(48 + len(raw)) % 64 if arrays else 0
        return self.text(raw, bytes(gap) + blob)

    def value(self, tree, arrays=(), cls="kernel:RBF", name="length_scale"):
        """A file whose model has one parameter, given as its tree."""
        return self.model([{"class": cls, "params": {name: tree}}], arrays)


@pytest.fixture
def forge(tmp_path):
    return Forge(tmp_path)


@pytest.fixture
def again(tmp_path):
    """Save and load; also the law that saving what was loaded writes the same bytes."""

    def roundtrip(model):
        first, second = tmp_path / "first.mercer", tmp_path / "second.mercer"
        save(model, first)
        loaded = load(first)
        save(loaded, second)
        assert first.read_bytes() == second.read_bytes()
        return loaded

    return roundtrip


@pytest.fixture
def through():
    """One value to its tree and back, without a file."""

    def roundtrip(value):
        encoder = Encoder()
        tree = json.loads(Forge.spell(encoder.value(value, "value")))
        arrays = [np.array(a) for a in encoder.arrays]
        decoder = Decoder([{"class": "?"}], arrays)
        result = decoder.value(tree)
        assert all(a is None for a in decoder._arrays)
        return result

    return roundtrip
