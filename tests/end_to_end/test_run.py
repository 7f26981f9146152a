"""`tenon run`: values, files, reports, and every way it can be asked wrongly."""
import json

import numpy as np
import pytest

from support import build_model, command, paths

F = build_model


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    """A small model, its weights, an input file and the right answer."""
    folder = tmp_path_factory.mktemp("net")
    path, weights = F.small_net(folder / "net.onnx")
    x = np.random.default_rng(5).standard_normal((2, 4)).astype(np.float32)
    np.save(folder / "x.npy", x)
    x.tofile(folder / "x.bin")
    return path, folder, x, np.maximum(x @ weights["w"] + weights["b"], 0)


def test_values_and_report(net, tmp_path):
    path, folder, _, want = net
    report = command.tenon_json("run", path, "--input", f"x={folder / 'x.npy'}", "--output", tmp_path / "out")
    (row,) = report["outputs"]
    assert (row["name"], row["dtype"], row["shape"]) == ("y", "float32", [2, 3])
    assert report["time_ms"] > 0
    got = np.load(tmp_path / "out" / "y.npy")
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
    for field, number in (("min", want.min()), ("max", want.max()), ("mean", want.mean())):
        assert row[field] == pytest.approx(float(number), rel=1e-4, abs=1e-6)


def test_binary_input(net, tmp_path):
    path, folder, _, want = net
    done = command.tenon("run", path, "--input", f"x={folder / 'x.bin'}", "--shape", "x=2x4", "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ("random", "zeros", "ones"))
def test_made_up_input(net, kind):
    report = command.tenon_json("run", net[0], "--input", f"x={kind}", "--shape", "x=5x4")
    assert report["outputs"][0]["shape"] == [5, 3]


def test_text_report_names_outputs(net):
    done = command.tenon("run", net[0], "--input", f"x={net[1] / 'x.npy'}")
    assert done.returncode == 0, done.stderr
    assert "y" in done.stdout and "2x3" in done.stdout.replace(" ", "") and "\x1b[" not in done.stdout


def test_quiet_prints_nothing(net):
    done = command.tenon("run", net[0], "--input", f"x={net[1] / 'x.npy'}", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_output_names_become_file_names(tmp_path):
    path = F.model(tmp_path / "m.onnx", [F.node("Relu", ["x"], ["a/b:0"])], [F.value("x", [2])], [F.value("a/b:0", [2])])
    np.save(tmp_path / "x.npy", np.array([-1, 2], np.float32))
    report = command.tenon_json("run", path, "--input", f"x={tmp_path / 'x.npy'}", "--output", tmp_path / "out")
    assert report["outputs"][0]["name"] == "a/b:0"
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["a_b_0.npy"]


@pytest.mark.parametrize("dtype", ("float32", "float64", "float16", "int8", "uint8", "int16", "int32", "int64", "uint64", "bool"))
def test_types_survive(tmp_path, dtype):
    import onnx
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    path = F.model(tmp_path / "m.onnx", [F.node("Transpose", ["x"], ["y"])], [F.value("x", [2, 3], kind)], [F.value("y", [3, 2], kind)])
    x = np.arange(6).reshape(2, 3).astype(dtype)
    done, got = command.run_model(path, {"x": x}, tmp_path)
    assert done.returncode == 0, done.stderr
    assert got["y"].dtype == x.dtype
    np.testing.assert_array_equal(got["y"], x.T)


def test_input_in_column_order_and_big_endian(net, tmp_path):
    """.npy files in Fortran order are read as what they are, or refused: never silently transposed."""
    path, _, x, want = net
    np.save(tmp_path / "x.npy", np.asfortranarray(x))
    done = command.tenon("run", path, "--input", f"x={tmp_path / 'x.npy'}", "--output", tmp_path / "out")
    if done.returncode == 0:
        np.testing.assert_allclose(np.load(tmp_path / "out" / "y.npy"), want, rtol=1e-6, atol=1e-6)
    else:
        assert done.returncode in (3, 4)


BAD = {
    "no such model": (lambda f: [f / "absent.onnx"], 3, "absent.onnx"),
    "no such input file": (lambda f: [f / "net.onnx", "--input", f"x={f / 'absent.npy'}"], 3, "absent.npy"),
    "no such input": (lambda f: [f / "net.onnx", "--input", f"z={f / 'x.npy'}"], 2, "z"),
    "input twice": (lambda f: [f / "net.onnx", "--input", f"x={f / 'x.npy'}", "--input", f"x={f / 'x.npy'}"], 2, "x"),
    "not a model": (lambda f: [f / "garbage.onnx"], 3, "garbage.onnx"),
    "an empty model": (lambda f: [f / "empty.onnx"], 3, "empty.onnx"),
    "a folder as model": (lambda f: [f], 3, ""),
    "not an .npy": (lambda f: [f / "net.onnx", "--input", f"x={f / 'garbage.npy'}"], 3, "garbage.npy"),
    "cut .npy": (lambda f: [f / "net.onnx", "--input", f"x={f / 'cut.npy'}"], 3, "cut.npy"),
    "wrong shape": (lambda f: [f / "net.onnx", "--input", f"x={f / 'wide.npy'}"], 2, "x"),
    "wrong type": (lambda f: [f / "net.onnx", "--input", f"x={f / 'ints.npy'}"], 2, "x"),
    "contradicting --shape": (lambda f: [f / "net.onnx", "--input", "x=random", "--shape", "x=2x5"], 2, "x"),
    "malformed --shape": (lambda f: [f / "net.onnx", "--input", "x=random", "--shape", "x=2xfour"], 2, "2xfour"),
    "negative --shape": (lambda f: [f / "net.onnx", "--input", "x=random", "--shape", "x=-2x4"], 2, "x"),
    "unknown option": (lambda f: [f / "net.onnx", "--frobnicate"], 2, "frobnicate"),
    "zero threads": (lambda f: [f / "net.onnx", "--input", "x=random", "--threads", "-3"], 2, "threads"),
    "unknown operator": (lambda f: [f / "unknown.onnx", "--input", "x=random"], 4, "Frobnicate"),
}


@pytest.fixture(scope="module")
def bad_files(net):
    folder = net[1]
    (folder / "garbage.onnx").write_bytes(b"this is no model at all" * 10)
    (folder / "empty.onnx").write_bytes(b"")
    (folder / "garbage.npy").write_bytes(b"this is no array")
    (folder / "cut.npy").write_bytes((folder / "x.npy").read_bytes()[:-3])
    np.save(folder / "wide.npy", np.zeros((2, 5), np.float32))
    np.save(folder / "ints.npy", np.zeros((2, 4), np.int32))
    import onnx
    graph = onnx.helper.make_graph([F.node("Frobnicate", ["x"], ["y"], name="odd_one")], "g", [F.value("x", [2])], [F.value("y", [2])])
    (folder / "unknown.onnx").write_bytes(onnx.helper.make_model(graph).SerializeToString())
    return folder


@pytest.mark.parametrize("what", BAD)
def test_asked_wrongly(bad_files, what, tmp_path):
    arguments, code, word = BAD[what]
    done = command.tenon("run", *arguments(bad_files), "--output", tmp_path / "out")
    assert done.returncode == code, (done.stdout, done.stderr)
    assert word in command.error_line(done)
    assert not list((tmp_path / "out").glob("*")), "a failed run leaves no output"


@pytest.mark.parametrize("what", BAD)
def test_asked_wrongly_json(bad_files, what):
    arguments, code, word = BAD[what]
    done = command.tenon("run", *arguments(bad_files), "--json")
    assert done.returncode == code
    error = json.loads(done.stdout)["error"]
    assert word in error["message"] + error["where"] and error["code"]


def test_unwritable_output(net):
    done = command.tenon("run", net[0], "--input", f"x={net[1] / 'x.npy'}", "--output", "/proc/nowhere/out")
    assert done.returncode == 3
    assert "/proc/nowhere/out" in command.error_line(done)


def test_picture_as_input(tmp_path):
    done = command.tenon("run", paths.model("ppocr/ch_PP-OCRv4_rec_infer.onnx"), "--input", f"x={paths.ROOT / 'examples/data/line.png'}",
                         "--shape", "x=1x3x48x320", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outputs"][0]["shape"] == [1, 40, 6625]
