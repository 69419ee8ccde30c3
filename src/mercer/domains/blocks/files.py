"""Files of rows: which they are, and whether they are still the files of before."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mercer.errors import InvalidInput, refusal

EDGE = 2**16  # bytes at both ends of a file that tell it from others


@dataclass(frozen=True)
class FileMark:
    """A file as it was first seen: size, time of change, digest of its ends."""

    path: str
    name: str
    size: int
    time: int
    digest: str

    @classmethod
    def of(cls, name: str) -> FileMark:
        """Look at a file."""
        try:
            status = os.stat(name)
            digest = _ends(name, status.st_size)
        except OSError as error:
            why = "there is no such file" if isinstance(error, FileNotFoundError) else error
            raise refusal("RowBlocks", f"{name!r} cannot be read: {why}.") from None
        return cls(os.path.abspath(name), name, status.st_size, status.st_mtime_ns, digest)

    def require_same(self) -> None:
        """Refuse a file that is gone, or another than before."""
        try:
            status = os.stat(self.path)
            same = status.st_size == self.size and (
                status.st_mtime_ns == self.time or _ends(self.path, self.size) == self.digest
            )
        except OSError as error:
            why = "it is gone" if isinstance(error, FileNotFoundError) else str(error)
            raise refusal(
                "RowBlocks", f"{self.name!r} could be read before and cannot now: {why}."
            ) from None
        if not same:
            raise self.changed()

    def changed(self) -> InvalidInput:
        """Return the error of a file that is another than before."""
        return refusal(
            "RowBlocks",
            f"the file {self.name!r} changed since it was first read; every pass must "
            "see the same rows. Make the RowBlocks anew, and leave the file alone while they are "
            "used.",
        )


def _ends(path: str, size: int) -> str:
    with open(path, "rb") as file:
        digest = hashlib.blake2b(file.read(EDGE), digest_size=16)
        file.seek(max(0, size - EDGE))
        digest.update(file.read(EDGE))
    digest.update(str(size).encode())
    return digest.hexdigest()


def release(memo: dict[str, Any]) -> None:
    """Close the file of a memo, and forget what is in it."""
    file = memo.pop("file", None)
    memo.clear()
    if file is not None:
        file.close(force=True)


@contextmanager
def kept_open() -> Iterator[dict[str, Any]]:
    """Give readers a memo for the file that they keep open from one block to the next."""
    memo: dict[str, Any] = {}
    try:
        yield memo
    finally:
        release(memo)


def list_files(path: Any, endings: tuple[str, ...], what: str) -> list[str]:
    """Return the files of a path, of a folder in the order of their names, or of a list of paths.

    Files of a folder whose names begin with a dot or an underscore are left out, as everywhere.
    """
    if isinstance(path, Sequence) and not isinstance(path, str | bytes):
        found = [name for one in path for name in list_files(one, endings, what)]
        if not found:
            raise refusal("RowBlocks", f"an empty list of paths; give a {what} file or folder.")
        return found
    try:
        name = os.fsdecode(path)
    except TypeError:
        raise refusal(
            "RowBlocks",
            f"the path is a {type(path).__name__}; give the path of a {what} file, of "
            "a folder of such files, or a list of paths.",
        ) from None
    if "://" in name:
        raise refusal("RowBlocks", f"{name!r} is an address; mercer reads local files only.")
    if not os.path.exists(name):
        raise refusal("RowBlocks", f"there is no file or folder {name!r}.")
    if not os.path.isdir(name):
        return [name]
    inside = [one for one in sorted(os.listdir(name)) if not one.startswith((".", "_"))]
    found = [os.path.join(name, one) for one in inside if one.lower().endswith(endings)]
    found = [one for one in found if os.path.isfile(one)]
    deeper = [one for one in inside if os.path.isdir(os.path.join(name, one))]
    if deeper:
        raise refusal(
            "RowBlocks",
            f"the folder {name!r} holds folders, such as {deeper[0]!r}, which are not "
            "searched; give a list of the paths that are to be read.",
        )
    if not found:
        raise refusal(
            "RowBlocks",
            f"the folder {name!r} holds no {what} file; its files must end in "
            f"{' or '.join(endings)}.",
        )
    return found


def files_in_words(path: Any, number: int, kind: str) -> str:
    """Say how many files there are, and where."""
    many = f"{number} {kind} file" + "s" * (number != 1)
    if isinstance(path, Sequence) and not isinstance(path, str | bytes):
        return many
    return f"{many} in {os.fsdecode(path)!r}" if os.path.isdir(path) else repr(os.fsdecode(path))


def folders_of(path: Any) -> tuple[str, ...]:
    """Return which of the paths are folders."""
    paths = [path] if isinstance(path, str | bytes) or not isinstance(path, Sequence) else path
    return tuple(os.path.realpath(os.fsdecode(one)) for one in paths if os.path.isdir(one))
