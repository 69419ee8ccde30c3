"""A plugin of pytest: what errors and warnings say is what `messages.txt` tells, word for word.

Every exception that ``pytest.raises`` catches, and every warning that ``pytest.warns`` waits for,
is looked up there if mercer raised it, numbers, paths and addresses left aside. What libraries say
of data that mercer handed to them is looked up too, where they are the ones that were recorded.

To record instead of checking, set the environment variable ``MERCER_RECORD_MESSAGES`` to a folder,
run the tests, and run ``make_messages.py``, which writes the file. Tests whose inputs hypothesis
makes up, and doctests, are left alone.
"""

import difflib
import dis
import json
import os
import re
import sys
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FILE = HERE / "messages.txt"
NAMES = HERE / "public_names.txt"
VARIABLE = "MERCER_RECORD_MESSAGES"
LONGEST = 400
LIBRARIES = ("numpy", "scipy", "scikit-learn", "pandas", "polars", "pyarrow", "dask", "torch")
_RAISE = dis.opmap["RAISE_VARARGS"]


# ------------------------------------------------------------------------------- what a message is
_PATH = re.compile(r"(?<![\w/])/(?:[^\s/'\"`,;:()<>]+/)+[^\s'\"`,;:()<>]*")
_CLASS = re.compile(r"<(class|function|enum) '?mercer(?:\.\w+)*\.(\w+)")
_DOTTED = re.compile(r"\bmercer(?:\.[A-Za-z_]\w*){2,}")
_HEX = r"(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]"
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_HASH = re.compile(rf"(?<![\w.])(?!\d+e[-+])(?:{_UUID}|{_HEX}{{8,}})\b")  # but no 12345678e-09
_SET = re.compile(r"\{'[^{}:]*'\}")
_NUMBER = re.compile(
    r"(?<![A-Za-z_\d.])(?:(?<![\w)\]])[-+−])?(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
    r"|(?<![A-Za-z_\d.])(?:(?<![\w)\]])[-+−])?\b(?:nan|inf)\b"
)
_RUN = re.compile(r"#(?:,?\s+#)+")
_SCALAR = re.compile(r"\bnp\.(?:(complex\d+)|(?:float|int|uint|str_|bytes_)\d*)(\([^()]*\))")
_LONG = re.compile(r"(, \.\.\., [^][]*\]), shape=\([^()]*\)\)")
_TRUTH = re.compile(r"\bnp\.(True|False)_")


@lru_cache(maxsize=10_000)
def normal(text):
    """Return a message without what may differ from run to run, on one line.

    Examples
    --------
    >>> normal("KernelRidge: alpha=-0.5 at row 3 of '/tmp/x/y.csv'; legal: alpha ≥ 0.")
    "KernelRidge: alpha=# at row # of 'PATH'; legal: alpha ≥ #"
    >>> normal("<class 'mercer.kernels.radial.RBF'> at 0x7f, shape (3, 4, 5), float64")
    "<class 'mercer.~.RBF'> at ADDR, shape (#, …), float64"
    >>> normal("np.float64(0.5) is not np.str_('a')")  # what NumPy 1 writes
    "# is not 'a'"
    """
    text = _PATH.sub("PATH", text)
    text = _SET.sub(lambda m: "{" + ", ".join(sorted(m[0][1:-1].split(", "))) + "}", text)
    text = _CLASS.sub(r"<\1 'mercer.~.\2", text)
    text = _DOTTED.sub(_public_or_short, text)
    text = re.sub(r"\b0x[0-9a-fA-F]+", "ADDR", text)
    text = _HASH.sub("HASH", text)
    text = _NUMBER.sub("#", text)
    text = re.sub(r"#(?:\.\d+)+(?:\+\w+)?", "#", text)  # versions and addresses of machines
    text = re.sub(r"\[\s+#", "[#", _RUN.sub("#, …", bare(text)))  # arrays make room for signs
    text = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


def bare(text):
    """Return a message with scalars and long arrays as NumPy 1 writes them."""
    text = _SCALAR.sub(lambda m: m[2] if m[1] else m[2][1:-1], text)
    return _LONG.sub(r"\1)", _TRUTH.sub(r"\1", text)).replace("numpy.datetime64(", "np.datetime64(")


def _public_or_short(match):
    """A public name stays as it is, of any other only the last part is told."""
    parts = match[0].split(".")
    named = any(".".join(parts[:n]) in _public() for n in (2, 3, 4))
    return match[0] if named else f"mercer.~.{parts[-1]}"


@cache
def _public():
    """The public names, but not those of folders."""
    lines = NAMES.read_text().splitlines() if NAMES.exists() else []
    words = (re.match(r"[\w.]+", line) for line in lines if "(module)" not in line)
    return frozenset(word[0] for word in words if word)


# --------------------------------------------------------------------------------- whose it is
def _is_ours(module):
    return module == "mercer" or module.startswith("mercer.")


def _is_of_tests(module):
    return module.startswith(("tests.", "test_", "conftest"))


def origin(error):
    """Say who raised an exception: "mercer", "others" on its behalf, or None, a test itself."""
    ours, last = _is_ours(type(error).__module__), None
    trace = error.__traceback__
    through = False
    while trace is not None:
        if trace.tb_frame.f_code.co_name == "speaking":  # it only calls
            trace = trace.tb_next
            continue
        last, trace = trace, trace.tb_next
        through = through or _is_ours(last.tb_frame.f_globals.get("__name__") or "")
    module = "" if last is None else last.tb_frame.f_globals.get("__name__") or ""
    if _is_of_tests(module) or not (ours or through):
        return None
    itself = _is_ours(module) and last.tb_frame.f_code.co_code[last.tb_lasti] == _RAISE
    return "mercer" if (ours or itself) and not _quotes(error) else "others"


def _quotes(error):
    """Whether a message repeats that of a library."""
    cause = error.__cause__ or error.__context__
    if cause is None or _is_ours(type(cause).__module__):
        return False
    said = str(cause)
    return len(said) >= 10 and said[:40] in str(error) and origin(cause) == "others"


def versions():
    """Return what the words of others depend on, in one line."""
    out = [f"python {sys.version_info.major}.{sys.version_info.minor}"]
    for name in LIBRARIES:
        try:
            out.append(f"{name} {metadata.version(name).partition('+')[0]}")
        except metadata.PackageNotFoundError:
            out.append(f"no {name}")
    return ", ".join(out)


def line_of(kind, text):
    """Return the line of the file that tells a message."""
    return f"{kind}: {normal(text)}"


# ------------------------------------------------------------------------------------- the plugin
class Known:
    """The content of `messages.txt`: messages, tests to leave alone, versions of libraries."""

    def __init__(self, text):
        told = [line for line in text.splitlines() if line]
        lines = (line for line in told if not line.startswith("# "))
        self.messages = frozenset(_RUN.sub("#, …", bare(line)) for line in lines)
        head = [line[2:] for line in told if line.startswith("# ")]
        self.unstable = frozenset(h.removeprefix("unstable ") for h in head if "::" in h)
        self.versions = next((h for h in head if h.startswith("python ")), "")
        self.same_versions = self.versions == versions()

    def lacks(self, whose, line):
        """Whether a message is not among those that are told, and ought to be."""
        return line not in self.messages and (whose == "mercer" or self.same_versions)

    def complaint(self, line):
        """Return what a test that met an unknown message is failed with."""
        near = difflib.get_close_matches(line, self.messages, 1, 0.3)
        return (
            f"message not in tests/net/messages.txt:\n  {line}\n"
            f"nearest known:\n  {near[0] if near else 'none'}\n"
            "After a deliberate change, told in CHANGELOG.md, add it:\n"
            f"  {VARIABLE}=FOLDER python -m pytest THIS_TEST\n"
            "  python tests/net/make_messages.py --add FOLDER"
        )


class Messages:
    """Looks up, or records, what the tests are told."""

    def __init__(self, known=None, folder=None):
        self.known, self.folder = known, folder
        self.test = None
        self._written = set()
        self._kept = []

    @classmethod
    def from_environment(cls):
        """Return the plugin that this run asks for."""
        folder = os.environ.get(VARIABLE)
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            return cls(folder=Path(folder))
        return cls(Known(FILE.read_text()) if FILE.exists() else None)

    # -- hooks ----------------------------------------------------------------------------------
    def pytest_configure(self):
        """Look over the shoulders of pytest.raises and pytest.warns."""
        line_of("InvalidInput", "mercer.kernels.RBF at 0x1, 1")  # what is read once, now
        self._wrap(type(pytest.raises(Exception)), self.saw_error)
        self._wrap(type(pytest.warns(UserWarning)), self.saw_warnings)

    def pytest_unconfigure(self):
        while self._kept:
            cls, leave = self._kept.pop()
            cls.__exit__ = leave

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        self.test = self._checked(item)
        try:
            return (yield)
        finally:
            self.test = None

    def _checked(self, item):
        """Return the name of a test whose messages count, or None."""
        function = getattr(item, "obj", None)
        if not isinstance(item, pytest.Function) or hasattr(function, "is_hypothesis_test"):
            return None
        name = item.nodeid.partition("[")[0]
        return None if self.known and name in self.known.unstable else name

    # -- what is seen ---------------------------------------------------------------------------
    def _wrap(self, cls, saw):
        leave = cls.__exit__
        self._kept.append((cls, leave))

        def leave_and_look(context, kind, error, trace):
            __tracebackhide__ = True
            answer = leave(context, kind, error, trace)
            if self.test is not None and (self.known or self.folder) and not _made_up():
                saw(context, error, answer)
            return answer

        cls.__exit__ = leave_and_look

    def saw_error(self, context, error, caught):
        """Look at an exception that was expected."""
        __tracebackhide__ = True
        if error is not None and caught:
            whose = origin(error)
            if whose:
                self.note(whose, type(error).__name__, str(error))

    def saw_warnings(self, context, error, answer):
        """Look at the warnings that were waited for."""
        __tracebackhide__ = True
        for warning in [] if error else context.list:
            if context.matches(warning):
                here = _is_ours(warning.category.__module__) or "/mercer/" in warning.filename
                whose = "mercer" if here else "others"
                self.note(whose, warning.category.__name__, str(warning.message))

    def note(self, whose, kind, text):
        """Record a message, or fail the test if it is not known."""
        __tracebackhide__ = True
        line = line_of(kind, text)
        if self.folder:
            self._write([self.test, line])
        elif self.known.lacks(whose, line):
            pytest.fail(self.known.complaint(line), pytrace=True)

    def _write(self, entry):
        key = tuple(entry)
        if key not in self._written:
            self._written.add(key)
            with open(self.folder / f"{os.getpid()}.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps(entry, ensure_ascii=False) + "\n")


def _made_up():
    """Whether hypothesis makes up the inputs right now."""
    hypothesis = sys.modules.get("hypothesis")
    return hypothesis is not None and hypothesis.currently_in_test_context()
