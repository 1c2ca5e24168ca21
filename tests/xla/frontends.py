#!/usr/bin/env python3
"""Compares what phzc reads from StableHLO text and HLO protobufs with JAX and with XLA's own text.

`tests/xla/run frontends [PHZC]` judges; `tests/xla/run frontends --write` makes the files of tests/frontends anew.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxlib import _hlo

import hlo
from common import HERE, ROOT, expect, programs, show

FILES = HERE.parent / "frontends"
TOLERANCE = 1e-4
# Of the compiler's configuration, which the protobuf lacks.
CONFIG = r", (replica_count|num_partitions)=\d+|, allow_spmd_sharding_propagation_to_\w+=\{[\w,]*\}"
CORPUS = ("mlp_tiny", "llama_tiny", "moe_gshard_tiny", "gpt2_small_fwd", "gpt2_small_scan", "gpt2_small",
          "llama_7b_scan", "bert_large", "resnet50", "t5_base", "vit_b16", "wide_resnet50_2")


def normal(key, *shape, scale=0.1):
    return scale * jax.random.normal(jax.random.key(key), shape, jnp.float32)


def mlp():
    """A step of gradient descent with donated parameters."""
    def step(params, x, y):
        def loss(params):
            hidden = jnp.tanh(x @ params["w1"] + params["b1"])
            return jnp.mean((hidden @ params["w2"] - y) ** 2)
        value, grads = jax.value_and_grad(loss)(params)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value
    params = {"w1": normal(0, 8, 16), "b1": normal(1, 16), "w2": normal(2, 16, 4)}
    return jax.jit(step, donate_argnums=0), (params, normal(3, 5, 8), normal(4, 5, 4))


def convnet():
    """Convolutions, pooling, their gradients."""
    def loss(kernels, x):
        for kernel, stride in zip(kernels, (2, 1)):
            x = jax.nn.relu(lax.conv_general_dilated(x, kernel, (stride, stride), "SAME",
                                                     dimension_numbers=("NHWC", "HWIO", "NHWC")))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return jnp.sum(x ** 2)
    kernels = [normal(0, 3, 3, 3, 8), normal(1, 3, 3, 8, 4)]
    return jax.jit(jax.value_and_grad(loss)), (kernels, normal(2, 2, 9, 9, 3, scale=1.0))


def attention():
    """Causal attention with a mask and an embedding."""
    def forward(table, w, tokens):
        x = table[tokens]
        q, k, v = jnp.split(jnp.einsum("bsh,hk->bsk", x, w), 3, axis=-1)
        scores = jnp.einsum("bqh,bkh->bqk", q, k) / 4.0
        mask = jnp.tril(jnp.ones((6, 6), bool))
        return jnp.einsum("bqk,bkh->bqh", jax.nn.softmax(jnp.where(mask, scores, -1e9)), v)
    tokens = jnp.arange(12, dtype=jnp.int32).reshape(2, 6) % 7
    return jax.jit(forward), (normal(0, 7, 16, scale=1.0), normal(1, 16, 48), tokens)


def scan():
    """Layers as a loop, with its gradient."""
    def loss(weights, x):
        def layer(x, w):
            return jax.nn.gelu(x @ w, approximate=False), jnp.max(x)
        x, peaks = lax.scan(layer, x, weights)
        return jnp.sum(x) + jnp.sum(peaks)
    return jax.jit(jax.value_and_grad(loss)), (normal(0, 3, 8, 8, scale=0.5), normal(1, 4, 8, scale=1.0))


def moe():
    """Top-2 routing, expert products."""
    def forward(router, experts, x):
        gates, chosen = lax.top_k(jax.nn.softmax(x @ router), 2)
        dispatch = jnp.sum(jax.nn.one_hot(chosen, 4) * gates[..., None], axis=1)
        return jnp.einsum("te,teh->th", dispatch, jnp.einsum("th,ehk->tek", x, experts))
    return jax.jit(forward), (normal(0, 8, 4, scale=1.0), normal(1, 4, 8, 8), normal(2, 6, 8, scale=1.0))


def control():
    """Branches that read from outside, a loop of unknown length, a barrier."""
    def run(index, x, y):
        a = lax.switch(index, [lambda: x + y, lambda: x * 2.0, lambda: y - x])
        b = lax.cond(x[0] > 0, lambda: a, lambda: -a)
        c = lax.while_loop(lambda v: jnp.sum(v) < 10.0, lambda v: v + jnp.abs(y) + 1.0, b)
        return lax.optimization_barrier((a, c)), lax.fori_loop(0, 3, lambda i, v: v + i * x, y)
    return jax.jit(run), (jnp.int32(2), normal(0, 5, scale=1.0), normal(1, 5, scale=1.0))


def special():
    """Operations that HLO has no opcode for, and narrow types."""
    def run(x, z):
        narrow = jax.scipy.special.erfc(x.astype(jnp.bfloat16)).astype(jnp.float32)
        return (lax.erf(x), lax.erfc(x), lax.erf_inv(x / 2), lax.lgamma(z), lax.digamma(z), jnp.arctan(x), jnp.sinh(x),
                jnp.cosh(x), lax.cbrt(x), lax.nextafter(x, z), narrow, jnp.isinf(x), jnp.round(x * 9),
                lax.reduce_precision(x, 8, 7), jnp.real(lax.conj(lax.complex(x, z))))
    return jax.jit(run), (normal(0, 8, scale=0.8), 1.5 + jnp.arange(8, dtype=jnp.float32))


def order():
    """Sorting, arguments of maxima, sums so far, scatters and slices at computed places."""
    def run(x, index):
        place = jnp.arange(12, dtype=jnp.int32).reshape(3, 4)
        kept = lax.dynamic_update_slice(x, x[:1] * 2, (index, 0))
        return (jnp.sort(x, axis=1), jnp.argsort(x, axis=0), jnp.argmax(x, axis=1), jnp.cumsum(x, axis=1),
                x.at[index].add(1.0), lax.dynamic_slice(x, (index, 1), (2, 2)), kept, place * 2, jnp.flip(x, 0),
                jnp.array([True, False, True]), jnp.var(x, axis=0), jnp.any(x > 2.0))
    return jax.jit(run), (normal(0, 3, 4, scale=1.0), jnp.int32(1))


PROGRAMS = (mlp, convnet, attention, scan, moe, control, special, order)


def write():
    """The programs of tests/frontends: StableHLO, XLA's text and protobuf of the same."""
    FILES.mkdir(exist_ok=True)
    for program in PROGRAMS:
        function, args = program()
        lowered = function.lower(*args)
        text = lowered.as_text(dialect="hlo")
        (FILES / f"{program.__name__}.mlir").write_text(lowered.as_text())
        (FILES / f"{program.__name__}.hlo").write_text(text)
        module = _hlo.hlo_module_from_text(text)
        (FILES / f"{program.__name__}.pb").write_bytes(module.as_serialized_hlo_module_proto())
    function, args = mlp()
    (FILES / "mlp.debug_info.mlir").write_text(function.lower(*args).as_text(debug_info=True))
    function, args = control()
    generic = function.lower(*args).compiler_ir("stablehlo").operation.get_asm(print_generic_op_form=True)
    (FILES / "control.generic.mlir").write_text(generic)


def phzc_run(phzc, *args):
    done = subprocess.run([str(part) for part in (phzc, *args)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-400:])
    return done.stdout


def numbers(phzc, program, folder):
    """The largest relative difference to what JAX computes."""
    function, args = program()
    lowered = function.lower(*args)
    model, given, made = folder / "model.mlir", folder / "in.npz", folder / "out.npz"
    model.write_text(lowered.as_text())
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(args)]
    np.savez(given, **{str(index): leaf for index, leaf in enumerate(leaves)})
    phzc_run(phzc, "eval", model, "--input", given, "-o", made)
    wanted = [np.asarray(leaf) for leaf in jax.tree.leaves(function(*args))]
    with np.load(made) as file:
        found = [file[str(index)] for index in range(len(file.files))]
    return max(error(w, f) for w, f in zip(wanted, found, strict=True))


def error(want, got):
    if want.shape != got.shape:
        return float("inf")
    if want.dtype.kind in "biu":
        return 0.0 if np.array_equal(want, got) else float("inf")
    want, got = np.asarray(want, np.float64), np.asarray(got, np.float64)
    return float(np.max(np.abs(want - got)) / max(np.max(np.abs(want)), 1e-30)) if want.size else 0.0


def same(phzc, text, folder):
    """Whether the protobuf of a text is read as the text is."""
    proto, plain = folder / "model.pb", folder / "model.ir"
    proto.write_bytes(_hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())
    plain.write_text(text)
    found, wanted = (phzc_run(phzc, "convert", path) for path in (proto, plain))
    if re.sub(CONFIG, "", found) == re.sub(CONFIG, "", wanted):
        return "ok"
    pairs = zip(found.splitlines(), wanted.splitlines())
    return next((f"FAILED: {a[:120]} is not {b[:120]}" for a, b in pairs if a != b), "FAILED: lengths differ")


def main():
    parser = argparse.ArgumentParser(prog="tests/xla/run frontends", description=__doc__)
    parser.add_argument("phzc", nargs="?", default=str(ROOT / "target/release/phzc"))
    parser.add_argument("--write", action="store_true", help="write the files of tests/frontends instead")
    args = parser.parse_args()
    if args.write:
        return write()
    expect(args.phzc)
    rows = []
    with tempfile.TemporaryDirectory(prefix="phzc-frontends-") as folder:
        folder = pathlib.Path(folder)
        for program in PROGRAMS:
            worst = numbers(args.phzc, program, folder)
            rows.append([program.__name__, "StableHLO as JAX", f"{worst:.1e}", "ok" if worst <= TOLERANCE else "FAILED"])
        texts = [(p.__name__, p()[0].lower(*p()[1]).as_text(dialect="hlo")) for p in PROGRAMS]
        known, missing = programs(CORPUS)
        texts += [(name, hlo.read_file(path)) for name, path in known]
        for name, text in texts:
            rows.append([name, "protobuf as text", "-", same(args.phzc, text, folder)])
    show(rows, ["program", "question", "max error", "verdict"])
    if missing:
        print(f"SKIPPED, not here: {', '.join(missing)}")
    failed = sum(row[-1] != "ok" for row in rows)
    print(f"{len(rows) - failed} as they should be, {failed} not")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
