"""Every public name is there with the signature that is told, and no other."""

import difflib

from tests.net.make_names import FILE, lines


def test_the_public_names_are_those_that_are_told():
    told, found = FILE.read_text().splitlines(), lines()
    changes = difflib.unified_diff(told, found, "told", "found", lineterm="", n=2)
    assert found == told, (
        "the public names are not those of tests/net/public_names.txt. After a deliberate change, "
        "told in CHANGELOG.md, write the file anew: python tests/net/make_names.py\n"
        + "\n".join(changes)
    )


def test_lines_do_not_tell_where_things_are_written():
    told = FILE.read_text()
    assert " at 0x" not in told and "<class" not in told and "<function" not in told
    assert len(told.splitlines()) > 1000
