"""``mercer embed``: the principal components of every row of a table."""

from __future__ import annotations

import argparse

from mercer.cli.console import Console
from mercer.cli.encoded import encode, read_rows
from mercer.cli.files import check_output, write_answers
from mercer.cli.outcome import chosen_kernel
from mercer.cli.report import kernel_text, layout
from mercer.errors import InvalidInput
from mercer.models import KernelPCA
from mercer.settings import config

__all__ = ["run"]


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Carry out the command.

    Parameters
    ----------
    arguments : Namespace
        The parsed arguments.
    console : Console
        Where report, warnings and progress go.
    """
    output = arguments.output
    if output is not None:
        check_output(output, arguments.force, arguments.table)
    with config(memory=arguments.memory):
        source = read_rows(arguments.table, arguments, console)
        columns = {name: source.cells(name) for name in arguments.keep}
        data = encode(source, arguments, console=console)
        if arguments.components >= len(source):
            raise InvalidInput(
                f"{source.path}: {arguments.components} components of {len(source)} rows; at most "
                f"{len(source) - 1} exist."
            )
        with console.stage(f"embedding {len(source)} rows"):
            model = KernelPCA(
                arguments.components, chosen_kernel(arguments), random_state=arguments.seed
            ).fit(data.X)
            Z = model.transform(data.X)
            answers = {f"component_{i + 1}": z.tolist() for i, z in enumerate(Z.T)}
            if arguments.novelty:
                answers["novelty"] = model.reconstruction_error(data.X).tolist()
    for header, values in answers.items():
        if header in columns:
            raise InvalidInput(f"--keep {header}: a column of the answer has that name.")
        columns[header] = values
    write_answers(columns, output, arguments.force, arguments.raw_csv)
    if output is None:
        return
    shares = model.explained_variance_ratio_
    text = ", ".join(f"{share:.1%}" for share in shares[:8])
    more = f", … ({len(shares)} components)" if len(shares) > 8 else ""
    lines = [
        ("rows", f"{len(source)} of {source.path}"),
        *data.lines(),
        ("kernel", kernel_text(model.kernel_)),
        ("explained", f"{text}{more}; {shares.sum():.1%} together"),
        *(("remark", remark) for remark in data.remarks),
        ("wrote", output),
    ]
    console.say(layout(lines))
