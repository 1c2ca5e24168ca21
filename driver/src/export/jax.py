
def meshes(devices=None):
    """The mesh of each stage, on these devices or all that there are."""
    devices = jax.devices() if devices is None else devices
    made = []
    for first, axes in MESHES:
        names, sizes = [name for name, _ in axes], [size for _, size in axes]
        part = np.array(devices[first : first + math.prod(sizes)])
        made.append(Mesh(part.reshape(sizes), names))
    return made


def in_shardings(arguments, meshes, unread=()):
    """Shardings like `arguments`, a dictionary of the step's arguments by name. Those named in `unread`, which the
    step does not read, are whole on the first stage's devices.

    Raises `KeyError` for an array that the program does not have.
    """
    places = {}
    for key, place in INPUTS.items():
        places.setdefault(_plain(key), set()).add(place)

    def sharding(path, _):
        key = path[0].key + jax.tree_util.keystr(path[1:])
        if path[0].key in unread:
            return NamedSharding(meshes[0], P())
        found = {INPUTS[key]} if key in INPUTS else places.get(_plain(key), set())
        if len(found) != 1:
            raise KeyError(f"`{key}` is no argument that the program reads: {', '.join(INPUTS)}")
        ((stage, spec),) = found
        return NamedSharding(meshes[stage], spec)

    return jax.tree_util.tree_map_with_path(sharding, arguments)


def out_shardings(results, meshes):
    """Shardings like `results`."""
    leaves, tree = jax.tree.flatten(results)
    places = [OUTPUTS[str(at)] for at in range(len(leaves))]
    return jax.tree.unflatten(tree, [NamedSharding(meshes[stage], spec) for stage, spec in places])


def constrained(value, product, meshes):
    """A product's result laid out as planned, inside of `jax.jit`; `product` is a key of PRODUCTS."""
    stage, spec = PRODUCTS[product]
    return jax.lax.with_sharding_constraint(value, NamedSharding(meshes[stage], spec))


def _plain(key):
    """What a key path and its name in HLO have in common: `params_w` of `params['w']`, `params__w__.1` and `params.w`."""
    return re.sub(r"[^0-9A-Za-z]+", "_", re.sub(r"\.\d+$", "", key)).strip("_")
