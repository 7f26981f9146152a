"""`tenon compile` and the cache: same answers, same bytes, whole files or none."""
import json
import os
import signal
import subprocess
import time

import numpy as np
import pytest
from onnx import helper

from support import build_model, command, compare, models, paths

REC = "ppocr/ch_PP-OCRv4_rec_infer.onnx"


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    return build_model.small_net(tmp_path_factory.mktemp("net") / "net.onnx")[0]


def left_over(folder):
    return sorted(p.name for p in folder.iterdir())


def test_artifact_gives_the_models_answers(tmp_path):
    out = tmp_path / "rec.tenon"
    assert command.tenon("compile", paths.model(REC), "-o", out).returncode == 0
    inputs = {"x": models.floats(1, 3, 48, 64)}
    done, got = command.run_model(out, inputs, tmp_path / "run")
    assert done.returncode == 0, done.stderr
    for name, want in models.reference(paths.model(REC), inputs).items():
        compare.assert_equal(got[name], want, name)


def test_same_input_same_bytes(net, tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        assert command.tenon("compile", net, "-o", "a.tenon", cwd=tmp_path / folder).returncode == 0
    assert (tmp_path / "one/a.tenon").read_bytes() == (tmp_path / "two/a.tenon").read_bytes()


def test_packed_weights(tmp_path):
    net = build_model.wide_net(tmp_path / "net.onnx")
    packed_file, bare = tmp_path / "packed.tenon", tmp_path / "bare.tenon"
    assert command.tenon("compile", net, "-o", packed_file).returncode == 0
    assert command.tenon("compile", net, "-o", bare, "--no-packed-weights").returncode == 0
    assert packed_file.stat().st_size > 1.9 * bare.stat().st_size
    packed = command.tenon_json("inspect", packed_file)["packed_weights"]
    assert packed["bytes"] >= 2 << 20
    assert "packed_weights" not in command.tenon_json("inspect", bare)
    inputs = {"x": models.floats(5, 512)}
    want = models.reference(net, inputs)["y"]
    for out in (packed_file, bare):
        for environment in ({}, {"TENON_ISA": "baseline"}):
            done, got = command.run_model(out, inputs, tmp_path / "run", env=environment)
            assert done.returncode == 0, done.stderr
            compare.assert_equal(got["y"], want, f"{out.name} {environment}")


def test_external_weights(net, tmp_path):
    out = tmp_path / "net.tenon"
    assert command.tenon("compile", net, "-o", out, "--external-weights").returncode == 0
    assert left_over(tmp_path) == ["net.tenon", "net.tenon.weights"]
    inputs = {"x": models.floats(3, 4)}
    _, got = command.run_model(out, inputs, tmp_path / "run")
    compare.assert_equal(got["y"], models.reference(net, inputs)["y"], "y")
    (tmp_path / "net.tenon.weights").unlink()
    assert command.tenon("run", out, "--input", "x=ones", "--shape", "x=1x4").returncode == 3


def test_declared_shapes_are_held(net, tmp_path):
    out = tmp_path / "net.tenon"
    assert command.tenon("compile", net, "-o", out, "--input-shape", "x:2,4").returncode == 0
    assert command.tenon("run", out, "--input", "x=ones", "--shape", "x=2x4").returncode == 0
    done = command.tenon("run", out, "--input", "x=ones", "--shape", "x=3x4")
    assert done.returncode == 2 and "x" in command.error_line(done)


BAD = {
    "unknown pass": (["--disable-pass", "frobnicate"], 2, "frobnicate"),
    "unknown level": (["--opt-level", "7"], 2, "7"),
    "unknown precision": (["--precision", "f7"], 2, "f7"),
    "unknown input": (["--input-shape", "z:1,4"], 2, "z"),
    "contradicting shape": (["--input-shape", "x:1,5"], (2, 3), "x"),
    "malformed shape": (["--input-shape", "x:1..,4"], 2, "1.."),
}


@pytest.mark.parametrize("what", BAD)
def test_asked_wrongly(net, tmp_path, what):
    flags, code, word = BAD[what]
    done = command.tenon("compile", net, "-o", tmp_path / "out.tenon", *flags)
    assert done.returncode in (code if isinstance(code, tuple) else (code,)), (done.stdout, done.stderr)
    assert word in command.error_line(done)
    assert left_over(tmp_path) == []


def test_unwritable_place(net):
    done = command.tenon("compile", net, "-o", "/proc/nowhere/out.tenon")
    assert done.returncode == 3 and "/proc/nowhere" in command.error_line(done)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 256 KiB, where this user may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("mounting a tmpfs is not permitted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_full_disk(small_disk):
    done = command.tenon("compile", paths.model(REC), "-o", small_disk / "rec.tenon")
    assert done.returncode == 6, (done.stdout, done.stderr)
    assert str(small_disk) in command.error_line(done)
    assert left_over(small_disk) == []


def test_full_disk_while_running(small_disk, tmp_path):
    path = build_model.model(tmp_path / "m.onnx", [build_model.node("Relu", ["x"], ["y"])], [build_model.value("x", ["n"])],
                             [build_model.value("y", ["n"])])
    done = command.tenon("run", path, "--input", "x=ones", "--shape", "x=1000000", "--output", small_disk)
    assert done.returncode == 6, (done.stdout, done.stderr)
    assert left_over(small_disk) == []


def test_full_disk_for_the_cache_is_no_failure(small_disk):
    """A cache that cannot be written costs time, not the answer."""
    done = command.tenon("run", paths.model(REC), "--input", "x=ones", "--shape", "x=1x3x48x64", "--cache-dir", small_disk)
    assert done.returncode == 0, done.stderr


def interrupted(arguments, delay):
    process = subprocess.Popen([str(paths.TENON), *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=30)
    return process.returncode, stdout, stderr


def test_ctrl_c_while_benchmarking(net):
    start = time.monotonic()
    code, _, _ = interrupted(["bench", net, "--shape", "x=1x4", "--duration", "60s"], 1.0)
    assert code in (130, -signal.SIGINT)
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("delay", (0.02, 0.05, 0.1, 0.2, 0.4))
def test_ctrl_c_while_compiling(tmp_path, delay):
    """Whenever it comes: the whole file or none, and nothing beside it."""
    out = tmp_path / "rec.tenon"
    code, _, _ = interrupted(["compile", paths.model(REC), "-o", out], delay)
    assert code in (0, 130, -signal.SIGINT)
    assert left_over(tmp_path) == (["rec.tenon"] if out.exists() else [])
    if out.exists():
        assert command.tenon("inspect", out).returncode == 0


def test_cache_is_used_and_heals(net, tmp_path):
    cache = tmp_path / "cache"
    flags = ["run", net, "--input", "x=ones", "--shape", "x=1x4", "--cache-dir", cache, "--json"]
    first = command.tenon(*flags)
    assert first.returncode == 0
    artifacts = list(cache.rglob("*.tenon"))
    assert len(artifacts) == 1
    before = artifacts[0].stat().st_mtime_ns
    assert command.tenon(*flags).returncode == 0
    assert artifacts[0].stat().st_mtime_ns == before
    damaged = bytearray(artifacts[0].read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    artifacts[0].write_bytes(damaged)
    again = command.tenon(*flags)
    assert again.returncode == 0, again.stderr


def test_model_changes_are_seen_through_the_cache(tmp_path):
    path, _ = build_model.small_net(tmp_path / "net.onnx")
    flags = {"x": np.ones((1, 4), np.float32)}
    _, before = command.run_model(path, flags, tmp_path / "a", "--cache-dir", tmp_path / "cache")
    import onnx
    changed = onnx.load(path)
    bias = next(w for w in changed.graph.initializer if w.name == "b")
    bias.CopyFrom(onnx.numpy_helper.from_array(np.full(3, 50, np.float32), "b"))
    onnx.save(changed, path)
    os.utime(path, ns=(1, 1))
    _, after = command.run_model(path, flags, tmp_path / "b", "--cache-dir", tmp_path / "cache")
    assert (after["y"] > 40).all() and (before["y"] < 40).all()


def test_check_reports_every_node(tmp_path):
    nodes = [build_model.node("Relu", ["x"], ["a"], name="first"), helper.make_node("Frobnicate", ["a"], ["b"], name="odd", domain="org.example"),
             build_model.node("Relu", ["b"], ["y"], name="last")]
    for count, code in ((3, 4), (1, 0)):
        last = nodes[count - 1].output[0]
        graph = helper.make_graph(nodes[:count], "g", [build_model.value("x", [2])], [helper.make_empty_tensor_value_info(last)])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("org.example", 1)], ir_version=9)
        path = tmp_path / "m.onnx"
        path.write_bytes(model.SerializeToString())
        done = command.tenon("compile", "--check", path)
        assert done.returncode == code, done.stderr
        assert "Relu" in done.stdout and ("NOT SUPPORTED" in done.stdout) == (code == 4)
        assert code == 0 or "'odd'" in command.error_line(done)
        report = json.loads(command.tenon("compile", "--check", path, "--json").stdout)
        assert [n["supported"] for n in report["nodes"]] == [True, False, True][:count]
        assert ("error" in report) == (code == 4)
