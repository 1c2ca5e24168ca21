"""Replays StableHLO op by op with jax.lax, so that jax.grad can differentiate any program. Loops and branches are Python's."""

import re

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src.interpreters import mlir
from jaxlib import _jax
from jaxlib.mlir import ir

import xla

DTYPES = {"i1": np.bool_, "i8": np.int8, "i32": np.int32, "i64": np.int64, "ui32": np.uint32, "ui8": np.uint8, "ui64": np.uint64,
         "f32": np.float32, "f64": np.float64, "bf16": jnp.bfloat16, "f16": np.float16}


class Replay:
    """A program as a function of arrays that jax can differentiate; it returns a flat list."""

    def __init__(self, text):
        proto = xla.parse(text).as_serialized_hlo_module_proto()
        self.context = mlir.make_ir_context()
        with self.context:
            self.module = ir.Module.parse(_jax.mlir.hlo_to_stablehlo(proto))
        self.functions = {str(f.attributes["sym_name"]).strip('"'): f for f in self.module.body.operations}

    def __call__(self, *args):
        with self.context:
            return self.block(self.functions["main"].regions[0].blocks[0], args, {})

    def block(self, block, args, outer):
        values = dict(outer)
        values.update(zip(map(key, block.arguments), args, strict=True))
        for op in block.operations:
            operands = [values[key(x)] for x in op.operands]
            if op.name in ("func.return", "stablehlo.return"):
                return operands
            results = self.op(op, operands, values)
            results = results if isinstance(results, (list, tuple)) else [results]
            values.update(zip(map(key, op.results), results, strict=True))
        raise ValueError("a block without a return")

    def op(self, op, x, values):
        name = op.name.split(".", 1)[1] if op.name != "func.call" else "call"
        if name == "call":
            callee = str(op.attributes["callee"]).lstrip("@").strip('"')
            return self.block(self.functions[callee].regions[0].blocks[0], x, {})
        if name == "while":
            condition, body = (region.blocks[0] for region in op.regions)
            while bool(self.block(condition, x, values)[0]):
                x = self.block(body, x, values)
            return x
        if name in ("case", "if"):
            last = len(op.regions) - 1
            taken = (0 if bool(x[0]) else 1) if name == "if" else min(max(int(x[0]), 0), last)
            if name == "case" and int(x[0]) < 0:
                taken = last
            return self.block(op.regions[taken].blocks[0], [], values)
        if name == "optimization_barrier":
            return x
        if name not in OPS:
            raise NotImplementedError(f"no replay for {op.name}")
        return OPS[name](Op(self, op, values), *x)

    def applied(self, op, region=0):
        """The opcode that a region of scalars applies to its two arguments."""
        return op.regions[region].blocks[0].operations[0].name.removeprefix("stablehlo.")


def key(value):
    return value.get_name()


class Op:
    """An operation's attributes, as Python values."""

    def __init__(self, replay, op, values):
        self.replay, self.op, self.values = replay, op, values

    def ints(self, name, default=None):
        if name not in self.op.attributes:
            return default
        attribute = self.op.attributes[name]
        if isinstance(attribute, ir.DenseElementsAttr) or "dense<" in str(attribute):
            return np.array(ir.DenseIntElementsAttr(attribute))
        return [int(i) for i in attribute]

    def int(self, name, default=0):
        return ir.IntegerAttr(self.op.attributes[name]).value if name in self.op.attributes else default

    def text(self, name):
        return str(self.op.attributes[name])

    def result(self, index=0):
        kind = ir.RankedTensorType(self.op.results[index].type)
        return tuple(kind.shape), DTYPES[str(kind.element_type)]

    def function(self, region=0):
        block = self.op.regions[region].blocks[0]
        return lambda *args: self.replay.block(block, args, self.values)


def constant(op):
    shape, dtype = op.result()
    attribute = op.op.attributes["value"]
    if dtype in (np.bool_, jnp.bfloat16, np.float16):
        reader = ir.DenseIntElementsAttr if dtype is np.bool_ else ir.DenseFPElementsAttr
        return np.array([float(v) for v in reader(attribute)]).reshape(shape).astype(dtype)
    return np.array(ir.DenseElementsAttr(attribute)).astype(dtype).reshape(shape)


def dot(op, a, b):
    numbers = parse_dims(op.text("dot_dimension_numbers"))
    get = lambda name: numbers.get(name, ())
    return lax.dot_general(a, b, ((get("lhs_contracting_dimensions"), get("rhs_contracting_dimensions")),
                                  (get("lhs_batching_dimensions"), get("rhs_batching_dimensions"))),
                           precision=lax.Precision.HIGHEST, preferred_element_type=op.result()[1])


def parse_dims(text):
    """`name = [1, 2]` and `name = 3` of a printed attribute."""
    found = {}
    for name, values, single in re.findall(r"(\w+) = (?:\[([^\]]*)\]|(\d+))", text):
        found[name] = int(single) if single else tuple(int(v) for v in values.split(",") if v.strip())
    return found


def convolution(op, a, b):
    text = re.search(r"<(\[.*\])>", op.text("dimension_numbers"))[1]
    parts = re.findall(r"\[([^\]]*)\]", text)
    spec = ["".join({"b": "N", "f": "C", "o": "O", "i": "I"}.get(c.strip(), c.strip()) for c in part.split(",")) for part in parts]
    n = a.ndim - 2
    reversal = op.op.attributes["window_reversal"] if "window_reversal" in op.op.attributes else []
    turned = [spec[1].index(str(d)) for d, is_turned in enumerate(reversal) if is_turned]
    b = lax.rev(b, turned) if turned else b
    padding = op.ints("padding")
    return lax.conv_general_dilated(
        a, b, op.ints("window_strides", [1] * n), [(0, 0)] * n if padding is None else padding.reshape(n, 2).tolist(),
        op.ints("lhs_dilation", [1] * n), op.ints("rhs_dilation", [1] * n), tuple(spec),
        op.int("feature_group_count", 1), op.int("batch_group_count", 1), precision=lax.Precision.HIGHEST)


def reduce(op, *x):
    n = len(x) // 2
    dims = tuple(op.ints("dimensions"))
    applied = op.replay.applied(op.op)
    known = {"add": jnp.sum, "maximum": jnp.max, "minimum": jnp.min, "multiply": jnp.prod, "and": jnp.all, "or": jnp.any}
    if n == 1 and applied in known and len(op.op.regions[0].blocks[0].operations) == 2:
        if applied == "maximum":
            return lax.reduce_max(x[0], dims)
        return known[applied](x[0], axis=dims).astype(x[0].dtype)
    return lax.reduce(tuple(lax.stop_gradient(v) for v in x[:n]), tuple(x[n:]), lambda a, b: tuple(op.function()(*a, *b)), dims)


def reduce_window(op, x, init):
    n = x.ndim
    one = [1] * n
    padding = op.ints("padding")
    args = (op.ints("window_dimensions"), op.ints("window_strides", one),
            [(0, 0)] * n if padding is None else [tuple(p) for p in padding.reshape(n, 2).tolist()],
            op.ints("base_dilations", one), op.ints("window_dilations", one))
    applied = op.replay.applied(op.op)
    function = {"add": lax.add, "maximum": lax.max, "minimum": lax.min}[applied]
    start = {"add": 0.0, "maximum": -np.inf, "minimum": np.inf}[applied]
    if np.issubdtype(x.dtype, np.integer):
        start = int(init)
    return lax.reduce_window(x, np.asarray(start, x.dtype)[()], function, *args)


def gather(op, x, indices):
    numbers = parse_dims(op.text("dimension_numbers"))
    indices = last_index(indices, numbers.get("index_vector_dim", 0))
    get = lambda name: numbers.get(name, ())
    dims = lax.GatherDimensionNumbers(get("offset_dims"), get("collapsed_slice_dims"), get("start_index_map"),
                                      get("operand_batching_dims"), get("start_indices_batching_dims"))
    return lax.gather(x, indices, dims, op.ints("slice_sizes"), mode="clip")


def last_index(indices, dim):
    if dim == indices.ndim:
        return indices[..., None]
    return jnp.moveaxis(indices, dim, -1)


def scatter(op, x, indices, updates):
    numbers = parse_dims(op.text("scatter_dimension_numbers"))
    indices = last_index(indices, numbers.get("index_vector_dim", 0))
    get = lambda name: numbers.get(name, ())
    dims = lax.ScatterDimensionNumbers(get("update_window_dims"), get("inserted_window_dims"), get("scatter_dims_to_operand_dims"),
                                       get("input_batching_dims"), get("scatter_indices_batching_dims"))
    applied = op.replay.applied(op.op)
    function = lax.scatter_add if applied == "add" else lax.scatter
    return function(x, indices, updates, dims, mode="drop", unique_indices=applied != "add")


def compare(op, a, b):
    way = re.search(r"(EQ|NE|LT|LE|GT|GE)", op.text("comparison_direction"))[1]
    return {"EQ": lax.eq, "NE": lax.ne, "LT": lax.lt, "LE": lax.le, "GT": lax.gt, "GE": lax.ge}[way](a, b)


def sort(op, *x):
    """Ascending or descending by the first array, whatever the comparator does about NaN."""
    along, keys = op.int("dimension"), x[0]
    body = str(op.op.regions[0])
    down = " GT" in body and " LT" not in body
    order = jnp.argsort(lax.stop_gradient(keys), axis=along, stable=True, descending=down)
    return [jnp.take_along_axis(v, order, axis=along) for v in x]


def pad(op, x, value):
    triples = list(zip(op.ints("edge_padding_low"), op.ints("edge_padding_high"), op.ints("interior_padding"), strict=True))
    return lax.pad(x, value, triples)


def custom_call(op, *x):
    target = op.text("call_target_name").strip('"')
    if target in ("Sharding",):
        return x[0]
    if target == "mhlo.erf":
        return lax.erf(x[0])
    if target == "mhlo.topk":
        return top_k(op, x[0])
    raise NotImplementedError(f"no replay for custom call {target}")


def top_k(op, x):
    return list(lax.top_k(x, op.result()[0][-1]))


def convert(op, x):
    return lax.convert_element_type(x, op.result()[1])


UNARY = {"abs": lax.abs, "negate": lax.neg, "exponential": lax.exp, "exponential_minus_one": lax.expm1, "log": lax.log,
         "log_plus_one": lax.log1p, "tanh": lax.tanh, "tan": lax.tan, "sqrt": lax.sqrt, "rsqrt": lax.rsqrt, "cbrt": lax.cbrt,
         "logistic": lax.logistic, "sine": lax.sin, "cosine": lax.cos, "floor": lax.floor, "ceil": lax.ceil, "sign": lax.sign,
         "not": lax.bitwise_not, "is_finite": lax.is_finite, "erf": lax.erf, "round_nearest_even": jnp.round,
         "popcnt": lax.population_count}
BINARY = {"add": lax.add, "subtract": lax.sub, "multiply": lax.mul, "divide": lax.div, "maximum": lax.max, "minimum": lax.min,
          "power": lax.pow, "remainder": lax.rem, "atan2": lax.atan2, "and": lax.bitwise_and, "or": lax.bitwise_or,
          "xor": lax.bitwise_xor, "shift_left": lax.shift_left, "shift_right_logical": lax.shift_right_logical,
          "shift_right_arithmetic": lax.shift_right_arithmetic}
OPS = {
    **{name: (lambda op, x, f=f: f(x)) for name, f in UNARY.items()},
    **{name: (lambda op, a, b, f=f: f(a, b)) for name, f in BINARY.items()},
    "constant": constant,
    "iota": lambda op: lax.broadcasted_iota(op.result()[1], op.result()[0], op.int("iota_dimension")),
    "convert": convert,
    "select": lambda op, p, a, b: lax.select(jnp.broadcast_to(p, a.shape), a, b),
    "clamp": lambda op, low, x, high: lax.clamp(low, x, high),
    "compare": compare,
    "reshape": lambda op, x: lax.reshape(x, op.result()[0]),
    "broadcast_in_dim": lambda op, x: lax.broadcast_in_dim(x, op.result()[0], op.ints("broadcast_dimensions")),
    "transpose": lambda op, x: lax.transpose(x, op.ints("permutation")),
    "slice": lambda op, x: lax.slice(x, op.ints("start_indices"), op.ints("limit_indices"), op.ints("strides")),
    "pad": pad,
    "concatenate": lambda op, *x: lax.concatenate(x, op.int("dimension")),
    "reverse": lambda op, x: lax.rev(x, op.ints("dimensions")),
    "dot": lambda op, a, b: lax.dot_general(a, b, (((a.ndim - 1,), (0,)), ((), ())), precision=lax.Precision.HIGHEST,
                                            preferred_element_type=op.result()[1]),
    "dot_general": dot,
    "convolution": convolution,
    "reduce": reduce,
    "reduce_window": reduce_window,
    "gather": gather,
    "scatter": scatter,
    "dynamic_slice": lambda op, x, *starts: lax.dynamic_slice(x, starts, op.ints("slice_sizes")),
    "dynamic_update_slice": lambda op, x, update, *starts: lax.dynamic_update_slice(x, update, starts),
    "sort": sort,
    "top_k": top_k,
    "topk": top_k,
    "custom_call": custom_call,
    "bitcast_convert": lambda op, x: lax.bitcast_convert_type(x, op.result()[1]),
}
