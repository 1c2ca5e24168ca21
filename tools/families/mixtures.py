"""Decoders with mixtures of experts: GShard's and Mixtral."""

import math

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from families.decoders import rotary_attention
from families.layers import (Arrays, cross_entropy, embedding, layer_norm, linear, rms_norm, rotary_tables, scope,
                        self_attention, unembedding)

BALANCE = 0.01  # weight of the loss that asks for even loads


def gshard(params: Arrays, batch: Arrays, dims: dict[str, int], dtype: DTypeLike) -> tuple[jax.Array, Arrays]:
    """Lepikhin et al. 2020: experts in every other layer, in a decoder like GPT's."""
    x = embedding(params["wte"], batch["input_ids"], dtype) + params["wpe"].astype(dtype)
    balance = 0.0
    for n in range(dims["layers"] // 2):
        p = scope(params, f"layers.{n}.dense")
        x = x + self_attention(scope(p, "attn"), layer_norm(p, "ln_1", x), dims["heads"], causal=True)
        fed = jax.nn.gelu(linear(p, "mlp.up", layer_norm(p, "ln_2", x)), approximate=True)
        x = x + linear(p, "mlp.down", fed)
        p = scope(params, f"layers.{n}.sparse")
        x = x + self_attention(scope(p, "attn"), layer_norm(p, "ln_1", x), dims["heads"], causal=True)
        mixed, loss = mixture(scope(p, "experts"), layer_norm(p, "ln_2", x), dims)
        x, balance = x + mixed, balance + loss
    logits = unembedding(layer_norm(params, "ln_f", x), params["wte"])
    return cross_entropy(logits, batch["labels"]) + balance, {}


def mixtral(params: Arrays, batch: Arrays, dims: dict[str, int], dtype: DTypeLike) -> tuple[jax.Array, Arrays]:
    """Jiang et al. 2024: LLaMA with gated experts in every layer."""
    x = embedding(params["embed_tokens"], batch["input_ids"], dtype)
    tables = rotary_tables(dims["seq"], dims["hidden"] // dims["heads"], dims["rope-base"])
    balance = 0.0
    for n in range(dims["layers"]):
        p = scope(params, f"layers.{n}")
        x = x + rotary_attention(scope(p, "self_attn"), rms_norm(p, "input_layernorm", x), dims, tables)
        mixed, loss = mixture(scope(p, "experts"), rms_norm(p, "post_attention_layernorm", x), dims)
        x, balance = x + mixed, balance + loss
    logits = linear(params, "lm_head", rms_norm(params, "norm", x))
    return cross_entropy(logits, batch["labels"]) + balance, {}


def mixture(p: Arrays, x: jax.Array, dims: dict[str, int]) -> tuple[jax.Array, jax.Array]:
    """GShard, algorithm 1, with top-k choices; a sample is a group. Also the loss of uneven loads."""
    probabilities = jax.nn.softmax(linear(p, "router", x).astype(jnp.float32))
    combine, balance = route(probabilities, dims["top-k"], places(dims))
    dispatch = (combine > 0).astype(x.dtype)
    taken = jnp.einsum("bsec,bsm->ebcm", dispatch, x)
    up = jnp.einsum("ebcm,emf->ebcf", taken, p["up"].astype(x.dtype))
    if "gate" in p:
        active = jax.nn.silu(jnp.einsum("ebcm,emf->ebcf", taken, p["gate"].astype(x.dtype))) * up
    else:
        active = jax.nn.gelu(up, approximate=True)
    given = jnp.einsum("ebcf,efm->ebcm", active, p["down"].astype(x.dtype))
    return jnp.einsum("bsec,ebcm->bsm", combine.astype(x.dtype), given), balance


def places(dims: dict[str, int]) -> int:
    """Places that an expert has for a sample's tokens: a share, in per cent, of even loads."""
    share = dims["seq"] * dims["top-k"] * dims["capacity"] / (100 * dims["experts"])
    return min(max(math.ceil(share), 1), dims["seq"])


def route(probabilities: jax.Array, top_k: int, n_places: int) -> tuple[jax.Array, jax.Array]:
    """The weight of each token at each place, `[batch, seq, experts, places]`, and the loss of uneven loads.

    Choices are served in their order, tokens in theirs; those beyond the places are dropped.
    """
    n_experts = probabilities.shape[-1]
    gates, experts = jax.lax.top_k(probabilities, top_k)
    gates = gates / jnp.sum(gates, -1, keepdims=True)
    combine, used = 0.0, 0.0
    for choice in range(top_k):
        mask = jax.nn.one_hot(experts[..., choice], n_experts)
        before = jnp.cumsum(mask, axis=1) - mask + used
        used = used + jnp.sum(mask, axis=1, keepdims=True)
        place = jnp.sum(before * mask, -1).astype(jnp.int32)
        slot = jnp.einsum("bse,bsc->bsec", mask, jax.nn.one_hot(place, n_places))
        combine = combine + gates[..., choice, None, None] * slot
    loads = jnp.mean(jax.nn.one_hot(experts[..., 0], n_experts), axis=1)
    balance = n_experts * jnp.mean(jnp.sum(loads * jnp.mean(probabilities, axis=1), -1))
    return combine, BALANCE * balance
