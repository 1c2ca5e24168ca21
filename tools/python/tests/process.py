"""One of several processes that run a planned step together: `process.py RANK COUNT PORT PHZC CLUSTER`; the first
prints the losses of ten steps, planned and not, as JSON."""

import json
import pathlib
import sys

import jax
import numpy as np

N_DEVICES = 8


def whole(x, sharding):
    """An array over the devices of all processes, each with its own part."""
    return jax.make_array_from_callback(x.shape, sharding, lambda at: x[at])


def losses(step, params, state, args):
    found = []
    for _ in range(10):
        params, state, loss = step(params, state, *args)
        found.append(float(loss))
    return found


def main(rank, count, port, binary, cluster):
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", N_DEVICES // count)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"localhost:{port}", num_processes=count, process_id=rank)
    import phzc
    import programs

    step, state, args = programs.mlp()
    plan = phzc.plan(step, *state, *args, cluster=cluster, binary=binary)
    own = jax.tree.map(np.asarray, (*state, *args))
    params, optimizer, *inputs = jax.tree.map(whole, own, plan.in_shardings)
    found = {"planned": losses(plan.jit(), params, optimizer, inputs)}
    found["whole"] = losses(jax.jit(step), own[0], own[1], own[2:])
    found["split"] = any(any(spec) for spec in plan.layouts.values())
    if rank == 0:
        print(json.dumps(found))


if __name__ == "__main__":
    rank, count, port, binary, cluster = sys.argv[1:]
    main(int(rank), int(count), port, pathlib.Path(binary), pathlib.Path(cluster))
