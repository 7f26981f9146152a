"""M01: memory stays flat over any sequence of shapes. Short here; --long makes it 10,000 runs."""
import json
import pathlib
import subprocess
import sys

import pytest

from support import build_model, paths

WORKER = pathlib.Path(__file__).with_name("memory_worker.py")


def grow(model, runs, threads, *numbers):
    done = subprocess.run([sys.executable, str(WORKER), str(model), str(runs), str(threads), *map(str, numbers)],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check(report):
    middle, end = report["middle"], report["end"]
    assert end["resident_kib"] < middle["resident_kib"] * 1.05, report
    assert end["executable"] <= middle["executable"] + 2, report
    assert end["session"]["cached_shapes"] <= 16


@pytest.mark.parametrize("threads", (1, 2))
def test_M01_random_sizes_of_a_small_net(tmp_path, threads, long_mode):
    path = build_model.conv_net(tmp_path / "net.onnx")
    check(grow(path, 10_000 if long_mode else 1500, threads, 30, 200, 1))


MODELS = {
    "det": ("ppocr/ch_PP-OCRv4_det_infer.onnx", 120, (64, 256, 32)),
    "rec": ("ppocr/ch_PP-OCRv4_rec_infer.onnx", 160, (16, 400, 1, 48)),
}


@pytest.mark.parametrize("name", MODELS)
def test_M01_real_models(name, long_mode):
    path, runs, numbers = MODELS[name]
    check(grow(paths.model(path), 10_000 if long_mode else runs, 2, *numbers))
