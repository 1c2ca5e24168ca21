"""Writes training steps of a small decoder, attention op by op and as cuDNN's kernel, as XLA gets them."""

import argparse
import functools
import itertools
import pathlib

import jax
import jax.numpy as jnp
from jax._src.cudnn import fused_attention_stablehlo as cudnn

HIDDEN, VOCABULARY, LAYERS, POSITIONS = 1024, 8192, 2, 8192


def norm(x, scale):
    x = x.astype(jnp.float32)
    return (x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale).astype(jnp.bfloat16)


def layer(x, weights, head, attend):
    b, s, h = x.shape
    y = norm(x, weights["scale_1"])
    q, k, v = (jnp.reshape(y @ weights[name].astype(y.dtype), (b, s, h // head, head)) for name in "qkv")
    x = x + attend(q, k, v).reshape(b, s, h) @ weights["o"].astype(x.dtype)
    y = norm(x, weights["scale_2"])
    return x + jax.nn.gelu(y @ weights["up"].astype(x.dtype)) @ weights["down"].astype(x.dtype)


def loss(weights, tokens, head, attend):
    x = weights["embedding"].astype(jnp.bfloat16)[tokens]
    for one in weights["layers"]:
        x = layer(x, one, head, attend)
    logits = (norm(x, weights["scale"]) @ weights["head"].astype(x.dtype)).astype(jnp.float32)
    picked = jnp.take_along_axis(logits, jnp.roll(tokens, -1, 1)[..., None], -1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits, -1) - picked)


def step(weights, tokens, head, attend):
    value, gradients = jax.value_and_grad(loss)(weights, tokens, head, attend)
    return jax.tree.map(lambda w, g: w - 1e-3 * g, weights, gradients), value


def weights():
    f32 = lambda *dims: jax.ShapeDtypeStruct(dims, jnp.float32)  # noqa: E731
    square = {name: f32(HIDDEN, HIDDEN) for name in "qkvo"}
    scales = {name: f32(HIDDEN) for name in ("scale_1", "scale_2")}
    one = {**square, **scales, "up": f32(HIDDEN, 4 * HIDDEN), "down": f32(4 * HIDDEN, HIDDEN)}
    ends = {"embedding": f32(VOCABULARY, HIDDEN), "head": f32(HIDDEN, VOCABULARY), "scale": f32(HIDDEN)}
    return {**ends, "layers": [one] * LAYERS}


def text(how, seq, head, is_causal):
    attend = functools.partial(jax.nn.dot_product_attention, is_causal=is_causal, implementation=how)
    tokens = jax.ShapeDtypeStruct((POSITIONS // seq, seq), jnp.int32)
    traced = jax.jit(functools.partial(step, head=head, attend=attend), donate_argnums=0).trace(weights(), tokens)
    return traced.lower(lowering_platforms=("cuda",)).compiler_ir("hlo").as_hlo_text()


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="FOLDER gets HOW_SEQ_HEAD_MASK.hlo for every choice. No GPU is needed.")
    parser.add_argument("folder", type=pathlib.Path, help="where the programs go")
    parser.add_argument("--seq", type=int, nargs="+", default=[512, 1024, 2048, 4096, 8192], help="positions")
    parser.add_argument("--head", type=int, nargs="+", default=[64, 128], help="sizes of a head")
    return parser.parse_args()


def answer_for_the_gpu():
    """Says what a Hopper GPU with cuDNN would say, so that programs are traced without one."""
    cudnn.check_cudnn_version = lambda: 91300
    cudnn.check_compute_capability = lambda *_: True


def main():
    options = arguments()
    options.folder.mkdir(parents=True, exist_ok=True)
    answer_for_the_gpu()
    implementations, masks = {"plain": "xla", "cudnn": "cudnn"}, {"causal": True, "full": False}
    for seq, head, mask, how in itertools.product(options.seq, options.head, masks, implementations):
        path = options.folder / f"{how}_{seq}_{head}_{mask}.hlo"
        path.write_text(text(implementations[how], seq, head, masks[mask]))


if __name__ == "__main__":
    main()
