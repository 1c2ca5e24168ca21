"""The evaluator against `phzc eval`: the same inputs, output by output."""

import pathlib

import jax
import numpy as np
import pytest
from conftest import ROOT
from phzc import binary, hlo
from phzc.evaluate import Evaluator

PROGRAMS = [
    "examples/gpt_scan.ir",
    "examples/llama.ir",
    "examples/moe.ir",
    "tests/xla/ops/places.ir",
    "tests/xla/ops/windows.ir",
    "tests/frontends/control.mlir",
    "tests/frontends/convnet.mlir",
    "tests/frontends/order.mlir",
]


def arrays(path):
    with np.load(path) as file:
        return [file[str(at)] for at in range(len(file.files))]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_computes_what_phzc_computes(name, planning, tmp_path: pathlib.Path):
    inputs, outputs, text = tmp_path / "in.npz", tmp_path / "out.npz", tmp_path / "program.ir"
    binary.run(planning["binary"], ["eval", ROOT / name, "--write-inputs", inputs, "-o", outputs])
    binary.run(planning["binary"], ["convert", ROOT / name, "-o", text])
    module = hlo.parse(text.read_text())
    given = [a.astype(p.shape.numpy) for a, p in zip(arrays(inputs), module.parameters, strict=True)]
    with jax.enable_x64(True):
        found = jax.jit(Evaluator(module))(*given)
    for got, wanted in zip(found, arrays(outputs), strict=True):
        wanted = wanted.astype(got.dtype)
        scale = np.abs(wanted[np.isfinite(wanted)]).max(initial=0) if wanted.dtype.kind in "fc" else 1
        np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-4, atol=1e-5 * scale)
