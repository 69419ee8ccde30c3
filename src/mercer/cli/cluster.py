"""``mercer cluster`` and ``mercer embed``: the group, or the components, of every row."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.neighbors import NearestNeighbors

from mercer.cli.files import UsageError, check_output, write_answers
from mercer.cli.report import layout
from mercer.cli.samples import Encoded, chosen_kernel, encode, read_rows, scale_text
from mercer.errors import InvalidInput, figure
from mercer.models import DPMeans, KernelKMeans, KernelPCA, SpectralClustering, penalty_from_k
from mercer.settings import config

if TYPE_CHECKING:
    from mercer.cli.program import Console

HEADER = "cluster"
_NEIGHBOUR, _MOST = 7, 5000


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Carry out either command."""
    output, embed = arguments.output, arguments.command == "embed"
    method = "" if embed else _method(arguments)
    if output is not None:
        check_output(output, arguments.force, arguments.table)
    if method and HEADER in arguments.keep:
        raise InvalidInput(f"--keep {HEADER}: the column of clusters has that name.")
    with config(memory=arguments.memory):
        source = read_rows(arguments.table, arguments, console)
        columns = {name: source.cells(name) for name in arguments.keep}
        data = encode(source, arguments, console=console)
        work = _embed if embed else partial(_cluster, method)
        answers, lines = work(data, arguments, console)
    for header, values in answers.items():
        if header in columns:
            raise InvalidInput(f"--keep {header}: a column of the answer has that name.")
        columns[header] = values
    write_answers(columns, output, arguments.force, arguments.raw_csv, console.answer)
    if output is None:
        return
    about = [("rows", f"{len(source)} of {source.path}"), *data.lines(), *lines]
    about += [("remark", text) for text in data.remarks]
    console.say(layout([*about, ("wrote", output)]))


# ---- cluster ----


def _cluster(
    method: str, data: Encoded, arguments: argparse.Namespace, console: Console
) -> tuple[dict[str, list], list[tuple[str, str]]]:
    """Return the column of clusters, and what the report says of them."""
    source = data.source
    if arguments.clusters is not None and arguments.clusters > len(source):
        raise InvalidInput(
            f"{source.path}: {arguments.clusters} clusters of {len(source)} rows; ask for as "
            "many as there are rows at most."
        )
    with console.stage(f"grouping {len(source)} rows"):
        model = _model(method, data, arguments).fit(data.X)
    labels, counts = np.unique(model.labels_, return_counts=True)
    kernel = getattr(model, "kernel_", None)
    lines = [("method", method)]
    if kernel is not None:
        lines.append(("kernel", str(kernel)))
    if method == "dpmeans":
        lines.append(("penalty", figure(model.penalty)))
    lines.append(("clusters", f"{len(labels)}"))
    for label, count in zip(labels, counts, strict=True):
        lines.append((f"cluster {label}", f"{count} rows{_typical(data, model.labels_ == label)}"))
    return {HEADER: model.labels_.tolist()}, lines


def _method(arguments: argparse.Namespace) -> str:
    method, k, penalty = arguments.method, arguments.clusters, arguments.penalty
    if k is None and penalty is None:
        raise UsageError("say how many clusters with -k, or what one costs with --penalty.")
    if penalty is not None and (k is not None or method in ("kmeans", "spectral")):
        raise UsageError("--penalty is for dpmeans, which finds the number itself; leave out -k.")
    return method or ("dpmeans" if penalty is not None else "kmeans")


def _model(method: str, data: Encoded, arguments: argparse.Namespace) -> Any:
    k, kernel = arguments.clusters, chosen_kernel(arguments)
    if method == "kmeans":
        return KernelKMeans(k, kernel, random_state=arguments.seed)
    if method == "spectral":
        if scale_text(arguments) and arguments.length_scale is None:
            kernel.set_params(length_scale=_near_scale(data.X))
        return SpectralClustering(k, kernel, random_state=arguments.seed)
    plain = arguments.kernel == "linear"  # then centres are points
    space = None if plain else kernel.fit_params(data.X)
    return DPMeans(arguments.penalty or penalty_from_k(data.X, k, space), space)


def _near_scale(X: np.ndarray) -> float:
    """The median distance of a point to its seventh neighbour: edges join neighbours only.

    Zelnik-Manor and Perona, Self-tuning spectral clustering, NIPS (2004), take the seventh too.
    """
    rows = np.linspace(0, len(X) - 1, min(len(X), _MOST)).astype(int)
    near = NearestNeighbors(n_neighbors=min(_NEIGHBOUR + 1, len(rows))).fit(X[rows])
    scale = float(np.median(near.kneighbors(X[rows])[0][:, -1]))
    return scale or float(np.std(X)) or 1.0


def _typical(data: Encoded, rows: np.ndarray) -> str:
    """The columns whose mean in these rows is farthest from that of all, and which way."""
    X = data.X[rows]
    away = {}
    names = data.encoder.get_feature_names_out()
    spread = data.X.std(0)
    for name, mean, whole, width in zip(names, X.mean(0), data.X.mean(0), spread, strict=True):
        if width > 0:
            away[name] = (mean - whole) / width
    best = sorted(away, key=lambda n: -abs(away[n]))[:3]
    said = [f"{'high' if away[n] > 0 else 'low'} {n}" for n in best if abs(away[n]) > 0.5]
    return f": {', '.join(said)}" if said else ""


# ---- embed ----


def _embed(
    data: Encoded, arguments: argparse.Namespace, console: Console
) -> tuple[dict[str, list], list[tuple[str, str]]]:
    """Return the columns of components, and what the report says of them."""
    source = data.source
    if arguments.components >= len(source):
        raise InvalidInput(
            f"{source.path}: {arguments.components} components of {len(source)} rows; at most "
            f"{len(source) - 1} exist."
        )
    with console.stage(f"embedding {len(source)} rows"):
        kernel = chosen_kernel(arguments)
        model = KernelPCA(arguments.components, kernel, random_state=arguments.seed).fit(data.X)
        Z = model.transform(data.X)
        answers = {f"component_{i + 1}": z.tolist() for i, z in enumerate(Z.T)}
        if arguments.novelty:
            answers["novelty"] = model.reconstruction_error(data.X).tolist()
    shares = model.explained_variance_ratio_
    text = ", ".join(f"{share:.1%}" for share in shares[:8])
    more = f", … ({len(shares)} components)" if len(shares) > 8 else ""
    return answers, [
        ("kernel", str(model.kernel_)),
        ("explained", f"{text}{more}; {shares.sum():.1%} together"),
    ]
