#!/usr/bin/env python3
"""Compares the gradients of `--passes grad` with jax.grad, and one step of `optimizer` with optax.

Each program is a forward program as HLO text, one of forwards.py or a file. phzc differentiates and evaluates it; JAX replays the
same text op by op (replay.py) and differentiates that.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

os.environ["PHZC_XLA_DEVICES"] = "1"

import numpy as np  # noqa: E402

import hlo  # noqa: E402
import xla  # noqa: E402, I001
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

import forwards  # noqa: E402
from feed import load, typed  # noqa: E402
from judge import relative_error  # noqa: E402
from replay import Replay  # noqa: E402
from common import CORPUS, ROOT, expect, show  # noqa: E402

FORWARD = CORPUS / "gpt2_small_fwd.hlo"

DOUBLE_TOLERANCE = 1e-9

RULES = {
    "sgd": ("kind=sgd,lr=0.1", lambda o: o.sgd(0.1)),
    "momentum": ("kind=momentum,lr=0.1,momentum=0.8", lambda o: o.sgd(0.1, momentum=0.8)),
    "adam": ("kind=adam,lr=0.01,beta1=0.8,beta2=0.95,eps=1e-6", lambda o: o.adam(0.01, 0.8, 0.95, 1e-6)),
    "adamw": ("kind=adamw,lr=0.01,decay=0.1", lambda o: o.adamw(0.01, weight_decay=0.1)),
}


def phzc(args, text, passes, folder):
    """The program after the passes, its inputs and its results."""
    given, after, made, arrays = (folder / name for name in ("p.hlo", "g.ir", "y.npz", "x.npz"))
    given.write_text(text)
    for command in ([args.phzc, given, "--passes", passes, "-q", "-o", after],
                    [args.phzc, "eval", after, "--seed", args.seed, "--write-inputs", arrays, "-o", made]):
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, timeout=args.timeout)
        if done.returncode:
            raise RuntimeError(done.stderr.strip()[:400])
    return after.read_text(), load(arrays), load(made)


def corpus_forward(args, folder):
    """A real model's forward program with smaller sizes, and the sum of its results' squares as loss; None without ../shared.

    In 64-bit floats: in 32 bits its gradients cancel so much that they differ by 5e-5 to 1e-4 from machine to machine.
    """
    if not FORWARD.exists():
        return None
    small = folder / "small.ir"
    subprocess.run([args.phzc, "convert", str(FORWARD), "--shrink", "-o", str(small)], check=True)
    text = small.read_text().replace("f32[", "f64[")
    before, entry = text[:text.index("ENTRY ")], text[text.index("ENTRY "):]
    root = re.search(r"ROOT (\S+) = (f64\[([\d,]+)\])", entry)
    name, shape, dims = root.groups()
    ends = f"""  loss.square = {shape} multiply({name}, {name})
  loss.zero = f64[] constant(0)
  ROOT loss = f64[] reduce(loss.square, loss.zero), dimensions={{{",".join(map(str, range(dims.count(",") + 1)))}}}, to_apply=loss.add
}}"""
    add = "loss.add {\n  a = f64[] parameter(0)\n  b = f64[] parameter(1)\n  ROOT c = f64[] add(a, b)\n}\n\n"
    return before + add + entry.replace("ROOT ", "", 1).rstrip().removesuffix("}") + ends + "\n"


def noted(text):
    """Numbers of the parameters that the last results are gradients of, in order."""
    return sorted(int(n) for n in re.findall(r'phzc\.grad="(\d+)"', text))


def reference(text, arrays, wrt):
    """JAX's results and gradients of the only scalar float result."""
    replay = Replay(text)
    outputs = replay(*arrays)
    at = [i for i, y in enumerate(outputs) if jnp.ndim(y) == 0 and jnp.issubdtype(jnp.asarray(y).dtype, jnp.floating)][0]

    def loss(chosen):
        all_of_them = list(arrays)
        for number, value in zip(wrt, chosen, strict=True):
            all_of_them[number] = value
        return replay(*all_of_them)[at]
    return outputs, jax.grad(loss)([jnp.asarray(arrays[n]) for n in wrt])


def compare(args, text, folder):
    """Largest relative error per gradient."""
    after, arrays, made = phzc(args, text, "grad", folder)
    arrays = typed(hlo.parse(text), arrays)
    wrt = noted(after)
    outputs, gradients = reference(text, arrays, wrt)
    assert len(made) == len(outputs) + len(wrt), "the results are the program's and the gradients"
    pairs = zip(list(outputs) + list(gradients), made, strict=True)
    return [relative_error(np.asarray(want, np.float64), np.asarray(got, np.float64)) for want, got in pairs]


def gradients(args, folder):
    rows = []
    files = {pathlib.Path(p).stem: pathlib.Path(p) for p in args.programs if pathlib.Path(p).exists()}
    names = [p for p in args.programs if p in forwards.PROGRAMS] or ([] if files else list(forwards.PROGRAMS))
    texts = {name: lambda path=path: hlo.read_file(path) for name, path in files.items()}
    texts |= {name: lambda name=name: forwards.hlo(name) for name in names}
    real = None if args.programs else corpus_forward(args, folder)
    texts |= {FORWARD.stem: lambda: real} if real else {}
    for name, text_of in texts.items():
        start = time.time()
        try:
            text = text_of()
            is_double = "f64[" in text
            with jax.enable_x64(is_double):
                errors = compare(args, text, folder)
            worst = max(errors)
            verdict = "ok" if worst <= (DOUBLE_TOLERANCE if is_double else args.tolerance) else "FAILED"
            rows.append([name, str(len(errors)), f"{worst:.1e}", f"{time.time() - start:.1f}", verdict])
        except (RuntimeError, NotImplementedError) as problem:
            rows.append([name, "-", "-", f"{time.time() - start:.1f}", f"FAILED: {str(problem)[:300]}"])
        print(f"{name}: {rows[-1][-1]}", file=sys.stderr)
    return rows


def steps(args, folder):
    """One step of every rule on the gradients that phzc itself finds, from states that are not zero."""
    import optax
    rows, text = [], forwards.hlo("mlp")
    before, _, _ = phzc(args, text, "grad", folder)
    wrt = noted(before)
    n = len(wrt)
    for kind, (options, rule) in RULES.items():
        _, arrays, made = phzc(args, text, f"grad,optimizer{{{options}}}", folder)
        n_data = len(hlo.parse(text).parameters)
        _, found = reference(text, typed(hlo.parse(text), arrays[:n_data]), wrt)
        params, states = [arrays[i] for i in wrt], arrays[n_data:]
        rule = rule(optax)
        state = loaded(rule.init(params), kind, states, n)
        updates, state = rule.update(found, state, params)
        wanted = [p + u for p, u in zip(params, updates, strict=True)] + saved(state, kind)
        errors = [relative_error(np.asarray(w, np.float64), np.asarray(g, np.float64)) for w, g in zip(wanted, made[1:], strict=True)]
        verdict = "ok" if max(errors) <= 1e-5 else "FAILED"
        rows.append([f"optimizer {kind}", str(len(errors)), f"{max(errors):.1e}", "", verdict])
    return rows


def loaded(state, kind, arrays, n):
    """optax's state with phzc's states in it."""
    if kind == "sgd":
        return state
    if kind == "momentum":
        return (state[0]._replace(trace=list(arrays[:n])), *state[1:])
    return (state[0]._replace(mu=list(arrays[:n]), nu=list(arrays[n:2 * n]), count=jnp.asarray(arrays[2 * n])), *state[1:])


def saved(state, kind):
    """phzc's states from optax's."""
    if kind == "sgd":
        return []
    if kind == "momentum":
        return list(state[0].trace)
    return [*state[0].mu, *state[0].nu, state[0].count]


def main():
    parser = argparse.ArgumentParser(prog="tests/xla/run grad", description=__doc__)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="names of forwards.py or files; default: all of forwards.py")
    parser.add_argument("--phzc", default=str(ROOT / "target/release/phzc"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--timeout", type=int, default=900, help="seconds per program")
    args = parser.parse_args()
    expect(args.phzc)
    with tempfile.TemporaryDirectory(prefix="phzc-grad-") as folder:
        rows = gradients(args, pathlib.Path(folder))
        if not args.programs:
            rows += steps(args, pathlib.Path(folder))
    show(rows, ["program", "values", "max error", "s", "verdict"])
    failed = sum(row[-1] != "ok" for row in rows)
    print(f"{len(rows) - failed} as JAX, {failed} not")
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
