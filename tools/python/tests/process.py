"""One of several processes that run a planned step together: `process.py RANK COUNT PORT PHZC CLUSTER STEP STAGES
SCHEDULE`.

Each prints as JSON the losses of ten steps, planned and not, if it has the planned one's; of a plan of one stage
all have."""

import json
import pathlib
import sys

import jax
import numpy as np
import phzc
import programs

N_DEVICES = 8


def whole(x, sharding):
    """An array over the devices of all processes, each with its own part."""
    return jax.make_array_from_callback(x.shape, sharding, lambda at: x[at], dtype=x.dtype)


def losses(step, state, args):
    """The losses that are here; every step is run, wherever they are."""
    found = []
    for _ in range(10):
        *state, loss = step(*state, *args)
        if loss.sharding.addressable_devices:
            found.append(float(loss.addressable_data(0)))
    return found


def planned(step, arrays, schedule, stages, planning):
    """A plan, and the step as planned."""
    if stages == 1:
        plan = phzc.plan(step, *arrays, **planning)
        return plan, plan.jit()
    passes = f"fuse,shard,place{{stages={stages},microbatches=4,schedule={schedule}}}"
    plan = phzc.plan(step, *arrays, passes=passes, **planning)
    return plan, plan.pipeline()


def main(rank, count, port, planning, name, stages, schedule):
    jax.distributed.initialize(f"localhost:{port}", num_processes=count, process_id=rank)
    step, state, args = programs.STEPS[name]()
    plan, run = planned(step, (*state, *args), schedule, stages, planning)
    own = jax.tree.map(np.asarray, (*state, *args))
    arrays = jax.tree.map(whole, own, plan.in_shardings)
    n = len(state)
    found = {"planned": losses(run, arrays[:n], arrays[n:])}
    found["whole"] = losses(jax.jit(step), own[:n], own[n:])
    found["split"] = any(any(spec) for spec in plan.layouts.values())
    found["processes"] = [sorted({d.process_index for d in mesh.devices.flat}) for mesh in plan.meshes]
    print(json.dumps(found))


if __name__ == "__main__":
    rank, count, port, binary, cluster, name, stages, schedule = sys.argv[1:]
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", N_DEVICES // int(count))
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    planning = {"binary": pathlib.Path(binary), "cluster": pathlib.Path(cluster)}
    main(int(rank), int(count), port, planning, name, int(stages), schedule)
