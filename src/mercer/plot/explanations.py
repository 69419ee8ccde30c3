"""Shares of columns: in one value, over many rows, and of pairs of columns."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mercer.checks import check_index
from mercer.errors import InvalidInput, figure, speaks, who
from mercer.plot.base import COLOURS, INK, Display, cut, palette, plain

KINDS = ("waterfall", "bar", "beeswarm")
RAISES, LOWERS = COLOURS[1], COLOURS[0]
GAPS = "#999999"  # values that have no order, and missing ones
WORDS = 8  # letters of a value beside the name of its column
ROOM = 0.06  # beside the bars of a waterfall, in parts of their range
BINS = 60  # of a beeswarm: dots in one of them lie above each other
NUMBERS = 9  # columns up to which the cells of a heat map hold numbers
DECIMALS = 4  # of these
STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))


class ExplanationDisplay(Display):
    r"""Shares of columns in the values of a function, as pictures.

    A *waterfall* leads from the base, at the bottom, to the value of one row,
    :math:`f(x) = \text{base} + \sum_j \varphi_j(x)`, one column after the other. *Bars* are the
    means of :math:`|\varphi_j|` over all rows, the lines over them their standard errors; several
    outputs are stacked. A *beeswarm* has a dot for each row at :math:`\varphi_j(x)`, coloured by
    the rank of what the row holds in the column; gaps and columns of categories are grey. Make it
    with `from_explanation`, or by ``explanation.plot()``.

    Parameters
    ----------
    explanation : Explanation
        What is drawn.
    kind : {"waterfall", "bar", "beeswarm"}, default="waterfall"
        How.
    row : int, default=0
        The row of a waterfall.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Its figure.
    bars_ : list of matplotlib BarContainer
        The bars, from above, one container for each output; none of a beeswarm.
    points_ : list of matplotlib artists
        The dots of a beeswarm, column by column; else empty.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, KernelRidge
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> told = KernelRidge(RBF()).fit(X, X[:, 0] * X[:, 1]).explain(X)
    >>> shown = told.plot(row=3)    # doctest: +SKIP
    >>> shown = told.plot("beeswarm")    # doctest: +SKIP
    """

    def __init__(self, explanation: Any, kind: str = "waterfall", row: int = 0):
        self.explanation = explanation
        self.kind = kind
        self.row = row

    @classmethod
    @speaks
    def from_explanation(
        cls,
        explanation: Any,
        kind: str = "waterfall",
        *,
        row: int = 0,
        max_columns: int = 12,
        ax: Any = None,
        bar_kwargs: dict | None = None,
        point_kwargs: dict | None = None,
    ) -> Self:
        """Draw an explanation.

        Parameters
        ----------
        explanation : Explanation
            What a model's `explain` returns.
        kind : {"waterfall", "bar", "beeswarm"}, default="waterfall"
            How.
        row : int, default=0
            The row of a waterfall.
        max_columns : int, default=12
            The most columns to draw; a waterfall has one bar more for all others.
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        bar_kwargs, point_kwargs : dict, optional
            Keywords of matplotlib for the bars, or for the dots of a beeswarm.

        Returns
        -------
        ExplanationDisplay
            What was drawn.
        """
        if not all(hasattr(explanation, name) for name in ("values", "base", "columns", "data")):
            raise InvalidInput(
                f"{who()}: explanation is a {type(explanation).__name__}; give what "
                "model.explain(X) returns."
            )
        shown = cls(explanation, kind, row)
        styles = {"bar_kwargs": bar_kwargs, "point_kwargs": point_kwargs}
        return shown.plot(ax, max_columns=max_columns, **styles)  # type: ignore[arg-type]

    @speaks
    def plot(
        self,
        ax: Any = None,
        *,
        max_columns: int = 12,
        bar_kwargs: dict | None = None,
        point_kwargs: dict | None = None,
    ) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        max_columns : int, default=12
            The most columns to draw; a waterfall has one bar more for all others.
        bar_kwargs, point_kwargs : dict, optional
            Keywords of matplotlib for the bars, or for the dots of a beeswarm.

        Returns
        -------
        ExplanationDisplay
            Itself, with the artists in attributes that end in an underscore.
        """
        if self.kind not in KINDS:
            legal = ", ".join(map(repr, KINDS))
            raise InvalidInput(f"{who()}: kind={self.kind!r}; legal: {legal}.")
        most = check_index(max_columns, "max_columns", 1)
        values = np.asarray(self.explanation.values)
        if not len(values):
            raise InvalidInput(f"{who()}: the explanation has no rows; explain some.")
        if values.ndim == 3 and self.kind != "bar":
            names = self.explanation.outputs or range(values.shape[2])
            raise InvalidInput(
                f"{who()}: a {self.kind} is of one output, and there are {values.shape[2]}; choose "
                f"one, such as explanation.output({next(iter(names))!r}), or draw kind='bar'."
            )
        self.bars_: list[Any] = []
        self.points_: list[Any] = []
        if self.kind == "waterfall":
            if not -len(values) <= check_index(self.row, "row", -len(values)) < len(values):
                raise InvalidInput(f"{who()}: row={self.row}; legal are 0 to {len(values) - 1}.")
            bars = self._style({"height": 0.62}, bar_kwargs=bar_kwargs)
            ax = self._axes(ax)
            self._waterfall(ax, most, bars)
        elif self.kind == "bar":
            look = {"height": 0.7, "alpha": 0.75}
            bars = self._style(look, bar_kwargs=bar_kwargs)
            ax = self._axes(ax)
            self._bars(ax, most, bars)
        else:
            dots = self._style(
                {"s": float(np.clip(4000 / len(values), 4.0, 18.0)), "lw": 0, "cmap": "viridis"},
                point_kwargs=point_kwargs,
            )
            ax = self._axes(ax)
            self._beeswarm(ax, most, dots)
        return self._drawn_on(ax)

    def _waterfall(self, ax: Any, most: int, bars: dict[str, Any]) -> None:
        told, i = self.explanation, self.row
        shares, base = np.asarray(told.values[i], dtype=float), float(told.base)
        order = np.argsort(-np.abs(shares), kind="stable")
        drawn, rest = order[:most], order[most:]
        names = [_with_value(told.columns[j], told.data[i][j]) for j in drawn]
        widths = shares[drawn]
        spread = None if told.std is None else np.asarray(told.std[i], dtype=float)[drawn]
        if len(rest):
            names.append(_others(len(rest)))
            widths = np.append(widths, shares[rest].sum())
            spread = None if spread is None else np.append(spread, np.nan)
        starts = base + np.append(np.cumsum(widths[::-1])[::-1][1:], 0.0)
        ends = starts + widths
        places = np.arange(len(widths))
        colours = [RAISES if w >= 0 else LOWERS for w in widths]
        self.bars_ = [ax.barh(places, widths, left=starts, **{"color": colours, **bars})]
        if spread is not None:
            ax.errorbar(ends, places, xerr=spread, fmt="none", ecolor=INK, elinewidth=1.0)
        for above, end in zip(places[:-1], ends[1:], strict=True):
            ax.plot([end, end], [above - 0.31, above + 1.31], color=INK, lw=0.6, zorder=0)
        low, high = min(ends.min(), starts.min(), base), max(ends.max(), starts.max(), base)
        if spread is not None:
            low, high = np.nanmin([low, *(ends - spread)]), np.nanmax([high, *(ends + spread)])
        room = ROOM * (high - low) or 1.0
        texts = [_signed(w) for w in widths]
        if spread is not None:
            texts = [f"{t} ± {s:.2g}" if s == s else t for t, s in zip(texts, spread, strict=True)]
        ax.axvline(base, color=INK, lw=0.8, ls=(0, (5, 3)), zorder=0)
        ax.set_yticks(places, names)
        ax.tick_params(axis="y", length=0)
        ax.set(ylim=(len(places) - 0.4, -0.6), xlim=(low - room, high + room))
        ax.locator_params(axis="x", nbins=4)
        beside = ax.secondary_yaxis("right")
        beside.set_yticks(places, texts, fontsize="small")
        beside.tick_params(length=0)
        ax.set_xlabel(f"base {_number(base)}")
        ax.set_title(f"f(x) = {_number(base + float(shares.sum()))}", fontsize="medium")

    def _bars(self, ax: Any, most: int, bars: dict[str, Any]) -> None:
        told = self.explanation
        sizes = np.abs(np.asarray(told.values, dtype=float))
        means = sizes.mean(axis=0)
        several = means.ndim == 2
        total = means.sum(axis=1) if several else means
        drawn = np.argsort(-total, kind="stable")[:most]
        places = np.arange(len(drawn))
        if several:
            left = np.zeros(len(drawn))
            count = means.shape[1]
            names = told.outputs or [f"output {k}" for k in range(count)]
            for k, colour in enumerate(palette(count)):
                width = means[drawn, k]
                look = {"color": colour, "label": plain(cut(str(names[k]))), **bars}
                self.bars_.append(ax.barh(places, width, left=left, **look))
                left = left + width
            ax.legend(fontsize="small", frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
        else:
            look = {"color": COLOURS[0], "error_kw": {"ecolor": INK, "elinewidth": 1.0}, **bars}
            if len(sizes) > 1:
                error = sizes.std(axis=0, ddof=1)[drawn] / len(sizes) ** 0.5
                look = {"xerr": [np.minimum(error, means[drawn]), error], **look}
            self.bars_ = [ax.barh(places, means[drawn], **look)]
        ax.set_yticks(places, [plain(cut(told.columns[j])) for j in drawn])
        ax.tick_params(axis="y", length=0)
        ax.set(ylim=(len(drawn) - 0.4, -0.6), xlim=(0.0, None if total.max() > 0 else 1.0))
        ax.set_xlabel(_of_columns("mean |share|", len(drawn), len(total)))

    def _beeswarm(self, ax: Any, most: int, dots: dict[str, Any]) -> None:
        told = self.explanation
        values = np.asarray(told.values, dtype=float)
        drawn = np.argsort(-np.abs(values).mean(axis=0), kind="stable")[:most]
        low, high = float(values[:, drawn].min()), float(values[:, drawn].max())
        edges = np.linspace(low, high, BINS) if high > low else np.array([low])
        heights = [_stacked(np.digitize(values[:, j], edges)) for j in drawn]
        tallest = max(float(np.abs(h).max()) for h in heights) or 1.0
        scale = min(0.4 / tallest, 0.08)
        coloured = None
        ax.axvline(0.0, color=INK, lw=0.6, zorder=0)
        for place, (j, height) in enumerate(zip(drawn, heights, strict=True)):
            ranks = _ranks([row[j] for row in told.data])
            grey = np.isnan(ranks)
            y = place + scale * height
            bare = {k: v for k, v in dots.items() if k != "cmap"}
            self.points_.append(ax.scatter(values[grey, j], y[grey], **{"color": GAPS, **bare}))
            if not grey.all():
                look = {"c": ranks[~grey], "vmin": 0.0, "vmax": 1.0, **dots}
                coloured = ax.scatter(values[~grey, j], y[~grey], **look)
                self.points_.append(coloured)
        if coloured is not None and "c" not in dots and "color" not in dots:
            bar = ax.figure.colorbar(coloured, ax=ax, ticks=[0.0, 1.0], aspect=40, pad=0.02)
            bar.ax.set_yticklabels(["low", "high"])
            bar.ax.tick_params(length=0)
            bar.set_label("value of the column", labelpad=-12)
            bar.outline.set_visible(False)
        ax.set_yticks(np.arange(len(drawn)), [plain(cut(told.columns[j])) for j in drawn])
        ax.tick_params(axis="y", length=0)
        ax.set(ylim=(len(drawn) - 0.4, -0.6))
        ax.set_xlabel(_of_columns("share", len(drawn), values.shape[1]))


class PairsDisplay(Display):
    """What two columns do together: a heat map of the shares of pairs.

    An entry beside the diagonal is half of what two columns do together, and one on it what a
    column does alone, so that a row adds up to the share of its column. Stars tell what chance does
    not explain, where p-values are known: one of an adjusted p-value up to 0.05, two up to 0.01,
    three up to 0.001; beside a name they are of its share, in an entry of the pair. Make it with
    `from_explanation`.

    Parameters
    ----------
    pairs : array of shape (p, p)
        The shares.
    columns : sequence of str
        The names of the columns.
    pvalues : dict, optional
        Adjusted p-values, by a tuple of one name or of two.
    label : str, default="share"
        What the scale of colours says.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Its figure.
    image_ : matplotlib artist
        The heat map.
    drawn_ : list of str
        The columns, in the order of the picture.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, KernelRidge
    >>> from mercer.plot import PairsDisplay
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> told = KernelRidge(RBF()).fit(X, X[:, 0] * X[:, 1]).explain(X, interactions=True)
    >>> shown = PairsDisplay.from_explanation(told)    # doctest: +SKIP
    """

    def __init__(self, pairs: Any, columns: Any, pvalues: Any = None, label: str = "share"):
        self.pairs = pairs
        self.columns = columns
        self.pvalues = pvalues
        self.label = label

    @classmethod
    @speaks
    def from_explanation(
        cls,
        explanation: Any,
        *,
        max_columns: int = 15,
        ax: Any = None,
        image_kwargs: dict | None = None,
    ) -> Self:
        """Draw the pairs of an explanation.

        Parameters
        ----------
        explanation : Explanation or explanation of a test
            Of a model with ``interactions=True``, whose sizes are drawn in the mean over the rows;
            or of a test with its pairs, such as ``mmd_test(X, Y).explain()``.
        max_columns : int, default=15
            The most columns to draw, those of the largest shares.
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        image_kwargs : dict, optional
            Keywords of matplotlib for the heat map.

        Returns
        -------
        PairsDisplay
            What was drawn.
        """
        pvalues, label = None, "mean |share|, of a pair half in each place"
        if hasattr(explanation, "interactions"):
            found = explanation.interactions
            if found is None:
                raise InvalidInput(
                    f"{who()}: the explanation has no interactions; call explain(..., "
                    "interactions=True)."
                )
            if found.ndim == 4:
                raise InvalidInput(
                    f"{who()}: pairs are of one output, and there are {found.shape[3]}; choose "
                    "one, by explanation.output(name)."
                )
            pairs = np.abs(found).mean(axis=0)
        else:
            pairs = getattr(explanation, "pairs", None)
            if pairs is None:
                raise InvalidInput(
                    f"{who()}: explanation is a {type(explanation).__name__} without pairs; give "
                    "model.explain(X, interactions=True), or what a test tells with pairs."
                )
            label = "share of the statistic, of a pair half in each place"
            pvalues = {share.columns: share.adjusted for share in explanation.shares}
        shown = cls(np.asarray(pairs), explanation.columns, pvalues, label)
        return shown.plot(ax, max_columns=max_columns, image_kwargs=image_kwargs)

    @speaks
    def plot(
        self, ax: Any = None, *, max_columns: int = 15, image_kwargs: dict | None = None
    ) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        max_columns : int, default=15
            The most columns to draw, those of the largest shares.
        image_kwargs : dict, optional
            Keywords of matplotlib for the heat map.

        Returns
        -------
        PairsDisplay
            Itself, with the artists in attributes that end in an underscore.
        """
        most = check_index(max_columns, "max_columns", 1)
        pairs, p = np.asarray(self.pairs, dtype=float), len(self.columns)
        drawn = np.argsort(-np.abs(pairs).max(axis=1, initial=0.0), kind="stable")[:most]
        drawn = np.sort(drawn)
        shown, names = pairs[np.ix_(drawn, drawn)], [str(self.columns[j]) for j in drawn]
        reach = float(np.abs(shown).max(initial=0.0)) or 1.0
        look: dict[str, Any] = {"cmap": "RdBu_r", "vmin": -reach, "vmax": reach}
        if (shown >= 0).all():
            look = {"cmap": "Blues", "vmin": 0.0, "vmax": reach}
        look = self._style(look, image_kwargs=image_kwargs)
        ax = self._axes(ax)
        self.drawn_ = names
        self.image_ = ax.imshow(shown, **look)
        decimals = max(0, 1 - int(np.floor(np.log10(reach))))
        numbers = len(drawn) <= NUMBERS and decimals <= DECIMALS and reach < 1e4
        dark = 0.6 * max(abs(float(v)) for v in self.image_.get_clim())
        for j in range(len(drawn)):
            for k in range(len(drawn)):
                text = _stars(self.pvalues, names[j], names[k]) if j != k else ""
                if numbers:
                    value = round(float(shown[j, k]), decimals) or 0.0
                    text = f"{value:.{decimals}f}".replace("-", "−") + (text and f"\n{text}")
                colour = "white" if abs(shown[j, k]) > dark else INK
                ax.text(k, j, text, ha="center", va="center", fontsize="small", color=colour)
        labels = [plain(cut(name)) for name in names]
        stars = [_stars(self.pvalues, name) for name in names]
        marked = [f"{n} {s}".strip() for n, s in zip(labels, stars, strict=True)]
        turned = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
        turned = turned if len(labels) <= NUMBERS else {"rotation": 90}
        ax.set_xticks(range(len(labels)), labels, **turned)
        ax.set_yticks(range(len(labels)), marked)
        ax.tick_params(length=0)
        ax.figure.colorbar(self.image_, ax=ax, label=self.label)
        if len(drawn) < p:
            ax.set_title(f"{len(drawn)} of {p} columns", fontsize="medium")
        return self._drawn_on(ax)


def _stars(pvalues: Any, *names: str) -> str:
    if pvalues is None:
        return ""
    found = pvalues.get(names, pvalues.get(names[::-1]))
    told = [stars for limit, stars in STARS if found is not None and found <= limit]
    return told[0] if told else ""


def _of_columns(label: str, drawn: int, count: int) -> str:
    return f"{label}; {drawn} of {count} columns" if drawn < count else label


def _others(count: int) -> str:
    return f"{count} other column{'s' * (count > 1)}"


def _number(value: float) -> str:
    return f"{'−' if value < 0 else ''}{figure(abs(value))}"


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else ''}{_number(value)}"


def _with_value(name: str, value: Any) -> str:
    """Return a column with what a row holds in it."""
    if _is_number(value):
        text = "missing" if value != value else _number(float(value))
    else:
        text = "missing" if value is None else str(value)
        text = text if len(text) <= WORDS + 4 else f"{text[:WORDS]}…"
    return plain(f"{cut(name)} = {text}")


def _is_number(value: Any) -> bool:
    return isinstance(value, float | int | np.number) and not isinstance(value, bool)


def _ranks(column: list[Any]) -> np.ndarray:
    """Return where each value of a column stands, from 0 to 1; NaN where there is no order."""
    known = np.array([float(v) if _is_number(v) else np.nan for v in column])
    there = ~np.isnan(known)
    if not all(_is_number(v) or v is None for v in column) or not there.any():
        return np.full(len(column), np.nan)
    steps, place = np.unique(known[there], return_inverse=True)
    known[there] = place / (len(steps) - 1) if len(steps) > 1 else 0.5
    return known


def _stacked(bins: np.ndarray) -> np.ndarray:
    """Return heights, in turn above and below, of dots that share a bin."""
    heights = np.zeros(len(bins))
    for b in np.unique(bins):
        held = np.flatnonzero(bins == b)
        turn = np.arange(len(held))
        heights[held] = (turn + 1) // 2 * np.where(turn % 2, 1.0, -1.0)
    return heights
