"""What a feature machine learned: rows in the plane of its metric, and shares of the columns."""

from __future__ import annotations

import textwrap
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.checks import check_index
from mercer.errors import InvalidInput, speaks, who
from mercer.estimator import check_labels, check_targets
from mercer.features import TableEncoder
from mercer.lapack import eigh
from mercer.models.tables import MACHINES, TableClassifier, TableRegressor
from mercer.plot.base import COLOURS, INK, MOST, Display, cut, legend, plain

TERMS = 3  # columns, at most, that an axis names
LEAST = 0.2  # entries of a direction below which a column is not named
LINE = 44  # letters of a line beside an axis
GLUE = "\N{NO-BREAK SPACE}"


class MetricDisplay(Display):
    r"""Rows in the plane of the two leading directions of a learned metric.

    A feature machine measures how far rows are from one another by
    :math:`(z - z')^\top M (z - z')`, where z is an encoded row and M is its `metric_`. With
    :math:`M = \sum_j \lambda_j u_j u_j^\top` a row is drawn at
    :math:`(\sqrt{\lambda_1}\, u_1^\top z, \sqrt{\lambda_2}\, u_2^\top z)`: what is far apart in the
    picture is far apart for the machine. An axis names the columns of the largest entries of
    :math:`u_j`, per standard deviation of a number, and the share
    :math:`\lambda_j / \operatorname{tr} M` of the direction in the metric. Columns far from normal
    are drawn by their normal scores where members of more than half of the weight see them so.
    Make it with `from_estimator`.

    Parameters
    ----------
    Z : array of shape (n, 2)
        The rows.
    y : array of shape (n,), optional
        Colours: numbers, or classes where `classes` is given.
    axes : pair of str, default=("direction 1", "direction 2")
        What the axes say.
    classes : sequence, optional
        The classes that y holds, in the order of their colours. Without them y is numbers, on a
        scale of colours.
    name : str, default="y"
        What the scale of colours says.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Its figure.
    points_ : list of matplotlib artists
        The rows, one entry a class.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import FeatureMachineRegressor
    >>> from mercer.plot import MetricDisplay
    >>> X = np.random.default_rng(0).normal(size=(100, 4))
    >>> y = np.sin(X[:, 0] + X[:, 1])
    >>> model = FeatureMachineRegressor(n_models=1, max_rows=50).fit(X, y)
    >>> shown = MetricDisplay.from_estimator(model, X, y)    # doctest: +SKIP
    """

    def __init__(
        self,
        Z: Any,
        y: Any = None,
        axes: tuple[str, str] = ("direction 1", "direction 2"),
        *,
        classes: Any = None,
        name: str = "y",
    ):
        self.Z = Z
        self.y = y
        self.axes = axes
        self.classes = classes
        self.name = name

    @classmethod
    @speaks
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        ax: Any = None,
        point_kwargs: dict | None = None,
    ) -> Self:
        """Draw rows as a learned metric sees them.

        Parameters
        ----------
        estimator : FeatureMachineRegressor, FeatureMachineClassifier or a table model
            Fitted; a table model with a feature machine inside.
        X : data frame, Table, dict of columns or 2-D array
            What to draw, the rows of the fit or others.
        y : array-like of shape (n_rows,), optional
            For colours: numbers of a regressor, classes of a classifier.
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        point_kwargs : dict, optional
            Keywords of matplotlib for the rows.

        Returns
        -------
        MetricDisplay
            What was drawn.
        """
        machine = _machine(estimator)
        Z = _seen(machine, X)
        if Z.shape[1] < 2:
            raise InvalidInput(
                f"{who()}: the metric has one column, and so one direction; two are drawn. Draw y "
                "over that column, or fit a table of two columns or more."
            )
        classes = getattr(machine, "classes_", None)
        name = str(getattr(y, "name", None) or "y")
        if y is not None:
            y = _column(y, len(Z)) if classes is None else check_labels(y, len(Z))
        values, vectors = eigh(machine.metric_)
        leading = np.argsort(-values, kind="stable")[:2]
        U = vectors[:, leading]
        U = U * np.sign(U[np.abs(U).argmax(axis=0), [0, 1]])
        length = np.maximum(values[leading], 0.0)
        names = machine.encoder_.get_feature_names_out()
        first, second = (
            _direction(u, names, share) for u, share in zip(U.T, length / values.sum(), strict=True)
        )
        points = Z @ U * np.sqrt(length)
        shown = cls(points, y, (first, second), classes=classes, name=name)
        return shown.plot(ax, point_kwargs=point_kwargs)

    @speaks
    def plot(self, ax: Any = None, *, point_kwargs: dict | None = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        point_kwargs : dict, optional
            Keywords of matplotlib for the rows.

        Returns
        -------
        MetricDisplay
            Itself, with the artists in attributes that end in an underscore.
        """
        Z = np.asarray(self.Z)
        size = float(np.clip(9000 / len(Z), 4.0, 20.0))
        look = {"s": size, "lw": size / 50, "edgecolors": "white"}
        dots = self._style(look, point_kwargs=point_kwargs)
        kinds = self._kinds()
        ax = self._axes(ax)
        if self.y is None:
            self.points_ = [ax.scatter(*Z.T, **{"color": COLOURS[0], **dots})]
        elif kinds is None:
            shown = ax.scatter(*Z.T, c=np.asarray(self.y), **{"cmap": "viridis", **dots})
            ax.figure.colorbar(shown, ax=ax, label=plain(self.name))
            self.points_ = [shown]
        else:
            self.points_ = self._by_label(ax, Z, np.asarray(self.y), kinds, dots)
            legend(ax)
        ax.set_xlabel(self.axes[0], fontsize="small")
        ax.set_ylabel(self.axes[1], fontsize="small")
        return self._drawn_on(ax)

    def _kinds(self) -> list[Any] | None:
        """Return what has a colour of its own: all classes if they are few, or those drawn."""
        if self.y is None or self.classes is None:
            return None
        drawn = np.unique(np.asarray(self.y)).tolist()
        known = list(dict.fromkeys([*np.asarray(self.classes).tolist(), *drawn]))
        kinds = known if len(known) <= MOST else [kind for kind in known if kind in set(drawn)]
        if len(kinds) > MOST:
            raise InvalidInput(
                f"{who()}: y holds {len(kinds)} classes; colours tell {MOST} apart. Leave y out, "
                "or draw the rows of fewer classes."
            )
        return kinds


class ImportancesDisplay(Display):
    """Shares of the columns in a learned metric, the largest first.

    Bars are `importances_` of a feature machine. Lines over them reach one standard deviation to
    both sides, `importances_std_`: how far metrics learned from different rows are from one
    another; a share is never below 0. Make it with `from_estimator`.

    Parameters
    ----------
    importances : array of shape (n_columns,)
        The shares.
    spread : array of shape (n_columns,), optional
        Their standard deviations.
    names : sequence of str, optional
        Of the columns; x0, x1, … by default.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        Its figure.
    bars_ : matplotlib BarContainer
        The bars, from above; ``bars_.errorbar`` has the lines over them.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import FeatureMachineRegressor
    >>> from mercer.plot import ImportancesDisplay
    >>> X = np.random.default_rng(0).normal(size=(100, 4))
    >>> y = np.sin(X[:, 0] + X[:, 1])
    >>> model = FeatureMachineRegressor(n_models=1, max_rows=50).fit(X, y)
    >>> shown = ImportancesDisplay.from_estimator(model)    # doctest: +SKIP
    """

    def __init__(self, importances: Any, spread: Any = None, names: Any = None):
        self.importances = importances
        self.spread = spread
        self.names = names

    @classmethod
    @speaks
    def from_estimator(
        cls,
        estimator: Any,
        *,
        max_columns: int = 15,
        ax: Any = None,
        bar_kwargs: dict | None = None,
    ) -> Self:
        """Draw the shares of the columns.

        Parameters
        ----------
        estimator : FeatureMachineRegressor, FeatureMachineClassifier or a table model
            Fitted; a table model with a feature machine inside.
        max_columns : int, default=15
            The most columns to draw.
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        bar_kwargs : dict, optional
            Keywords of matplotlib for the bars.

        Returns
        -------
        ImportancesDisplay
            What was drawn.
        """
        machine = _machine(estimator)
        shown = cls(machine.importances_, machine.importances_std_, machine.encoder_.columns_)
        return shown.plot(ax, max_columns=max_columns, bar_kwargs=bar_kwargs)

    @speaks
    def plot(
        self, ax: Any = None, *, max_columns: int = 15, bar_kwargs: dict | None = None
    ) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        max_columns : int, default=15
            The most columns to draw.
        bar_kwargs : dict, optional
            Keywords of matplotlib for the bars.

        Returns
        -------
        ImportancesDisplay
            Itself, with the artists in attributes that end in an underscore.
        """
        most = check_index(max_columns, "max_columns", 1)
        look: dict[str, Any] = {"color": COLOURS[0], "alpha": 0.75, "height": 0.7}
        look["error_kw"] = {"ecolor": INK, "elinewidth": 1.0}
        bars = self._style(look, bar_kwargs=bar_kwargs)
        ax = self._axes(ax)
        shares = np.asarray(self.importances, dtype=float)
        names = [f"x{j}" for j in range(len(shares))] if self.names is None else self.names
        drawn = np.argsort(-shares, kind="stable")[:most]
        width = shares[drawn]
        if self.spread is not None:
            spread = np.asarray(self.spread, dtype=float)[drawn]
            bars = {"xerr": [np.minimum(spread, width), spread], **bars}
        places = np.arange(len(drawn))
        self.bars_ = ax.barh(places, width, **bars)
        ax.set_yticks(places, [plain(cut(str(names[j]))) for j in drawn])
        ax.tick_params(axis="y", length=0)
        ax.set(ylim=(len(drawn) - 0.4, -0.6), xlim=(0.0, None))
        ax.xaxis.set_major_formatter(lambda share, _: f"{100 * share:.3g}%")
        label = "share of the metric"
        if len(drawn) < len(shares):
            label += f"; {len(drawn)} of {len(shares)} columns, {width.sum():.0%} of it"
        ax.set_xlabel(label)
        return self._drawn_on(ax)


def _machine(estimator: Any) -> Any:
    """Return a fitted feature machine, or the one inside a fitted table model."""
    kind = type(estimator).__name__
    if not isinstance(estimator, (*MACHINES, TableRegressor, TableClassifier)):
        raise InvalidInput(
            f"{who()}: a {kind} has learned no metric; give a fitted FeatureMachineRegressor or "
            "FeatureMachineClassifier, or a table model that has one inside."
        )
    check_is_fitted(estimator)
    inside = getattr(estimator, "model_", estimator)
    if not isinstance(inside, MACHINES):
        raise InvalidInput(
            f"{who()}: the {kind} has a {type(inside).__name__} inside, which learned no metric; "
            "fit it with model='features'."
        )
    return inside


def _seen(machine: Any, X: Any) -> np.ndarray:
    """Return encoded rows, columns far from normal by normal scores if most members see those."""
    try:
        Z = machine.encoder_.transform(X)
    except InvalidInput as error:
        raise type(error)(str(error).replace(TableEncoder.__name__, who())) from error
    by_rank = np.array([bool(view) for view in machine.views_])
    if machine.weights_[by_rank].sum() > 0.5 * machine.weights_.sum():
        for j in np.flatnonzero(machine.ranked_):
            Z[:, j] = np.interp(Z[:, j], *machine.knots_[:, j])
    return Z


def _column(y: Any, n: int) -> np.ndarray:
    """Return one number for each row."""
    values = check_targets(y, n).reshape(n, -1)
    if values.shape[1] != 1:
        raise InvalidInput(
            f"{who()}: y has {values.shape[1]} columns, and a row has one colour; give one of "
            "them, such as y[:, 0]."
        )
    return values[:, 0]


def _direction(u: np.ndarray, names: np.ndarray, share: float) -> str:
    """Return the largest entries of a direction with their columns, and its share of the metric."""
    order = np.argsort(-np.abs(u), kind="stable")
    named = [j for j in order[:TERMS] if abs(u[j]) >= LEAST] or [order[0]]
    terms = [f"{'−' if u[j] < 0 else '+'} {abs(u[j]):.2f} {plain(cut(names[j]))}" for j in named]
    terms[0] = terms[0].removeprefix("+ ")
    if 1.0 - np.square(u[named]).sum() > LEAST**2:
        terms.append("+ …")
    whole = " ".join(term.replace(" ", GLUE) for term in terms)
    lines = textwrap.wrap(whole, LINE, break_long_words=False, break_on_hyphens=False)
    return "\n".join([*lines, f"{share:.0%} of the metric"]).replace(GLUE, " ")
