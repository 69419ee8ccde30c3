"""The arguments of the command line; imports nothing heavy, so that help is instant."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from mercer import __version__

# ---- What a word may be: paths, numbers, counts, shares, sizes; else a usage error ----


FIRST = [(0, 10)]  # rows that are explained where none are named
ANSWERS = (".csv", ".tsv", ".txt", ".parquet", ".pq")


class NothingWritten(argparse.Action):
    """A switch with which a command writes no file, so that none need be named."""

    def __init__(self, option_strings: Any, dest: str, **options: Any):
        super().__init__(option_strings, dest, nargs=0, default=False, **options)

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        """Set the switch, and ask for no output."""
        setattr(namespace, self.dest, True)
        for action in parser._actions:
            if action.dest == "output":
                action.required = False


def model_path(text: str) -> str:
    """Return the path of a model, never standard output."""
    if text == "-":
        raise argparse.ArgumentTypeError(
            "a model goes to a file, stdout is for the report; give a path such as model.mercer"
        )
    return text


def answer_path(text: str) -> str | None:
    """Return the path of a table to write, None for standard output."""
    if text == "-":
        return None
    ending = os.path.splitext(text)[1].lower()
    if ending and ending not in ANSWERS:
        raise argparse.ArgumentTypeError(
            f"{text!r}: cannot write {ending} files; the name may end in {', '.join(ANSWERS)}"
        )
    return text


def number(legal: Callable[[float], bool], otherwise: str) -> Callable[[str], float]:
    """Return what reads a number that is legal, and says of any other text what it is not."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
        if not legal(value):
            raise argparse.ArgumentTypeError(f"{text!r} is {otherwise}")
        return value

    return read


def _is_positive(value: float) -> bool:
    return 0 < value < float("inf")


positive = number(_is_positive, "not a number > 0")
fraction = number(lambda value: 0 <= value < 1, "not in [0, 1)")
share = number(lambda value: 0 < value < 1, "not between 0 and 1")
probability = number(lambda value: 0 < value <= 1, "not in (0, 1]")


def positive_or(word: str) -> Callable[[str], float | str]:
    """Return what reads a number above 0 or one word."""
    read = number(_is_positive, f"neither a number > 0 nor {word}")
    return lambda text: text if text == word else read(text)


def whole(least: int) -> Callable[[str], int]:
    """Return what reads a whole number of so much or more."""

    def read(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of {least} or more")
        return int(text)

    return read


def seed(text: str) -> int:
    """Return a seed."""
    if not re.fullmatch(r"[0-9]{1,10}", text) or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 2^32 - 1")
    return int(text)


def row_range(text: str) -> tuple[int, int | None]:
    """Return the first row of some and the one behind the last, None for all that follow."""
    found = re.fullmatch(r"([0-9]{0,18})(:?)([0-9]{0,18})", text)
    if found is None or text == "":
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a row, such as 7, nor a range, such as 0:20"
        )
    first = int(found[1] or 0)
    if not found[2]:
        return first, first + 1
    return first, int(found[3]) if found[3] else None


def memory(text: str) -> str:
    """Return a size of memory as it was written."""
    if not re.fullmatch(r"[0-9]+(\.[0-9]*)?\s*[KMGTkmgt]?[iI]?[bB]?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 500MB or 2GB")
    return text


# ---- A parser that says in one line what is wrong, and what was meant ----


class Parser(argparse.ArgumentParser):
    """Reads arguments; of an option or a word that there is not it names the nearest."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return what the arguments say; an unknown option is told before one that is missing."""
        args = list(sys.argv[1:] if args is None else args)
        commands = self._subparsers is not None  # whose options come behind them
        for word in args:
            option = word.partition("=")[0]
            if word == "--" or (commands and not word.startswith("-")):
                break
            if option.startswith("--") and option not in self._option_string_actions:
                self.error(f"unknown option {option}{_meant(option, self._option_string_actions)}")
        return super().parse_known_args(args, namespace)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            meant = _meant(str(value), action.choices)
            legal = ", ".join(map(str, action.choices))
            raise argparse.ArgumentError(
                action, f"invalid choice: {value!r}{meant or ';'} legal: {legal}"
            )

    def error(self, message: str) -> NoReturn:
        """Say in one line what is wrong, and leave."""
        line = "".join(c if c.isprintable() else " " for c in message)
        self.exit(2, f"mercer: error: {line} ({self.prog} --help tells more)\n")


def _meant(name: str, legal: Iterable[str]) -> str:
    from mercer.misspelt import nearest

    found = nearest(name, legal)
    return f"; did you mean {found}?" if found else ""


# ---- Arguments that several commands share ----


#: What the parsers of commands are added to.
Commands = argparse._SubParsersAction
KERNELS = ("rbf", "matern", "rational_quadratic", "laplacian", "linear", "polynomial")
TABLE = "CSV or Parquet file with a header, or a folder of Parquet files; - is stdin"


def command(commands: Commands, name: str, text: str) -> argparse.ArgumentParser:
    """Add a command and return its parser."""
    parser = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
    progress = parser.add_mutually_exclusive_group()
    progress.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="progress after 2 seconds also without a terminal (default: after 10)",
    )
    progress.add_argument("-q", "--quiet", action="store_true", help="no progress at all")
    parser.add_argument("--debug", action="store_true", help="show where an error came from")
    return parser


def _add_columns(parser: argparse.ArgumentParser, option: str, text: str) -> None:
    """Add an option that names columns, which may be given several times."""
    parser.add_argument(option, nargs="+", action="extend", default=[], metavar="COLUMN", help=text)


def table_options(parser: argparse.ArgumentParser) -> None:
    """Add how a table is written, the budget and whether outputs are overwritten."""
    parser.add_argument("--encoding", default="utf-8", help="of a CSV file (default: utf-8)")
    parser.add_argument(
        "--decimal",
        choices=(".", ","),
        default=".",
        metavar="CHAR",
        help="decimal mark of numbers, . or , (default: .)",
    )
    parser.add_argument(
        "--memory", type=memory, metavar="SIZE", help="memory budget, for example 2GB"
    )
    parser.add_argument("--force", action="store_true", help="overwrite the output file")


def column_options(parser: argparse.ArgumentParser) -> None:
    """Add which columns are used, and as what."""
    _add_columns(parser, "--drop", "columns not to use")
    _add_columns(
        parser, "--categorical", "columns to be read as categories, whatever they look like"
    )
    parser.add_argument(
        "--max-categories",
        type=whole(2),
        default=100,
        metavar="N",
        help="most frequent categories kept of each column (default: 100)",
    )


def content_options(parser: argparse.ArgumentParser) -> None:
    """Add what columns hold where a kernel has a part for each kind of column."""
    for option, what in (
        ("--number", "numbers to be used, also where they look like identifiers"),
        ("--text", "text, read word by word, whatever they look like"),
        ("--sequence", "strings compared by their letters, such as DNA, whatever they look like"),
    ):
        _add_columns(parser, option, f"columns of {what}")


def row_options(parser: argparse.ArgumentParser, what: str) -> None:
    """Add how many rows are used, and the seed."""
    parser.add_argument("--max-rows", type=whole(2), metavar="N", help="use N random rows at most")
    parser.add_argument("--seed", type=seed, default=0, help=f"of {what} (default: 0)")


def answer_options(parser: argparse.ArgumentParser, with_report: bool = False) -> None:
    """Add where a table of answers goes, and what is copied into it.

    A command with a report writes that to standard output, and answers only where it is told to.
    """
    other = (
        "with - CSV on stdout in place of the report" if with_report else "default: CSV to stdout"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=answer_path,
        default=False if with_report else None,
        metavar="OUT",
        help=f"file to write: .csv, .txt, .tsv (tabs) or .parquet ({other})",
    )
    _add_columns(parser, "--keep", "columns of TABLE to copy in front of the answers")
    parser.add_argument(
        "--raw-csv",
        action="store_true",
        help="write text cells as they are, also those a spreadsheet would run as a formula",
    )


# ---- Arguments of the commands that need no target: compare, depend, cluster and embed ----


def _add_compare(commands: Commands) -> None:
    parser = command(
        commands,
        "compare",
        "Test whether two tables come from one distribution; say where not.",
    )
    parser.add_argument("a", metavar="A", help=f"the first table, a {TABLE}")
    parser.add_argument("b", metavar="B", help=f"the second table, a {TABLE}")
    _add_kernel(parser, "auto", "; auto aggregates 20 kernels of 10 widths")
    _add_test(parser)
    _add_explain(parser)
    parser.add_argument(
        "--top",
        type=whole(0),
        default=5,
        metavar="N",
        help="columns and rows to name where the tables differ most; 0 names none (default: 5)",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=answer_path,
        default=False,
        metavar="OUT",
        help="write the witness of every row: table, line, value; - is stdout in place of the "
        "report",
    )
    _add_rows(parser, "permutations and of chosen rows, of each table")


def _add_depend(commands: Commands) -> None:
    parser = command(commands, "depend", "Test whether some columns of a table depend on others.")
    parser.add_argument("table", metavar="TABLE", help=TABLE)
    for name in ("x", "y"):
        parser.add_argument(
            f"--{name}", nargs="+", required=True, metavar="COLUMN", help=f"columns of {name}"
        )
    parser.add_argument(
        "--given",
        nargs="+",
        default=[],
        metavar="COLUMN",
        help="test the dependence that is left when these columns are known",
    )
    _add_kernel(parser)
    _add_test(parser)
    _add_explain(parser)
    _add_rows(parser, "permutations and of chosen rows")


def _add_cluster(commands: Commands) -> None:
    parser = command(commands, "cluster", "Group the rows of a table.")
    parser.add_argument("table", metavar="TABLE", help=TABLE)
    parser.add_argument(
        "-k", "--clusters", type=whole(1), metavar="K", help="how many; needed without --penalty"
    )
    parser.add_argument(
        "--penalty",
        type=positive,
        metavar="P",
        help="price of a further cluster, a squared distance in feature space, for rbf below 2: "
        "DP-means then finds how many",
    )
    parser.add_argument(
        "--method",
        choices=("kmeans", "spectral", "dpmeans"),
        help="kmeans in feature space (default), spectral, or dpmeans (the method of --penalty)",
    )
    _add_kernel(parser, scale=", for spectral that to the seventh neighbour")
    answer_options(parser)
    _add_rows(parser, "the starts and of chosen rows")


def _add_embed(commands: Commands) -> None:
    parser = command(commands, "embed", "Write the principal components of the rows of a table.")
    parser.add_argument("table", metavar="TABLE", help=TABLE)
    parser.add_argument(
        "-n",
        "--components",
        type=whole(1),
        default=2,
        metavar="N",
        help="how many components (default: 2)",
    )
    parser.add_argument(
        "--novelty",
        action="store_true",
        help="add a column with what the components do not explain of a row",
    )
    _add_kernel(parser)
    answer_options(parser)
    _add_rows(parser, "starts and of chosen rows")


def short_name(text: str) -> str:
    """Return the name of a kernel; poly is polynomial, as in Python."""
    return "polynomial" if text == "poly" else text


def _add_kernel(
    parser: argparse.ArgumentParser, more: str = "", text: str = "", scale: str = ""
) -> None:
    parser.add_argument(
        "--kernel",
        type=short_name,
        choices=(*KERNELS, more) if more else KERNELS,
        default="rbf",
        help=f"kernel, its scale taken from the data{text} (default: rbf)",
    )
    parser.add_argument(
        "--length-scale",
        type=positive,
        metavar="L",
        help=f"of the kernel, in standardised columns (default: the median distance{scale})",
    )


def _add_rows(parser: argparse.ArgumentParser, seeded: str) -> None:
    column_options(parser)
    row_options(parser, seeded)
    table_options(parser)


def _add_test(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--permutations",
        type=whole(1),
        default=999,
        metavar="B",
        help="draws that the p-value rests on (default: 999)",
    )
    parser.add_argument(
        "--fail-under",
        type=probability,
        metavar="P",
        help="exit with 3 when the p-value is below P",
    )
    parser.add_argument(
        "--blocks",
        metavar="COLUMN|N",
        help="rows that belong together and are shuffled as one: a column that names them, or N "
        "rows in a row, for measurements that follow one another",
    )
    parser.add_argument(
        "--strata", metavar="COLUMN", help="shuffle rows only among rows with one value here"
    )
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")


def _add_explain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--explain",
        action="store_true",
        help="say which columns, and which pairs of columns, the statistic comes from",
    )


# ---- arguments ----


_DESCRIPTION = """\
Kernel methods on tables: models that predict, tests that compare, clusters and components.
"""
_EPILOG = """\
examples:
  mercer fit houses.csv --target price -o houses.mercer
  mercer predict houses.mercer new.csv -o prices.csv
  mercer explain houses.mercer new.csv --rows 0:3
  mercer info houses.mercer
  mercer compare lastyear.csv thisyear.csv --fail-under 0.01
  mercer depend houses.csv --x area rooms --y price
  mercer cluster houses.csv -k 4 -o clusters.csv
  mercer embed houses.csv -n 2 -o plane.csv

Exit codes: 0 done, 1 the data or the model stood in the way, 2 wrong usage, 3 the p-value is below
--fail-under, 130 interrupted.
"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of ``mercer`` with its commands."""
    parser = Parser(
        prog="mercer",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"mercer {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    of_models = (_add_fit, _add_predict, _add_explanation, _add_info)
    for add in (*of_models, _add_compare, _add_depend, _add_cluster, _add_embed):
        add(commands)
    return parser


def _add_fit(commands: Commands) -> None:
    parser = command(commands, "fit", "Fit, tune and evaluate a kernel model on a table.")
    parser.add_argument("table", metavar="TABLE", help=TABLE)
    parser.add_argument("--target", required=True, metavar="COLUMN", help="column to predict")
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        type=model_path,
        metavar="MODEL",
        help="model file to write",
    )
    parser.add_argument(
        "--plan",
        action=NothingWritten,
        help="say how the model would be fitted and what that takes, and stop; needs no -o",
    )
    parser.add_argument(
        "--kernel",
        type=short_name,
        choices=(*KERNELS, "columns", "auto"),
        help="kernel; columns has a part for each kind of column and reads text and sequences as "
        "such; auto takes the best of rbf, matern and linear, and of columns where there is text "
        "(default: rbf, or columns where the table holds text or sequences)",
    )
    parser.add_argument(
        "--task",
        choices=("auto", "regression", "classification"),
        default="auto",
        help="predict numbers or classes (default: decided by the target column)",
    )
    parser.add_argument(
        "--model",
        choices=("auto", "features", "ridge", "svc"),
        default="auto",
        help="features learns which columns matter; ridge and svc, support vectors for classes, "
        "have one kernel; auto takes features, or what suits the kernel or penalty that is given "
        "(default: auto)",
    )
    parser.add_argument(
        "--time",
        type=positive,
        metavar="SECONDS",
        help="after which features tries no further metric (default: as long as it takes; "
        "60 beyond 2000 rows, and beyond 6000 a hundredth of a second a row, 480 at most)",
    )
    parser.add_argument(
        "--alpha",
        type=positive_or("loo"),
        help="penalty of ridge: loo tunes it with the kernel's scale; a number > 0 fixes it and "
        "takes the scale from the data (default with ridge: loo)",
    )
    parser.add_argument(
        "--C",
        type=positive_or("tune"),
        metavar="C",
        help="price of a margin violation for svc: tune chooses it with the kernel's scale; a "
        "number > 0 fixes it and takes the scale from the data (default with svc: tune)",
    )
    parser.add_argument(
        "--no-tune", action="store_true", help="one kernel, its scale taken from the data"
    )
    column_options(parser)
    content_options(parser)
    parser.add_argument(
        "--test-fraction",
        type=fraction,
        metavar="F",
        help="share of the rows held out to evaluate; 0 holds out none (default: 0 with features, "
        "which leaves every row out once, else 0.2)",
    )
    row_options(parser, "rows that are drawn, and of folds")
    table_options(parser)


def _add_predict(commands: Commands) -> None:
    parser = command(commands, "predict", "Predict the rows of a table with a fitted model.")
    parser.add_argument("model", metavar="MODEL", help="model file written by mercer fit")
    parser.add_argument("table", metavar="TABLE", help=TABLE)
    parser.add_argument(
        "--probabilities",
        action="store_true",
        help="add a column of probabilities for each class; features and svc models have them",
    )
    parser.add_argument(
        "--interval",
        type=share,
        metavar="P",
        help="add columns lower_… and upper_…: between them a new number lies with probability P, "
        "such as 0.9; for models that predict numbers",
    )
    answer_options(parser)
    table_options(parser)


def _add_explanation(commands: Commands) -> None:
    parser = command(
        commands, "explain", "Say which columns made predictions, and how much each added."
    )
    parser.add_argument("model", metavar="MODEL", help="model file written by mercer fit")
    parser.add_argument("table", metavar="TABLE", help=TABLE)
    parser.add_argument(
        "--rows",
        nargs="+",
        type=row_range,
        default=FIRST,
        metavar="ROWS",
        help="rows of TABLE to explain, counted from 0: ranges such as 0:20, numbers, or : for all "
        "(default: 0:10)",
    )
    parser.add_argument(
        "--game",
        choices=("marginal", "background", "baseline"),
        help="what a column is worth that is not known: drawn by itself from the background, with "
        "the others from one row of it, or left out of the kernel (default: background for models "
        "of mercer fit, marginal for other models)",
    )
    parser.add_argument(
        "--background",
        metavar="TABLE",
        help="table whose rows stand for what is not known, such as that of the fit (default: rows "
        "of TABLE, or the points that a model keeps)",
    )
    parser.add_argument(
        "--top",
        type=whole(1),
        default=5,
        metavar="N",
        help="columns to name of each row, those of the largest shares (default: 5)",
    )
    parser.add_argument(
        "--seed", type=seed, default=0, help="of orders of columns that are drawn (default: 0)"
    )
    answer_options(parser, with_report=True)
    table_options(parser)


def _add_info(commands: Commands) -> None:
    parser = command(commands, "info", "Say what is in a model file.")
    parser.add_argument("model", metavar="MODEL", help="model file")
