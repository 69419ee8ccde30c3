"""Exit codes, usage errors, interruption, pipes, start-up, as a script or a person meets them."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import mercer.cli.fit
import mercer.cli.predict
from mercer import __version__, threads
from mercer.cli import main

SOURCE = str(Path(mercer.cli.fit.__file__).parents[2])


def start(*arguments, **options):
    environment = os.environ | {"PYTHONPATH": SOURCE} | options.pop("env", {})
    command = [sys.executable, "-m", "mercer.cli", *map(str, arguments)]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.Popen(command, env=environment, **options)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--help"], "Exit codes: 0 done"),
        (["fit", "--help"], "--target COLUMN"),
        (["predict", "-h"], "--raw-csv"),
        (["explain", "-h"], "--background TABLE"),
        (["info", "-h"], "MODEL"),
        (["--version"], f"mercer {__version__}\n"),
    ],
)
def test_help(mercer, arguments, text):
    outcome = mercer(*arguments)
    assert outcome.code == 0
    assert outcome.err == ""
    assert text in outcome.out


FIT = ["fit", "t.csv", "--target", "y", "-o", "m"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "COMMAND"),
        (["nonsense"], "'nonsense'"),
        (["fit"], "TABLE, --target, -o/--output"),
        (["fit", "t.csv", "-o", "m"], "--target"),
        (["fit", "t.csv", "--target", "y"], "-o/--output"),
        ([*FIT, "--kernel", "sigmoid"], "--kernel: invalid choice: 'sigmoid'"),
        ([*FIT, "--alpha", "-1"], "--alpha: '-1'"),
        ([*FIT, "--alpha", "0"], "--alpha: '0'"),
        ([*FIT, "--alpha", "nan"], "--alpha: 'nan'"),
        ([*FIT, "--alpha", "x"], "--alpha: 'x'"),
        ([*FIT, "--test-fraction", "1"], "--test-fraction: '1'"),
        ([*FIT, "--memory", "lots"], "--memory: 'lots'"),
        ([*FIT, "--seed", "-1"], "--seed: '-1'"),
        ([*FIT, "--max-rows", "1"], "--max-rows: '1'"),
        (["fit", "t.csv", "--targ", "y", "-o", "m"], "--target"),
        (["fit", "t.csv", "--target", "y", "-o", "-"], "a model goes to a file"),
        ([*FIT, "--decimal", ";"], "--decimal"),
        ([*FIT, "--max-categories", "0"], "--max-categories"),
        (["predict", "m", "t.csv", "-o", "o.xlsx"], "cannot write .xlsx files"),
        (["predict", "m", "t.csv", "-o", "o.mercer"], "cannot write .mercer files"),
        (["predict", "m"], "TABLE"),
        (["info"], "MODEL"),
        (["info", "m", "n"], "unrecognized arguments: n"),
    ],
)
def test_wrong_usage_is_2(mercer, arguments, named):
    outcome = mercer(*arguments)
    assert outcome.code == 2, outcome
    assert outcome.out == ""
    assert named in outcome.err.split("error:")[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["fit", "t.csv", "--traget", "y", "-o", "m"],
            "unknown option --traget; did you mean --target?",
        ),
        (
            ["fit", "t.csv", "--traget=y", "-o", "m"],
            "unknown option --traget; did you mean --target?",
        ),
        ([*FIT, "--kernel", "rfb"], "invalid choice: 'rfb'; did you mean rbf? legal: rbf, matern"),
        ([*FIT, "--maxrows", "7"], "did you mean --max-rows?"),
        ([*FIT, "--xyzzy"], "unknown option --xyzzy ("),
        (["fti"], "invalid choice: 'fti'; did you mean fit? legal: fit, predict"),
        (["--verison"], "unknown option --verison; did you mean --version?"),
    ],
)
def test_a_word_that_there_is_not_gets_the_nearest_in_one_line(misused, arguments, words):
    line = misused(*arguments)
    assert words in line and "usage" not in line and "--help tells more" in line


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from mercer.cli import main; main(['--help']);"
        "heavy = {'numpy', 'scipy', 'sklearn', 'numba', 'pandas'} & set(sys.modules);"
        "sys.exit(repr(heavy) if heavy else 0)"
    )
    environment = os.environ | {"PYTHONPATH": SOURCE}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_version():
    done = start("--version")
    assert done.communicate()[0].decode().strip() == f"mercer {__version__}"


def test_interruption_is_130(mercer, monkeypatch, tmp_path, houses):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["mercer.cli.fit"], "_machine", interrupted)
    outcome = mercer("fit", houses, "--target", "price", "-o", tmp_path / "m")
    assert outcome.code == 130
    assert outcome.err == "mercer: interrupted\n"
    assert not (tmp_path / "m").exists()


def test_an_interruption_says_how_to_go_on(mercer, monkeypatch, tmp_path, houses):
    def interrupted(*_, **__):
        stop = KeyboardInterrupt()
        stop.add_note("the same fit goes on from step 3")
        raise stop

    monkeypatch.setattr(sys.modules["mercer.cli.fit"], "_machine", interrupted)
    outcome = mercer("fit", houses, "--target", "price", "-o", tmp_path / "m")
    assert outcome.code == 130
    assert outcome.err == "mercer: interrupted; the same fit goes on from step 3\n"


@pytest.mark.parametrize("left", [True, False])
def test_an_interrupted_program_does_not_wait_for_a_library(monkeypatch, left, houses, tmp_path):
    class Left(BaseException):
        pass

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    def leave(code):
        raise Left(code)

    monkeypatch.setattr(sys.modules["mercer.cli.fit"], "_machine", interrupted)
    monkeypatch.setattr(threads, "left_behind", lambda: [1] * left)
    monkeypatch.setattr(os, "_exit", leave)
    words = ["fit", str(houses), "--target", "price", "-o", str(tmp_path / "m")]
    assert main(words) == 130  # somebody else's process goes on
    monkeypatch.setattr(sys, "argv", ["mercer", *words])
    if not left:
        assert main() == 130
        return
    with pytest.raises(Left) as stopped:
        main()
    assert stopped.value.args == (130,)


def test_control_c_while_waiting_for_input(tmp_path):
    out = tmp_path / "m"
    process = start("fit", "-", "--target", "y", "-o", out, "--verbose", stdin=subprocess.PIPE)
    said = process.stderr.readline()  # it works by now
    assert re.fullmatch(rb"mercer: reading -, ([2-9]|[1-9]\d+) s\n", said), said
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert out == b""
    assert err == b"mercer: interrupted\n"
    assert not (tmp_path / "m").exists()


def test_unexpected_errors_show_no_traceback(mercer, monkeypatch, capsys):
    def broken(path):
        raise RuntimeError("two\nlines \x1b[31m")

    monkeypatch.setattr(sys.modules["mercer.cli.predict"], "read_model", broken)
    outcome = mercer("info", "m")
    assert outcome.code == 1
    assert outcome.err.startswith("mercer: error: unexpected RuntimeError: two lines  [31m")
    assert outcome.err.count("\n") == 1
    with pytest.raises(RuntimeError):
        main(["info", "m", "--debug"])


def test_library_warnings_are_one_line(mercer, monkeypatch, house_model):
    import warnings

    real = sys.modules["mercer.cli.predict"].read_model

    def noisy(path):
        warnings.warn("slow\nand steady", UserWarning, stacklevel=1)
        return real(path)

    monkeypatch.setattr(sys.modules["mercer.cli.predict"], "read_model", noisy)
    outcome = mercer("info", house_model)
    assert outcome.code == 0
    assert outcome.err == "mercer: warning: slow and steady\n"


@pytest.mark.parametrize("command", ["info", "predict"])
def test_broken_pipe(house_model, houses, command):
    process = start(command, house_model, *([houses] if command == "predict" else []))
    process.stdout.close()  # nobody reads
    err = process.stderr.read()
    assert process.wait(timeout=60) == 0  # as of most tools: what was wanted has been read
    assert err == b""


def test_broken_pipe_after_fit_leaves_the_model(houses, tmp_path):
    process = start("fit", houses, "--target", "price", "--no-tune", "-o", tmp_path / "m")
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=60) == 0
    assert (tmp_path / "m").exists()


def test_nobody_listens_to_warnings(house_model, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("area,rooms,town\n80,3,moon\n")
    process = start("predict", house_model, table, "-o", tmp_path / "o.csv")
    process.stderr.close()
    process.stdout.read()
    assert process.wait(timeout=60) == 0
    assert (tmp_path / "o.csv").exists()  # the work was done all the same


def test_in_and_out_through_pipes_in_a_plain_locale(house_model):
    process = start(
        "predict", house_model, "-", "--keep", "town",
        stdin=subprocess.PIPE, env={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": ""},
    )  # fmt: skip
    out, err = process.communicate("area,rooms,town\n80,3,Kö\n".encode(), timeout=60)
    assert process.returncode == 0, err
    header, row = out.decode("utf-8").splitlines()
    assert header == "town,predicted_price"
    assert row.startswith("Kö,")
    assert err.count(b"\n") == 1
    assert b"'town': 1 of 1 values are unknown" in err


def test_error_in_a_plain_locale(tmp_path):
    process = start(
        "fit", tmp_path / "ö.csv", "--target", "y", "-o", tmp_path / "m",
        env={"LC_ALL": "C", "PYTHONIOENCODING": "ascii:strict", "PYTHONUTF8": "0"},
    )  # fmt: skip
    err = process.communicate(timeout=60)[1]
    assert process.returncode == 1
    assert err.startswith(b"mercer: error: ")
    assert b"Traceback" not in err


def test_report_in_a_plain_locale(house_model):
    process = start("info", house_model, env={"PYTHONIOENCODING": "ascii:strict"})
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert b"R? 0." in out


@pytest.mark.skipif(
    not os.path.exists("/dev/full"), reason="this system has no /dev/full to stand for a full disk"
)
@pytest.mark.parametrize("command", ["info", "predict"])
def test_full_disk_behind_stdout(house_model, houses, command):
    table = [houses] if command == "predict" else []
    with open("/dev/full", "wb") as full:
        process = start(command, house_model, *table, stdout=full)
        err = process.communicate(timeout=60)[1]
    assert process.returncode == 1
    assert err == b"mercer: error: No space left on device\n"


def test_closed_stdout(house_model):
    environment = os.environ | {"PYTHONPATH": SOURCE}
    command = f'"{sys.executable}" -m mercer.cli.predict "{house_model}" >&-'
    done = subprocess.run(command, shell=True, env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_unwritable_home_and_cache(house_model, houses, tmp_path):
    file = tmp_path / "file"
    file.touch()
    below = str(file / "home")  # no user can create it, not even root
    names = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "NUMBA_CACHE_DIR", "MPLCONFIGDIR")
    process = start("predict", house_model, houses, env=dict.fromkeys(names, below))
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert len(out.splitlines()) == 61


def test_the_package_runs_as_the_command():
    command = [sys.executable, "-m", "mercer", "--version"]
    environment = os.environ | {"PYTHONPATH": SOURCE}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"mercer {__version__}\n"
