"""Functions of JAX, each planned and run: what their HLO needs of the evaluator."""

import jax
import jax.numpy as jnp
import numpy as np
import phzc
import pytest
from jax import lax

W = jax.random.normal(jax.random.key(1), (64, 128)) * 0.1
X = jax.random.normal(jax.random.key(0), (64, 64))


def cond(w, x):
    return lax.cond(x.sum() > 0, lambda: jnp.sum((x @ w) ** 2), lambda: jnp.sum(x @ w))


def switch(w, x):
    return lax.switch(
        jnp.int32(x[0, 0] > 0) + 1, [lambda a: a.sum(), lambda a: 2 * a.sum(), lambda a: a[0, 0]], x @ w
    )


def loops(w, x):
    def looped(w):
        return lax.fori_loop(0, 3, lambda _, c: jnp.tanh(c @ w[:, :64]), x).sum()

    last = lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.tanh(c[1] @ w[:, :64])), (0, x))
    return last[1].sum(), jax.grad(looped)(w)


def orders(w, x):
    y = x @ w
    values, places = lax.top_k(jax.nn.softmax(y), 4)
    return (
        jnp.sort(y, 1),
        jnp.argsort(y, 1),
        jnp.sort(y, 0, descending=True),
        values,
        places,
        jnp.argmax(y, 1),
    )


def scans(w, x):
    y = x @ w
    return jnp.cumsum(y, 1), jnp.cumprod(y / 10, 0), lax.cummax(y, 1), jax.nn.logsumexp(y, 1)


def factors(w, x):
    a = w @ w.T + 5 * jnp.eye(64)
    spectrum = jnp.linalg.svd(x @ w, compute_uv=False)
    return jnp.linalg.cholesky(a), jnp.linalg.solve(a, x), spectrum, jnp.abs(jnp.linalg.qr(w)[1])


def spectra(w, x):
    y = (x @ w).astype(jnp.complex64) * 1j
    return jnp.abs(jnp.fft.fft(x @ w, axis=1)), (y @ y.T.conj()).real


def randoms(w, x):
    key = jax.random.key(3)
    y = x @ w
    return (
        jax.random.normal(key, x.shape) @ w,
        jax.random.categorical(key, y),
        jax.random.permutation(key, 64),
    )


def narrow(w, x):
    small = lax.dot((x * 10).astype(jnp.int8), (w * 10).astype(jnp.int8), preferred_element_type=jnp.int32)
    return small, x.astype(jnp.float8_e4m3fn).astype(jnp.float32) @ w


def indices(w, x):
    i = jnp.argsort(x[:, 0])
    return x.at[i].add(x @ w[:, :64]), x.at[i].mul(2.0), x.at[i, i].set(1.0), x[i][:, i], jnp.take(x, i, 1)


def shifts(w, x):
    return (
        jnp.pad(x @ w, ((1, 2), (0, 3))),
        jnp.roll(x, 3, 0),
        jnp.flip(x, 1),
        x[::2, 1::3],
        jnp.clip(x, -0.5, 0.5),
    )


def elements(w, x):
    y, i = x @ w, (x * 100).astype(jnp.int32)
    floats = (
        lax.erf(y),
        lax.lgamma(jnp.abs(y) + 1),
        jnp.arctan2(y, y + 1),
        y // 2,
        y % 3,
        jnp.round(y),
        jnp.cbrt(y),
    )
    return (
        *floats,
        jnp.isnan(y),
        i >> 1,
        i << 2,
        i & 7,
        i ^ 5,
        ~i,
        i // 3,
        i % 7,
        lax.population_count(i),
        lax.clz(i),
    )


def reductions(w, x):
    y = x @ w
    i = (y * 9).astype(jnp.int32)
    return y.max(1), y.prod(0), (y > 0).all(1), (y > 0).any(), jnp.median(y, 1), lax.reduce_xor(i, (1,))


def pooling(w, x):
    def pooled(kernel):
        image = x.reshape(16, 8, 8, 4)
        y = lax.conv_general_dilated(
            image, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        return lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID").sum()

    return jax.grad(pooled)(w[:36, :8].reshape(3, 3, 4, 8))


FUNCTIONS = [
    cond,
    switch,
    loops,
    orders,
    scans,
    factors,
    spectra,
    randoms,
    narrow,
    indices,
    shifts,
    elements,
    reductions,
    pooling,
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_planned_function_computes_the_same(function, planning):
    plan = phzc.plan(function, W, X, stages=1, microbatches=1, **planning)
    found, wanted = plan.jit()(W, X), jax.jit(function)(W, X)
    for got, want in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert got.dtype == want.dtype
        got, want = np.asarray(got), np.asarray(want)
        scale = np.abs(want).max() if want.dtype.kind == "f" else 0
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-5 * scale)
