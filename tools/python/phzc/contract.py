"""Products of HLO as functions of `jax.lax`: dots, convolutions, and the factorizations of matrices."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
from jax import lax

from .hlo import Instr


def precision(instr: Instr) -> tuple[lax.Precision, lax.Precision] | None:
    """Of both operands, where the text says them."""
    words = re.findall(r"\w+", instr.attrs.get("operand_precision", ""))
    named = [getattr(lax.Precision, word.upper()) for word in words]
    return (named[0], named[-1]) if named else None


def window(instr: Instr, rank: int) -> dict[str, list]:
    """The sizes of a `window={size=3x3 pad=1_1x1_1}`, with what the text leaves out."""
    found = dict(re.findall(r"(\w+)=([\d_x\-]+)", instr.attrs.get("window", "")))

    def sizes(key: str, default: int) -> list[int]:
        return [int(n) for n in found[key].split("x")] if key in found else [default] * rank

    pads = (
        [tuple(map(int, pair.split("_"))) for pair in found["pad"].split("x")]
        if "pad" in found
        else [(0, 0)] * rank
    )
    return {
        "size": sizes("size", 1),
        "stride": sizes("stride", 1),
        "pad": pads,
        "lhs_dilate": sizes("lhs_dilate", 1),
        "rhs_dilate": sizes("rhs_dilate", 1),
        "reversed": sizes("rhs_reversal", 0),
    }


def _dot(_: Any, instr: Instr, a: jax.Array, b: jax.Array) -> jax.Array:
    contracted = (instr.ints("lhs_contracting_dims"), instr.ints("rhs_contracting_dims"))
    batch = (instr.ints("lhs_batch_dims"), instr.ints("rhs_batch_dims"))
    how = precision(instr)
    if "algorithm" in instr.attrs:
        how = getattr(lax.DotAlgorithmPreset, re.sub(r"^dot_", "", instr.attrs["algorithm"]).upper())
    return lax.dot_general(a, b, (contracted, batch), how, preferred_element_type=instr.shape.numpy)


def _convolution(_: Any, instr: Instr, a: jax.Array, b: jax.Array) -> jax.Array:
    """`dim_labels` are lax's letters: batch and feature of the input and the result, output and input of the
    kernel."""
    image, kernel, result = re.split(r"_|->", instr.attrs["dim_labels"])
    letters = {"b": "N", "f": "C", "o": "O", "i": "I"}
    spec = ["".join(letters.get(c, c) for c in part) for part in (image, kernel, result)]
    found = window(instr, a.ndim - 2)
    turned = [kernel.index(str(dim)) for dim, is_turned in enumerate(found["reversed"]) if is_turned]
    return lax.conv_general_dilated(
        a,
        lax.rev(b, turned) if turned else b,
        found["stride"],
        found["pad"],
        found["lhs_dilate"],
        found["rhs_dilate"],
        (spec[0], spec[1], spec[2]),
        instr.int("feature_group_count", 1),
        instr.int("batch_group_count", 1),
        precision(instr),
        instr.shape.numpy,
    )


def _cholesky(_: Any, instr: Instr, x: jax.Array) -> jax.Array:
    if not instr.flag("lower"):
        x = lax.transpose(x, [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])
    lower = lax.linalg.cholesky(x, symmetrize_input=False)
    return (
        lower if instr.flag("lower") else lax.transpose(lower, [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])
    )


def _triangular_solve(_: Any, instr: Instr, a: jax.Array, b: jax.Array) -> jax.Array:
    how = instr.attrs.get("transpose_a", "NO_TRANSPOSE")
    return lax.linalg.triangular_solve(
        a,
        b,
        left_side=instr.flag("left_side"),
        lower=instr.flag("lower"),
        transpose_a=how != "NO_TRANSPOSE",
        conjugate_a=how == "ADJOINT",
        unit_diagonal=instr.flag("unit_diagonal"),
    )


def _fft(_: Any, instr: Instr, x: jax.Array) -> jax.Array:
    return lax.fft(x, instr.attrs["fft_type"].lower(), instr.ints("fft_length"))


OPS: dict[str, Callable[..., Any]] = {
    "cholesky": _cholesky,
    "convolution": _convolution,
    "dot": _dot,
    "fft": _fft,
    "triangular-solve": _triangular_solve,
}
