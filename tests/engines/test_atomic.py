import errno
import os
import signal
import stat
import subprocess
import sys
import threading

import pytest

from mercer.engines import files
from mercer.errors import InvalidInput

OLD, NEW = b"old content", [b"new ", memoryview(b"content")]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "model.mercer"
    path.write_bytes(OLD)
    return str(path)


def only(path):
    """The directory of the path holds nothing else."""
    return os.listdir(os.path.dirname(path)) == [os.path.basename(path)]


def content(path):
    with open(path, "rb") as file:
        return file.read()


def test_a_new_file_and_a_replaced_one(tmp_path, path):
    files.replace_file(path, NEW)
    assert content(path) == b"new content" and only(path)
    other = str(tmp_path / "other")
    files.replace_file(other, iter([]))
    assert content(other) == b""


class Fault(OSError):
    pass


def failing(original, when):
    """Raise on the call of this number, counted from 0; do the work otherwise."""
    calls = iter(range(10**6))

    def call(*args, **kwargs):
        if next(calls) == when:
            raise Fault(errno.EIO, "injected")
        return original(*args, **kwargs)

    return call


@pytest.mark.parametrize("existing", [True, False])
@pytest.mark.parametrize(
    ("name", "when", "written"),
    [
        ("open", 0, False),
        ("fdopen", 0, False),
        ("fsync", 0, False),
        ("replace", 0, False),
        ("fsync", 1, True),  # of the directory: the new file is in place
    ],
)
def test_a_fault_at_each_step(path, monkeypatch, name, when, written, existing):
    if not existing:
        os.unlink(path)
    monkeypatch.setattr(files.os, name, failing(getattr(os, name), when))
    with pytest.raises(Fault):
        files.replace_file(path, NEW)
    monkeypatch.undo()
    if written:
        assert content(path) == b"new content" and only(path)
    elif existing:
        assert content(path) == OLD and only(path)
    else:
        assert os.listdir(os.path.dirname(path)) == []


@pytest.mark.parametrize("error", [Fault(errno.EIO, "x"), KeyboardInterrupt(), MemoryError()])
@pytest.mark.parametrize("when", [0, 1, 2])
def test_a_fault_while_the_content_is_made(path, error, when):
    def pieces():
        for number in range(3):
            if number == when:
                raise error
            yield bytes(100_000)

    with pytest.raises(type(error)):
        files.replace_file(path, pieces())
    assert content(path) == OLD and only(path)


def test_a_file_too_large_for_its_disk(path):
    def pieces():
        yield b"some"
        raise OSError(errno.EFBIG, "File too large")

    with pytest.raises(OSError, match="make room or give another path") as caught:
        files.replace_file(path, pieces())
    assert caught.value.filename == path
    assert content(path) == OLD and only(path)


@pytest.mark.skipif(
    not os.path.exists("/dev/full"), reason="this system has no /dev/full to stand for a full disk"
)
@pytest.mark.parametrize("size", [10, 10_000_000])
def test_a_full_disk(path, monkeypatch, size):
    """Writes go to /dev/full: small ones fail at flush, large ones at once."""
    honest = os.open

    def redirected(name, flags, *mode):
        descriptor = honest(name, flags, *mode)
        if flags & os.O_CREAT:
            full = honest("/dev/full", os.O_WRONLY)
            os.dup2(full, descriptor)
            os.close(full)
        return descriptor

    monkeypatch.setattr(files.os, "open", redirected)
    monkeypatch.setattr(files, "_still_ours", lambda *_: True)
    with pytest.raises(OSError) as caught:
        files.replace_file(path, [bytes(size)])
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == path and "make room" in str(caught.value)
    assert content(path) == OLD and only(path)


def test_the_order_is_write_sync_rename_sync(path, monkeypatch):
    log = []

    def logged(name):
        original = getattr(os, name)

        def call(first, *rest):
            kind = "" if name != "fsync" else stat.S_ISDIR(os.fstat(first).st_mode)
            log.append((name, kind, content(path)))
            return original(first, *rest)

        return call

    for name in ("fsync", "replace"):
        monkeypatch.setattr(files.os, name, logged(name))
    files.replace_file(path, NEW)
    assert log == [("fsync", False, OLD), ("replace", "", OLD), ("fsync", True, b"new content")]


def test_directories_that_cannot_be_synchronised(path, monkeypatch):
    honest = os.fsync

    def refusing(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not here")
        honest(descriptor)

    monkeypatch.setattr(files.os, "fsync", refusing)
    files.replace_file(path, NEW)
    assert content(path) == b"new content"


def test_without_overwrite(path):
    with pytest.raises(FileExistsError, match="overwrite=True"):
        files.refuse_target(path, False)
    with pytest.raises(FileExistsError, match="overwrite=True"):  # it appeared in the meantime
        files.replace_file(path, NEW, overwrite=False)
    assert content(path) == OLD and only(path)
    os.unlink(path)
    files.replace_file(path, NEW, overwrite=False)
    assert content(path) == b"new content" and only(path)
    assert os.stat(path).st_nlink == 1


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP, errno.EIO])
def test_without_overwrite_and_without_hard_links(path, monkeypatch, code):
    def refusing(*_):
        raise OSError(code, "no links here")

    monkeypatch.setattr(files.os, "link", refusing)
    with pytest.raises(OSError):
        files.replace_file(path, NEW, overwrite=False)
    assert content(path) == OLD and only(path)
    os.unlink(path)
    if code == errno.EIO:
        with pytest.raises(OSError, match="no links"):
            files.replace_file(path, NEW, overwrite=False)
        assert not os.path.exists(path)
    else:
        files.replace_file(path, NEW, overwrite=False)
        assert content(path) == b"new content" and only(path)


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_permissions_are_those_of_an_ordinary_file(tmp_path, umask):
    before = os.umask(umask)
    try:
        files.replace_file(str(tmp_path / "new"), NEW)
        (tmp_path / "plain").write_bytes(b"")
    finally:
        os.umask(before)
    assert os.stat(tmp_path / "new").st_mode == os.stat(tmp_path / "plain").st_mode


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_a_replaced_file_keeps_its_permissions(path, mode):
    os.chmod(path, mode)
    files.replace_file(path, NEW)
    assert stat.S_IMODE(os.stat(path).st_mode) == mode


def test_targets_that_are_refused(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for target in (tmp_path, pipe, "/dev/null"):
        with pytest.raises(InvalidInput, match="give the path of a file"):
            files.refuse_target(str(target), True)
    with pytest.raises(FileNotFoundError, match="create it first"):
        files.refuse_target(str(tmp_path / "none" / "model"), True)
    with pytest.raises(OSError):
        files.refuse_target(str(pipe / "model"), True)


def test_a_link_stays_a_link(tmp_path, path):
    link = tmp_path / "link"
    link.symlink_to("model.mercer")
    files.replace_file(files.refuse_target(str(link), True), NEW)
    assert link.is_symlink() and content(path) == b"new content"
    dangling = tmp_path / "dangling"
    dangling.symlink_to("later")
    files.replace_file(files.refuse_target(str(dangling), False), NEW)
    assert dangling.is_symlink() and content(tmp_path / "later") == b"new content"


@pytest.mark.parametrize("name", ["x" * 255, "a b\n\t'", "-rf", "λ" * 100, ".hidden", "a\udcff"])
def test_odd_names(tmp_path, name):
    path = str(tmp_path / name)
    files.replace_file(path, NEW)
    assert content(path) == b"new content" and only(path)


def test_two_writers_leave_one_whole_file(path):
    contents = [bytes([n]) * 50_000 for n in range(4)]
    errors = []

    def work(mine):
        try:
            for _ in range(25):
                files.replace_file(path, [mine[:20_000], mine[20_000:]])
                assert content(path) in contents
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and content(path) in contents and only(path)


def test_one_of_many_exclusive_writers_wins(path):
    os.unlink(path)
    outcomes = []

    def work(n):
        try:
            files.replace_file(path, [bytes([n]) * 1000], overwrite=False)
            outcomes.append(n)
        except FileExistsError:
            pass

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 1 and content(path) == bytes(outcomes) * 1000 and only(path)


def test_a_name_lost_before_its_lock_is_given_up(path, monkeypatch):
    """Another writer took the new temporary file for abandoned: start again with another name."""
    honest, taken = files._lock, []

    def late(descriptor):
        if len(taken) < 3:
            (name,) = [n for n in os.listdir(os.path.dirname(path)) if n.endswith(".tmp")]
            os.unlink(os.path.join(os.path.dirname(path), name))
            taken.append(name)
        return honest(descriptor)

    monkeypatch.setattr(files, "_lock", late)
    files.replace_file(path, NEW)
    assert len(set(taken)) == 3 and content(path) == b"new content" and only(path)


WRITER = """
import sys, time
from mercer.engines.files import replace_file
def pieces():
    yield b"n" * 300_000
    print("writing", flush=True)
    time.sleep(60)
replace_file(sys.argv[1], pieces())
"""


@pytest.mark.skipif(
    not hasattr(signal, "SIGKILL"), reason="Windows cannot kill a process by a signal"
)
def test_a_killed_writer_loses_nothing_and_the_next_one_cleans_up(path):
    source = os.path.dirname(os.path.dirname(os.path.dirname(files.__file__)))
    environment = {**os.environ, "PYTHONPATH": source}
    command = [sys.executable, "-c", WRITER, path]
    writers = [subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) for _ in range(2)]
    try:
        for writer in writers:
            assert writer.stdout.readline() == b"writing\n"
        assert content(path) == OLD
        writers[0].kill()
        writers[0].wait()
        folder = os.path.dirname(path)
        assert len(os.listdir(folder)) == 3  # the model, one abandoned file, one at work
        files.replace_file(path, NEW)
        assert content(path) == b"new content"
        assert len(os.listdir(folder)) == 2  # the file of the living writer stays
        assert writers[1].poll() is None
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
            writer.stdout.close()
    files.replace_file(path, NEW)
    assert only(path)


def test_files_of_others_are_left_alone(tmp_path, path):
    names = [".mercer-0123456789abcdef-00.tmp", "model.mercer.tmp", ".mercer.tmp"]
    for name in names:
        (tmp_path / name).write_bytes(b"theirs")
    odd = tmp_path / f"{files._stem(path)}0.tmp"
    odd.mkdir()
    files.replace_file(path, NEW)
    assert sorted(os.listdir(tmp_path)) == sorted([*names, "model.mercer", odd.name])
