"""What the tests share: eight virtual CPU devices, the binary and a cluster on which small programs are worth
splitting."""

import os
import pathlib
import sys

# Half of the time of these tests is LLVM's: small programs run once need no optimized code.
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
)

import jax  # noqa: E402
import pytest  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
sys.path.insert(0, str(ROOT / "tests/xla"))  # hlo.py and judge.py, which count collectives

FIGURES = pytest.StashKey[list]()


def pytest_addoption(parser):
    parser.addoption("--phzc", help="the binary to test; else the package's own")


@pytest.fixture(scope="session")
def planning(request):
    """Options of `phzc.plan` that all tests use."""
    given = request.config.getoption("--phzc")
    binary = pathlib.Path(given).resolve() if given else None
    return {"cluster": ROOT / "tests/clusters/slow-8.toml", "binary": binary}


@pytest.fixture(scope="session")
def figures(request):
    """Rows of the table at the end: program, error of the losses, and each kind of collective."""
    return request.config.stash.setdefault(FIGURES, [])


def pytest_terminal_summary(terminalreporter, config):
    rows = config.stash.get(FIGURES, [])
    if rows:
        terminalreporter.write_line(
            "\nLosses of ten steps, and collectives per device and step: planned, inserted, ratio of bytes"
        )
    for name, error, kind, said, found, ratio in rows:
        runs = f"{said['runs']:g} x {said['bytes']:,} B   {found['runs']:g} x {found['bytes']:,} B"
        terminalreporter.write_line(f"{name:18} {error:8} {kind:20} {runs:44} {ratio}")
