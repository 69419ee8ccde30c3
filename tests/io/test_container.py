import hashlib
import os
import random
import socket
import struct
import tracemalloc

import numpy as np
import pytest

from mercer.errors import InvalidInput, ModelFileError
from mercer.io import container

ARRAYS = [
    np.arange(5.0),
    np.array([], dtype=np.float32),
    np.array(3, dtype=np.int8),
    np.array([[True, False, True]]),
    np.array(["a", "Ωλ𝄞", ""]),
    np.zeros((0, 3)),
    np.arange(130, dtype=np.uint8),
]


def write(path, arrays, **header):
    stored = [container.storable(a) for a in arrays]
    with open(path, "wb") as file:
        for piece in container.pieces(header, stored):
            file.write(piece)
    return path


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "file.mercer")


@pytest.fixture
def content(path):
    write(path, ARRAYS, objects=[1, "two"])
    with open(path, "rb") as file:
        return file.read()


def refused(path, content=None):
    if content is not None:
        with open(path, "wb") as file:
            file.write(content)
    try:
        container.read(path)
    except ModelFileError:
        return True
    return False


DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_is_kept_bit_for_bit(path, name, order):
    rng = np.random.default_rng(0)
    dtype = np.dtype(name).newbyteorder(order)
    raw = rng.integers(0, 2 if name == "?" else 256, size=24 * dtype.itemsize, dtype=np.uint8)
    array = raw.view(dtype).reshape(2, 3, 4)
    write(path, [array, array[:, ::-1], np.asfortranarray(array), array[0, 0, 0]])
    _, back = container.read(path)
    native = array.astype(dtype.newbyteorder("="))
    expected = [native, native[:, ::-1], native, np.asarray(native[0, 0, 0])]
    for a, b in zip(expected, back, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        assert a.tobytes() == b.tobytes()
        assert b.flags.c_contiguous and b.flags.writeable and b.flags.aligned


def test_special_floats_keep_their_bits(path):
    patterns = [0x7FF8000000000001, 0xFFF0000000000000, 1, 0x8000000000000000, 0x7FF0000000000001]
    bits = np.array(patterns, dtype=np.uint64)
    write(path, [bits.view(np.float64)])
    assert np.array_equal(container.read(path)[1][0].view(np.uint64), bits)


@pytest.mark.parametrize(
    "array",
    [
        np.array("λ"),
        np.array(["", "a\x00b", "\U0010ffff"]),
        np.array(["\ud800x"]),
        np.empty((2, 0), "U3"),
        np.zeros(3, "U0"),
        np.array(["ab", "c"], dtype=">U4"),
    ],
)
def test_text(path, array):
    write(path, [array])
    (back,) = container.read(path)[1]
    assert back.shape == array.shape and back.tolist() == array.tolist()


@pytest.mark.parametrize("dtype", ["c8", "c16", "O", "M8[s]", "m8[s]", "S4", "V3", "f4,i4", "g"])
def test_other_dtypes_are_not_storable(dtype):
    assert container.storable(np.zeros(2, dtype)) is None


def test_too_many_axes_are_not_storable():
    assert container.storable(np.zeros((1,) * 8)) is not None
    assert container.storable(np.zeros((1,) * 9)) is None


def test_read_only_and_memory_mapped_arrays(path, tmp_path):
    frozen = np.arange(7.0)
    frozen.flags.writeable = False
    mapped = np.memmap(tmp_path / "raw", dtype=np.float32, mode="w+", shape=(3, 2))
    mapped[:] = 2.5
    write(path, [frozen, mapped])
    a, b = container.read(path)[1]
    assert np.array_equal(a, frozen) and np.array_equal(b, mapped)


def test_layout_is_as_documented(content):
    assert content[:8] == b"MERCER\x00\x01"
    (length,) = struct.unpack("<Q", content[8:16])
    header = content[48 : 48 + length]
    assert hashlib.sha256(header).digest() == content[16:48]
    assert header.isascii() and header.startswith(b'{"arrays":[{"dtype":"<f8","sha256":"')
    data = -(-(48 + length) // 64) * 64
    assert not any(content[48 + length : data])
    assert np.array_equal(np.frombuffer(content, "<f8", 5, data), ARRAYS[0])


def test_every_byte_matters(path, content):
    """Flip each bit of the prefix, and at each later byte one bit, all zeros, all ones."""
    rng = random.Random(0)
    with open(path, "r+b", buffering=0) as file:
        for i, byte in enumerate(content):
            bits = range(8) if i < 48 else [rng.randrange(8)]
            for new in ({byte ^ (1 << bit) for bit in bits} | {0x00, 0xFF}) - {byte}:
                os.pwrite(file.fileno(), bytes([new]), i)
                assert refused(path), (i, new)
            os.pwrite(file.fileno(), bytes([byte]), i)
    assert not refused(path)


def test_every_truncation_and_every_tail(path, content):
    for length in reversed(range(len(content))):
        os.truncate(path, length)
        assert refused(path), length
    for extra in range(1, 65):
        assert refused(path, content + bytes(extra)), extra
        assert refused(path, content + b"\xff" * extra), extra
    assert refused(path, content * 2)
    assert refused(path, b"\x00" + content)


def test_swapped_blocks(path):
    arrays = [np.full(8, float(i)) for i in range(4)]
    write(path, arrays)
    with open(path, "rb") as file:
        content = file.read()
    blocks = len(content) // 64
    for i in range(blocks):
        for j in range(i + 1, blocks):
            parts = [content[64 * k : 64 * (k + 1)] for k in range(blocks)]
            if parts[i] != parts[j]:
                parts[i], parts[j] = parts[j], parts[i]
                assert refused(path, b"".join(parts)), (i, j)


def test_sizes_are_compared_before_anything_is_read(path, content, monkeypatch):
    monkeypatch.setattr(container, "_read_array", None)
    for changed, words in ((content + b"x", "1 bytes follow"), (content[:-1], "inside array")):
        with open(path, "wb") as file:
            file.write(changed)
        with pytest.raises(ModelFileError, match=words):
            container.read(path)


def test_what_could_not_be_read_is_not_written(path):
    one = np.zeros(0)
    with pytest.raises(InvalidInput, match="arrays"):
        write(path, [one] * (container.MAX_ARRAYS + 1))
    with pytest.raises(InvalidInput, match="NumPy arrays"):
        write(path, [], objects=[0] * 300_000)
    with pytest.raises(InvalidInput, match="NumPy arrays"):
        write(path, [], objects=["a" * container.MAX_HEADER])


def test_what_is_not_a_regular_file_is_refused_unread(tmp_path):
    pipe, plug = tmp_path / "pipe", str(tmp_path / "socket")
    os.mkfifo(pipe)  # opening it in the ordinary way would wait for a writer
    server = socket.socket(socket.AF_UNIX)
    server.bind(plug)
    try:
        for path in (tmp_path, pipe, plug, "/dev/zero", "/dev/null", "/dev/stdin"):
            if os.path.exists(path) and not os.path.isfile(path):
                with pytest.raises(ModelFileError, match="not a file"):
                    container.read(str(path))
    finally:
        server.close()


def test_links_are_followed_and_missing_files_are_said_to_be(path, content, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(path)
    assert len(container.read(str(link))[1]) == len(ARRAYS)
    with pytest.raises(FileNotFoundError):
        container.read(str(tmp_path / "none"))
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(OSError):
        container.read(str(loop))


def test_a_file_that_shrinks_while_it_is_read(path, content, monkeypatch):
    with open(path, "wb") as file:
        file.write(content[:-10])
    honest = os.fstat

    def longer(descriptor):
        values = list(honest(descriptor))
        values[6] = len(content)
        return os.stat_result(values)

    monkeypatch.setattr(container.os, "fstat", longer)
    with pytest.raises(ModelFileError, match="incomplete"):
        container.read(path)


def test_memory_is_the_file_and_a_constant(path):
    write(path, [np.zeros(2**20), np.ones(2**20)])
    tracemalloc.start()
    try:
        container.read(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < os.path.getsize(path) + 2**20
