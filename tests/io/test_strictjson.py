import json

import pytest
from hypothesis import given, settings, strategies as st

from mercer.errors import ModelFileError
from mercer.io import container

trees = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=150, deadline=None)
@given(trees)
def test_what_is_written_is_read_exactly(tree):
    raw = container.dumps(tree)
    back = container.loads(raw)
    assert repr(back) == repr(json.loads(raw))
    assert container.dumps(back) == raw
    assert json.loads(raw) == tree


def oracle(tree):
    """Depth and tokens (opening brackets and commas) by walking the tree."""
    if isinstance(tree, dict | list):
        items = list(tree.values()) if isinstance(tree, dict) else tree
        inner = [oracle(item) for item in items]
        return (
            1 + max((d for d, _ in inner), default=0),
            1 + max(len(items) - 1, 0) + sum(t for _, t in inner),
        )
    return 0, 0


@settings(max_examples=200, deadline=None)
@given(trees)
def test_measure_equals_a_walk(tree):
    assert container.measure(container.dumps(tree)) == oracle(tree)


@pytest.mark.parametrize(
    "text", [r'"\\"', r'"\\\""', r'["a\\","[{,"]', r'{"\\\\\"[":",,"}', r'"\u005b"', '"[[["']
)
def test_measure_is_not_fooled_by_quotes(text):
    assert container.measure(text.encode()) == oracle(json.loads(text))


def test_measure_across_its_steps(monkeypatch):
    raw = container.dumps([["a,[", {"k": [1, 2, [3]]}], "]]", [[[[]]]]])
    whole = container.measure(raw)
    for step in (1, 2, 3, 7):
        monkeypatch.setattr(container, "_STEP", step)
        assert container.measure(raw) == whole


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b" 1",
        b"1 ",
        b"01",
        b"+1",
        b"-0",
        b"1.50",
        b"1E5",
        b"1e999",
        b"-1e999",
        b"NaN",
        b"Infinity",
        b"-Infinity",
        b"nan",
        b"18446744073709551616",
        b"-9223372036854775809",
        b"9" * 5000,
        b"1." + b"1" * 5000,
        b'{"a":1,"a":1}',
        b'{"a":1, "b":2}',
        b'{"b":1,"a":2}',
        b"[1,]",
        b"[1]x",
        b'{"a"}',
        b"{1:2}",
        b"'a'",
        b'"\xc3\xa9"',
        b'"\xff"',
        b"\xef\xbb\xbf1",
        b'"a\x00b"',
        b"\x00",
        b'"\\u0041"',
        b'"\\/"',
        b'"\\uD83D"',
        b'"\\x41"',
        b'"open',
        b"[" * 33 + b"]" * 33,
        b"[" * 100_000 + b"]" * 100_000,
        b"[" * 1_000_000,
        b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
        b"[" + b"0," * 200_000 + b"0]",
    ],
    ids=lambda raw: f"{raw[:12]!r}-{len(raw)}",
)
def test_anything_else_is_refused(raw):
    with pytest.raises(ModelFileError):
        container.loads(raw)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b'{"a":1,"a":2}', "one key twice"),
        (b"[1, 2]", "one spelling"),
        (b"NaN", "which is not JSON"),
        (b"1e999", "not finite"),
        (b"9" * 30, "beyond 64 bits"),
        (b"[" * 40, "levels deep"),
        (b"[1", "is not JSON"),
        (b'"\xff"', "is not JSON"),
    ],
)
def test_messages_name_the_reason(raw, words):
    with pytest.raises(ModelFileError, match=words):
        container.loads(raw)


def test_limits_are_inclusive():
    deep = b"[" * container.MAX_DEPTH + b"]" * container.MAX_DEPTH
    assert container.measure(deep)[0] == container.MAX_DEPTH
    container.loads(deep)
    many = b"[" + b"0," * (container.MAX_TOKENS - 1) + b"0]"
    assert container.measure(many)[1] == container.MAX_TOKENS
    assert len(container.loads(many)) == container.MAX_TOKENS


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_no_nan_is_written(value):
    with pytest.raises(ValueError):
        container.dumps([value])


def test_negative_zero_and_extremes_are_exact():
    values = [-0.0, 5e-324, 1.7976931348623157e308, 0.1, 1e22, 2**63, -(2**63)]
    assert list(map(repr, container.loads(container.dumps(values)))) == list(map(repr, values))
