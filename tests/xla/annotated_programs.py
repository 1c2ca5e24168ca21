"""Small JAX steps on 8 devices that say only in part how they are sharded; import `xla` first."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

MESH = Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ("data", "model"))
LINE = Mesh(np.array(jax.devices()[:8]), ("data",))


def shape(*dims, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(dims, dtype)


def within(x, *spec, mesh=MESH):
    """`x`, constrained."""
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))


def step(loss):
    """A gradient step of `loss(params, *inputs)`."""

    def run(params, *inputs):
        value, grads = jax.value_and_grad(loss)(params, *inputs)
        return jax.tree.map(lambda p, g: p - 0.01 * g, params, grads), value

    return run


def mlp(p, x):
    """Megatron: columns of the first weight, rows of the second."""
    return jnp.mean((jnp.tanh(x @ p["up"]) @ p["down"] - x) ** 2)


def attention(p, x):
    """Grouped-query attention: eight query heads on two key heads."""
    rows, length, width = x.shape
    q = (x @ p["q"]).reshape(rows, length, 8, 16)
    k, v = ((x @ p[name]).reshape(rows, length, 2, 16) for name in "kv")
    k, v = (jnp.repeat(it, 4, axis=2) for it in (k, v))
    scores = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) / 4)
    out = jnp.einsum("bhqk,bkhd->bqhd", scores, v).reshape(rows, length, width)
    return jnp.mean((out @ p["o"]) ** 2)


def fsdp(p, x):
    """Weights split over the data axis, gathered where they are used."""
    for name in ("w0", "w1", "w2"):
        x = jnp.tanh(x @ within(p[name], mesh=LINE))
        x = within(x, "data", mesh=LINE)
    return jnp.mean(x**2)


def experts(p, x):
    """A mixture of experts by einsums with a dense dispatch."""
    gates = jax.nn.softmax(jnp.einsum("gsm,me->gse", x, p["gate"]))
    sent = within(jnp.einsum("gse,gsm->egsm", gates, x), "data")
    hidden = within(jax.nn.relu(jnp.einsum("egsm,emh->egsh", sent, p["up"])), "data", None, None, "model")
    out = jnp.einsum("egsh,ehm->egsm", hidden, p["down"])
    return jnp.mean((jnp.einsum("gse,egsm->gsm", gates, out) - x) ** 2)


def convolutions(p, x):
    """Two convolutions and a classifier; channels split over the model axis."""
    for name in ("c0", "c1"):
        x = jax.nn.relu(jax.lax.conv_general_dilated(
            x, p[name], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))
    return jnp.mean((x.mean((1, 2)) @ p["out"]) ** 2)


def layers(p, x):
    """A scan over stacked layers."""

    def layer(x, w):
        return within(x + jnp.tanh(x @ w[0]) @ w[1], "data"), None

    return jnp.mean(jax.lax.scan(layer, x, (p["up"], p["down"]))[0] ** 2)


def idle(p, x):
    """Weights split over the data axis: the model axis splits nothing."""
    for name in ("w0", "w1"):
        x = jnp.tanh(x @ p[name])
    return jnp.mean(x**2)


def zero(p, x):
    """Megatron's two weights, split over both axes."""
    for up, down in (("u0", "d0"), ("u1", "d1")):
        x = x + within(jnp.tanh(x @ p[up]) @ p[down], "data")
    return jnp.mean(x**2)


def sequence(p, x):
    """Sequence parallelism between the products of a Megatron block."""
    x = within(x, "data", "model")
    hidden = within(jnp.tanh(x @ p["up"]), "data", None, "model")
    return jnp.mean((within(hidden @ p["down"], "data", "model") + x) ** 2)


def embedding(p, tokens):
    """A tied embedding whose vocabulary is split, looked up and scored."""
    hidden = jnp.tanh(p["table"][tokens] @ p["w"])
    scores = jax.nn.log_softmax(hidden @ p["table"].T)
    return -jnp.mean(jnp.take_along_axis(scores, tokens[..., None], -1))


def fused(p, x):
    """Attention whose query, key and value are thirds of one product, cut across its tiles."""
    rows, length, width = x.shape
    q, k, v = (it.reshape(rows, length, 8, 16) for it in jnp.split(x @ p["qkv"], 3, axis=-1))
    scores = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k))
    return jnp.mean((jnp.einsum("bhqk,bkhd->bqhd", scores, v).reshape(rows, length, width) @ p["o"]) ** 2)


# name -> loss, parameters with their shardings, the input's shape and sharding, the mesh.
PROGRAMS = {
    "mlp": (mlp, {"up": (shape(64, 256), P(None, "model")), "down": (shape(256, 64), P("model", None))},
            (shape(32, 64), P("data")), MESH),
    "attention": (attention, {"q": (shape(128, 128), P(None, "model")), "k": (shape(128, 32), P(None, "model")),
                              "v": (shape(128, 32), P(None, "model")), "o": (shape(128, 128), P("model", None))},
                  (shape(8, 32, 128), P("data")), MESH),
    "fsdp": (fsdp, {name: (shape(128, 128), P("data", None)) for name in ("w0", "w1", "w2")},
             (shape(64, 128), P("data")), LINE),
    "experts": (experts, {"gate": (shape(64, 8), P()), "up": (shape(8, 64, 128), P("data", None, "model")),
                          "down": (shape(8, 128, 64), P("data", "model", None))},
                (shape(8, 32, 64), P("data")), MESH),
    "convolutions": (convolutions, {"c0": (shape(3, 3, 8, 32), P(None, None, None, "model")),
                                    "c1": (shape(3, 3, 32, 32), P(None, None, "model", None)),
                                    "out": (shape(32, 16), P())},
                     (shape(16, 16, 16, 8), P("data")), MESH),
    "layers": (layers, {"up": (shape(4, 64, 256), P(None, None, "model")),
                        "down": (shape(4, 256, 64), P(None, "model", None))},
               (shape(32, 64), P("data")), MESH),
    "idle": (idle, {name: (shape(128, 128), P("data", None)) for name in ("w0", "w1")},
             (shape(64, 128), P("data")), MESH),
    "zero": (zero, {"u0": (shape(64, 256), P("data", "model")), "d0": (shape(256, 64), P("model", "data")),
                    "u1": (shape(64, 256), P("data", "model")), "d1": (shape(256, 64), P("model", "data"))},
             (shape(32, 64), P("data")), MESH),
    "sequence": (sequence, {"up": (shape(64, 256), P(None, "model")), "down": (shape(256, 64), P("model", None))},
                 (shape(8, 32, 64), P("data", "model")), MESH),
    "embedding": (embedding, {"table": (shape(512, 64), P("model", None)), "w": (shape(64, 64), P())},
                  (shape(8, 32, dtype=jnp.int32), P("data")), MESH),
    "fused": (fused, {"qkv": (shape(128, 384), P(None, "model")), "o": (shape(128, 128), P("model", None))},
              (shape(8, 32, 128), P("data")), MESH),
}


def text(name, is_shardy):
    """The HLO of a program as JAX lowers it for one of the two partitioners."""
    loss, params, (x, rows), mesh = PROGRAMS[name]
    jax.config.update("jax_use_shardy_partitioner", is_shardy)
    placed = {key: NamedSharding(mesh, spec) for key, (_, spec) in params.items()}
    whole = NamedSharding(mesh, P())
    run = jax.jit(step(loss), in_shardings=(placed, NamedSharding(mesh, rows)), out_shardings=(placed, whole))
    lowered = run.lower({key: value for key, (value, _) in params.items()}, x)
    return lowered.compiler_ir("hlo").as_hlo_module().to_string()
