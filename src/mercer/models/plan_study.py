"""One set of data under study: its sizes, what was measured of it, and plans made of costs."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any

from mercer.engines.rates import Rates, machine_rates
from mercer.kernels import Kernel
from mercer.models.plan_costs import Cost
from mercer.models.plan_facts import Facts, Sketch, facts_of
from mercer.models.plan_value import Plan, needs

__all__ = ["Study"]


class Study:
    """Facts of a problem, and on demand the rates of the machine and a sketch of the kernel.

    Parameters
    ----------
    kernel : Kernel
        The kernel, its words resolved.
    X : canonical collection, RowBlocks or Facts
        The data.
    outputs : int, default=1
        Columns of the target.
    owner : str, default="Plan"
        The estimator, for messages.
    random_state : int, default=0
        Which points are looked at.
    rates, sketch : optional
        What would else be measured.
    """

    def __init__(
        self,
        kernel: Kernel,
        X: Any,
        outputs: int = 1,
        owner: str = "Plan",
        *,
        random_state: int = 0,
        rates: Rates | None = None,
        sketch: Any = None,
    ):
        self.kernel, self.X, self.owner, self.seed = kernel, X, owner, random_state
        self.facts: Facts = facts_of(kernel, X, outputs)
        self._measures = True
        self._rates, self._sketch = rates, sketch

    def unmeasured(self) -> Study:
        """Return the same study without times and errors, which take a moment to measure."""
        other = copy(self)
        for name in ("rates", "sketch"):
            vars(other).pop(name, None)
        other._measures = False
        return other

    @cached_property
    def rates(self) -> Rates | None:
        """Rates of the machine; None where nothing is to be measured."""
        if not self._measures:
            return None
        return machine_rates(self.facts.device) if self._rates is None else self._rates

    @cached_property
    def sketch(self) -> Any:
        """The kernel on a few points; None where nothing is to be measured."""
        if not self._measures:
            return None
        if self._sketch is not None:
            return self._sketch
        return Sketch(self.kernel, self.X, self.seed)

    def left(self, m: int, centers: Any = None) -> float | None:
        """Return the share of the kernel's trace that m centres, or these, would leave."""
        if self.sketch is None:
            return None
        return (
            self.sketch.left(m, self.facts.n) if centers is None else self.sketch.left_by(centers)
        )

    def plan(
        self, method: str, cost: Cost, error: float | None = 0.0, n_centers: int | None = None
    ) -> Plan:
        """Return the plan of a method; as an alternative it says what it would need."""
        plan = Plan(
            method=method,
            why="",
            memory=cost.memory(self.facts.budget),
            seconds=cost.seconds,
            error=error,
            n_centers=n_centers,
            n_rows=self.facts.n,
            budget=self.facts.budget,
            owner=self.owner,
        )
        return replace(plan, why=needs(plan))

    def take(self, plans: Mapping[str, Plan], method: str, why: str) -> Plan:
        """Return one of the plans, with the others, those that fit first, as alternatives."""
        others = [plan for name, plan in plans.items() if name != method]
        others.sort(key=lambda plan: (not plan.fits, plan.error or 0.0))
        return replace(plans[method], why=why, alternatives=tuple(others))
