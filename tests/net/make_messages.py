"""Writes `messages.txt` from what runs of the tests recorded.

    MERCER_RECORD_MESSAGES=FIRST python -m pytest
    MERCER_RECORD_MESSAGES=SECOND python -m pytest
    python tests/net/make_messages.py FIRST SECOND

A test that says other things in the second run than in the first is left alone from then on. With
``--add`` what the file tells already is kept, for a few new tests; without, it is written anew.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.net.messages import FILE, Known, versions

#: A test with more messages than this damages files at random, or does the like.
MOST = 100


def recorded(folder):
    """Return the messages of each test of one run."""
    said = defaultdict(set)
    for path in sorted(Path(folder).glob("*.jsonl")):
        for entry in path.read_text(encoding="utf-8").splitlines():
            test, line = json.loads(entry)
            said[test].add(line)
    return said


def merged(runs):
    """Return the messages of stable tests, and the names of the others."""
    tests = {test for said in runs for test in said}
    unstable = set()
    for test in tests:
        given = [said[test] for said in runs if test in said]
        if any(lines != given[0] for lines in given) or len(given[0]) > MOST:
            unstable.add(test)
    stable = tests - unstable
    return {line for said in runs for test in stable & set(said) for line in said[test]}, unstable


def main(arguments):
    """Write the file."""
    folders = [a for a in arguments if a != "--add"]
    if not folders:
        raise SystemExit("name the folders of one run or of several")
    lines, unstable = merged([recorded(folder) for folder in folders])
    if "--add" in arguments and FILE.exists():
        known = Known(FILE.read_text(encoding="utf-8"))
        lines, unstable = lines | known.messages, unstable | known.unstable
    head = [f"# {versions()}", *(f"# unstable {test}" for test in sorted(unstable))]
    FILE.write_text("\n".join([*head, *sorted(lines)]) + "\n", encoding="utf-8")
    print(f"{len(lines)} messages, {len(unstable)} tests left alone")


if __name__ == "__main__":
    main(sys.argv[1:])
