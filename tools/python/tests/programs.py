"""Training steps as their users write them: each function makes a step, its state and its other arguments."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from flax import linen, nnx

BATCH, LENGTH, WIDTH, HEADS, WORDS = 16, 16, 64, 4, 256


def tokens():
    """Random words, and what follows each."""
    words = jax.random.randint(jax.random.key(7), (BATCH, LENGTH), 0, WORDS)
    return words, jnp.roll(words, -1, 1)


def cross_entropy(logits, labels):
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def regression(width=64):
    """Inputs and targets of a small regression."""
    x = jax.random.normal(jax.random.key(3), (64, width))
    return x, jnp.sin(x @ jax.random.normal(jax.random.key(4), (width, 8)))


# ---- Flax NNX -----------------------------------------------------------------------------------


class Block(nnx.Module):
    def __init__(self, rngs):
        self.norms = nnx.List([nnx.LayerNorm(WIDTH, rngs=rngs) for _ in range(2)])
        self.attention = nnx.MultiHeadAttention(HEADS, WIDTH, decode=False, rngs=rngs)
        self.up, self.down = nnx.Linear(WIDTH, 4 * WIDTH, rngs=rngs), nnx.Linear(4 * WIDTH, WIDTH, rngs=rngs)

    def __call__(self, x):
        x = x + self.attention(self.norms[0](x), mask=nnx.make_causal_mask(jnp.ones(x.shape[:2])))
        return x + self.down(nnx.gelu(self.up(self.norms[1](x))))


class GPT(nnx.Module):
    def __init__(self, rngs, layers=2):
        self.embed, self.places = nnx.Embed(WORDS, WIDTH, rngs=rngs), nnx.Embed(LENGTH, WIDTH, rngs=rngs)
        self.blocks = nnx.List([Block(rngs) for _ in range(layers)])
        self.norm, self.head = nnx.LayerNorm(WIDTH, rngs=rngs), nnx.Linear(WIDTH, WORDS, rngs=rngs)

    def __call__(self, words):
        x = self.embed(words) + self.places(jnp.arange(LENGTH))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


@nnx.jit
def nnx_step(model, optimizer, words, labels):
    loss, grads = nnx.value_and_grad(lambda model: cross_entropy(model(words), labels))(model)
    optimizer.update(model, grads)
    return loss


def nnx_gpt():
    model = GPT(nnx.Rngs(0))
    return nnx_step, (model, nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)), tokens()


# ---- Equinox ------------------------------------------------------------------------------------


def eqx_mlp():
    model = eqx.nn.MLP(64, 8, 256, 3, key=jax.random.key(0))
    optimizer = optax.adam(1e-3)

    @eqx.filter_jit
    def step(model, state, x, y):
        loss, grads = eqx.filter_value_and_grad(lambda model: jnp.mean((jax.vmap(model)(x) - y) ** 2))(model)
        updates, state = optimizer.update(grads, state, eqx.filter(model, eqx.is_array))
        return eqx.apply_updates(model, updates), state, loss

    return step, (model, optimizer.init(eqx.filter(model, eqx.is_array))), regression()


# ---- Flax Linen ---------------------------------------------------------------------------------


class LinenMLP(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.Dense(8)(linen.silu(linen.Dense(256)(x)))


def linen_mlp():
    model, optimizer, (x, y) = LinenMLP(), optax.sgd(1e-2, momentum=0.9), regression()
    params = model.init(jax.random.key(0), x)

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def step(params, state, x, y):
        loss, grads = jax.value_and_grad(lambda p: jnp.mean((model.apply(p, x) - y) ** 2))(params)
        updates, state = optimizer.update(grads, state)
        return optax.apply_updates(params, updates), state, loss

    return step, (params, optimizer.init(params)), (x, y)


# ---- JAX alone ----------------------------------------------------------------------------------


def dense(key, *shape):
    return jax.random.normal(key, shape) * shape[-2] ** -0.5


def transformer(p, x):
    """One layer on `[batch, length, width]`."""
    normed = jax.nn.standardize(x)
    query, key, value = (jnp.einsum("bld,dhe->blhe", normed, p[name]) for name in ("query", "key", "value"))
    scores = jnp.einsum("bqhe,bkhe->bhqk", query, key) * query.shape[-1] ** -0.5
    scores = jnp.where(jnp.tril(jnp.ones((LENGTH, LENGTH), bool)), scores, -1e9)
    mixed = jnp.einsum("bhqk,bkhe->bqhe", jax.nn.softmax(scores), value)
    x = x + jnp.einsum("bqhe,hed->bqd", mixed, p["out"])
    return x + jax.nn.gelu(jax.nn.standardize(x) @ p["up"]) @ p["down"]


def transformer_params(layers=2):
    keys = iter(jax.random.split(jax.random.key(0), 8))
    heads = {
        name: dense(next(keys), layers, WIDTH, HEADS, WIDTH // HEADS) * 0.5
        for name in ("query", "key", "value")
    }
    rest = {
        "out": dense(next(keys), layers, HEADS, WIDTH // HEADS, WIDTH) * 0.3,
        "up": dense(next(keys), layers, WIDTH, 4 * WIDTH),
        "down": dense(next(keys), layers, 4 * WIDTH, WIDTH),
    }
    return {
        "embed": dense(next(keys), WORDS, WIDTH),
        "layers": heads | rest,
        "head": dense(next(keys), WIDTH, WORDS),
    }


def scan_transformer():
    """Layers in a `lax.scan`, made again in the backward part, Adam."""
    optimizer, params = optax.adam(1e-3), transformer_params()

    def loss_of(p, words, labels):
        layer = jax.checkpoint(lambda x, layer_p: (transformer(layer_p, x), None))
        x, _ = jax.lax.scan(layer, p["embed"][words], p["layers"])
        return cross_entropy(x @ p["head"], labels)

    def step(params, state, words, labels):
        loss, grads = jax.value_and_grad(loss_of)(params, words, labels)
        updates, state = optimizer.update(grads, state)
        return optax.apply_updates(params, updates), state, loss

    return step, (params, optimizer.init(params)), tokens()


def mlp(dtype=jnp.float32, activation=jax.nn.gelu):
    """Adam, products in `dtype`, an activation by closure, an argument that nothing reads."""
    keys = jax.random.split(jax.random.key(0))
    optimizer, params = optax.adam(1e-3), {"up": dense(keys[0], 64, 256), "down": dense(keys[1], 256, 8)}

    def loss_of(p, x, y):
        hidden = activation(x.astype(dtype) @ p["up"].astype(dtype))
        return jnp.mean(((hidden @ p["down"].astype(dtype)).astype(jnp.float32) - y) ** 2)

    def step(params, state, unused, x, y):
        loss, grads = jax.value_and_grad(loss_of)(params, x, y)
        updates, state = optimizer.update(grads, state)
        return optax.apply_updates(params, updates), state, loss

    return step, (params, optimizer.init(params)), (jnp.ones(3), *regression())


def dropout():
    """Typed random keys as an argument and as a result, a custom gradient, `jax.jit` inside."""
    params = {"up": dense(jax.random.key(1), 64, 256), "down": dense(jax.random.key(2), 256, 8)}

    @jax.custom_vjp
    def scaled(x):
        return x * 2

    scaled.defvjp(lambda x: (x * 2, None), lambda _, g: (g * 0.5,))

    @jax.jit
    def hidden(p, x, key):
        keep = jax.random.bernoulli(key, 0.9, (x.shape[0], 256))
        return jnp.where(keep, scaled(jax.nn.relu(x @ p["up"])), 0)

    def step(params, key, x, y):
        key, now = jax.random.split(key)
        loss_of = lambda p: jnp.mean((hidden(p, x, now) @ p["down"] - y) ** 2)
        loss, grads = jax.value_and_grad(loss_of)(params)
        return jax.tree.map(lambda p, g: p - 0.01 * g, params, grads), key, loss

    return step, (params, jax.random.key(5)), regression()


STEPS = {
    "nnx_gpt": nnx_gpt,
    "eqx_mlp": eqx_mlp,
    "linen_mlp": linen_mlp,
    "scan_transformer": scan_transformer,
    "mlp_adam": mlp,
    "mlp_bf16": functools.partial(mlp, jnp.bfloat16, jax.nn.relu),
    "dropout": dropout,
}
