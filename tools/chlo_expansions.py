#!/usr/bin/env python3
"""Writes XLA's own expansions of CHLO operations that HLO has no opcode for, as programs of scalars.

    tools/chlo_expansions.py driver/frontends/src/stablehlo/expand       (jax 0.10.2)
"""

import pathlib
import sys

import jax
import jax.numpy as jnp
from jax import lax

OPS = {"bessel_i1e": (lax.bessel_i1e, 1), "cosh": (lax.cosh, 1), "digamma": (lax.digamma, 1),
       "erf_inv": (lax.erf_inv, 1), "erfc": (lax.erfc, 1), "lgamma": (lax.lgamma, 1),
       "next_after": (lax.nextafter, 2), "sinh": (lax.sinh, 1)}


def main():
    jax.config.update("jax_enable_x64", True)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    for name, (function, arity) in OPS.items():
        for dtype, short in ((jnp.float32, "f32"), (jnp.float64, "f64")):
            args = [jax.ShapeDtypeStruct((), dtype)] * arity
            text = jax.jit(function).lower(*args).as_text(dialect="hlo")
            (folder / f"{name}.{short}.hlo").write_text(text.strip() + "\n")


if __name__ == "__main__":
    main()
