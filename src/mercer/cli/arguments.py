"""The arguments of the command line; imports nothing heavy, so that help is instant."""

from __future__ import annotations

import argparse
import os
import re

from mercer import __version__

__all__ = ["KERNELS", "build_parser"]

KERNELS = ("rbf", "matern", "rational_quadratic", "laplacian", "linear", "polynomial")

_ANSWERS = (".csv", ".tsv", ".txt", ".parquet", ".pq")
_DESCRIPTION = "Kernel models on tables: fit one, predict with it, look inside its file."
_EPILOG = """\
examples:
  mercer fit houses.csv --target price -o houses.mercer
  mercer predict houses.mercer new.csv -o prices.csv
  mercer info houses.mercer

Exit codes: 0 done, 1 the data or the model stood in the way, 2 wrong usage, 130 interrupted.
"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of ``mercer`` with its three commands."""
    parser = argparse.ArgumentParser(
        prog="mercer",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"mercer {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_fit(commands)
    _add_predict(commands)
    _add_info(commands)
    return parser


def _command(commands: argparse._SubParsersAction, name: str, text: str) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
    parser.add_argument("-v", "--verbose", action="store_true", help="progress also into a log")
    parser.add_argument("--debug", action="store_true", help="show where an error came from")
    return parser


def _add_table_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--encoding", default="utf-8", help="of a CSV file (default: utf-8)")
    parser.add_argument(
        "--decimal",
        choices=(".", ","),
        default=".",
        metavar="CHAR",
        help="decimal mark of the numbers in TABLE, . or , (default: .)",
    )
    parser.add_argument(
        "--memory", type=_memory, metavar="SIZE", help="memory budget, for example 2GB"
    )
    parser.add_argument("--force", action="store_true", help="overwrite the output file")


def _add_fit(commands: argparse._SubParsersAction) -> None:
    parser = _command(commands, "fit", "Fit, tune and evaluate a kernel model on a table.")
    parser.add_argument(
        "table", metavar="TABLE", help="CSV or Parquet file with a header; - is stdin"
    )
    parser.add_argument("--target", required=True, metavar="COLUMN", help="column to predict")
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        type=_model_path,
        metavar="MODEL",
        help="model file to write",
    )
    parser.add_argument(
        "--kernel",
        choices=(*KERNELS, "auto"),
        default="rbf",
        help="kernel; auto takes the best of rbf, matern and linear (default: rbf)",
    )
    parser.add_argument(
        "--task",
        choices=("auto", "regression", "classification"),
        default="auto",
        help="predict numbers or classes (default: decided by the target column)",
    )
    parser.add_argument(
        "--model",
        choices=("auto", "ridge", "svc"),
        default="auto",
        help="ridge, or svc for a support vector classifier; auto takes svc for classification "
        "where every class has 5 rows or more, else ridge (default: auto)",
    )
    parser.add_argument(
        "--alpha",
        type=_alpha,
        default="loo",
        help="penalty of ridge: loo tunes it with the kernel's scale; a number > 0 fixes it and "
        "takes the scale from the data (default: loo)",
    )
    parser.add_argument(
        "--C",
        type=_price,
        default="tune",
        metavar="C",
        help="price of a margin violation for svc: tune chooses it with the kernel's scale; a "
        "number > 0 fixes it and takes the scale from the data (default: tune)",
    )
    parser.add_argument(
        "--no-tune", action="store_true", help="take the kernel's scale from the data"
    )
    parser.add_argument(
        "--drop",
        nargs="+",
        action="extend",
        default=[],
        metavar="COLUMN",
        help="columns not to use",
    )
    parser.add_argument(
        "--categorical",
        nargs="+",
        action="extend",
        default=[],
        metavar="COLUMN",
        help="columns of numbers to be read as categories",
    )
    parser.add_argument(
        "--max-categories",
        type=_count,
        default=100,
        metavar="N",
        help="most frequent categories kept of each column (default: 100)",
    )
    parser.add_argument(
        "--test-fraction",
        type=_fraction,
        default=0.2,
        metavar="F",
        help="share of the rows held out to evaluate; 0 holds out none (default: 0.2)",
    )
    parser.add_argument("--max-rows", type=_count, metavar="N", help="use N random rows at most")
    parser.add_argument("--seed", type=_seed, default=0, help="of the random split (default: 0)")
    _add_table_options(parser)


def _add_predict(commands: argparse._SubParsersAction) -> None:
    parser = _command(commands, "predict", "Predict the rows of a table with a fitted model.")
    parser.add_argument("model", metavar="MODEL", help="model file written by mercer fit")
    parser.add_argument(
        "table", metavar="TABLE", help="CSV or Parquet file with a header; - is stdin"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=_answer_path,
        metavar="OUT",
        help="file to write: .csv, .txt, .tsv (tabs) or .parquet (default: CSV to stdout)",
    )
    parser.add_argument(
        "--keep",
        nargs="+",
        action="extend",
        default=[],
        metavar="COLUMN",
        help="columns of TABLE to copy in front of the predictions",
    )
    parser.add_argument(
        "--probabilities",
        action="store_true",
        help="add a column of probabilities for each class; svc models have them",
    )
    parser.add_argument(
        "--raw-csv",
        action="store_true",
        help="write text cells as they are, also those a spreadsheet would run as a formula",
    )
    _add_table_options(parser)


def _add_info(commands: argparse._SubParsersAction) -> None:
    parser = _command(commands, "info", "Say what is in a model file.")
    parser.add_argument("model", metavar="MODEL", help="model file")


def _model_path(text: str) -> str:
    if text == "-":
        raise argparse.ArgumentTypeError(
            "a model goes to a file, stdout is for the report; give a path such as model.mercer"
        )
    return text


def _answer_path(text: str) -> str | None:
    if text == "-":
        return None
    ending = os.path.splitext(text)[1].lower()
    if ending and ending not in _ANSWERS:
        raise argparse.ArgumentTypeError(
            f"{text!r}: cannot write {ending} files; the name may end in {', '.join(_ANSWERS)}"
        )
    return text


def _alpha(text: str) -> float | str:
    if text == "loo":
        return text
    value = _number(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number > 0 nor loo")
    return value


def _price(text: str) -> float | str:
    if text == "tune":
        return text
    value = _number(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number > 0 nor tune")
    return value


def _fraction(text: str) -> float:
    value = _number(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not in [0, 1)")
    return value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def _count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) < 2:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 2 or more")
    return int(text)


def _seed(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,10}", text) or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 2^32 - 1")
    return int(text)


def _memory(text: str) -> str:
    if not re.fullmatch(r"[0-9]+(\.[0-9]*)?\s*[KMGTkmgt]?[iI]?[bB]?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 500MB or 2GB")
    return text
