"""Plans a JAX step with `phzc` and runs it as planned.

plan = phzc.plan(train_step, params, batch, cluster="h100-8x2")
step = plan.jit()
params, loss = step(params, batch)
"""

from .binary import PhzcError
from .plan import Plan, plan, tune
from .planned import PlannedStep

__all__ = ["PhzcError", "Plan", "PlannedStep", "plan", "tune"]
