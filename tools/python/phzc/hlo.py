"""Reads HLO text as phzc prints it: computations of instructions with shapes, operands and attributes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import jax.numpy as jnp
import numpy as np

_DTYPES = {"pred": np.bool_, "c64": np.complex64, "c128": np.complex128, "bf16": jnp.bfloat16}
_QUOTED = r'"(?:\\.|[^"\\])*"'
_NOISE = re.compile(_QUOTED + r"|/\*.*?\*/|//[^\n]*", re.S)
_TOKEN = re.compile(_QUOTED + r"|[(){}\[\],]", re.S)
_HEAD = re.compile(r"\s*(ROOT\s+)?%?([\w.\-]+) = ")
_OPENING = re.compile(r"\s*(ENTRY\s+)?%?([\w.\-]+)\s*(?:\(.*\)\s*->.*)?\{\s*$")
_ARRAY = re.compile(r"([a-z]\w*)\[([^\]]*)\](?:\{([\d,]*)[^}]*\})?")
_LITERALS = ("parameter", "constant", "iota", "partition-id")


@dataclass(frozen=True)
class Shape:
    """An array (`dtype`, HLO's name, and `dims`) or a tuple (`parts`). `order`: its dimensions, minor first,
    where the text says them."""

    dtype: str = ""
    dims: tuple[int, ...] = ()
    parts: tuple[Shape, ...] | None = None
    order: tuple[int, ...] | None = None

    @property
    def elements(self) -> tuple[Shape, ...]:
        """The parts of a tuple; of an array, itself."""
        return (self,) if self.parts is None else self.parts

    @property
    def numpy(self) -> np.dtype:
        """The element type; raises `NotImplementedError` for types that JAX lacks."""
        if self.dtype in _DTYPES:
            return np.dtype(_DTYPES[self.dtype])
        found = re.fullmatch(r"([suf])(\d+)(\w*)", self.dtype)
        kind = {"s": "int", "u": "uint", "f": "float"}[found[1]] if found else ""
        name = f"{kind}{found[2]}{'_' if found[3] else ''}{found[3]}" if found else self.dtype
        if not hasattr(jnp, name):
            raise NotImplementedError(f"JAX has no element type `{self.dtype}`")
        return jnp.dtype(getattr(jnp, name))


@dataclass
class Instr:
    """One instruction. `payload` is what stands between its brackets, `attrs` the text of each attribute."""

    name: str
    shape: Shape
    opcode: str
    operands: list[str]
    payload: str
    attrs: dict[str, str] = field(default_factory=dict)
    is_root: bool = False

    def ints(self, key: str, default: tuple[int, ...] = ()) -> tuple[int, ...]:
        """The whole numbers of an attribute: `{0,2}` or `1`."""
        return tuple(map(int, re.findall(r"-?\d+", self.attrs[key]))) if key in self.attrs else default

    def int(self, key: str, default: int = 0) -> int:
        """The first number of an attribute."""
        return self.ints(key, (default,))[0]

    def flag(self, key: str) -> bool:
        """Whether an attribute is `true`."""
        return self.attrs.get(key) == "true"

    def callee(self, key: str) -> str:
        """The computation that an attribute names."""
        return self.attrs[key].lstrip("%")

    def note(self, name: str) -> str | None:
        """One of phzc's notes, `frontend_attributes`."""
        return _notes(self.attrs.get("frontend_attributes", "")).get(name)


@dataclass
class Module:
    """A program: its header line, and its computations in order of definition."""

    header: str
    computations: dict[str, list[Instr]]
    entry: str

    def root(self, computation: str) -> Instr:
        """The instruction whose value a computation returns."""
        body = self.computations[computation]
        return next((instr for instr in body if instr.is_root), body[-1])

    @cached_property
    def parameters(self) -> list[Instr]:
        """The entry's parameters in the order of their numbers."""
        found = [i for i in self.computations[self.entry] if i.opcode == "parameter"]
        return sorted(found, key=lambda instr: int(instr.payload))

    @cached_property
    def notes(self) -> dict[str, str]:
        """phzc's notes on the module."""
        return _notes(self.header)

    def select(self, is_wanted: Callable[[Instr], bool]) -> list[Instr]:
        """The instructions of all computations that a predicate holds for."""
        return [instr for body in self.computations.values() for instr in body if is_wanted(instr)]


def parse(text: str) -> Module:
    """Reads a module; lines that are neither instruction nor computation are skipped."""
    text = _NOISE.sub(lambda found: found[0] if found[0][0] == '"' else "", text)
    computations: dict[str, list[Instr]] = {}
    body: list[Instr] | None = None
    header, entry, pending = "", "", ""
    for line in text.split("\n"):
        if body is None:
            opening = _OPENING.match(line)
            if line.startswith("HloModule"):
                header = line
            elif opening:
                body = computations.setdefault(opening[2], [])
                entry = opening[2] if opening[1] or not entry else entry
            continue
        if not pending and line.strip() == "}":
            body = None
            continue
        pending = f"{pending}\n{line}" if pending else line
        if _depth(pending) > 0:
            continue
        head = _HEAD.match(pending)
        if head:
            body.append(_instr(head, pending[head.end() :]))
        pending = ""
    return Module(header, computations, entry)


def split(text: str) -> list[str]:
    """The parts between commas that stand in no bracket."""
    parts, depth, start = [], 0, 0
    for token in _TOKEN.finditer(text):
        if token[0] in "([{":
            depth += 1
        elif token[0] in ")]}":
            depth -= 1
        elif token[0] == "," and depth == 0:
            parts.append(text[start : token.start()])
            start = token.end()
    return [part for part in (part.strip() for part in [*parts, text[start:]]) if part]


def parse_shape(text: str) -> Shape:
    """Reads `f32[8,16]{1,0}` or a tuple of shapes."""
    text = text.strip()
    if text.startswith("("):
        return Shape(parts=tuple(map(parse_shape, split(text[1 : _closing(text, 0) - 1]))))
    found = _ARRAY.match(text)
    if not found:
        raise ValueError(f"`{text[:80]}` is no shape of HLO")
    order = None if found[3] is None else _ints(found[3])
    return Shape(found[1], _ints(found[2]), order=order)


def _ints(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)))


def _instr(head: re.Match[str], rest: str) -> Instr:
    end = _closing(rest, 0) if rest.startswith("(") else rest.index(" ")
    shape, rest = parse_shape(rest[:end]), rest[end:].lstrip()
    opcode = rest.partition("(")[0]
    end = _closing(rest, len(opcode))
    payload = rest[len(opcode) + 1 : end - 1]
    operands = []
    if opcode not in _LITERALS:
        operands = [part.split()[-1].lstrip("%") for part in split(payload)]
    pairs = (part.partition("=") for part in split(rest[end:]))
    return Instr(head[2], shape, opcode, operands, payload, {k: v for k, _, v in pairs}, bool(head[1]))


def _closing(text: str, start: int) -> int:
    """The index just after the bracket that closes `text[start]`."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        depth += (token[0] in "([{") - (token[0] in ")]}")
        if depth == 0 and token[0] != ",":
            return token.end()
    raise ValueError(f"no closing bracket: {text[start : start + 80]}")


def _depth(text: str) -> int:
    text = re.sub(_QUOTED, "", text)
    return sum(map(text.count, "([{")) - sum(map(text.count, ")]}"))


def _notes(text: str) -> dict[str, str]:
    found = re.findall(r'(phzc\.\w+)="((?:\\.|[^"\\])*)"', text)
    return {name: value.replace('\\"', '"').replace("\\\\", "\\") for name, value in found}
