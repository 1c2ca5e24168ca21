"""Custom calls of HLO: changes of layout, and kernels by `jax.ffi`."""

from __future__ import annotations

import json
import re
from typing import Any

import jax
import numpy as np
from jax import lax

from .hlo import Instr, Module, Shape, parse_shape, split

_LAYOUTS = ("Sharding", "xla.sdy.FuncResultSharding", "LayoutConstraint")


def refuse_callbacks(module: Module) -> None:
    """Raises `NotImplementedError` for callbacks into Python: their functions are not in the program."""
    for instr in module.select(lambda instr: "callback" in instr.attrs.get("custom_call_target", "")):
        raise NotImplementedError(
            f"`{instr.name}` calls back into Python ({instr.attrs['custom_call_target']}), which a planned "
            "step cannot: take jax.debug.print and other callbacks out of the step"
        )


def custom_call(ev: Any, instr: Instr, *x: Any) -> Any:
    """What a custom call makes of its operands."""
    target = instr.attrs["custom_call_target"].strip('"')
    if target in _LAYOUTS:
        return x[0]
    if target in ("TopK", "mhlo.topk"):
        return tuple(lax.top_k(x[0], instr.shape.elements[0].dims[-1]))
    if target == "mhlo.erf":
        return lax.erf(x[0])
    return _kernel(instr, target, x)


def _kernel(instr: Instr, target: str, x: Any) -> Any:
    """The kernel of this name that the backend has, with the attributes and memory layouts of the text."""
    shape, config = instr.shape, instr.attrs.get("backend_config", "")
    config = json.loads(config) if config.startswith('"') else config
    parts = shape.elements
    taken = split(instr.attrs.get("operand_layout_constraints", "{}")[1:-1])
    aliases = re.findall(r"\{(\d*)\}: \((\d+), \{\}", instr.attrs.get("output_to_operand_aliasing", ""))
    typed = instr.attrs.get("api_version") == "API_VERSION_TYPED_FFI"
    call = jax.ffi.ffi_call(
        target,
        [_struct(part) for part in parts] if shape.parts else _struct(shape),
        has_side_effect=instr.flag("custom_call_has_side_effect"),
        input_layouts=[_major_first(parse_shape(text)) for text in taken] or None,
        output_layouts=[_major_first(part) for part in parts] if shape.parts else _major_first(shape),
        input_output_aliases={int(operand): int(result or 0) for result, operand in aliases},
        custom_call_api_version=4 if typed else 2,
        legacy_backend_config=None if typed else config,
    )
    done = call(*x, **_attributes(config)) if typed else call(*x)
    return tuple(done) if shape.parts else done


def _major_first(shape: Shape) -> tuple[int, ...] | None:
    """The order of dimensions in memory as `jax.ffi` takes it."""
    return None if shape.order is None else shape.order[::-1]


def _struct(shape: Shape) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape.dims, shape.numpy)


def _attributes(text: str) -> dict[str, Any]:
    """`{mode = 3 : i32, uplo = 76 : ui8}` as typed scalars, texts and truth values."""
    kinds = {"i": "int", "ui": "uint", "f": "float"}
    found: dict[str, Any] = {}
    for name, quoted, number, kind, width, flag in re.findall(
        r'(\w+) = (?:"([^"]*)"|(-?[\d.e+\-]+) : (u?i|f)(\d+)|(true|false))', text
    ):
        if kind:
            found[name] = np.dtype(f"{kinds[kind]}{width}").type(
                float(number) if kind == "f" else int(number)
            )
        else:
            found[name] = flag == "true" if flag else quoted
    return found
