"""An encoder and a decoder with cross-attention: BART, whose dropout draws from XLA's own generator."""

import jax
import jax.numpy as jnp

from hard.layers import Params, attention, causal, cross_entropy, dropout, embed, gelu, layer_norm, linear

Batch = dict[str, jax.Array]


def bart(p: Params, batch: Batch) -> jax.Array:
    """Lewis et al. 2019, size base: norms last, one table for the encoder, the decoder and the head."""
    width, n_heads, layers, vocabulary, dtype = 768, 12, 6, 50265, jnp.bfloat16
    keys = iter(jax.random.split(jax.random.wrap_key_data(batch["key"], impl="rbg"), 2 * layers))
    table = p("tokens", vocabulary, width)

    def start(side: Params, tokens: jax.Array) -> jax.Array:
        places = side("positions", 1026, width)[2:2 + tokens.shape[1]]
        return layer_norm(side, "norm", embed(table, tokens, dtype) + places.astype(dtype))

    x = start(p.scope("encoder"), batch["source"])
    for n in range(layers):
        q = p.scope(f"encoder.{n}")
        x = layer_norm(q, "norm1", x + attention(q.scope("self"), x, x, n_heads))
        x = layer_norm(q, "norm2", x + dropout(next(keys), feed(q, x)))
    y = start(p.scope("decoder"), batch["target"])
    seen = causal(y.shape[1], y.shape[1])
    for n in range(layers):
        q = p.scope(f"decoder.{n}")
        y = layer_norm(q, "norm1", y + attention(q.scope("self"), y, y, n_heads, seen))
        y = layer_norm(q, "norm2", y + attention(q.scope("cross"), y, x, n_heads))
        y = layer_norm(q, "norm3", y + dropout(next(keys), feed(q, y)))
    return cross_entropy(y @ table.T.astype(dtype) + p("bias", vocabulary).astype(dtype), batch["labels"])


def feed(p: Params, x: jax.Array) -> jax.Array:
    return linear(p, "down", gelu(linear(p, "up", x, 4 * x.shape[-1])), x.shape[-1])
