"""GPT-2 and GPT-3, OPT, LLaMA: decoders that differ in norms, positions, activations and projections."""

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from families.layers import (Arrays, attention, cross_entropy, embedding, layer_norm, linear, rms_norm, rotary_tables,
                        rotate, scope, self_attention, split_heads, unembedding)


def gpt(params: Arrays, batch: Arrays, dims: dict[str, int], dtype: DTypeLike) -> tuple[jax.Array, Arrays]:
    """Radford et al. 2019, Brown et al. 2020: learned positions, layer norm first, one projection, GELU."""
    x = embedding(params["wte"], batch["input_ids"], dtype) + params["wpe"].astype(dtype)
    for n in range(dims["layers"]):
        p = scope(params, f"layers.{n}")
        q, k, v = jnp.split(linear(p, "attn.qkv", layer_norm(p, "ln_1", x)), 3, axis=-1)
        heads = [split_heads(part, dims["heads"]) for part in (q, k, v)]
        x = x + linear(p, "attn.o", attention(*heads, causal=True))
        fed = jax.nn.gelu(linear(p, "mlp.up", layer_norm(p, "ln_2", x)), approximate=True)
        x = x + linear(p, "mlp.down", fed)
    x = layer_norm(params, "ln_f", x)
    logits = unembedding(x, params["wte"]) if dims["tied"] else linear(params, "head", x)
    return cross_entropy(logits, batch["labels"]), {}


def opt(params: Arrays, batch: Arrays, dims: dict[str, int], dtype: DTypeLike) -> tuple[jax.Array, Arrays]:
    """Zhang et al. 2022: three projections, ReLU, a table of positions whose first two rows no token has."""
    positions = params["embed_positions"][2:].astype(dtype)
    x = embedding(params["embed_tokens"], batch["input_ids"], dtype) + positions
    for n in range(dims["layers"]):
        p = scope(params, f"layers.{n}")
        normed = layer_norm(p, "self_attn_layer_norm", x)
        x = x + self_attention(scope(p, "self_attn"), normed, dims["heads"], causal=True)
        fed = jax.nn.relu(linear(p, "mlp.up", layer_norm(p, "final_layer_norm", x)))
        x = x + linear(p, "mlp.down", fed)
    x = layer_norm(params, "final_layer_norm", x)
    return cross_entropy(unembedding(x, params["embed_tokens"]), batch["labels"]), {}


def llama(params: Arrays, batch: Arrays, dims: dict[str, int], dtype: DTypeLike) -> tuple[jax.Array, Arrays]:
    """Touvron et al. 2023: RMSNorm first, rotary positions, SwiGLU, grouped-query attention."""
    x = embedding(params["embed_tokens"], batch["input_ids"], dtype)
    tables = rotary_tables(dims["seq"], dims["hidden"] // dims["heads"], dims["rope-base"])
    for n in range(dims["layers"]):
        p = scope(params, f"layers.{n}")
        x = x + rotary_attention(scope(p, "self_attn"), rms_norm(p, "input_layernorm", x), dims, tables)
        normed = rms_norm(p, "post_attention_layernorm", x)
        gated = jax.nn.silu(linear(p, "mlp.gate_proj", normed)) * linear(p, "mlp.up_proj", normed)
        x = x + linear(p, "mlp.down_proj", gated)
    x = rms_norm(params, "norm", x)
    logits = unembedding(x, params["embed_tokens"]) if dims["tied"] else linear(params, "lm_head", x)
    return cross_entropy(logits, batch["labels"]), {}


def rotary_attention(p: Arrays, x: jax.Array, dims: dict[str, int],
                     tables: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Causal attention whose queries and keys are turned by their positions."""
    q = split_heads(linear(p, "q", x), dims["heads"])
    k = split_heads(linear(p, "k", x), dims["kv-heads"])
    v = split_heads(linear(p, "v", x), dims["kv-heads"])
    return linear(p, "o", attention(rotate(q, tables), rotate(k, tables), v, causal=True))
