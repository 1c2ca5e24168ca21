"""Compares `phzc eval` of ONNX models with onnxruntime: `judge.py PHZC DIR`.

For every DIR/NAME.onnx.gz with inputs in DIR/NAME.in.npz, runs onnxruntime on them, then phzc twice: on the model
itself, and on the HLO text and the weights that `phzc convert` writes. Prints the largest difference over the
largest value; exits with 1 if any is above 1e-4.
"""

import gzip
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime

TOLERANCE = 1e-4


def error(found, wanted):
    if found.shape != wanted.shape or not np.array_equal(np.isnan(found), np.isnan(wanted)):
        return np.inf
    scale = max(np.max(np.abs(wanted), initial=0), 1e-30)
    return float(np.max(np.abs(found.astype(np.float64) - wanted), initial=0) / scale)


def worst(path, wanted):
    found = np.load(path)
    return max(error(found[str(n)], one) for n, one in enumerate(wanted))


def judge(phzc, model, directory):
    """The errors of the model and of its text, with their numbers of parameters and instructions."""
    inputs = model.with_name(model.name.replace(".onnx.gz", ".in.npz"))
    arrays = np.load(inputs)
    given = [arrays[f"arr_{n}"] for n in range(len(arrays.files))]
    session = onnxruntime.InferenceSession(gzip.open(model).read(), providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    wanted = session.run(None, dict(zip(names, given, strict=True)))
    text, weights, made = (directory / name for name in ("a.ir", "w.npz", "out.npz"))

    def run(*args):
        subprocess.run([phzc, *map(str, args)], check=True, capture_output=True, text=True)

    run("eval", model, "--input", inputs, "-o", made)
    direct = worst(made, wanted)
    run("convert", model, "-o", text, "--write-weights", weights)
    run("eval", text, "--input", inputs, "--input", weights, "-o", made)
    lines = text.read_text().splitlines()
    return direct, worst(made, wanted), sum(" parameter(" in line for line in lines), sum(" = " in line for line in lines)


def main():
    phzc, models = sys.argv[1], pathlib.Path(sys.argv[2])
    print(f"{'model':<16} {'weights':>8} {'instrs':>7} {'model':>9} {'text':>9}")
    failed = 0
    for model in sorted(models.glob("*.onnx.gz")):
        name = model.name.split(".")[0]
        try:
            with tempfile.TemporaryDirectory() as directory:
                direct, text, weights, instrs = judge(phzc, model, pathlib.Path(directory))
            is_wrong = not max(direct, text) <= TOLERANCE
            print(f"{name:<16} {weights:>8} {instrs:>7} {direct:>9.1e} {text:>9.1e}{'  WRONG' if is_wrong else ''}")
        except subprocess.CalledProcessError as failure:
            is_wrong = True
            print(f"{name:<16} {failure.stderr.strip()[:1000]}")
        failed += is_wrong
    print(f"{failed} wrong")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
