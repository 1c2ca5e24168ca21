"""Stand-ins for what configuration classes import and do not need: PyTorch, and all of a project but its configuration."""

import importlib.machinery
import sys
from unittest.mock import MagicMock

ABSENT = {"torch", "numpy", "psutil", "tqdm"}
"""Packages that are not installed."""
PROJECTS = {"deepspeed", "megatron", "torchtitan"}
"""Packages of which only the configuration is run."""
REAL = (
    "config",
    "constants",
    "manager",
    "config_utils",
    "tensor_parallel",
    "model_parallel_config",
    "transformer_config",
    "transformer.enums",
    "pipeline_parallel_layer_layout",
)
"""How the names of modules end that are run."""


class StandIn(MagicMock):
    """A module that has every name."""

    __version__ = "2.6.0"


class Finder:
    """Finds stand-ins before Python finds modules."""

    def find_spec(self, name, path=None, target=None):
        """The module itself if it is a configuration, a stand-in for any other."""
        top = name.split(".")[0]
        if top in ABSENT:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        if top not in PROJECTS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or name.endswith(REAL):
            return spec
        stand_in = importlib.machinery.ModuleSpec(name, self, is_package=True)
        stand_in.submodule_search_locations = spec.submodule_search_locations
        return stand_in

    def create_module(self, spec):
        """A module with every name, and the submodules of the real one."""
        module = StandIn(name=spec.name)
        module.__path__ = list(spec.submodule_search_locations or [])
        module.__spec__ = spec
        module.__all__ = []
        return module

    def exec_module(self, module):
        """Runs nothing."""


sys.meta_path.insert(0, Finder())
