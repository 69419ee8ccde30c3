"""Containers forged by hand: right digests, impossible arrays, absurd sizes, other headers."""

import hashlib
import os
import tracemalloc

import numpy as np
import pytest

from mercer.errors import ModelFileError
from mercer.io import container


def entry(**changes):
    zeros = hashlib.sha256(bytes(64)).hexdigest()
    return {"dtype": "<f8", "shape": [8], "start": 0, "sha256": zeros, **changes}


@pytest.mark.parametrize(
    "entries",
    [
        [entry(dtype="object")],
        [entry(dtype="|O")],
        [entry(dtype="<c16")],
        [entry(dtype=">f8")],
        [entry(dtype="float64")],
        [entry(dtype="<f8,<f8")],
        [entry(dtype=["<f8"])],
        [entry(dtype="<U0")],
        [entry(dtype="<U999999999")],
        [entry(dtype="|S8")],
        [entry(dtype="|V8")],
        [entry(dtype="<f16")],
        [entry(shape=[-8])],
        [entry(shape=[-1, -8])],
        [entry(shape=[2**32, 2**32])],
        [entry(shape=[2**63, 2])],
        [entry(shape=[2**62, 0])],
        [entry(shape=[1] * 64)],
        [entry(shape=[1] * 8 + [8])],
        [entry(shape=[8.0])],
        [entry(shape=[True, 8])],
        [entry(shape=["8"])],
        [entry(shape=8)],
        [entry(shape=None)],
        [entry(shape=[7])],
        [entry(shape=[9])],
        [entry(shape=[2**40])],
        [entry(start=64)],
        [entry(start=-64)],
        [entry(start=1)],
        [entry(start=0.0)],
        [entry(start=False)],
        [entry(start=2**63)],
        [entry(start="0")],
        [entry(sha256="")],
        [entry(sha256=None)],
        [entry(sha256=entry()["sha256"].upper())],
        [entry(extra=1)],
        [{k: v for k, v in entry().items() if k != "start"}],
        [entry(shape=[4]), entry(shape=[4])],
        [entry(shape=[4]), entry(shape=[4], start=32)],
        [entry(), entry()],
        [entry(), entry(start=64)],
        [entry(start=64), entry(start=0)],
        [[]],
        [None],
        ["<f8"],
        None,
        {},
        "arrays",
        [],
    ],
)
def test_hostile_lists_of_arrays(forge, entries):
    """The data are 64 zero bytes, which one honest entry describes."""
    header = forge.spell({"schema": 1, "arrays": entries})
    path = forge.text(header, bytes(-(48 + len(header)) % 64 + 64))
    with pytest.raises(ModelFileError):
        container.read(str(path))


def test_empty_arrays_of_absurd_shape(forge):
    nothing = hashlib.sha256(b"").hexdigest()
    for shape, legal in (([2**30, 0], True), ([2**62, 0], False), ([0, 2**31, 2**31], False)):
        header = forge.spell({"schema": 1, "arrays": [entry(shape=shape, sha256=nothing)]})
        path = str(forge.text(header, bytes(-(48 + len(header)) % 64)))
        if legal:
            assert container.read(path)[1][0].shape == tuple(shape)
        else:
            with pytest.raises(ModelFileError, match="beyond any memory"):
                container.read(path)


def test_the_honest_entry_is_read(forge):
    header = forge.spell({"schema": 1, "arrays": [entry()]})
    path = forge.text(header, bytes(-(48 + len(header)) % 64 + 64))
    assert np.array_equal(container.read(str(path))[1][0], np.zeros(8))


@pytest.mark.parametrize(
    ("dtype", "raw"), [("|b1", b"\x02" * 4), ("<U1", b"\xff\xff\x11\x00"), ("<U1", b"\xff" * 4)]
)
def test_bit_patterns_that_numpy_cannot_hold(forge, dtype, raw):
    size = np.dtype(dtype).itemsize
    digest = hashlib.sha256(raw).hexdigest()
    listed = [entry(dtype=dtype, shape=[len(raw) // size], sha256=digest)]
    header = forge.spell({"schema": 1, "arrays": listed})
    path = forge.text(header, bytes(-(48 + len(header)) % 64) + raw)
    with pytest.raises(ModelFileError, match="array 0 is"):
        container.read(str(path))


def test_padding_must_be_zero(forge):
    header = forge.spell({"schema": 1, "arrays": [entry()]})
    gap = -(48 + len(header)) % 64
    assert gap > 0
    path = forge.text(header, bytes(gap - 1) + b"\x01" + bytes(64))
    with pytest.raises(ModelFileError, match="padding"):
        container.read(str(path))


@pytest.mark.parametrize("length", [0, 1, 2**31, 2**62, 2**63, 2**64 - 1, container.MAX_HEADER])
def test_hostile_header_lengths(forge, length):
    path = forge.text(b'{"arrays":[],"schema":1}', length=length)
    with pytest.raises(ModelFileError):
        container.read(str(path))


def test_a_header_beyond_the_limit_is_not_parsed(forge):
    header = forge.spell({"schema": 1, "arrays": [], "x": "a" * container.MAX_HEADER})
    with pytest.raises(ModelFileError, match="at most"):
        container.read(str(forge.text(header)))


def test_too_many_arrays(forge):
    one = entry(shape=[0], sha256=hashlib.sha256(b"").hexdigest())
    for count in (container.MAX_ARRAYS, container.MAX_ARRAYS + 1):
        header = forge.spell({"schema": 1, "arrays": [one] * count})
        path = forge.text(header, bytes(-(48 + len(header)) % 64))
        if count <= container.MAX_ARRAYS:
            assert len(container.read(str(path))[1]) == count
        else:
            with pytest.raises(ModelFileError, match="arrays"):
                container.read(str(path))


@pytest.mark.parametrize("schema", [0, -1, 1.0, True, "1", None, [1]])
def test_schema_must_be_a_whole_number(forge, schema):
    with pytest.raises(ModelFileError, match="schema"):
        container.read(str(forge.header({"schema": schema, "arrays": []})))


def test_newer_files_say_so(forge):
    newer = {"schema": 999, "written_by": {"mercer": "7.1"}, "pages": []}
    with pytest.raises(ModelFileError, match=r"newer mercer \(mercer 7\.1\).*Upgrade"):
        container.read(str(forge.header(newer)))
    for odd in ({"schema": 2}, {"schema": 2, "written_by": []}, {"schema": 2, "written_by": {}}):
        with pytest.raises(ModelFileError, match="newer mercer"):
            container.read(str(forge.header(odd)))
    with pytest.raises(ModelFileError, match="newer mercer"):
        container.read(str(forge.text(b"anything", magic=b"MERCER\x00\x02")))


@pytest.mark.parametrize("tree", [[], 1, "x", None, {}, {"schema": 1}])
def test_headers_of_another_shape(forge, tree):
    with pytest.raises(ModelFileError):
        container.read(str(forge.header(tree)))


@pytest.mark.parametrize(
    "content", [b"", b"M", b"MERCER", b"\x80\x04\x95", b"PK\x03\x04", b"\x93NUMPY\x01\x00" * 9]
)
def test_other_files(forge, content):
    with pytest.raises(ModelFileError, match="does not begin"):
        container.read(str(forge.raw(content)))


def test_hostile_sizes_take_no_memory(forge):
    trees = [
        {"schema": 1, "arrays": [entry(shape=[2**40])]},
        {"schema": 1, "arrays": [entry(shape=[2**31])] * 9000},
        {"schema": 1, "arrays": [entry(shape=[0], dtype="<U99999999")]},
        {"schema": 1, "arrays": [], "x": [[]] * 99_000},
        {"schema": 1, "arrays": [], "x": [{"a": 0}] * 66_000},
        {"schema": 1, "arrays": [], "x": "a" * (container.MAX_HEADER - 60)},
    ]
    for tree in trees:
        path = forge.header(tree, bytes(64))
        del tree
        tracemalloc.start()
        try:
            with pytest.raises(ModelFileError):
                container.read(str(path))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < os.path.getsize(path) + 32 * 2**20
