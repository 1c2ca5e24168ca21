"""BERT, and T5 with its decoder."""

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from families.layers import (Arrays, attention, cross_entropy, embedding, gelu, layer_norm, linear, rms_norm, scope,
                        self_attention, split_heads, unembedding)

BERT_EPSILON, T5_EPSILON = 1e-12, 1e-6


def bert(params: Arrays, batch: Arrays, dims: dict[str, int], dtype: DTypeLike) -> tuple[jax.Array, Arrays]:
    """Devlin et al. 2018: layer norm last, GELU; the losses of masked tokens and of the next sentence."""
    p = scope(params, "embeddings")
    x = (embedding(p["word"], batch["input_ids"], dtype)
         + embedding(p["token_type"], batch["token_type_ids"], dtype) + p["position"].astype(dtype))
    x = layer_norm(p, "layer_norm", x, BERT_EPSILON)
    for n in range(dims["layers"]):
        p = scope(params, f"layers.{n}")
        attended = self_attention(scope(p, "attention"), x, dims["heads"])
        x = layer_norm(p, "attention_norm", x + attended, BERT_EPSILON)
        fed = linear(p, "mlp.down", gelu(linear(p, "mlp.up", x)))
        x = layer_norm(p, "output_norm", x + fed, BERT_EPSILON)
    p = scope(params, "predictions")
    y = gelu(linear(p, "transform", x))
    y = layer_norm(p, "layer_norm", y, BERT_EPSILON)
    logits = unembedding(y, params["embeddings.word"]) + p["bias"].astype(dtype)
    pooled = jnp.tanh(linear(params, "pooler", x[:, 0]))
    follows = linear(params, "seq_relationship", pooled)
    loss = cross_entropy(logits, batch["labels"]) + cross_entropy(follows, batch["next_sentence_label"])
    return loss, {}


def t5(params: Arrays, batch: Arrays, dims: dict[str, int], dtype: DTypeLike) -> tuple[jax.Array, Arrays]:
    """Raffel et al. 2020: relative positions, RMSNorm first, ReLU, scores that are not scaled."""
    x = embedding(params["shared"], batch["input_ids"], dtype)
    y = embedding(params["shared"], batch["decoder_input_ids"], dtype)
    p = scope(params, "encoder")
    bias = t5_bias(p["relative_attention_bias"], dims["seq"], bidirectional=True)
    for n in range(dims["layers"]):
        layer = scope(p, f"layers.{n}")
        x = x + t5_attention(scope(layer, "self_attn"), x, None, dims["heads"], bias)
        x = x + t5_mlp(layer, x)
    encoded = rms_norm(p, "final_norm", x, T5_EPSILON)
    p = scope(params, "decoder")
    bias = t5_bias(p["relative_attention_bias"], dims["target-seq"], bidirectional=False)
    for n in range(dims["layers"]):
        layer = scope(p, f"layers.{n}")
        y = y + t5_attention(scope(layer, "self_attn"), y, None, dims["heads"], bias, causal=True)
        y = y + t5_attention(scope(layer, "cross_attn"), y, encoded, dims["heads"], None)
        y = y + t5_mlp(layer, y)
    y = rms_norm(p, "final_norm", y, T5_EPSILON) * dims["hidden"] ** -0.5
    return cross_entropy(unembedding(y, params["shared"]), batch["labels"]), {}


def t5_attention(p: Arrays, x: jax.Array, source: jax.Array | None, heads: int, bias: jax.Array | None,
                 causal: bool = False) -> jax.Array:
    """Of the normed x to itself, or to a source."""
    normed = rms_norm(p, "norm", x, T5_EPSILON)
    source = normed if source is None else source
    q, k, v = (split_heads(linear(p, name, of), heads)
               for name, of in (("q", normed), ("k", source), ("v", source)))
    return linear(p, "o", attention(q, k, v, scale=1.0, bias=bias, causal=causal))


def t5_mlp(p: Arrays, x: jax.Array) -> jax.Array:
    """Gated by a GELU as in T5 1.1 where there is a gate, else with a ReLU."""
    normed = rms_norm(p, "mlp_norm", x, T5_EPSILON)
    if "mlp.gate_proj.kernel" not in p:
        return linear(p, "mlp.down", jax.nn.relu(linear(p, "mlp.up", normed)))
    gate = jax.nn.gelu(linear(p, "mlp.gate_proj", normed), approximate=True)
    return linear(p, "mlp.down_proj", gate * linear(p, "mlp.up_proj", normed))


def t5_bias(table: jax.Array, positions: int, bidirectional: bool) -> jax.Array:
    """A learned number per head and bucket of key − query, `[heads, queries, keys]`."""
    place = jnp.arange(positions)
    buckets = t5_buckets(place[None, :] - place[:, None], bidirectional, len(table))
    return table[buckets].transpose(2, 0, 1)


def t5_buckets(relative: jax.Array, bidirectional: bool, buckets: int, farthest: int = 128) -> jax.Array:
    """Section 2.1: a bucket for each small distance, then logarithmically larger ones."""
    offset = 0
    if bidirectional:
        buckets //= 2
        offset = jnp.where(relative > 0, buckets, 0)
        distance = jnp.abs(relative)
    else:
        distance = jnp.maximum(-relative, 0)
    exact = buckets // 2
    ratio = jnp.log(jnp.maximum(distance, 1) / exact) / jnp.log(farthest / exact)
    far = jnp.minimum(exact + (ratio * (buckets - exact)).astype(jnp.int32), buckets - 1)
    return offset + jnp.where(distance < exact, distance, far)
