"""FLOPs of named sizes: phzc's count of the program that it writes against XLA's of the twin in plain JAX.

XLA's is the cost analysis of the HLO that JAX lowers the twin to, forward or with backward and AdamW by optax;
nothing is compiled or run.
"""

import argparse
import sys
import time

import jax
import optax

from twins import Failure, Program, loss, split

HEAD = ["family", "options", "program", "phzc", "XLA", "phzc/XLA", "s", "verdict"]
WITHIN = 0.01
SIZES: list[tuple[str, str]] = [
    ("gpt", "--size gpt2-small"),
    ("gpt", "--size 1.3b"),
    ("opt", "--size 1.3b"),
    ("llama", "--size 7b"),
    ("llama", "--size 3-8b"),
    ("bert", "--size large"),
    ("t5", "--size base"),
    ("gshard", "--size 380m"),
    ("mixtral", "--size 8x7b --layers 8"),
    ("vit", "--size b16"),
    ("resnet", "--size 50"),
    ("resnet", "--size wide-50-2"),
    ("mlp", "--size mnist"),
]


def forward(program: Program, shapes: dict) -> float:
    return analysed(loss(program), *split(shapes))


def step(program: Program, shapes: dict) -> float:
    """Forward, backward and update."""
    twin, optimizer = loss(program), optax.adamw(1e-3)

    def run(params, state, batch):
        (value, states), grads = jax.value_and_grad(twin, has_aux=True)(params, batch)
        updates, state = optimizer.update(grads, state, params)
        return value, states, optax.apply_updates(params, updates), state

    params, batch = split(shapes)
    return analysed(run, params, jax.eval_shape(optimizer.init, params), batch)


def analysed(function, *shapes) -> float:
    return jax.jit(function).lower(*shapes).cost_analysis()["flops"]


def row(family: str, options: str, kind: str, args: argparse.Namespace) -> list[str]:
    start, words = time.time(), options.split()
    forward_program = Program(args.phzc, family, [*words, "--forward"], args.timeout)
    program = forward_program if kind == "forward" else Program(args.phzc, family, words, args.timeout)
    of = forward if kind == "forward" else step
    wanted = of(program, forward_program.shapes())
    ratio = program.flops / wanted
    return [family, options.removeprefix("--size "), kind, f"{program.flops:.4e}", f"{wanted:.4e}", f"{ratio:.4f}",
            f"{time.time() - start:.0f}", "ok" if abs(ratio - 1) <= WITHIN else "FAILED"]


def judge(args: argparse.Namespace) -> list[list[str]]:
    rows = []
    for family, options in SIZES:
        if args.only and family not in args.only:
            continue
        for kind in ("forward", "step"):
            try:
                rows.append(row(family, options, kind, args))
            except Failure as error:
                rows.append([family, options, kind, *["-"] * (len(HEAD) - 4), f"FAILED: {error}"])
            print(f"{family} {options} {kind}: {rows[-1][-2]} {rows[-1][-1]}", file=sys.stderr)
    return rows
