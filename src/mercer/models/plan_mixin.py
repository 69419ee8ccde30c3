"""`model.plan(X, y)`: what a fit would do and take, for every estimator that has rules for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.utils.metaestimators import available_if

if TYPE_CHECKING:
    from mercer.models.plan_value import Plan

__all__ = ["Planned"]


def _has_rule(model: Any) -> bool:
    from mercer.models.plan_rules import rule_of

    return rule_of(type(model)) is not None


class Planned:
    """An estimator that tells its plan."""

    @available_if(_has_rule)
    def plan(self, X: Any, y: Any = None) -> Plan:
        """Return how a fit of these data would be done, and what it would take, without fitting.

        Memory follows from sizes, time from rates of this machine and of the kernel on a few of
        these points, found in about a third of a second. What ``fit`` does is what the plan says.

        Parameters
        ----------
        X : collection of n points, or RowBlocks
            The data, as for ``fit``.
        y : array of shape (n,) or (n, n_outputs), optional
            The target; it tells how many outputs or classes there are.

        Returns
        -------
        Plan
            Method, reason, memory, time and error expected, and the alternatives; printed, a table.
        """
        from mercer.models.plan_rules import plan_of

        return plan_of(self, X, y)
