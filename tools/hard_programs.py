#!/usr/bin/env python3
"""Writes the HLO text of training steps that are hard to prove, in plain JAX: `hard_programs.py FOLDER`.

    hard_programs.py out                          all of them, as out/NAME.hlo
    hard_programs.py out --only unet griffin      these
    hard_programs.py tests/hard_programs --gzip   as they lie in the repository

A step is forward, backward and AdamW, or SGD with momentum; parameters and state are donated.
Needs `pip install -r tools/requirements.txt`; no accelerator and no weights, only shapes.
"""

import argparse
import gzip
import os
import pathlib

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

from hard import PROGRAMS, Program  # noqa: E402
from hard.layers import Params  # noqa: E402

LEARNING_RATE, BETA1, BETA2, EPSILON, DECAY, MOMENTUM = 1e-3, 0.9, 0.999, 1e-8, 0.01, 0.9
Arrays = dict[str, jax.Array]


def adamw(params: Arrays, state: dict, gradients: Arrays) -> tuple[Arrays, dict]:
    """Loshchilov and Hutter 2019."""
    step = state["step"] + 1
    time = step.astype(jnp.float32)
    scale1, scale2 = 1 / (1 - BETA1**time), 1 / (1 - BETA2**time)
    mu = jax.tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * g, state["mu"], gradients)
    nu = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * (g * g), state["nu"], gradients)
    params = jax.tree.map(lambda p, m, v: p - LEARNING_RATE * (
        m * scale1 / (jnp.sqrt(v * scale2) + EPSILON) + DECAY * p), params, mu, nu)
    return params, {"mu": mu, "nu": nu, "step": step}


def momentum(params: Arrays, state: dict, gradients: Arrays) -> tuple[Arrays, dict]:
    """Sutskever et al. 2013, with weight decay."""
    velocity = jax.tree.map(lambda v, g, p: MOMENTUM * v + (g + DECAY * p), state["velocity"], gradients, params)
    return jax.tree.map(lambda p, v: p - LEARNING_RATE * v, params, velocity), {"velocity": velocity}


UPDATES = {"adamw": (adamw, ("mu", "nu")), "momentum": (momentum, ("velocity",))}


def declared(program: Program) -> dict[str, jax.ShapeDtypeStruct]:
    """The shapes of the parameters that a program asks for."""
    params = Params()
    jax.eval_shape(lambda batch: program.loss(params, batch), program.batch)
    return params.declared


def text(name: str) -> str:
    """HLO text of a program's step, parameters named by their place in the pytree."""
    program = PROGRAMS[name]
    update, moments = UPDATES[program.optimizer]

    def train(params: Arrays, state: dict, batch: Arrays) -> tuple[Arrays, dict, jax.Array]:
        value, gradients = jax.value_and_grad(lambda params: program.loss(Params(params), batch))(params)
        return *update(params, state, gradients), value

    params = declared(program)
    state = {moment: params for moment in moments}
    if program.optimizer == "adamw":
        state["step"] = jax.ShapeDtypeStruct((), jnp.int32)
    step = jax.jit(train, donate_argnums=(0, 1), keep_unused=True)
    header = f"// tools/hard_programs.py --only {name}    (jax {jax.__version__})\n"
    return header + step.lower(params, state, program.batch).as_text(dialect="hlo")


def write(folder: pathlib.Path, name: str, is_packed: bool) -> None:
    data = text(name).encode()
    # Packed without a time, so that the same text is the same file.
    path = folder / f"{name}.hlo{'.gz' if is_packed else ''}"
    path.write_bytes(gzip.compress(data, 9, mtime=0) if is_packed else data)
    n_params = sum(shape.size for shape in declared(PROGRAMS[name]).values())
    print(f"{path}: {n_params / 1e6:.0f} M parameters, {data.count(b' = ')} instructions, {path.stat().st_size} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", nargs="+", choices=sorted(PROGRAMS), metavar="NAME", help="just these")
    parser.add_argument("--gzip", action="store_true", help="write NAME.hlo.gz")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in args.only or sorted(PROGRAMS):
        write(args.folder, name, args.gzip)


if __name__ == "__main__":
    main()
