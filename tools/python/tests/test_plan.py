"""What a plan says: shardings like the arguments, names, figures, and errors with a remedy."""

import inspect
import runpy

import jax
import jax.numpy as jnp
import numpy as np
import phzc
import programs
import pytest
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec
from phzc import binary


@pytest.fixture(scope="module")
def mlp(planning):
    step, state, args = programs.mlp()
    return phzc.plan(step, *state, *args, **planning), step, (*state, *args)


def test_shardings_are_pytrees_like_arguments_and_results(mlp):
    plan, step, args = mlp
    assert jax.tree.structure(plan.in_shardings) == jax.tree.structure(args)
    assert jax.tree.structure(plan.out_shardings) == jax.tree.structure(jax.eval_shape(step, *args))
    placed = jax.device_put(args, plan.in_shardings)
    params, state, _ = plan.jit()(*placed)
    same = jax.tree.map(lambda x, s: x.sharding == s, (params, state), plan.out_shardings[:2])
    assert all(jax.tree.leaves(same))
    assert any(any(spec) for spec in plan.layouts.values()), "something is split"


def test_an_argument_that_nothing_reads_is_whole_everywhere(mlp):
    plan, _, args = mlp
    assert plan.layouts["unused"] == PartitionSpec()
    assert len(plan.module.parameters) == len(jax.tree.leaves(args)) - 1


def test_layouts_are_found_by_key_path_and_explained(mlp):
    plan, _, _ = mlp
    assert plan.layouts["params['up']"] == plan.in_specs[0]["up"]
    assert "up" in plan.explain("params['up']")
    with pytest.raises(KeyError, match="more than one argument: params"):
        plan.explain("['up']")
    with pytest.raises(KeyError, match="no argument that is read"):
        plan.explain("params['left']")


def test_a_module_of_layouts_says_the_same_without_this_package(mlp, planning, tmp_path):
    plan, step, args = mlp
    cluster = ("--cluster", planning["cluster"])
    plan._phzc(plan.after, *cluster, "--passes", "", "--emit", "jax", "-q", "-o", tmp_path / "layouts.py")
    own = runpy.run_path(tmp_path / "layouts.py")
    meshes = own["meshes"]()
    names = inspect.signature(step).parameters
    found = own["in_shardings"](dict(zip(names, args, strict=True)), meshes, unread=["unused"])
    with pytest.raises(KeyError, match="`prams.*is no argument"):
        own["in_shardings"]({"prams": args[0]}, meshes)
    is_same = lambda x, a, b: a.is_equivalent_to(b, jnp.ndim(x))  # noqa: E731
    assert jax.tree.all(jax.tree.map(is_same, list(args), [found[name] for name in names], list(plan.in_shardings)))
    results = jax.eval_shape(step, *args)
    placed = own["out_shardings"](results, meshes)
    assert jax.tree.all(jax.tree.map(is_same, results, placed, plan.out_shardings))
    assert "called alike and lie otherwise (`jit(step)/jvp()/dot_general`)" in (tmp_path / "layouts.py").read_text()


PRODUCT = """
ENTRY step {
  x = f32[64,32] parameter(0)
  w = f32[32,256] parameter(1)
  ROOT y = f32[64,256] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0},
    metadata={op_name="dot" source_file="/src/model.py" source_line=12}
}
"""


def test_a_product_is_laid_out_as_planned_by_its_source_line(planning, tmp_path):
    (tmp_path / "step.hlo").write_text(PRODUCT)
    passes = "fuse,shard{mesh={x=2,y=4},pin={^y$=[x,y]}},place{stages=1}"
    command = [tmp_path / "step.hlo", "--cluster", planning["cluster"], "--passes", passes, "--emit", "jax", "-q"]
    binary.run(planning["binary"], [*command, "-o", tmp_path / "layouts.py"])
    own = runpy.run_path(tmp_path / "layouts.py")
    assert own["PRODUCTS"] == {"model.py:12": (0, PartitionSpec("x", "y"))}
    made = jax.jit(lambda x: own["constrained"](x, "model.py:12", own["meshes"]()))(jnp.zeros((64, 256)))
    assert made.sharding.spec == PartitionSpec("x", "y")


def test_a_plan_is_shown_as_text_and_as_html(mlp):
    plan, _, _ = mlp
    assert "per step on 8 devices" in plan.summary().split("\n")[0]
    html = plan._repr_html_()
    assert "params[&#x27;up&#x27;]" in html and html.count("<table>") == html.count("</table>") >= 3


def test_arguments_unlike_the_planned_ones_are_named(mlp):
    plan, _, args = mlp
    with pytest.raises(TypeError, match=r"`x` has the shape \(3,\), the plan is for \(64, 64\)"):
        plan.jit()(*args[:3], jnp.ones(3), args[4])
    with pytest.raises(TypeError, match="the plan is for"):
        plan.jit()(*args[:3])


def test_shapes_are_enough_for_a_plan(mlp, planning):
    plan, step, args = mlp
    shapes = jax.eval_shape(lambda *x: x, *args)
    assert phzc.plan(step, *shapes, **planning).layouts == plan.layouts


def test_what_a_jitted_step_donates_is_donated(planning):
    step, state, args = programs.linen_mlp()
    plan = phzc.plan(step, *state, *args, **planning)
    state = jax.device_put(state, plan.in_shardings[:2])
    args = jax.device_put(args, plan.in_shardings[2:])
    plan.jit()(*state, *args)
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(state))
    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(args))


def test_results_of_state_are_laid_out_as_it_is_taken(planning):
    step, state, args = programs.scan_transformer()
    plan = phzc.plan(step, *state, *args, **planning)
    assert plan.module.notes.get("phzc.unstacked"), "the loop over layers is planned unrolled"
    assert jax.tree.leaves(plan.in_shardings[:2]) == jax.tree.leaves(plan.out_shardings[:2])


def test_static_arguments_are_constants_of_the_step(planning):
    def step(w, x, name, power):
        return jnp.mean((x @ w) ** power) if name == "mean" else None

    w, x = jnp.ones((64, 64)) / 64, jnp.ones((64, 64))
    planned = phzc.plan(step, w, x, "mean", 2, static_argnums=(3,), **planning).jit()
    np.testing.assert_allclose(planned(w, x, "mean", 2), 1)


def test_what_cannot_run_says_why_and_what_to_do(planning, mlp):
    def talks(w):
        jax.debug.print("{}", w.sum())
        return w @ w

    with pytest.raises(NotImplementedError, match="jax.debug.print"):
        phzc.plan(talks, jnp.ones((64, 64)), **planning).jit()
    with pytest.raises(phzc.PhzcError, match="h100x8"):
        phzc.plan(jnp.sin, jnp.ones(8), **planning | {"cluster": "h100x8"})
    with pytest.raises(ValueError, match="the plan uses 16 devices, JAX sees 8"):
        phzc.plan(jnp.sin, jnp.ones(8), **planning | {"cluster": "h100-8x2"}).mesh
    with pytest.raises(ValueError, match="exact, constraints"):
        mlp[0].jit("fast")


def test_everything_public_is_documented():
    for name in phzc.__all__:
        thing = getattr(phzc, name)
        members = (
            [m for key, m in vars(thing).items() if not key.startswith("_")]
            if isinstance(thing, type)
            else []
        )
        assert all(inspect.getdoc(m) for m in [thing, *members] if callable(m) or isinstance(m, property)), (
            name
        )


def test_named_shardings_are_of_the_plans_mesh(mlp):
    plan, _, _ = mlp
    named = jax.tree.leaves(plan.in_shardings)
    assert all(isinstance(s, NamedSharding) and s.mesh == plan.mesh for s in named)


def test_shardings_of_a_model_are_a_pytree_like_it(planning):
    step, (params, state), args = programs.mlp()
    plan = phzc.plan(step, params, state, *args, **planning)
    assert plan.shardings_for(params) == plan.in_shardings[0]
    with pytest.raises(ValueError, match="no argument"):
        plan.shardings_for({"other": jnp.ones(5)})

    step, (model, optimizer), args = programs.nnx_gpt()
    plan = phzc.plan(step, model, optimizer, *args, **planning)
    shardings = plan.shardings_for(model)
    placed = jax.device_put(nnx.state(model), shardings)
    assert jax.tree.map(lambda x: x.sharding, placed) == shardings
