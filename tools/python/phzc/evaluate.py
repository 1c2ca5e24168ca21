"""Evaluates HLO in JAX: each instruction becomes the function of `jax.lax` that lowers to it.

Under `jax.jit` the program that comes out is the one that was read, instruction by instruction.
`Evaluator.place` says what happens to each value on its way, such as a sharding constraint.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from . import collectives, contract, indexing, windows
from .calls import custom_call
from .elementwise import BINARY, COMPARE, UNARY
from .hlo import Instr, Module

Value = Any  # an array, or a tuple of values
Place = Callable[[Instr, jax.Array], jax.Array]


class Evaluator:
    """A program as a function of its parameters.

    `axes` are the mesh axes that the program of one device communicates over, name to size; empty for whole
    programs.
    """

    def __init__(
        self, module: Module, axes: dict[str, int] | None = None, place: Place | None = None
    ) -> None:
        self.module, self.axes, self.place = module, axes or {}, place

    def __call__(self, *args: Value) -> list[jax.Array]:
        """The program's results as a flat list. `args`: one array per parameter."""
        if not self._has_64_bits():
            return jax.tree.leaves(self.run(self.module.entry, args))
        with jax.enable_x64(True):  # random bits count in 64, whatever JAX is set to
            return jax.tree.leaves(self.run(self.module.entry, args))

    def _has_64_bits(self) -> bool:
        return bool(self.module.select(lambda instr: instr.shape.dtype in ("s64", "u64", "f64", "c128")))

    def run(self, computation: str, args: Sequence[Value]) -> Value:
        """The value of one computation. Raises `NotImplementedError` for what JAX's public functions cannot
        say."""
        values: dict[str, Value] = {}
        for instr in self.module.computations[computation]:
            if instr.opcode == "parameter":
                value = args[int(instr.payload)]
            else:
                value = self.value(instr, [values[name] for name in instr.operands])
            values[instr.name] = self.placed(instr, value)
        return values[self.module.root(computation).name]

    def placed(self, instr: Instr, value: Value) -> Value:
        """The value after `place`; tuples consist of values that have been placed."""
        return value if self.place is None or isinstance(value, tuple) else self.place(instr, value)

    def value(self, instr: Instr, x: list[Value]) -> Value:
        """What one instruction makes of its operands."""
        op = instr.opcode
        if op in UNARY or op in BINARY:
            with jax.named_scope(instr.name):
                return (UNARY.get(op) or BINARY[op])(*x)
        if op not in _OPS:
            raise NotImplementedError(f"`{instr.name}`: no function of jax.lax says HLO's `{op}`")
        try:
            with jax.named_scope(instr.name):
                return _OPS[op](self, instr, *x)
        except (TypeError, ValueError) as error:
            error.add_note(f"in `{instr.name}`, HLO's `{op}`")
            raise

    def function(self, instr: Instr, key: str = "to_apply") -> Callable[..., Value]:
        """A computation that an instruction calls, without layouts: of scalars."""
        inner, name = Evaluator(self.module, self.axes), instr.callee(key)
        return lambda *args: inner.run(name, args)

    def reducer(self, instr: Instr) -> str | None:
        """The op that a called computation of two scalars applies; None if it is another."""
        body = self.module.computations[instr.callee("to_apply")]
        root = self.module.root(instr.callee("to_apply"))
        names = {i.name for i in body if i.opcode == "parameter"}
        return root.opcode if len(body) == 3 and set(root.operands) == names else None


def constant(_: Evaluator, instr: Instr) -> np.ndarray:
    """An array from its text."""
    dtype, words = instr.shape.numpy, re.sub(r"[{}\s]", "", instr.payload)
    if "..." in words:
        raise ValueError(
            f"the constant `{instr.name}` has no elements in the text: pass the array as an argument"
        )
    if dtype == np.bool_:
        elements: list = [word in ("true", "1") for word in words.split(",") if word]
    elif np.issubdtype(dtype, np.complexfloating):
        elements = [complex(float(a), float(b)) for a, b in re.findall(r"\(([^,]+),([^)]+)\)", words)]
    else:
        read = int if jnp.issubdtype(dtype, jnp.integer) else float
        elements = [read(word) for word in words.split(",") if word]
    with np.errstate(invalid="ignore", over="ignore"):
        return np.array(elements).astype(dtype).reshape(instr.shape.dims)


def _while(ev: Evaluator, instr: Instr, init: Value) -> Value:
    body, condition = instr.callee("body"), instr.callee("condition")
    inner = Evaluator(ev.module, ev.axes)
    return lax.while_loop(lambda x: inner.run(condition, [x]), lambda x: ev.run(body, [x]), init)


def _conditional(ev: Evaluator, instr: Instr, which: jax.Array, *args: Value) -> Value:
    """Of two branches the first is taken where the operand is true; an index out of range takes the last
    branch."""
    if "true_computation" in instr.attrs:
        names = [instr.callee("true_computation"), instr.callee("false_computation")]
    else:
        names = re.findall(r"[\w.\-]+", instr.attrs["branch_computations"])
    branches = [lambda xs, name=name, at=at: ev.run(name, [xs[at]]) for at, name in enumerate(names)]
    if which.dtype == bool:
        return lax.cond(which, *branches, args)
    last = np.int32(len(names) - 1)
    is_outside = lax.bitwise_or(lax.lt(which, np.int32(0)), lax.gt(which, last))
    return lax.switch(lax.select(is_outside, last, which), branches, args)


def _reduce(ev: Evaluator, instr: Instr, *x: jax.Array) -> Value:
    dims, n, op = instr.ints("dimensions"), len(x) // 2, ev.reducer(instr)
    if n == 1 and op in BINARY:
        return lax.reduce(x[0], x[1], BINARY[op], dims)
    apply = ev.function(instr)
    if n == 1:
        return lax.reduce(x[0], x[1], apply, dims)
    return tuple(lax.reduce(x[:n], x[n:], lambda a, b: tuple(apply(*a, *b)), dims))


def _map(ev: Evaluator, instr: Instr, *x: jax.Array) -> jax.Array:
    apply = ev.function(instr)
    for _ in range(x[0].ndim):
        apply = jax.vmap(apply)
    return apply(*x)


def _select(_: Evaluator, __: Instr, pred: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
    return lax.select(pred, a, b)


def _bitcast(_: Evaluator, instr: Instr, x: jax.Array) -> jax.Array:
    if x.dtype != instr.shape.numpy:
        return lax.bitcast_convert_type(x, instr.shape.numpy).reshape(instr.shape.dims)
    return lax.reshape(x, instr.shape.dims)


def _broadcast(_: Evaluator, instr: Instr, x: jax.Array) -> jax.Array:
    """HLO's dimensions may come in any order, those of lax ascend."""
    dims = instr.ints("dimensions")
    order = sorted(range(len(dims)), key=dims.__getitem__)
    if order != list(range(len(dims))):
        x = lax.transpose(x, order)
    return lax.broadcast_in_dim(x, instr.shape.dims, sorted(dims))


def _convert(_: Evaluator, instr: Instr, x: jax.Array) -> jax.Array:
    return lax.convert_element_type(x, instr.shape.numpy)


def _rng_bit_generator(_: Evaluator, instr: Instr, state: jax.Array) -> Value:
    shape = instr.shape.elements[1]
    how = {"rng_default": "RNG_DEFAULT", "rng_three_fry": "RNG_THREE_FRY", "rng_philox": "RNG_PHILOX"}
    algorithm = getattr(lax.RandomAlgorithm, how[instr.attrs.get("algorithm", "rng_default")])
    unsigned = np.dtype(f"uint{8 * shape.numpy.itemsize}")
    state, bits = lax.rng_bit_generator(state, shape.dims, unsigned, algorithm)
    return state, bits if shape.numpy == unsigned else lax.bitcast_convert_type(bits, shape.numpy)


def _rng(_: Evaluator, instr: Instr, low: jax.Array, high: jax.Array) -> jax.Array:
    if instr.attrs["distribution"] != "rng_uniform":
        raise NotImplementedError(f"`{instr.name}`: lax has uniform numbers only")
    return lax.rng_uniform(low, high, instr.shape.dims)


def _barrier(_: Evaluator, __: Instr, *x: Value) -> Value:
    return lax.optimization_barrier(x[0] if len(x) == 1 else x)


_OPS: dict[str, Callable[..., Value]] = {
    "after-all": lambda ev, instr, *x: (),
    "bitcast": _bitcast,
    "bitcast-convert": _bitcast,
    "broadcast": _broadcast,
    "call": lambda ev, instr, *x: ev.run(instr.callee("to_apply"), x),
    "clamp": lambda ev, instr, low, x, high: lax.clamp(low, x, high),
    "compare": lambda ev, instr, a, b: COMPARE[instr.attrs["direction"]](a, b),
    "concatenate": lambda ev, instr, *x: lax.concatenate(x, instr.int("dimensions")),
    "conditional": _conditional,
    "constant": constant,
    "convert": _convert,
    "custom-call": custom_call,
    "fusion": lambda ev, instr, *x: ev.run(instr.callee("calls"), x),
    "get-tuple-element": lambda ev, instr, x: x[instr.int("index")],
    "iota": lambda ev, instr: lax.broadcasted_iota(
        instr.shape.numpy, instr.shape.dims, instr.int("iota_dimension")
    ),
    "map": _map,
    "opt-barrier": _barrier,
    "reduce": _reduce,
    "reduce-precision": lambda ev, instr, x: lax.reduce_precision(
        x, instr.int("exponent_bits"), instr.int("mantissa_bits")
    ),
    "reshape": lambda ev, instr, x: lax.reshape(x, instr.shape.dims),
    "reverse": lambda ev, instr, x: lax.rev(x, instr.ints("dimensions")),
    "rng": _rng,
    "rng-bit-generator": _rng_bit_generator,
    "select": _select,
    "topk": lambda ev, instr, x: tuple(lax.top_k(x, instr.int("k"))),
    "transpose": lambda ev, instr, x: lax.transpose(x, instr.ints("dimensions")),
    "tuple": lambda ev, instr, *x: tuple(x),
    "while": _while,
    **collectives.OPS,
    **contract.OPS,
    **indexing.OPS,
    **windows.OPS,
}
