"""Plans training steps before and after tuning, measures both, and prints what was predicted of them."""

import argparse
import json
import pathlib
import sys
import tempfile
import time
import types

import jax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)

import dump_hlo  # noqa: E402  # tools/dump_hlo.py: the steps of examples/*.ir
import jax.numpy as jnp  # noqa: E402
import phzc  # noqa: E402
from phzc import measure  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLUSTER = ROOT / "tests/clusters/cpu-8.toml"
COMMON = {"heads": 8, "kv_heads": 8, "dtype": jnp.float32, "tied": False, "remat": False, "experts": 8}
MODELS = {
    "mlp": {"layers": 4, "hidden": 512, "batch": 512, "seq": 1, "vocab": 1, "ffn": 1},
    "gpt": {"layers": 2, "hidden": 256, "batch": 16, "seq": 128, "vocab": 1024, "ffn": 1024},
    "moe": {"layers": 2, "hidden": 128, "batch": 16, "seq": 64, "vocab": 512, "ffn": 512},
}
STEPS = 15


def step_of(name):
    """A training step and its arguments: parameters, optimizer's state, batch."""
    cfg = types.SimpleNamespace(model=name, loop="unrolled", **COMMON, **MODELS[name])
    shapes, keys = dump_hlo.parameter_shapes(cfg), iter(jax.random.split(jax.random.key(0), 1000))
    draw = lambda shape: jax.random.normal(next(keys), shape) * shape[0] ** -0.5
    params = jax.tree.map(draw, shapes, is_leaf=dump_hlo.is_shape)
    zeros = lambda: jax.tree.map(jnp.zeros_like, params)
    state = {"mu": zeros(), "nu": zeros(), "step": jnp.int32(0)}
    if name == "mlp":
        sample = jax.random.normal(next(keys), (cfg.batch, cfg.hidden))
        batch = {"inputs": sample, "targets": jnp.sin(sample)}
    else:
        tokens = jax.random.randint(next(keys), (cfg.batch, cfg.seq), 0, cfg.vocab)
        batch = {"tokens": tokens, "labels": jnp.roll(tokens, -1, 1)}
    return jax.jit(dump_hlo.train_step(cfg), donate_argnums=(0, 1)), (params, state, batch)


def measured(plans, args):
    """Median seconds of a step of each plan and their spread, half of the middle half; plans take turns."""
    runs = []
    for plan in plans:
        step, (params, state, batch) = plan.jit(), jax.device_put(jax.tree.map(jnp.copy, args), plan.in_shardings)
        runs.append({"step": step, "state": (params, state), "batch": batch, "secs": []})
    for _ in range(STEPS + 2):
        for run in runs:
            start = time.perf_counter()
            *run["state"], loss = run["step"](*run["state"], run["batch"])
            jax.block_until_ready((run["state"], loss))
            run["secs"].append(time.perf_counter() - start)
    samples = [sorted(run["secs"][2:]) for run in runs]
    return [(of[STEPS // 2], (of[3 * STEPS // 4] - of[STEPS // 4]) / 2) for of in samples]


def measured_again(folder):
    """Measures the steps of a profile once more: a shared machine is not as fast as it was minutes ago."""
    path, manifest = folder / "measured.json", json.loads((folder / "manifest.json").read_text())
    done, steps = json.loads(path.read_text()), [e["key"] for e in manifest["entries"] if e["kind"] == "step"]
    done["entries"] = {key: time for key, time in done["entries"].items() if key not in steps}
    path.write_text(json.dumps(done))
    measure.measure(folder)


def row(name, phzc_binary, folder):
    """The table's row of one model; what `phzc` said of the rounds goes to standard error."""
    step, args = step_of(name)
    planning = {"cluster": CLUSTER, "binary": phzc_binary, "microbatches": 1}
    before = phzc.plan(step, *args, **planning)
    after = phzc.tune(step, *args, profile=folder / name, **planning)
    print(after.rounds, file=sys.stderr)
    measured_again(folder / name)
    plan_ir = folder / name / "plan.ir"
    after.read(plan_ir, "--passes", "", "--cluster", CLUSTER, "--profile", folder / name)
    print(after.summary().split("\n\n")[0], file=sys.stderr)
    (first_secs, first_spread), (kept_secs, kept_spread) = measured([before, after], args)
    secs = (first_secs, kept_secs)
    is_slower = kept_secs - first_secs > first_spread + kept_spread
    spread = f"+-{1e3 * (first_spread + kept_spread):.2f}"
    judged = "slower" if is_slower else "no slower"
    predicted = [plan.figures["time_secs"] for plan in (before, after)]
    off = predicted[1] / secs[1] - 1
    shown = [f"{1e3 * value:8.2f}" for value in (predicted[0], secs[0], predicted[1], secs[1])]
    meshes = [plan.figures["stages"][0]["mesh"] for plan in (before, after)]
    return f"{name:5} {' '.join(shown)}   {100 * off:+6.1f} %   {spread}, {judged}   {meshes[0]} -> {meshes[1]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("phzc", type=pathlib.Path)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=" ".join(MODELS))
    parser.add_argument("--keep", type=pathlib.Path, help="directory for the profiles")
    args = parser.parse_intermixed_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [row(name, args.phzc, args.keep or pathlib.Path(folder)) for name in args.models or MODELS]
    print("milliseconds of a step on 8 virtual CPU devices")
    print("      before: predicted, measured; after: predicted, measured; error after; both spreads; mesh")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
