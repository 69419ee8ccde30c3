"""The plugin that looks up messages: what it leaves aside, whose they are, what it complains of."""

import pytest

import mercer
from tests.net import messages
from tests.net.make_messages import merged, recorded
from tests.net.messages import Known, Messages, line_of, normal, origin


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("alpha=-1e-05; row 12", "alpha=#; row #"),
        ("[0.1 -2.\n 3e4] and nan", "[#, …] and #"),
        ("float64, L1VM, k1, 2GB", "float64, L1VM, k1, #GB"),
        ("'/tmp/pytest-of-me/a 1/x'", "'PATH #/x'"),
        ("x/y and 1/2", "x/y and #/#"),
        ("tcp://127.0.0.1:4312 has mercer 0.1.0", "tcp://#:# has mercer #"),
        ("key 3fa85f64-5717-4562-b3fc-2c963f66afa6, part-3fa85f6457", "key HASH, part-HASH"),
        ("off by 5.55111512e-17, 12345678e-09, 5.55111512e+200", "off by #, …"),
        ("one of {'b', 'a', 'c'}", "one of {'a', 'b', 'c'}"),
        ("mercer.models.gp.search.Search", "mercer.~.Search"),
        ("use mercer.kernels.RBF or mercer.RBF", "use mercer.kernels.RBF or mercer.RBF"),
        ("one\ntwo", "one\\ntwo"),
    ],
)
def test_what_is_left_aside(text, expected):
    assert normal(text) == expected


def caught(call):
    with pytest.raises(Exception) as caught:
        call()
    return caught.value


def test_whose_a_message_is():
    def by_a_test():
        raise mercer.errors.InvalidInput("of a test")

    assert origin(caught(lambda: mercer.RBF(-1.0)([[0.0]]))) == "mercer"
    assert origin(caught(by_a_test)) is None
    assert origin(caught(lambda: int("x"))) is None
    assert origin(caught(lambda: mercer.FromFunction(lambda x, y: 1 / 0)([[0.0]]))) is None


def test_an_unknown_message_fails_the_test():
    known = Known("# python 2.7\n# unstable tests/a.py::b\nValueError: legal is #\n")
    plugin = Messages(known)
    plugin.note("mercer", "ValueError", "legal is 3")
    plugin.note("others", "ValueError", "whatever libraries of other versions say")
    with pytest.raises(pytest.fail.Exception, match=r"not in tests/net.*\n  ValueError: no #"):
        plugin.note("mercer", "ValueError", "no 5")
    with pytest.raises(pytest.fail.Exception, match="nearest known:\n  ValueError: legal is #"):
        plugin.note("mercer", "ValueError", "legal are 3")
    assert known.unstable == {"tests/a.py::b"} and not known.same_versions


def test_recording_and_merging(tmp_path):
    runs = []
    for run in ("one", "two"):
        folder = tmp_path / run
        folder.mkdir()
        plugin = Messages(folder=folder)
        plugin.test = "tests/a.py::stable"
        plugin.note("mercer", "ValueError", "row 3")
        plugin.note("mercer", "ValueError", "row 4")
        plugin.test = "tests/a.py::unstable"
        plugin.note("mercer", "ValueError", run)
        runs.append(recorded(folder))
    assert merged(runs) == ({"ValueError: row #"}, {"tests/a.py::unstable"})


def test_the_file_is_in_order():
    told = messages.FILE.read_text(encoding="utf-8").splitlines()
    lines = [line for line in told if not line.startswith("# ")]
    assert lines == sorted(set(lines)) and len(lines) > 500
    assert line_of("ValueError", "x 1") == "ValueError: x #"
