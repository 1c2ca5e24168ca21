"""Newcomer's path: steps of several frameworks, planned and run, compute what they computed before with the plan's collectives."""

import common
import jax
import jax.numpy as jnp
import numpy as np
import phzc
import programs
import pytest


@pytest.mark.parametrize("name", programs.STEPS)
def test_ten_planned_steps_have_the_losses_and_the_collectives(name, planning):
    step, state, args = programs.STEPS[name]()
    plan = phzc.plan(step, *state, *args, stages=1, microbatches=1, **planning)
    planned = plan.jit()
    found, said = common.inserted(planned), common.judge.predicted(plan.figures)
    print(name, {kind: (said.get(kind), found.get(kind)) for kind in {**said, **found}})
    _, again, _ = programs.STEPS[name]()
    got, wanted = common.losses(planned, state, args), common.losses(step, again, args)
    np.testing.assert_allclose(got, wanted, rtol=1e-5)
    assert wanted[-1] < wanted[0]
    assert all(abs(ratio - 1) < 0.02 for ratio in common.ratios(plan, planned).values())
    assert said, "the plan communicates"
