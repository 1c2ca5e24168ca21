"""DeepSeek-V2 and V3 (DeepSeek-AI 2024): latent attention, dense layers first, shared experts beside routed ones."""

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from families.decoders import rotary_attention
from families.layers import (Arrays, attention, cross_entropy, embedding, linear, rms_norm, rotary_tables, rotate, scope,
                             split_heads)
from families.mixtures import BALANCE, places

EPSILON = 1e-6


def deepseek(params: Arrays, batch: Arrays, dims: dict[str, int], dtype: DTypeLike) -> tuple[jax.Array, Arrays]:
    """The loss, that of uneven loads included."""
    x = embedding(params["embed_tokens"], batch["input_ids"], dtype)
    turned = dims["rotated"] if dims["kv-rank"] else dims["head-dim"]
    tables = rotary_tables(dims["seq"], turned, dims["rope-base"])
    balance = 0.0
    for n in range(dims["layers"]):
        n_sparse = n - dims["dense-layers"]
        p = scope(params, f"layers.{n_sparse}" if n_sparse >= 0 else f"dense.layers.{n}")
        x = x + attend(p, x, dims, tables)
        if n_sparse < 0:
            x = x + gated(scope(p, "mlp"), rms_norm(p, "post_attention_layernorm", x))
            continue
        normed = rms_norm(p, "post_attention_layernorm", x, EPSILON)
        mixed, loss = routed(scope(p, "experts"), normed, dims)
        x, balance = x + mixed, balance + loss
        if dims["shared-ffn"]:
            x = x + gated(scope(p, "shared_experts"), normed)
    logits = linear(params, "lm_head", rms_norm(params, "norm", x, EPSILON))
    return cross_entropy(logits, batch["labels"]) + balance, {}


def gated(p: Arrays, x: jax.Array) -> jax.Array:
    """SwiGLU (Shazeer 2020)."""
    return linear(p, "down_proj", jax.nn.silu(linear(p, "gate_proj", x)) * linear(p, "up_proj", x))


def attend(p: Arrays, x: jax.Array, dims: dict[str, int], tables: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Grouped-query attention, or DeepSeek-V2's section 2.1, where keys and values come from a narrow vector."""
    own = scope(p, "self_attn")
    if not dims["kv-rank"]:
        return rotary_attention(own, rms_norm(p, "input_layernorm", x), dims, tables)
    x = rms_norm(p, "input_layernorm", x, EPSILON)
    plain = dims["head-dim"] - dims["rotated"]
    if dims["query-rank"]:
        q = linear(own, "q_b", rms_norm(own, "q_norm", linear(own, "q_a", x), EPSILON))
    else:
        q = linear(own, "q", x)
    q = split_heads(q, dims["heads"])
    narrow, shared = jnp.split(linear(own, "kv_a", x), [dims["kv-rank"]], axis=-1)
    both = split_heads(linear(own, "kv_b", rms_norm(own, "kv_norm", narrow, EPSILON)), dims["heads"])
    k, v = both[..., :plain], both[..., plain:]
    shared = jnp.broadcast_to(rotate(shared[:, :, None, :], tables), (*k.shape[:3], dims["rotated"]))
    q = jnp.concatenate([q[..., :plain], rotate(q[..., plain:], tables)], -1)
    return linear(own, "o", attention(q, jnp.concatenate([k, shared], -1), v, causal=True))


def routed(p: Arrays, x: jax.Array, dims: dict[str, int]) -> tuple[jax.Array, jax.Array]:
    """Each token through its experts by a mask of all of them: earlier tokens are served first, those beyond the places
    of an expert are dropped there. Also the loss of uneven loads."""
    probabilities = jax.nn.softmax(linear(p, "router", x).astype(jnp.float32))
    gates, experts = jax.lax.top_k(probabilities, dims["top-k"])
    gates = gates / jnp.sum(gates, -1, keepdims=True)
    chosen = jax.nn.one_hot(experts, dims["experts"])
    taken = jnp.sum(chosen, axis=2)
    has_place = jnp.cumsum(taken, axis=1) <= places(dims)
    weights = (jnp.einsum("bske,bsk->bse", chosen, gates) * taken * has_place).astype(x.dtype)
    up = jnp.einsum("bsm,emf->bsef", x, p["up"].astype(x.dtype))
    active = jax.nn.silu(jnp.einsum("bsm,emf->bsef", x, p["gate"].astype(x.dtype))) * up
    given = jnp.einsum("bsef,efm->bsem", active, p["down"].astype(x.dtype))
    loads = jnp.mean(jax.nn.one_hot(experts[..., 0], dims["experts"]), axis=1)
    balance = dims["experts"] * jnp.mean(jnp.sum(loads * jnp.mean(probabilities, axis=1), -1))
    return jnp.einsum("bsem,bse->bsm", given, weights), BALANCE * balance
