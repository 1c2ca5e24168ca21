"""Checks by random programs that XLA inserts what docs/xla-judge.md says it does.

`tests/xla/run rules [COUNT]`: COUNT programs of each family; prints every mismatch.
"""

import math
import random
import sys

import xla
from judge import collectives

MESHES = ({"a": 2, "b": 4}, {"a": 4, "b": 2}, {"a": 2, "b": 2, "c": 2})
EXTENT = 16  # of every dimension
DOTS = ("ik,kj", "bik,bkj", "bsk,bsj", "bhsd,bhtd", "bhst,bhtd", "bsk,kj", "bsj,kj", "bhsd,hdk",
        "eck,ekj", "bsk,khd")
RESULTS = ("ij", "bij", "kj", "bhst", "bhsd", "bsj", "bsk", "bsk", "ecj", "bshd")
LOOKUP = ("offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, "
          f"slice_sizes={{1,{EXTENT}}}")
UPDATE = ("update_window_dims={2}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
          "index_vector_dim=2")
ADD = """add {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT r = f32[] add(p, q)
}
"""


def sharding(mesh, layout):
    """HLO text of a layout: a list of mesh axes per dimension."""
    used = [axis for dim in layout for axis in dim]
    if not used:
        return "sharding={replicated}"
    rest = [axis for axis in mesh if axis not in used]
    tiles = [shards(mesh, dim) for dim in layout] + [shards(mesh, rest)] * bool(rest)
    order = [list(mesh).index(axis) for axis in used + rest]
    devices = ",".join(map(str, mesh.values())) + f"]T({','.join(map(str, order))})"
    last = " last_tile_dim_replicate" if rest else ""
    return f"sharding={{devices=[{','.join(map(str, tiles))}]<=[{devices}{last}}}"


def shards(mesh, axes):
    return math.prod(mesh[axis] for axis in axes)


def local_bytes(mesh, layout):
    return 4 * EXTENT ** len(layout) // shards(mesh, [axis for dim in layout for axis in dim])


def array(rank):
    return f"f32[{','.join([str(EXTENT)] * rank)}]"


def assign(rng, mesh, places):
    """Each mesh axis goes to one place or to none; several axes of a place in any order."""
    layout = {place: [] for place in places}
    for axis in rng.sample(list(mesh), len(mesh)):
        place = rng.choice([*places, None])
        if place is not None:
            layout[place].append(axis)
    return layout


# ---- families: each gives (computation, expected (kind, bytes) in order) or None ---------------

def dot(rng, mesh):
    """A dot whose dimensions agree, then a slice of its result over a reduced axis."""
    case = rng.randrange(len(DOTS))
    (left, right), result = DOTS[case].split(","), RESULTS[case]
    batch = [f for f in left if f in right and f in result]
    contracted = [f for f in left if f in right and f not in result]
    order = batch + [f for f in left if f not in right] + [f for f in right if f not in left]
    axes = assign(rng, mesh, sorted(set(left + right)))
    natural = [axes[f] for f in order]
    reduced = [axis for f in contracted for axis in axes[f]]
    final = [list(dim) for dim in natural]
    if reduced and rng.random() < 0.5:
        rng.choice(final).append(rng.choice(reduced))
    dims = {f"{side}_{role}_dims": "{" + ",".join(str(names.index(f)) for f in which) + "}"
            for side, names in (("lhs", left), ("rhs", right))
            for role, which in (("batch", batch), ("contracting", contracted))}
    shape = array(len(order))
    text = f"""ENTRY e {{
  x = {array(len(left))} parameter(0), {sharding(mesh, [axes[f] for f in left])}
  y = {array(len(right))} parameter(1), {sharding(mesh, [axes[f] for f in right])}
  d = {shape} dot(x, y), {', '.join(f'{k}={v}' for k, v in dims.items())}, {sharding(mesh, natural)}
  ROOT r = {shape} custom-call(d), custom_call_target="Sharding", {sharding(mesh, final)}
}}"""
    size = local_bytes(mesh, natural)
    return text, [("all-reduce", size) for f in contracted if axes[f]]


def step(rng, mesh):
    """One change of layout at the minor end of dimensions."""
    rank = rng.randrange(1, 5)
    before = list(assign(rng, mesh, range(rank)).values())
    after = [list(dim) for dim in before]
    full = [d for d in range(rank) if before[d]]
    free = [axis for axis in mesh if not any(axis in dim for dim in before)]
    kind, expected = rng.choice(("slice", "gather", "move")), []
    if kind == "slice" and free:
        after[rng.randrange(rank)].append(rng.choice(free))
    elif kind == "gather" and full:
        for d in sorted(rng.sample(full, rng.randint(1, len(full))), reverse=True):
            del after[d][rng.randrange(len(after[d])):]
            expected.append(("all-gather", local_bytes(mesh, after)))
    elif kind == "move" and full and rank > 1:
        source = rng.choice(full)
        target = rng.choice([d for d in range(rank) if d != source])
        start = rng.randrange(len(after[source]))
        after[target] += after[source][start:]
        del after[source][start:]
        expected.append(("all-to-all", local_bytes(mesh, before)))
    else:
        return None
    shape = array(rank)
    text = f"""ENTRY e {{
  x = {shape} parameter(0), {sharding(mesh, before)}
  n = {shape} negate(x), {sharding(mesh, before)}
  c = {shape} custom-call(n), custom_call_target="Sharding", {sharding(mesh, after)}
  ROOT r = {shape} negate(c), {sharding(mesh, after)}
}}"""
    return text, expected


def reduction(rng, mesh):
    rank = rng.randrange(2, 5)
    layout = list(assign(rng, mesh, range(rank)).values())
    gone = sorted(rng.sample(range(rank), rng.randint(1, rank)))
    kept = [layout[d] for d in range(rank) if d not in gone]
    dims = f"dimensions={{{','.join(map(str, gone))}}}"
    text = f"""ENTRY e {{
  x = {array(rank)} parameter(0), {sharding(mesh, layout)}
  z = f32[] constant(0), sharding={{replicated}}
  ROOT r = {array(len(kept))} reduce(x, z), {dims}, to_apply=add, {sharding(mesh, kept)}
}}"""
    size = local_bytes(mesh, kept)
    return ADD + text, [("all-reduce", size) for d in gone if layout[d]]


def form(rng, mesh):
    """Transpose, broadcast, and reshapes whose axes stay on the major part: all free."""
    rank = rng.randrange(2, 5)
    layout = list(assign(rng, mesh, range(rank)).values())
    kind, shape = rng.choice(("transpose", "broadcast", "split", "merge")), array(rank)
    if kind == "transpose":
        order = rng.sample(range(rank), rank)
        source, target = layout, [layout[d] for d in order]
        before, call = shape, f"transpose(x), dimensions={{{','.join(map(str, order))}}}"
    elif kind == "broadcast":
        dims = sorted(rng.sample(range(rank), rng.randrange(rank)))
        source, target = [layout[d] for d in dims], layout
        before, call = array(len(dims)), f"broadcast(x), dimensions={{{','.join(map(str, dims))}}}"
    else:
        at = rng.randrange(rank)
        sizes = [str(EXTENT)] * at + [str(EXTENT // 2), "2"] + [str(EXTENT)] * (rank - at - 1)
        wide, split = f"f32[{','.join(sizes)}]", [*layout[:at + 1], [], *layout[at + 1:]]
        call = "reshape(x)"
        before, shape = (shape, wide) if kind == "split" else (wide, shape)
        source, target = (layout, split) if kind == "split" else (split, layout)
    text = f"""ENTRY e {{
  x = {before} parameter(0), {sharding(mesh, source)}
  ROOT r = {shape} {call}, {sharding(mesh, target)}
}}"""
    return text, []


def lookup(rng, mesh):
    """Embedding lookup and its gradient, hidden or vocabulary sharded, no axis left idle."""
    axes = assign(rng, mesh, "bsvh")
    if axes["v"] and shards(mesh, axes["b"] + axes["s"] + axes["v"] + axes["h"]) < 8:
        return None
    table, index = [axes["v"], axes["h"]], [axes["b"], axes["s"], []]
    rows = [axes["b"], axes["s"], axes["h"]]
    shapes = f"""  i = s32[{EXTENT},{EXTENT},1] parameter(0), {sharding(mesh, index)}
"""
    if rng.random() < 0.5:
        text = f"""ENTRY e {{
{shapes}  t = {array(2)} parameter(1), {sharding(mesh, table)}
  ROOT r = {array(3)} gather(t, i), {LOOKUP}, {sharding(mesh, rows)}
}}"""
        return text, [("all-reduce", local_bytes(mesh, rows))] if axes["v"] else []
    text = f"""ENTRY e {{
{shapes}  u = {array(3)} parameter(1), {sharding(mesh, rows)}
  z = f32[] constant(0), sharding={{replicated}}
  t = {array(2)} broadcast(z), dimensions={{}}, {sharding(mesh, table)}
  ROOT r = {array(2)} scatter(t, i, u), {UPDATE}, to_apply=add, {sharding(mesh, table)}
}}"""
    size = local_bytes(mesh, table)
    return ADD + text, [("all-reduce", size) for f in "bs" if axes[f]]


# ---- driver -----------------------------------------------------------------------------------

def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    rng, failed = random.Random(0), 0
    for family in (dot, step, reduction, form, lookup):
        wrong = tried = 0
        while tried < count:
            case = family(rng, rng.choice(MESHES))
            if case is None:
                continue
            tried += 1
            text = f"HloModule m, num_partitions=8\n{case[0]}"
            rows, _ = collectives(xla.Program(text, 8).partitioned)
            found = [(row["kind"], row["bytes"]) for row in rows]
            if found != case[1]:
                wrong += 1
                print(f"{text}\nexpected {case[1]}\ninserted {found}\n")
        print(f"{family.__name__}: {tried - wrong} as predicted, {wrong} not")
        failed += wrong
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
