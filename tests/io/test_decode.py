import os
import tracemalloc

import numpy as np
import pytest

from mercer.errors import ModelFileError
from mercer.io import load
from mercer.io.tree import Decoder

RBF = {"class": "kernel:RBF", "params": {"length_scale": 2.0}}
F8, I8, U1 = np.zeros(3), np.array([0, 1, 3]), np.frombuffer(b"abc", np.uint8)


def sparse(**changes):
    return {
        "sparse": {
            "kind": "csr_array",
            "shape": [2, 3],
            "data": 0,
            "indices": 1,
            "indptr": 2,
            **changes,
        }
    }


def csr(data=(1.0, 2.0), indices=(0, 2), indptr=(0, 1, 2), index=np.int32):
    return [np.array(data), np.array(indices, index), np.array(indptr, index)]


def packed(**changes):
    return {"strings": {"data": 0, "ends": 1, "in": "array", "shape": [2], **changes}}


def strings(text=b"abc", ends=(1, 3), codes=None):
    arrays = [np.frombuffer(text, np.uint8), np.array(ends, np.int64)]
    return arrays if codes is None else [*arrays, np.array(codes, np.uint8)]


# Each is the tree of a value, and the arrays of the file.
HOSTILE_VALUES = {
    "unknown tag": ({"pickle": "gASV"}, []),
    "import path": ({"import": "os.system"}, []),
    "two tags": ({"float": "nan", "tuple": []}, []),
    "no tag": ({}, []),
    "private reader": ({"_take": 0}, []),
    "tag without its other key": ({"objects": []}, []),
    "float 1e999": ({"float": "1e999"}, []),
    "float number": ({"float": 1.0}, []),
    "float list": ({"float": ["nan"]}, []),
    "bytes number": ({"bytes": 1}, []),
    "bytes no hex": ({"bytes": "zz"}, []),
    "bytes list": ({"bytes": ["00"]}, []),
    "tuple of text": ({"tuple": "ab"}, []),
    "tuple of object": ({"tuple": {"a": 1}}, []),
    "tuple null": ({"tuple": None}, []),
    "dict of text": ({"dict": "ab"}, []),
    "dict of short pairs": ({"dict": [[1]]}, []),
    "dict of texts as pairs": ({"dict": ["ab"]}, []),
    "dict duplicate": ({"dict": [[1, 2], [1, 3]]}, []),
    "dict duplicate by equality": ({"dict": [[1, 2], [1.0, 3]]}, []),
    "dict unhashable": ({"dict": [[[], 2]]}, []),
    "slice short": ({"slice": [1, 2]}, []),
    "slice text": ({"slice": ["a", 2, None]}, []),
    "slice boolean": ({"slice": [True, 2, None]}, []),
    "slice of array": ({"slice": [{"array": 0}, None, None]}, [F8]),
    "numpy type": ({"numpy": ["|O", "00"]}, []),
    "numpy length": ({"numpy": ["<f8", "00"]}, []),
    "numpy hex": ({"numpy": ["<f8", "zz" * 8]}, []),
    "numpy bool": ({"numpy": ["|b1", "02"]}, []),
    "numpy text raw": ({"numpy": ["<U1", "ffffffff"]}, []),
    "numpy text number": ({"numpy": ["str", 1]}, []),
    "numpy short": ({"numpy": ["<f8"]}, []),
    "numpy huge": ({"numpy": ["<U99999999", ""]}, []),
    "type": ({"type": "os.system"}, []),
    "type list": ({"type": ["int"]}, []),
    "dtype": ({"dtype": "V8"}, []),
    "dtype fields": ({"dtype": "f8,f8"}, []),
    "array text": ({"array": "0"}, [F8]),
    "array boolean": ({"array": False}, [F8]),
    "array negative": ({"array": -1}, [F8]),
    "array beyond": ({"array": 1}, [F8]),
    "array twice": ([{"array": 0}, {"array": 0}], [F8]),
    "object forward": ({"object": 1}, []),
    "object itself": ({"object": 0}, []),
    "object negative": ({"object": -1}, []),
    "objects shape": ({"objects": [1], "shape": [2]}, []),
    "objects negative": ({"objects": [1], "shape": [-1]}, []),
    "objects huge": ({"objects": [], "shape": [2**62, 0]}, []),
    "objects rank": ({"objects": [1], "shape": [1] * 9}, []),
    "objects list": ({"objects": [[1]], "shape": [1]}, []),
    "objects array": ({"objects": [{"array": 0}], "shape": [1]}, [F8]),
    "strings no shape": (
        {"strings": {"data": 0, "ends": 1, "in": "array"}},
        strings(),
    ),
    "strings unknown container": (packed(**{"in": "set"}), strings()),
    "strings text": ({"strings": "abc"}, []),
    "strings list": ({"strings": [0, 1]}, strings()),
    "strings extra": (packed(path="/etc/passwd"), strings()),
    "strings shape": (packed(shape=[3]), strings()),
    "strings order": (packed(), strings(ends=(3, 1))),
    "strings range": (packed(), strings(ends=(1, 4))),
    "strings short": (packed(), strings(ends=(1, 2))),
    "strings negative": (packed(), strings(ends=(-1, 3))),
    "strings wrapping": (
        packed(shape=[5]),
        strings(ends=(2**63 - 1, -(2**63), -1, 1, 3)),
    ),
    "strings not utf-8": (packed(), strings(b"\xff\xfe\x80")),
    "strings types": (packed(), [F8, I8]),
    "strings codes": (packed(missing=2), strings(codes=(0, 3))),
    "strings code on text": (packed(missing=2), strings(codes=(0, 1))),
    "strings codes length": (packed(missing=2), strings(codes=(0,))),
    "strings codes in list": (
        {"strings": {"data": 0, "ends": 1, "in": "list", "missing": 2}},
        strings(b"a", (1, 1), codes=(0, 1)),
    ),
    "sparse kind": (sparse(kind="coo_array"), csr()),
    "sparse kind path": (sparse(kind="__class__"), csr()),
    "sparse shape": (sparse(shape=[2]), csr()),
    "sparse negative": (sparse(shape=[2, -3]), csr()),
    "sparse rows": (sparse(shape=[3, 3]), csr()),
    "sparse columns": (sparse(shape=[2, 2]), csr()),
    "sparse index negative": (sparse(), csr(indices=(-1, 2))),
    "sparse pointers order": (sparse(), csr(indptr=(0, 3, 2))),
    "sparse pointers range": (sparse(), csr(indptr=(0, 1, 3))),
    "sparse pointers start": (sparse(), csr(indptr=(1, 1, 2))),
    "sparse pointers negative": (sparse(), csr(indptr=(0, -1, 2))),
    "sparse data length": (sparse(), csr(data=(1.0,))),
    "sparse data text": (sparse(), csr(data=("a", "b"))),
    "sparse index type": (sparse(), csr(index=np.int16)),
    "sparse index float": (sparse(), csr(index=np.float64)),
    "sparse too wide for its indices": (sparse(shape=[2, 2**40]), csr()),
    "sparse two axes": (sparse(), [np.zeros((2, 1)), *csr()[1:]]),
    "sparse extra": (sparse(path="x"), csr()),
    "sparse text": ({"sparse": "csr"}, []),
    "sparse missing": ({"sparse": {"kind": "csr_array"}}, []),
}


@pytest.mark.parametrize("name", HOSTILE_VALUES)
def test_hostile_values(forge, name):
    tree, arrays = HOSTILE_VALUES[name]
    with pytest.raises(ModelFileError):
        Decoder([RBF], list(arrays)).value(tree)
    params = {"names": ["a"], "columns": {"tuple": [tree]}}
    with pytest.raises(ModelFileError, match="cannot be read"):
        load(forge.model([{"class": "value:Table", "params": params}], arrays))


def test_an_array_that_nothing_uses(forge):
    assert load(forge.model([RBF])).length_scale == 2.0
    with pytest.raises(ModelFileError, match="does not use"):
        load(forge.model([RBF], [F8]))


def test_the_forged_values_are_honest_but_for_one_thing(forge):
    for tree, arrays in [
        (packed(), strings()),
        (packed(missing=2), strings(b"abc", (3, 3), (0, 2))),
    ]:
        params = {"columns": {"tuple": [tree]}, "names": ["a"]}
        assert len(load(forge.model([{"class": "value:Table", "params": params}], arrays))) == 2
    params = {"kernel": {"object": 0}, "points": sparse(), "coef": {"array": 3}}
    objects = [RBF, {"class": "value:Function", "params": params}]
    assert load(forge.model(objects, [*csr(), np.ones(2)])).points.shape == (2, 3)


HOSTILE_OBJECTS = {
    "none": [],
    "null": None,
    "object": {"class": "kernel:RBF"},
    "text": ["kernel:RBF"],
    "no class": [{}],
    "class list": [{"class": ["kernel:RBF"]}],
    "unknown class": [{"class": "kernel:Nothing"}],
    "os.system": [{"class": "os.system"}],
    "import path": [{"class": "mercer.kernels.RBF"}],
    "scikit os": [{"class": "scikit-learn:os.system"}],
    "scikit unlisted": [{"class": "scikit-learn:SVC"}],
    "bare name": [{"class": "RBF"}],
    "own": [{"class": "own:RBF"}],
    "base class": [{"class": "kernel:Kernel", "params": {"_bind": 1}}],
    "base for authors": [{"class": "kernel:Radial", "params": {}}],
    "kernel of a function": [{"class": "kernel:FromFunction", "params": {"function": "os.system"}}],
    "warp": [RBF, {"class": "kernel:Warped", "params": {"kernel": {"object": 0}, "function": "f"}}],
    "unknown part": [{**RBF, "code": {}}],
    "state of a kernel": [{**RBF, "state": {"_bind": 1}}],
    "part is a list": [{"class": "kernel:RBF", "params": []}],
    "unknown parameter": [{"class": "kernel:RBF", "params": {"gamma": 1.0}}],
    "self": [{"class": "kernel:RBF", "params": {"self": 1.0}}],
    "dunder": [{"class": "kernel:RBF", "params": {"__class__": 1.0}}],
    "bad value": [{"class": "kernel:RBF", "params": {"length_scale": -1.0}}],
    "bad type": [{"class": "kernel:RBF", "params": {"length_scale": {"tuple": ["a"]}}}],
    "nan": [{"class": "kernel:RBF", "params": {"length_scale": {"float": "nan"}}}],
    "part is no kernel": [{"class": "kernel:Exp", "params": {"kernel": 1.0}}],
    "missing part": [{"class": "kernel:Sum", "params": {}}],
    "unused object": [RBF, RBF],
    "shared object": [
        RBF,
        {"class": "kernel:Sum", "params": {"k1": {"object": 0}, "k2": {"object": 0}}},
    ],
    "forward": [{"class": "kernel:Exp", "params": {"kernel": {"object": 1}}}, RBF],
    "cycle": [{"class": "kernel:Exp", "params": {"kernel": {"object": 0}}}],
    "function of a name": [
        {
            "class": "value:Function",
            "params": {"kernel": "linear", "points": [[1.0]], "coef": [1.0]},
        }
    ],
    "function of a type": [
        {
            "class": "value:Function",
            "params": {"kernel": {"type": "str"}, "points": [[1.0]], "coef": [1.0]},
        }
    ],
    "function sizes": [
        RBF,
        {
            "class": "value:Function",
            "params": {"kernel": {"object": 0}, "points": [[1.0]], "coef": [1.0, 2.0]},
        },
    ],
    "table names": [{"class": "value:Table", "params": {"names": [1], "columns": []}}],
    "table no columns": [{"class": "value:Table", "params": {"names": []}}],
    "table twice": [{"class": "value:Table", "params": {"names": ["a", "a"], "columns": []}}],
    "table levels": [
        {"class": "value:Table", "params": {"names": [], "columns": [], "declared": {"a": []}}}
    ],
    "solution extra": [{"class": "value:Solution", "params": {"converged": True, "extra": 1}}],
    "solution value": [{"class": "value:Solution", "params": {"converged": True, "value": 1}}],
    "solution nothing": [{"class": "value:Solution", "params": {}}],
}


@pytest.mark.parametrize("name", HOSTILE_OBJECTS)
def test_hostile_objects(forge, name):
    with pytest.raises(ModelFileError, match="cannot be read"):
        load(forge.model(HOSTILE_OBJECTS[name]))


@pytest.mark.parametrize(
    "fields",
    [{"extra": 1}, {"written_by": None}, {"written_by": "mercer"}, {"written_by": ["mercer"]}],
)
def test_hostile_headers(forge, fields):
    with pytest.raises(ModelFileError, match="unknown or missing parts"):
        load(forge.model([RBF], **fields))


def chain(length):
    objects = [RBF]
    for i in range(length):
        objects.append({"class": "kernel:Exp", "params": {"kernel": {"object": i}}})
    return objects


def test_a_deep_expression_is_read_or_refused(forge):
    assert "exp" in repr(load(forge.model(chain(20)))).lower()
    with pytest.raises(ModelFileError):
        load(forge.model(chain(5000)))


def test_many_objects_take_little_memory(forge):
    path = forge.model([RBF] * 20_000)
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match="does not use"):
            load(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < os.path.getsize(path) + 32 * 2**20


def test_the_version_is_named_when_it_may_be_the_cause(forge):
    objects = [{"class": "kernel:RBF", "params": {"gamma": 1.0}}]
    path = forge.model(objects, written_by={"mercer": "0.0.3", "scikit-learn": "1.0"})
    with pytest.raises(ModelFileError, match=r"written with mercer 0\.0\.3, scikit-learn 1\.0"):
        load(path)
