"""HLO's element by element ops as functions of `jax.lax`."""

from __future__ import annotations

from collections.abc import Callable

import jax
from jax import lax

UNARY: dict[str, Callable[[jax.Array], jax.Array]] = {
    "abs": lax.abs,
    "cbrt": lax.cbrt,
    "ceil": lax.ceil,
    "copy": lambda x: x,
    "cosine": lax.cos,
    "count-leading-zeros": lax.clz,
    "erf": lax.erf,
    "exponential": lax.exp,
    "exponential-minus-one": lax.expm1,
    "floor": lax.floor,
    "imag": lax.imag,
    "is-finite": lax.is_finite,
    "log": lax.log,
    "log-plus-one": lax.log1p,
    "logistic": lax.logistic,
    "negate": lax.neg,
    "not": lax.bitwise_not,
    "popcnt": lax.population_count,
    "real": lax.real,
    "round-nearest-afz": lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
    "round-nearest-even": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    "rsqrt": lax.rsqrt,
    "sign": lax.sign,
    "sine": lax.sin,
    "sqrt": lax.sqrt,
    "tan": lax.tan,
    "tanh": lax.tanh,
}

BINARY: dict[str, Callable[[jax.Array, jax.Array], jax.Array]] = {
    "add": lambda a, b: lax.bitwise_or(a, b) if a.dtype == bool else lax.add(a, b),
    "and": lax.bitwise_and,
    "atan2": lax.atan2,
    "complex": lax.complex,
    "divide": lax.div,
    "maximum": lax.max,
    "minimum": lax.min,
    "multiply": lambda a, b: lax.bitwise_and(a, b) if a.dtype == bool else lax.mul(a, b),
    "or": lax.bitwise_or,
    "power": lax.pow,
    "remainder": lax.rem,
    "shift-left": lax.shift_left,
    "shift-right-arithmetic": lax.shift_right_arithmetic,
    "shift-right-logical": lax.shift_right_logical,
    "subtract": lax.sub,
    "xor": lax.bitwise_xor,
}

COMPARE: dict[str, Callable[[jax.Array, jax.Array], jax.Array]] = {
    "EQ": lax.eq,
    "NE": lax.ne,
    "LT": lax.lt,
    "LE": lax.le,
    "GT": lax.gt,
    "GE": lax.ge,
}
