"""No law is dropped, nor anything that it is asked of."""

from tools.laws import FILE, found, pairs, read, written


def test_no_pair_of_a_law_and_what_it_is_asked_of_is_dropped():
    dropped = sorted(set(pairs(read(FILE.read_text()))) - set(pairs(found())))
    assert not dropped, (
        f"{len(dropped)} pairs of tests/net/laws.txt do not run, among them {dropped[:5]}. What "
        "takes the place of another is told in CHANGELOG.md: python tools/laws.py --write"
    )


def test_the_list_is_read_as_it_is_written():
    told = FILE.read_text()
    assert written(read(told)) == told
    assert len(set(pairs(read(told)))) > 9000
