"""Random inputs that make a training step worth comparing.

Adam's first moments start at zero, so that the updated moments *are* the gradients; its second
moments are nonnegative. Both are found by following the data, not by name.
"""

import re

import ml_dtypes
import numpy as np

import hlo

SHAPED = {  # elementwise in the value, or a mere change of form
    "abs", "add", "bitcast", "broadcast", "convert", "copy", "divide", "maximum", "minimum",
    "multiply", "negate", "reshape", "select", "subtract", "transpose", "tuple",
    "get-tuple-element", "opt-barrier", "concatenate", "slice", "pad", "clamp", "power",
    "custom-call",
}
FLOATS = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


class Flow:
    """What becomes of one value: does it reach a square root, is it mixed with others?"""

    def __init__(self, module):
        self.module = module
        self.names = {c: hlo.by_name(body) for c, body in module.computations.items()}
        self.users = {}
        for computation, body in module.computations.items():
            for instr in body:
                for position, operand in enumerate(instr.operands):
                    self.users.setdefault((computation, operand), []).append((instr, position))

    def uses(self, computation, name):
        return self.users.get((computation, name), [])

    def follow(self, computation, name):
        """(reaches a square root elementwise, is contracted or carried somewhere, reaches root)"""
        rooted = mixed = False
        seen, todo = {name}, [name]
        while todo:
            for user, position in self.uses(computation, todo.pop()):
                goes_on = user.opcode in SHAPED
                if user.opcode in ("sqrt", "rsqrt"):
                    rooted = True
                elif user.opcode in ("call", "fusion"):
                    callee = (user.attrs.get("to_apply") or user.attrs["calls"]).lstrip("%")
                    inner = next(i for i in self.module.computations[callee]
                                 if i.opcode == "parameter" and int(i.payload) == position)
                    sub_rooted, sub_mixed, goes_on = self.follow(callee, inner.name)
                    rooted, mixed = rooted or sub_rooted, mixed or sub_mixed
                elif not goes_on:
                    mixed = True
                if goes_on and user.name not in seen:
                    seen.add(user.name)
                    todo.append(user.name)
        return rooted, mixed, self.module.root(computation).name in seen

    def is_scalar(self, computation, name):
        """A scalar, or a scalar broadcast."""
        instr = self.names[computation][name]
        while instr.opcode in ("broadcast", "convert", "copy", "reshape") and instr.operands:
            instr = self.names[computation][instr.operands[0]]
        return instr.shape.parts is None and instr.shape.size == 1

    def only_scaled(self, computation, name):
        """Every use multiplies the value by a scalar: `m * b1` of a moment."""
        uses = self.uses(computation, name)
        scaled = []
        for user, position in uses:
            if user.opcode in ("call", "fusion"):
                callee = (user.attrs.get("to_apply") or user.attrs["calls"]).lstrip("%")
                inner = next(i for i in self.module.computations[callee]
                             if i.opcode == "parameter" and int(i.payload) == position)
                scaled.append(self.only_scaled(callee, inner.name))
            elif user.opcode in ("copy", "custom-call", "reshape", "convert"):
                scaled.append(self.only_scaled(computation, user.name))
            elif user.opcode == "multiply":
                scaled.append(self.is_scalar(computation, user.operands[1 - position]))
            else:
                scaled.append(False)
        return bool(uses) and all(scaled)


def role(flow, parameter):
    """`moment` (fed zeros), `variance` (fed >= 0) or `plain`."""
    if parameter.shape.dtype not in FLOATS:
        return "plain"
    rooted, mixed, _ = flow.follow(flow.module.entry, parameter.name)
    if rooted:
        return "variance"
    if not mixed and parameter.shape.dims and flow.only_scaled(flow.module.entry, parameter.name):
        return "moment"
    return "plain"


def inputs(module, seed=0, int_max=256, scale=0.5):
    """One whole array per entry parameter, and how many of each role there are."""
    rng = np.random.default_rng(seed)
    flow, arrays, roles = Flow(module), [], {"plain": 0, "moment": 0, "variance": 0}
    for parameter in module.parameters:
        kind = role(flow, parameter)
        roles[kind] += 1
        arrays.append(values(rng, parameter.shape, kind, int_max, scale))
    return arrays, roles


def values(rng, shape, kind, int_max, scale):
    if shape.dtype in FLOATS:
        sample = rng.uniform(-scale, scale, shape.dims)
        sample = {"plain": sample, "moment": sample * 0, "variance": np.abs(sample) * scale}[kind]
        return np.asarray(sample).astype(FLOATS[shape.dtype])
    if shape.dtype == "pred":
        return np.asarray(rng.integers(0, 2, shape.dims)).astype(bool)
    sign, width = re.fullmatch(r"([su])(\d+)", shape.dtype).groups()
    dtype = np.dtype(f"{'int' if sign == 's' else 'uint'}{width}")
    low, high = (0, int_max) if shape.dims else (1, 4)  # a scalar is a step counter
    return np.asarray(rng.integers(low, high, shape.dims)).astype(dtype)
