"""What the tests share: eight virtual CPU devices, the binary and a cluster on which small programs are worth splitting."""

import pathlib
import sys

import jax
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
sys.path.insert(0, str(ROOT / "tests/xla"))  # hlo.py and judge.py, which count collectives


def pytest_addoption(parser):
    parser.addoption("--phzc", help="the binary to test; else the package's own")


@pytest.fixture(scope="session")
def planning(request):
    """Options of `phzc.plan` that all tests use."""
    given = request.config.getoption("--phzc")
    binary = pathlib.Path(given).resolve() if given else None
    return {"cluster": ROOT / "tests/clusters/slow-8.toml", "binary": binary}
