"""The accident that must not happen: a tuner lowers precision where a model cannot bear it, and nobody says so.

The models are in support/accidents.py, each with one block that fails in bf16. The guard keeps such blocks in f32, names them, and lowers
the rest.
"""
import json

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from support import accidents, command


@pytest.fixture(scope="module", params=accidents.MODELS)
def accident(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    return folder, accidents.write(request.param, folder)


def tune(folder, metric, *flags, allow="bf16"):
    done = command.tenon("tune", folder / "net.onnx", "-o", folder / "net.tenon", "--allow", allow, "--data", folder / "data",
                         "--metric", metric, "--threads", "1", "--json", *flags)
    return done, json.loads(done.stdout)


def test_Q03_the_guard_keeps_what_bf16_would_break(accident):
    folder, metric = accident
    done, everything = tune(folder, metric, "--max-drop", "1000")
    assert done.returncode == 0 and everything["drop"]["relative"] > 0.05, everything["drop"]   # the accident, by hand
    done, report = tune(folder, metric, "--max-drop", "0.5%", "--report", folder / "report.json")
    assert done.returncode == 0, done.stderr
    assert report["drop"]["relative"] <= 0.005 and report["drop"]["interval"][1] <= 0.005
    assert any(t["within"] and t["high"] <= 0.005 for t in report["trials"])
    kept = [o["name"] for o in report["ops"] if o["precision"] == "float32"]
    lowered = [o["name"] for o in report["ops"] if o["precision"] == "bfloat16"]
    assert kept and len([n for n in lowered if n.startswith("matmul_")]) >= 2, (kept, lowered)
    guard = report["guard"]
    assert {o["name"] for o in guard["kept_f32"]} == set(kept)
    shown = command.tenon_json("inspect", folder / "net.tenon", "--stage", "guard")["guard"]
    assert shown == guard
    assert json.loads((folder / "report.json").read_text())["guard"] == guard


@pytest.mark.parametrize("allow", ["int8", "bf16,int8"])
def test_integers_are_guarded_too(accident, allow):
    folder, metric = accident
    done, report = tune(folder, metric, "--max-drop", "1%", allow=allow)
    precisions = {o["precision"] for o in report["ops"]}
    if done.returncode == 5:    # refused: said so, and f32
        assert "f32" in report["error"]["message"] and precisions == {"float32"}
        return
    assert done.returncode == 0 and report["drop"]["relative"] <= 0.01 and report["drop"]["interval"][1] <= 0.01
    assert precisions <= {"float32", "int8", *(["bfloat16"] if "bf16" in allow else [])}
    fragile = [o for o in report["ops"] if o["name"].startswith("fragile")]
    assert all(o["precision"] == "float32" for o in fragile), fragile


def test_the_choice_is_what_runs(accident):
    folder, metric = accident
    _, report = tune(folder, metric, "--max-drop", "0.5%")
    lowered = {o["name"] for o in report["ops"] if o["precision"] == "bfloat16" and o["chosen"]}
    kernels = command.tenon_json("inspect", folder / "net.tenon", "--stage", "kernels")["kernels"]
    assert {k["node"] for k in kernels if k["precision"] == "bfloat16" and "MatMul" in k["op"]} == lowered


def test_the_same_records_give_the_same_artifact(accident):
    folder, metric = accident
    (folder / "records").unlink(missing_ok=True)
    flags = ("--max-drop", "0.5%", "--budget", "100s", "--records", folder / "records")
    _, first = tune(folder, metric, *flags)
    artifact = (folder / "net.tenon").read_bytes()
    assert first["complete"] and first["records"]["added"] > 0
    done, second = tune(folder, metric, *flags)
    assert done.returncode == 0 and second["records"]["added"] == 0
    assert second["guard"] == first["guard"] and second["trials"] == first["trials"]
    assert (folder / "net.tenon").read_bytes() == artifact


def test_what_cannot_hold_is_refused_and_written_in_f32(accident):
    folder, metric = accident
    done, report = tune(folder, metric, "--max-drop", "0", "--budget", "0.001s")
    assert (folder / "net.tenon").exists()
    if done.returncode == 5:
        assert "f32" in report["error"]["message"]
        kernels = command.tenon_json("inspect", folder / "net.tenon", "--stage", "kernels")["kernels"]
        assert all(k["precision"] != "bfloat16" for k in kernels)


def test_without_data_nothing_is_lowered(accident):
    folder, _ = accident
    done = command.tenon("tune", folder / "net.onnx", "-o", folder / "plain.tenon", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["ops"] == []
    done = command.tenon("tune", folder / "net.onnx", "-o", folder / "no.tenon", "--allow", "bf16")
    assert done.returncode == 2 and "--data" in command.error_line(done) and not (folder / "no.tenon").exists()


def test_a_convolution_behind_a_view_can_be_integers(tmp_path):
    """What a Reshape gives has the range of what it shows."""
    rng = np.random.default_rng(4)
    model, data = tmp_path / "net.onnx", tmp_path / "data"
    data.mkdir()
    nodes = [helper.make_node("Relu", ["x"], ["r"], name="relu"),
             helper.make_node("Reshape", ["r", "shape"], ["v"], name="view"),
             helper.make_node("Conv", ["v", "w"], ["c"], name="conv", pads=[1, 1, 1, 1])]
    constants = [numpy_helper.from_array(np.array([-1, 64, 14, 14]), "shape"),
                 numpy_helper.from_array((rng.standard_normal((64, 64, 3, 3)) / 24).astype(np.float32), "w")]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64 * 196])
    y = helper.make_tensor_value_info("c", TensorProto.FLOAT, ["n", 64, 14, 14])
    graph = helper.make_graph(nodes, "net", [x], [y], constants)
    model.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString())
    np.savez(data / "x.npz", x=rng.standard_normal((24, 64 * 196)).astype(np.float32))
    report = command.tenon_json("tune", model, "-o", tmp_path / "net.tenon", "--data", data, "--metric", "cosine", "--allow", "int8",
                                "--max-drop", "5%", "--stage", "graph", "--records", "none")
    (conv,) = [o for o in report["ops"] if o["name"] == "conv"]
    assert conv["after_us"] is not None and not report.get("refused"), report
