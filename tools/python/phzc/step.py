"""A user's step as a function of flat arrays, and its StableHLO text for `phzc`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import dtypes
from jax.tree_util import keystr, tree_flatten_with_path, tree_unflatten

PyTree = Any
_KERNELS = re.compile(r"stablehlo\.custom_call @(?!Sharding|xla\.sdy|mhlo\.|chlo\.|TopK|annotate_device)")


@dataclass
class Leaf:
    """One leaf of a pytree. `path`: its key path; `aval`: its type, None for what is no array and stays as it
    is."""

    path: str
    aval: Any  # jax.ShapeDtypeStruct or None
    static: Any = None
    key_impl: Any = None  # of arrays of typed random keys, which travel as their bits
    is_donated: bool = False

    @property
    def raw(self) -> jax.ShapeDtypeStruct:
        """The type of the array that travels."""
        if self.key_impl is None:
            return self.aval
        return jax.eval_shape(jax.random.key_data, self.aval)

    def check(self, value: Any) -> None:
        """Raises `TypeError` where a value is not what was planned for."""
        if self.aval is None:
            if isinstance(value, (str, int, float)) and value != self.static:
                raise TypeError(f"`{self.path}` is {value!r}, a constant of the plan is {self.static!r}")
            return
        shape, dtype = np.shape(value), getattr(value, "dtype", None)
        if shape != self.aval.shape:
            raise TypeError(f"`{self.path}` has the shape {shape}, the plan is for {self.aval.shape}")
        if (
            dtype is not None
            and self.key_impl is None
            and dtypes.canonicalize_dtype(dtype) != self.aval.dtype
        ):
            raise TypeError(f"`{self.path}` is of {dtype}, the plan is for {self.aval.dtype}")

    def to_raw(self, value: Any) -> Any:
        """The array that travels for a value."""
        return value if self.key_impl is None else jax.random.key_data(value)

    def from_raw(self, value: Any) -> Any:
        """The value of an array that has travelled."""
        return value if self.key_impl is None else jax.random.wrap_key_data(value, impl=self.key_impl)


@dataclass
class Side:
    """The arguments or the results: leaves in order, and how they make a pytree."""

    leaves: list[Leaf]
    tree: Any

    @property
    def arrays(self) -> list[Leaf]:
        """The leaves that are arrays."""
        return [leaf for leaf in self.leaves if leaf.aval is not None]

    def unflatten(self, values: Sequence[Any], static: Callable[[Leaf], Any]) -> PyTree:
        """A pytree with one value per array, and what `static` says for every other leaf."""
        given = iter(values)
        return tree_unflatten(
            self.tree, [next(given) if x.aval is not None else static(x) for x in self.leaves]
        )


@dataclass
class Step:
    """A step that has been traced.

    `text`: its StableHLO, with a parameter per array that it reads; `used`: the numbers of these arrays among
    the arguments' arrays, in the order of the parameters.
    """

    name: str
    inputs: Side
    outputs: Side
    text: str = field(repr=False)
    used: list[int] = field(repr=False)

    def flatten(self, args: tuple) -> list[Any]:
        """The arrays of arguments, as they travel. Raises `TypeError` where they are not like those planned
        for."""
        found, tree = tree_flatten_with_path(args)
        if tree != self.inputs.tree:
            raise TypeError(f"the arguments are {tree}, the plan is for {self.inputs.tree}")
        pairs = list(zip(self.inputs.leaves, (value for _, value in found), strict=True))
        for leaf, value in pairs:
            leaf.check(value)
        return [leaf.to_raw(value) for leaf, value in pairs if leaf.aval is not None]


def trace(
    fn: Callable,
    args: tuple,
    donate_argnums: Sequence[int] | None = None,
    static_argnums: Sequence[int] = (),
    named: Callable[[tuple], str] | None = None,
) -> Step:
    """Traces and lowers `fn(*args)` by `jax.jit(...).lower`.

    `args` hold arrays, or `jax.ShapeDtypeStruct` in place of arrays. Leaves that are no arrays (functions,
    strings) are constants of the step, and so is all of `static_argnums`. Arguments that `donate_argnums`
    names, or that a jitted `fn` donates, are donated. `named` writes key paths of `args` for a person.
    """
    inputs = _inputs(args, static_argnums, named or by_argument(argument_names(fn, len(args))))
    _mark_donated(inputs, fn, args, donate_argnums)
    results: list[PyTree] = []

    def flat(*raw: Any) -> list[Any]:
        values = [leaf.from_raw(x) for leaf, x in zip(inputs.arrays, raw, strict=True)]
        out = fn(*inputs.unflatten(values, lambda leaf: leaf.static))
        results[:] = [out]
        pairs = zip(_side(out, "").leaves, jax.tree.leaves(out), strict=True)
        return [leaf.to_raw(value) for leaf, value in pairs if leaf.aval is not None]

    flat.__name__ = name = re.sub(r"\W", "_", getattr(fn, "__name__", "step"))
    types = [leaf.raw for leaf in inputs.arrays]
    jax.eval_shape(flat, *types)
    outputs = _side(results[0], "result")
    donated = [at for at, leaf in enumerate(inputs.arrays) if leaf.is_donated] or _state(args, results[0])
    text, used = _lowered(flat, types, donated, [leaf.path for leaf in inputs.arrays])
    return Step(name, inputs, outputs, text, used)


def _lowered(flat: Callable, types: list, donated: list[int], paths: list[str]) -> tuple[str, list[int]]:
    """The program's text, and which array each of its parameters is: JAX leaves out what nothing reads."""
    lowered = jax.jit(flat, donate_argnums=donated).lower(*types)
    text = lowered.as_text(debug_info=True)
    used = _parameters(text)
    if len(used) != _n_parameters(text):
        lowered = jax.jit(flat, donate_argnums=donated, keep_unused=True).lower(*types)
        text, used = lowered.as_text(debug_info=True), list(range(len(types)))
    if _KERNELS.search(text):  # their attributes and memory layouts are in HLO's text alone
        return _renamed_hlo(lowered.as_text("hlo"), paths), used
    return _renamed(text, paths), used


def _inputs(args: tuple, static_argnums: Sequence[int], named: Callable[[tuple], str]) -> Side:
    side = _side(args, "")
    for leaf, (path, value) in zip(side.leaves, tree_flatten_with_path(args)[0], strict=True):
        leaf.path = named(path)
        if path[0].idx in static_argnums:
            leaf.aval, leaf.static = None, value
    return side


def by_argument(names: list[str]) -> Callable[[tuple], str]:
    """Writes key paths with the names of arguments: `params['up']`."""
    return lambda path: names[path[0].idx] + keystr(path[1:])


def _side(tree: PyTree, prefix: str) -> Side:
    found, structure = tree_flatten_with_path(tree)
    return Side([_leaf(prefix + keystr(path), value) for path, value in found], structure)


def _leaf(path: str, value: Any) -> Leaf:
    if isinstance(value, (bool, int, float, complex, np.generic)):
        value = jnp.asarray(value)
    if not (hasattr(value, "shape") and hasattr(value, "dtype")):
        return Leaf(path, None, value)
    weak = bool(getattr(value, "weak_type", False))
    aval = jax.ShapeDtypeStruct(value.shape, value.dtype, weak_type=weak)
    return Leaf(path, aval, key_impl=_key_impl(aval))


def _key_impl(aval: jax.ShapeDtypeStruct) -> Any:
    """The generator of typed random keys; None of other arrays."""
    if not jnp.issubdtype(aval.dtype, jax.dtypes.prng_key):
        return None
    found: list[Any] = []
    jax.eval_shape(lambda keys: found.append(jax.random.key_impl(keys)), aval)
    return found[0]


def argument_names(fn: Callable, count: int) -> list[str]:
    """The names of positional arguments, by the function's signature."""
    try:
        names = list(inspect.signature(fn).bind(*range(count)).arguments.items())
    except (TypeError, ValueError):
        return [f"args[{at}]" for at in range(count)]
    spread = [
        [name] if not isinstance(at, tuple) else [f"{name}[{k}]" for k in range(len(at))]
        for name, at in names
    ]
    return [name for group in spread for name in group]


def _mark_donated(inputs: Side, fn: Callable, args: tuple, donate_argnums: Sequence[int] | None) -> None:
    """By the user's numbers, or by what a jitted function says of itself."""
    if donate_argnums is None and hasattr(fn, "trace"):
        infos = jax.tree.leaves(fn.trace(*args).args_info, is_leaf=lambda x: hasattr(x, "donated"))
        if len(infos) == len(inputs.leaves):
            for leaf, info in zip(inputs.leaves, infos, strict=True):
                leaf.is_donated = info.donated
        return
    sizes = [len(jax.tree.leaves(arg)) for arg in args]
    owners = [at for at, size in enumerate(sizes) for _ in range(size)]
    for leaf, owner in zip(inputs.leaves, owners, strict=True):
        leaf.is_donated = leaf.aval is not None and owner in tuple(donate_argnums or ())


def _state(args: tuple, result: PyTree) -> list[int]:
    """The numbers of the arrays of arguments that results take the place of: containers that come back alike.

    A plan needs to know them (microbatches, ZeRO), also where the caller keeps the old ones.
    """
    free = [_kind(part) for part in (result if isinstance(result, tuple) else (result,))]
    numbers: list[int] = []
    at = 0
    for arg in args:
        kind = _kind(arg)
        if kind in free and not jax.tree_util.all_leaves([arg]):
            free.remove(kind)
            numbers += range(at, at + len(kind[1]))
        at += len(kind[1])
    return numbers


def _kind(tree: PyTree) -> tuple[Any, list]:
    side = _side(tree, "")
    return side.tree, _types(side.arrays)


def is_like(part: list[Leaf], tree: PyTree) -> bool:
    """Whether leaves are those of a pytree: as many, with the same shapes and types."""
    return _types(part) == _types(_side(tree, "").leaves)


def _types(leaves: list[Leaf]) -> list:
    return [leaf.aval if leaf.aval is None else (leaf.aval.shape, leaf.aval.dtype) for leaf in leaves]


def _parameters(text: str) -> list[int]:
    """Which argument each parameter of `main` is, by the names that JAX gives parameters: `raw[3]`."""
    names = dict(re.findall(r'^(#loc\d+) = loc\("raw\[(\d+)\]"', text, re.M))
    header = _header(text)
    found = re.findall(r'%arg\d+: .*?loc\((?:"raw\[(\d+)\]"|(#loc\d+))', header)
    numbers = [direct or names.get(alias, "") for direct, alias in found]
    return [int(number) for number in numbers if number]


def _n_parameters(text: str) -> int:
    return len(re.findall(r"%arg\d+: ", _header(text)))


def _header(text: str) -> str:
    """The line that declares `main`."""
    return next(line for line in text.split("\n") if "func.func public @main(" in line)


def _renamed(text: str, paths: list[str]) -> str:
    """The text with the user's names for parameters."""
    quoted = [path.replace("\\", "\\\\").replace('"', '\\"') for path in paths]
    return re.sub(r'loc\("raw\[(\d+)\]"', lambda found: f'loc("{quoted[int(found[1])]}"', text)


def _renamed_hlo(text: str, paths: list[str]) -> str:
    """The same of HLO's text, where a name is a word."""
    words = [re.sub(r"\W", "_", path) for path in paths]
    return re.sub(r"\braw_(\d+)_", lambda found: f"{words[int(found[1])]}.{found[1]}", text)
