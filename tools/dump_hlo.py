#!/usr/bin/env python3
"""Writes the HLO text of a training step of a small transformer, in plain JAX.

    dump_hlo.py gpt --layers 2 --hidden 64 -o gpt.ir
    dump_hlo.py llama --layers 4 --kv-heads 2 --loop scan --dtype bf16 -o llama.ir
    dump_hlo.py mlp --layers 3 --hidden 1024 -o mlp.ir
    dump_hlo.py moe --experts 8 -o moe.ir

The step is forward, backward and AdamW; parameters, moments and the step counter are donated.
Needs `pip install -r tools/requirements.txt`; no accelerator and no weights, only shapes.
"""

import argparse
import functools
import os
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

LEARNING_RATE, BETA1, BETA2, EPSILON, DECAY = 1e-3, 0.9, 0.999, 1e-8, 0.01


# ---- layers -----------------------------------------------------------------------------------

def layer_norm(p, x):
    x = x.astype(jnp.float32)
    mean = jnp.mean(x, -1, keepdims=True)
    centred = x - mean
    variance = jnp.mean(centred * centred, -1, keepdims=True)
    return centred * lax.rsqrt(variance + 1e-5) * p["scale"] + p["bias"]


def rms_norm(p, x):
    x = x.astype(jnp.float32)
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * p["scale"]


def gelu(x):
    return 0.5 * x * (1 + jnp.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def silu(x):
    return x / (1 + jnp.exp(-x))


def softmax(x):
    shifted = jnp.exp(x - lax.stop_gradient(jnp.max(x, -1, keepdims=True)))
    return shifted / jnp.sum(shifted, -1, keepdims=True)


def rotate(x):
    """Rotary position embedding of [batch, seq, heads, head_dim]."""
    seq, half = x.shape[1], x.shape[3] // 2
    rate = jnp.exp(lax.iota(jnp.float32, half) * (-9.210340 / half))
    angle = lax.broadcasted_iota(jnp.float32, (seq, half), 0) * rate[None, :]
    cos, sin = (f(angle)[None, :, None, :].astype(x.dtype) for f in (jnp.cos, jnp.sin))
    low, high = x[..., :half], x[..., half:]
    return jnp.concatenate([low * cos - high * sin, low * sin + high * cos], -1)


def attention(p, x, cfg):
    batch, seq, hidden = x.shape
    size, groups = hidden // cfg.heads, cfg.heads // cfg.kv_heads
    query = (x @ p["query"]).reshape(batch, seq, cfg.heads, size)
    key = (x @ p["key"]).reshape(batch, seq, cfg.kv_heads, size)
    value = (x @ p["value"]).reshape(batch, seq, cfg.kv_heads, size)
    if cfg.model == "llama":
        query, key = rotate(query), rotate(key)
    names = "h"
    if groups > 1:  # k groups of g query heads share a key and value head
        query, names = query.reshape(batch, seq, cfg.kv_heads, groups, size), "kg"
    shared = names[0]
    scores = jnp.einsum(f"bs{names}d,bt{shared}d->b{names}st", query, key).astype(jnp.float32)
    scores = scores * size**-0.5
    rank = scores.ndim
    rows, columns = (lax.broadcasted_iota(jnp.int32, scores.shape, rank - k) for k in (2, 1))
    scores = lax.select(rows >= columns, scores, jnp.full_like(scores, -1e30))
    weights = softmax(scores).astype(x.dtype)
    mixed = jnp.einsum(f"b{names}st,bt{shared}d->bs{names}d", weights, value)
    return mixed.reshape(batch, seq, hidden) @ p["output"]


def feed_forward(p, x, cfg):
    if cfg.model == "llama":
        return (silu(x @ p["gate"]) * (x @ p["up"])) @ p["down"]
    return gelu(x @ p["up"] + p["up_bias"]) @ p["down"] + p["down_bias"]


def experts(p, x, cfg):
    """GShard's top-2 routing: a sequence is a group, an expert takes `capacity` of its tokens."""
    capacity = max(1, 2 * cfg.seq // cfg.experts)
    gates = softmax((x @ p["router"]).astype(jnp.float32))
    first, first_gate = pick(gates, jnp.zeros_like(gates))
    second, second_gate = pick(gates, first)
    place_first = jnp.cumsum(first, 1) * first - first
    used = jnp.sum(first, 1, keepdims=True)
    place_second = (jnp.cumsum(second, 1) + used) * second - second
    combine = sum(
        (gate / (first_gate + second_gate))[..., None, None] * slots(choice, place, capacity)
        for choice, gate, place in ((first, first_gate, place_first),
                                    (second, second_gate, place_second)))
    dispatch = (combine > 0).astype(x.dtype)
    taken = jnp.einsum("gsec,gsm->egcm", dispatch, x)
    inner = gelu(jnp.einsum("egcm,emh->egch", taken, p["up"]))
    given = jnp.einsum("egch,ehm->egcm", inner, p["down"])
    return jnp.einsum("gsec,egcm->gsm", combine.astype(x.dtype), given)


def pick(gates, taken):
    """The best expert not yet taken, as a one-hot mask, and its gate."""
    free = gates * (1 - taken)
    best = jnp.argmax(free, -1)[..., None]
    mask = (lax.broadcasted_iota(best.dtype, gates.shape, 2) == best).astype(gates.dtype)
    return lax.stop_gradient(mask), jnp.sum(gates * mask, -1)


def slots(choice, place, capacity):
    """[group, token, expert] to [group, token, expert, slot]; tokens beyond it are dropped."""
    slot = lax.broadcasted_iota(jnp.float32, (*choice.shape, capacity), 3)
    return choice[..., None] * (slot == place[..., None])


# ---- models -----------------------------------------------------------------------------------

def block(cfg, x, p):
    p = jax.tree.map(lambda w: w.astype(cfg.dtype), p)
    norm = rms_norm if cfg.model == "llama" else layer_norm
    x = x + attention(p["attention"], norm(p["norm1"], x).astype(cfg.dtype), cfg)
    inner = experts if cfg.model == "moe" else feed_forward
    return x + inner(p["mlp"], norm(p["norm2"], x).astype(cfg.dtype), cfg)


def transformer(params, tokens, cfg):
    x = params["embed"].at[tokens].get(mode="promise_in_bounds").astype(cfg.dtype)
    if cfg.model != "llama":
        x = x + params["position"][None].astype(cfg.dtype)
    layer = functools.partial(block, cfg)
    layer = jax.checkpoint(layer) if cfg.remat else layer
    if cfg.loop == "scan":
        x, _ = lax.scan(lambda x, p: (layer(x, p), None), x, params["blocks"])
    else:
        for p in params["blocks"]:
            x = layer(x, p)
    norm = rms_norm if cfg.model == "llama" else layer_norm
    x = norm(params["norm"], x).astype(cfg.dtype)
    head = params["embed"].T if cfg.tied else params["head"]
    return x @ head.astype(cfg.dtype)


def mlp(params, x, cfg):
    for p in params["layers"]:
        x = gelu(x @ p["weight"] + p["bias"])
    return x


def loss(params, batch, cfg):
    if cfg.model == "mlp":
        error = mlp(params, batch["inputs"], cfg) - batch["targets"]
        return jnp.mean(error * error)
    logits = transformer(params, batch["tokens"], cfg).astype(jnp.float32)
    top = lax.stop_gradient(jnp.max(logits, -1, keepdims=True))
    total = jnp.log(jnp.sum(jnp.exp(logits - top), -1)) + top[..., 0]
    wanted = jnp.take_along_axis(logits, batch["labels"][..., None], -1,
                                 mode="promise_in_bounds")[..., 0]
    return jnp.mean(total - wanted)


def train_step(cfg):
    """The argument names of the step become the first part of the parameter names."""
    def train(params, state, batch):
        value, gradients = jax.value_and_grad(functools.partial(loss, cfg=cfg))(params, batch)
        step = state["step"] + 1
        time = step.astype(jnp.float32)
        scale1, scale2 = 1 / (1 - BETA1**time), 1 / (1 - BETA2**time)
        mu = jax.tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * g, state["mu"], gradients)
        nu = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * (g * g), state["nu"], gradients)
        params = jax.tree.map(
            lambda p, m, v: p - LEARNING_RATE * (
                m * scale1 / (jnp.sqrt(v * scale2) + EPSILON) + DECAY * p),
            params, mu, nu)
        return params, {"mu": mu, "nu": nu, "step": step}, value

    return train


def forward_step(cfg):
    def forward(params, batch):
        return loss(params, batch, cfg)

    return forward


# ---- shapes -----------------------------------------------------------------------------------

def parameter_shapes(cfg):
    """The pytree of parameter shapes; all are f32 (the compute type is --dtype)."""
    hidden, inner = cfg.hidden, cfg.ffn
    if cfg.model == "mlp":
        return {"layers": [{"weight": (hidden, hidden), "bias": (hidden,)}] * cfg.layers}
    scale = {"scale": (hidden,)}
    if cfg.model != "llama":
        scale["bias"] = (hidden,)
    narrow = hidden // cfg.heads * cfg.kv_heads
    feed = {
        "gpt": {"up": (hidden, inner), "up_bias": (inner,),
                "down": (inner, hidden), "down_bias": (hidden,)},
        "llama": {"gate": (hidden, inner), "up": (hidden, inner), "down": (inner, hidden)},
        "moe": {"router": (hidden, cfg.experts), "up": (cfg.experts, hidden, inner),
                "down": (cfg.experts, inner, hidden)},
    }[cfg.model]
    layer = {
        "norm1": scale, "norm2": scale, "mlp": feed,
        "attention": {"query": (hidden, hidden), "key": (hidden, narrow),
                      "value": (hidden, narrow), "output": (hidden, hidden)},
    }
    if cfg.loop == "scan":
        layers = jax.tree.map(lambda s: (cfg.layers, *s), layer, is_leaf=is_shape)
    else:
        layers = [layer] * cfg.layers
    shapes = {"embed": (cfg.vocab, hidden), "blocks": layers, "norm": scale}
    if cfg.model != "llama":
        shapes["position"] = (cfg.seq, hidden)
    if not cfg.tied:
        shapes["head"] = (hidden, cfg.vocab)
    return shapes


def is_shape(node):
    return isinstance(node, tuple)


def lower(cfg):
    """HLO text of the step, parameters named by their place in the pytree."""
    params = jax.tree.map(lambda s: jax.ShapeDtypeStruct(s, jnp.float32),
                          parameter_shapes(cfg), is_leaf=is_shape)
    if cfg.model == "mlp":
        sample = jax.ShapeDtypeStruct((cfg.batch, cfg.hidden), jnp.float32)
        batch = {"inputs": sample, "targets": sample}
    else:
        tokens = jax.ShapeDtypeStruct((cfg.batch, cfg.seq), jnp.int32)
        batch = {"tokens": tokens, "labels": tokens}
    if cfg.forward_only:
        step, arguments, donated = forward_step, (params, batch), ()
    else:
        state = {"mu": params, "nu": params, "step": jax.ShapeDtypeStruct((), jnp.int32)}
        step, arguments, donated = train_step, (params, state, batch), (0, 1)
    return jax.jit(step(cfg), donate_argnums=donated, keep_unused=True).lower(*arguments) \
        .as_text("hlo")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=("gpt", "llama", "moe", "mlp"))
    for name, default in (("layers", 2), ("hidden", 64), ("heads", 8), ("seq", 32), ("batch", 8),
                          ("vocab", 256), ("experts", 8)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--kv-heads", type=int, help="key and value heads (default: --heads)")
    parser.add_argument("--ffn", type=int, help="inner size (default: 4 x hidden)")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32", help="compute type")
    parser.add_argument("--loop", choices=("unrolled", "scan"), default="unrolled")
    parser.add_argument("--tied", action="store_true", help="head and embedding are one matrix")
    parser.add_argument("--remat", action="store_true", help="layers are computed again in the backward part")
    parser.add_argument("--forward-only", action="store_true")
    parser.add_argument("-o", "--output", help="default: standard output")
    cfg = parser.parse_args()
    cfg.kv_heads, cfg.ffn = cfg.kv_heads or cfg.heads, cfg.ffn or 4 * cfg.hidden
    cfg.dtype = {"f32": jnp.float32, "bf16": jnp.bfloat16}[cfg.dtype]
    return cfg


def main():
    cfg = arguments()
    shown = [a for i, a in enumerate(sys.argv[1:], 1)
             if a not in ("-o", "--output") and sys.argv[i - 1] not in ("-o", "--output")]
    text = f"// tools/dump_hlo.py {' '.join(shown)}    (jax {jax.__version__})\n{lower(cfg)}"
    if cfg.output:
        with open(cfg.output, "w") as file:
            file.write(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
