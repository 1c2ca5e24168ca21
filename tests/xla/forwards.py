"""Small forward programs in JAX whose gradients are compared: a function of parameters and data, and shapes of both."""

import jax
import jax.numpy as jnp
from jax import lax, nn

PROGRAMS = {}


def program(params, batch):
    """Registers a loss: parameters are shapes, data are shapes of floats or (shape, highest integer + 1)."""
    def add(function):
        PROGRAMS[function.__name__] = (function, params, batch)
        return function
    return add


def cross_entropy(logits, labels):
    picked = jnp.take_along_axis(nn.log_softmax(logits), labels[..., None], -1)
    return -jnp.mean(picked)


@program({"w1": (8, 16), "b1": (16,), "w2": (16, 5)}, {"x": (6, 8), "labels": ((6,), 5)})
def mlp(p, batch):
    return cross_entropy(nn.relu(batch["x"] @ p["w1"] + p["b1"]) @ p["w2"], batch["labels"])


@program({"k1": (3, 3, 3, 4), "scale": (4,), "shift": (4,), "k2": (3, 3, 2, 8), "w": (8, 5)},
         {"x": (2, 9, 9, 3), "labels": ((2,), 5)})
def convolutions(p, batch):
    spec = ("NHWC", "HWIO", "NHWC")
    x = lax.conv_general_dilated(batch["x"], p["k1"], (2, 2), "SAME", dimension_numbers=spec)
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    x = nn.relu((x - mean) * lax.rsqrt(variance + 1e-5) * p["scale"] + p["shift"])
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    x = lax.conv_general_dilated(x, p["k2"], (1, 1), ((1, 1), (1, 1)), rhs_dilation=(2, 1), dimension_numbers=spec,
                                 feature_group_count=2)
    return cross_entropy(x.mean((1, 2)) @ p["w"], batch["labels"])


def rotated(x):
    seq, half = x.shape[1], x.shape[3] // 2
    angle = jnp.arange(seq)[:, None] * jnp.exp(-jnp.arange(half) / half)
    cos, sin = jnp.cos(angle)[None, :, None], jnp.sin(angle)[None, :, None]
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def attention(p, x, heads):
    batch, seq, hidden = x.shape
    q, k, v = (part.reshape(batch, seq, heads, -1) for part in jnp.split(x @ p["qkv"], 3, -1))
    scores = jnp.einsum("bqhd,bkhd->bhqk", rotated(q), rotated(k)) / 2.0
    scores = jnp.where(jnp.tril(jnp.ones((seq, seq), bool)), scores, -1e9)
    return jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(scores), v).reshape(batch, seq, hidden) @ p["out"]


def rms_norm(scale, x):
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale


BLOCK = {"norm": (8,), "qkv": (8, 24), "out": (8, 8), "up": (8, 32), "gate": (8, 32), "down": (32, 8)}


def block(p, x):
    x = x + attention(p, rms_norm(p["norm"], x), 2)
    return x + (nn.silu(x @ p["gate"]) * (x @ p["up"])) @ p["down"]


@program({"embed": (11, 8), **BLOCK}, {"tokens": ((2, 6), 11)})
def transformer(p, batch):
    x = block(p, p["embed"][batch["tokens"]])
    return cross_entropy(x[:, :-1] @ p["embed"].T, batch["tokens"][:, 1:])


@program({"embed": (11, 8), **{name: (3, *shape) for name, shape in BLOCK.items()}}, {"tokens": ((2, 6), 11)})
def scanned_layers(p, batch):
    layers = {name: p[name] for name in BLOCK}
    x, norms = lax.scan(lambda x, layer: (block(layer, x), jnp.sum(x * x)), p["embed"][batch["tokens"]], layers)
    return cross_entropy(x[:, :-1] @ p["embed"].T, batch["tokens"][:, 1:]) + 1e-3 * jnp.sum(norms)


@program({"w": (4, 4), "u": (3, 4)}, {"x": (5, 2, 3)})
def recurrent(p, batch):
    def step(state, x):
        return jnp.tanh(state @ p["w"] + x @ p["u"]), state
    state, states = lax.scan(step, jnp.zeros((2, 4)), batch["x"], reverse=True)
    return jnp.sum(jnp.sin(states)) + jnp.sum(state ** 2)


@program({"table": (7, 4), "other": (7, 4)}, {"ids": ((5,), 7), "into": ((5,), 6)})
def gather_and_scatter(p, batch):
    rows = p["table"][batch["ids"]]
    spread = jnp.zeros((6, 4)).at[batch["into"]].add(rows * p["other"][batch["into"]])
    return jnp.sum(jnp.tanh(spread)) + jnp.sum(p["table"][2:5, 1] * p["other"][1, 0])


@program({"route": (8, 4), "up": (4, 8, 16), "down": (4, 16, 8)}, {"x": (12, 8)})
def experts(p, batch):
    x = batch["x"]
    gates = nn.softmax(x @ p["route"])
    values, chosen = lax.top_k(gates, 2)
    mask = nn.one_hot(chosen, 4)
    place = jnp.cumsum(mask.sum(1), 0) * mask.sum(1) - 1
    dispatch = nn.one_hot(place, 8) * mask.sum(1)[..., None]
    combine = dispatch * jnp.einsum("tk,tke->te", values / values.sum(-1, keepdims=True), mask)[..., None]
    inside = jnp.einsum("tec,th->ech", dispatch, x)
    made = jnp.einsum("ecf,efh->ech", nn.gelu(jnp.einsum("ech,ehf->ecf", inside, p["up"])), p["down"])
    return jnp.mean(jnp.einsum("tec,ech->th", combine, made) ** 2) + jnp.sum(gates.mean(0) * mask.sum(1).mean(0))


@program({"a": (6, 5), "b": (6, 5)}, {"x": (6, 5)})
def functions(p, batch):
    a, b = p["a"], p["b"] + batch["x"]
    parts = [nn.gelu(a, approximate=False), nn.gelu(b), nn.softplus(a) * jnp.cos(b), jnp.exp(-a ** 2), a ** 3 / (1.5 + b),
             jnp.maximum(a, b), jnp.clip(b, -0.2, 0.2), jnp.abs(a) ** 1.5, jnp.log1p(b ** 2), jnp.sign(a) * a,
             jnp.arctan2(a, 1 + b), jnp.sqrt(1 + a * b) - jnp.expm1(b), nn.sigmoid(a) * jnp.sin(b), jnp.where(a > b, a * b, b)]
    return sum(jnp.sum(jnp.sin(part * (1 + index))) for index, part in enumerate(parts))


@program({"x": (4, 7), "w": (7,)}, {})
def orders_and_sums(p, _):
    x = p["x"] * p["w"]
    return (jnp.sum(jnp.cumsum(x, 1) ** 2) + nn.logsumexp(x) + jnp.sum(jnp.sort(x, 1) * jnp.arange(7.0))
            + jnp.sum(jnp.max(x, 1)) + jnp.prod(1 + x[0]) + jnp.sum(jnp.roll(x, 2, 1)[:, ::2] ** 2))


@program({"w": (4, 4), "b": (4,)}, {"x": (3, 4)})
def loop_in_loop(p, batch):
    def inner(_, x):
        return jnp.tanh(x @ p["w"] + p["b"])
    def outer(i, x):
        return lax.fori_loop(0, 2, inner, x) * (1 + 0.1 * i) + x
    return jnp.sum(lax.fori_loop(0, 3, outer, batch["x"]) ** 2)


@program({"w": (4, 4), "v": (4, 4)}, {"x": (3, 4)})
def branches(p, batch):
    x = batch["x"] @ p["w"]
    x = lax.cond(jnp.sum(x) > 0, lambda x: jnp.sin(x @ p["v"]), lambda x: x * 2, x)
    return jnp.sum(x ** 2)


def named(params):
    """Parameters under one name, as JAX flattens them."""
    return {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in params.items()}


def data(batch):
    return {name: jax.ShapeDtypeStruct(*((shape, jnp.float32) if not isinstance(shape[0], tuple) else (shape[0], jnp.int32)))
            for name, shape in batch.items()}


def hlo(name):
    """The forward program's HLO text; its parameters are `params__…`, its data `batch__…`."""
    function, params, batch = PROGRAMS[name]

    def loss(params, batch):
        return function(params, batch)
    return jax.jit(loss, keep_unused=True).lower(named(params), data(batch)).as_text(dialect="hlo")
