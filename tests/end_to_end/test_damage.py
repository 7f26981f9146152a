"""Damaged artifacts: cut at every 1,000th byte, and with single bits flipped. Refused with code 3 or a right answer; never a crash."""
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from support import build_model, command, models, paths

WORKER = pathlib.Path(__file__).with_name("damage_worker.py")


def problems(arguments):
    """Lines about copies that went wrong; a worker that dies is started again after the copy that killed it."""
    found, start = [], 0
    while True:
        done = subprocess.run([sys.executable, str(WORKER), *map(str, arguments), str(start)], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=1500)
        lines = done.stdout.splitlines()
        found += [line for line in lines if line.startswith("bad ")]
        if done.returncode == 0:
            return found
        tries = [int(line.split()[1]) for line in lines if line.startswith("try ")]
        assert tries, done.stderr
        found.append(f"copy {tries[-1]} ended the process with {done.returncode}: {done.stderr[-300:]}")
        start = tries[-1] + 1
        if len(found) > 10:
            return found


@pytest.fixture(scope="module", params=("small", "packed", "silero"))
def artifact(request, tmp_path_factory):
    """(artifact, inputs, right answers)"""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "small":
        source = build_model.conv_net(folder / "net.onnx")
        inputs = {"x": models.floats(1, 3, 20, 24)}
    elif request.param == "packed":
        source = build_model.wide_net(folder / "net.onnx")
        inputs = {"x": models.floats(3, 512)}
    else:
        source = paths.model("silero/silero_vad.onnx")
        inputs = next(case for case in models.silero() if case.name == "silero_vad").inputs()
    out = folder / "model.tenon"
    assert command.tenon("compile", source, "-o", out).returncode == 0
    _, right = command.run_model(out, inputs, folder / "run")
    np.savez(folder / "inputs.npz", **inputs)
    np.savez(folder / "right.npz", **right)
    return out, folder / "inputs.npz", folder / "right.npz"


def test_cut(artifact, long_mode):
    size = artifact[0].stat().st_size
    step = 1000 if long_mode or size < 300_000 else max(1000, size // 300)
    if size < 100_000:
        step = 100
    assert problems([*artifact, "cuts", step]) == []


def test_bits_flipped(artifact, long_mode):
    assert problems([*artifact, "flips", 10_000 if long_mode else 400, 12]) == []


def test_command_line_refuses_too(artifact, tmp_path):
    data = artifact[0].read_bytes()
    for name, damaged in (("empty", b""), ("short", data[:100]), ("half", data[:len(data) // 2]), ("longer", data + b"x" * 64)):
        path = tmp_path / f"{name}.tenon"
        path.write_bytes(damaged)
        for verb in ("run", "inspect", "bench"):
            done = command.tenon(verb, path)
            assert done.returncode == 3, (name, verb, done.returncode, done.stderr)
            assert path.name in command.error_line(done)
