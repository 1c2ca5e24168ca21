"""A newcomer's path with the installed wheel: six lines plan and run a Flax NNX GPT and an Equinox MLP on
eight CPU devices."""

import pathlib

import jax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)

import numpy as np  # noqa: E402
import programs  # noqa: E402

CLUSTER = pathlib.Path(__file__).resolve().parents[3] / "tests/clusters/slow-8.toml"


def gpt(model, optimizer, words, labels):
    """The six lines, of an NNX step that changes its model and its optimizer."""
    losses = []
    import phzc

    plan = phzc.plan(programs.nnx_step, model, optimizer, words, labels, cluster=CLUSTER)
    step = plan.jit()
    for _ in range(10):
        losses.append(float(step(model, optimizer, words, labels)))
    return plan, losses


def mlp(step, model, state, x, y):
    """The same of a step that returns its new state."""
    losses = []
    import phzc

    plan = phzc.plan(step, model, state, x, y, cluster=CLUSTER)
    planned = plan.jit()
    for _ in range(10):
        model, state, loss = planned(model, state, x, y)
        losses.append(float(loss))
    return plan, losses


def main():
    step, state, args = programs.nnx_gpt()
    wanted = [float(step(*state, *args)) for _ in range(10)]
    plan, losses = gpt(*programs.nnx_gpt()[1], *args)
    report("nnx_gpt", plan, losses, wanted)

    step, (model, state), args = programs.eqx_mlp()
    plan, losses = mlp(step, model, state, *args)
    wanted = []
    for _ in range(10):
        model, state, loss = step(model, state, *args)
        wanted.append(float(loss))
    report("eqx_mlp", plan, losses, wanted)


def report(name, plan, losses, wanted):
    """Raises `AssertionError` where losses differ by more than 1e-5."""
    np.testing.assert_allclose(losses, wanted, rtol=1e-5)
    print(
        f"{name}: {plan.summary().splitlines()[0]}; losses {losses[0]:.6f} to {losses[-1]:.6f}, as unsharded"
    )


if __name__ == "__main__":
    main()
