"""Write a file so that its path holds the old content or the new, whole, whatever happens.

A temporary file in the same directory is written, flushed and forced to disk, then renamed over the
target, then the directory is forced to disk. A failure removes the temporary file. A process that
was killed cannot; its file is removed by the next write to the same target, which knows that the
writer is gone because the writer's lock on the temporary file is gone.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import BinaryIO

from mercer.errors import InvalidInput

try:
    import fcntl
except ImportError:  # Windows: temporary files of killed processes stay
    fcntl = None  # type: ignore[assignment]

_TRIES = 100
_FULL = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))


def refuse_target(path: str, overwrite: bool) -> str:
    """Return the real path to write to; raise if it must not be written.

    A symbolic link is followed, as plain ``open(path, "wb")`` does.
    """
    path = os.path.realpath(path)
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise FileNotFoundError(
            errno.ENOENT, "save: the directory does not exist; create it first", folder
        )
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return path
    if not stat.S_ISREG(mode):
        what = "a directory" if stat.S_ISDIR(mode) else "a device or pipe"
        raise InvalidInput(f"save: {path!r} is {what}; give the path of a file.")
    if not overwrite:
        raise _exists(path)
    return path


def replace_file(path: str, pieces: Iterable[bytes | memoryview], overwrite: bool = True) -> None:
    """Write the pieces to path, atomically and durably.

    Parameters
    ----------
    path : str
        Where to write, as returned by `refuse_target`.
    pieces : iterable of bytes-like
        The content.
    overwrite : bool
        Whether an existing file may be replaced; if not, `FileExistsError` also when another
        process creates the file in the meantime.
    """
    folder, stem = os.path.dirname(path), _stem(path)
    _remove_abandoned(folder, stem)
    temporary, file = _create(folder, stem, path)
    try:
        with _named(path), file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
            # Renamed while still open and locked, so that nobody takes it for abandoned.
            if os.name != "nt":
                _rename(temporary, path, overwrite)
        if os.name == "nt":
            _rename(temporary, path, overwrite)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(folder)


@contextlib.contextmanager
def _named(path: str) -> Iterator[None]:
    """Say of a disk that is full which file was to be written."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        message = f"{error.strerror}: the file is not written; make room or give another path"
        raise OSError(error.errno, message, path) from None


def _stem(path: str) -> str:
    # A digest, not the name itself: a legal name of 255 bytes must leave room for the suffix.
    return f".mercer-{sha256(os.fsencode(os.path.basename(path))).hexdigest()[:16]}-"


def _create(folder: str, stem: str, path: str) -> tuple[str, BinaryIO]:
    """Open a new temporary file, locked, with the permissions that the target has or would get."""
    try:
        kept = stat.S_IMODE(os.stat(path).st_mode)
    except FileNotFoundError:
        kept = None
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    flags |= getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    for _ in range(_TRIES):
        temporary = os.path.join(folder, f"{stem}{secrets.token_hex(8)}.tmp")
        try:
            # The system applies the umask to a new file; content of a private one stays private.
            descriptor = os.open(temporary, flags, 0o666 if kept is None else 0o600)
        except FileExistsError:
            continue
        try:
            if _lock(descriptor) and _still_ours(descriptor, temporary):
                if kept is not None and hasattr(os, "fchmod"):
                    os.fchmod(descriptor, kept)
                return temporary, os.fdopen(descriptor, "wb")
            os.close(descriptor)
        except BaseException:
            os.close(descriptor)
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    raise FileExistsError(errno.EEXIST, "save: no free name for a temporary file", folder)


def _lock(descriptor: int) -> bool:
    """Take the lock; False when another process holds it, True also where locks do not exist."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _still_ours(descriptor: int, temporary: str) -> bool:
    """Whether nobody took the file for abandoned between its creation and its lock."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(temporary))
    except FileNotFoundError:
        return False


def _remove_abandoned(folder: str, stem: str) -> None:
    if fcntl is None:
        return
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if name.startswith(stem) and name.endswith(".tmp"):
                with contextlib.suppress(OSError):
                    _remove_if_abandoned(os.path.join(folder, name))


def _remove_if_abandoned(temporary: str) -> None:
    descriptor = os.open(temporary, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # OSError: its writer is alive
        os.unlink(temporary)
    finally:
        os.close(descriptor)


def _rename(temporary: str, path: str, overwrite: bool) -> None:
    if overwrite:
        os.replace(temporary, path)
        return
    # A hard link refuses an existing target in one step; a rename does so only on Windows.
    try:
        if os.name == "nt":
            os.rename(temporary, path)
            return
        os.link(temporary, path)
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        # A file system without hard links: as good as it gets there.
        if os.path.lexists(path):
            raise _exists(path) from None
        os.replace(temporary, path)
        return
    os.unlink(temporary)


def _exists(path: str) -> FileExistsError:
    message = "save: the file exists; give another path or overwrite=True"
    return FileExistsError(errno.EEXIST, message, path)


def _sync_folder(folder: str) -> None:
    """Make the rename itself durable, where directories can be opened and synchronised."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:  # one may write into a directory that one cannot read
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP):
            raise
    finally:
        os.close(descriptor)
