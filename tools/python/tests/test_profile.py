"""Measured costs: what `phzc.measure` writes and keeps, and a step that is tuned. No time is judged."""

import json
import pathlib

import numpy as np
import phzc
import programs
import pytest
from phzc import binary, measure
from running import losses

PASSES = "fuse,shard,place{stages=1,microbatches=1}"
WRONG = "HloModule m, frontend_attributes={phzc.spmd=\"x=8\"}\n\nENTRY main {\n  ROOT v0 = f32[] infeed()\n}\n"


@pytest.fixture
def folder(planning, tmp_path):
    step, state, args = programs.mlp()
    plan = phzc.plan(step, *state, *args, **planning)
    path = tmp_path / "costs"
    wanted = ["profile", plan.program, "--cluster", planning["cluster"], "--passes", PASSES, "-o", path]
    binary.run(planning["binary"], wanted)
    return path


def test_every_program_is_measured_once(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    assert {"product", "collective", "segment", "step"} == {entry["kind"] for entry in manifest["entries"]}
    first = measure.measure(folder, 2)
    assert set(first["entries"]) == {entry["key"] for entry in manifest["entries"]}
    assert all(time["median_secs"] > 0 and time["samples"] == 2 for time in first["entries"].values())
    assert first["on"]["n_devices"] == 8
    assert measure.measure(folder, 2) == first
    dropped = manifest["entries"][0]["key"]
    del first["entries"][dropped]
    (folder / "measured.json").write_text(json.dumps(first))
    again = measure.measure(folder, 2)
    assert again["entries"].pop(dropped)["samples"] == 2
    assert again == first


def test_what_cannot_be_run_is_named_and_other_devices_are_refused(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["entries"] = manifest["entries"][:1]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / manifest["entries"][0]["file"]).write_text(WRONG)
    done = measure.measure(folder, 1)
    assert "infeed" in done["entries"][manifest["entries"][0]["key"]]["error"]
    (folder / "measured.json").write_text(json.dumps({**done, "on": {**done["on"], "n_devices": 4}}))
    with pytest.raises(ValueError, match="use another directory"):
        measure.measure(folder, 1)


def test_a_tuned_step_computes_what_the_step_does(planning, tmp_path):
    step, state, args = programs.mlp()
    command = pathlib.Path(__file__).resolve().parents[3] / "tests/profile/fake.sh"
    tuned = phzc.tune(step, *state, *args, profile=tmp_path, measure=f"{command} 5", **planning)
    assert "is kept" in tuned.rounds and "profile: " in tuned.summary()
    np.testing.assert_allclose(losses(tuned.jit(), state, args), losses(step, state, args), rtol=1e-5)
    measured = phzc.plan(step, *state, *args, profile=tmp_path, **planning)
    assert "profile: " in measured.summary()
