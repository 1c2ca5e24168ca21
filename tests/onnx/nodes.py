"""Runs ONNX's own tests of single operators through phzc: `nodes.py PHZC [-v]`.

Integer and truth-value inputs that hold sizes, axes or bounds become constants, as exporters write them. Tests of
operators that phzc does not read are counted, not judged; so are those with inputs that are no tensors.
"""

import pathlib
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

# Inputs that are to be known while converting, by operator; those of other operators may depend on the input.
KNOWN = {
    "ConstantOfShape": [0], "CumSum": [1], "Dropout": [1, 2], "Expand": [1], "NonZero": [0], "OneHot": [1], "Pad": [1, 3],
    "Range": [0, 1, 2], "Reshape": [1], "Slice": [1, 2, 3, 4], "Split": [1], "Squeeze": [1], "Tile": [1], "TopK": [1],
    "Trilu": [1], "Unsqueeze": [1],
}  # fmt: skip
TOLERANCE = 1e-3


def known_inputs(model, given):
    """Makes constants of the inputs that have to be."""
    names = set()
    for node in model.graph.node:
        wanted = KNOWN.get(node.op_type, [1] if node.op_type.startswith("Reduce") else [])
        names |= {node.input[n] for n in wanted if n < len(node.input)}
    kept = []
    for info, array in zip(list(model.graph.input), given, strict=True):
        if info.name in names:
            model.graph.input.remove(info)
            constant = onnx.helper.make_node("Constant", [], [info.name], value=numpy_helper.from_array(array))
            model.graph.node.insert(0, constant)
        else:
            kept.append(array)
    return kept


def agree(found, wanted):
    wanted = np.asarray(wanted)
    if found.shape != wanted.shape:
        return False
    if wanted.dtype.kind not in "fc" and wanted.dtype.name != "bfloat16":
        return np.array_equal(found, wanted)
    loose = 10 * TOLERANCE if wanted.dtype.itemsize < 4 else TOLERANCE
    return np.allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=loose, atol=1e-5, equal_nan=True)


def judge(phzc, case, directory):
    """`right`, or why not."""
    model = onnx.ModelProto.FromString(case.model.SerializeToString())
    given, wanted = case.data_sets[0]
    if not all(isinstance(array, np.ndarray) for array in [*given, *wanted]):
        return "no tensors"
    given = known_inputs(model, given)
    path, inputs, made = (directory / name for name in ("m.onnx", "in.npz", "out.npz"))
    onnx.save(model, path)
    np.savez(inputs, *given)
    args = ["--input", inputs] if given else []
    done = subprocess.run([phzc, "eval", path, *args, "-o", made], capture_output=True, text=True)
    if done.returncode != 0:
        return done.stderr.strip().splitlines()[0]
    found = np.load(made)
    n_right = sum(agree(found[str(n)], one) for n, one in enumerate(wanted))
    return "right" if n_right == len(wanted) else "WRONG"


def main():
    warnings.filterwarnings("ignore")
    phzc, verbose = sys.argv[1], "-v" in sys.argv
    counts = {"right": 0, "WRONG": 0, "not read": 0}
    for case in collect_testcases(None):
        with tempfile.TemporaryDirectory() as directory:
            verdict = judge(phzc, case, pathlib.Path(directory))
        kind = verdict if verdict in counts else "not read"
        counts[kind] += 1
        if "panicked" in verdict or kind == "WRONG" or (verbose and kind == "not read"):
            print(f"{case.name}: {verdict[:300]}", flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    sys.exit(counts["WRONG"] > 0)


if __name__ == "__main__":
    main()
