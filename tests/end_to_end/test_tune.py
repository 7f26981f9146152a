"""tenon tune without the guard: kernels by measurement, never another result; options that contradict each other; reports."""
import json

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from support import command


@pytest.fixture
def net(tmp_path):
    """Convolutions that several kernels can serve, and a product."""
    rng = np.random.default_rng(4)

    def weights(name, *shape):
        return numpy_helper.from_array((rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], name="conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], name="relu1"),
        helper.make_node("Conv", ["b", "w2"], ["c"], name="conv2", pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["c"], ["d"], name="pool"),
        helper.make_node("Flatten", ["d"], ["e"], name="flat"),
        helper.make_node("MatMul", ["e", "w3"], ["y"], name="head"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 32, 28, 28])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 10])
    constants = [weights("w1", 32, 32, 3, 3), weights("w2", 48, 32, 3, 3), weights("w3", 48, 10)]
    graph = helper.make_graph(nodes, "net", [x], [y], constants)
    path = tmp_path / "net.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString())
    np.save(tmp_path / "x.npy", rng.standard_normal((2, 32, 28, 28)).astype(np.float32))
    return path


def output(model, folder, **environment):
    done = command.tenon("run", model, "--input", f"x={folder / 'x.npy'}", "--output", folder, env=environment)
    assert done.returncode == 0, done.stderr
    return np.load(folder / "y.npy")


def test_kernels_are_measured_and_the_result_stays(net, tmp_path):
    exact = output(net, tmp_path)
    report = command.tenon_json("tune", net, "-o", tmp_path / "net.tenon", "--input", f"x={tmp_path / 'x.npy'}", "--threads", "1",
                                "--budget", "20s", "--report", tmp_path / "report.json")
    assert {"groups", "memory", "latency_ms", "kernels", "ops"} <= set(report) and report["ops"] == []
    kernels = report["kernels"]
    rows = {r["name"]: r for r in kernels["operators"]}
    assert {"conv1", "conv2"} <= set(rows)     # more than one kernel can serve them
    for row in rows.values():
        names = [c["kernel"] for c in row["candidates"]]
        assert len(names) > 1 and row["winner"] in names and all(c["us"] > 0 for c in row["candidates"])
    assert json.loads((tmp_path / "report.json").read_text())["kernels"] == kernels
    served = {k["node"]: k["kernel"] for k in command.tenon_json("inspect", tmp_path / "net.tenon", "--stage", "kernels")["kernels"]}
    for name, row in rows.items():
        assert served[name] == (row["winner"] if kernels["accepted"] else row["candidates"][0]["kernel"])
    np.testing.assert_allclose(output(tmp_path / "net.tenon", tmp_path), exact, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("isa", ["baseline", "avx2"])
def test_a_choice_made_for_another_cpu_gives_way(net, tmp_path, isa):
    command.tenon_json("tune", net, "-o", tmp_path / "net.tenon", "--threads", "1", "--budget", "10s")
    exact = output(net, tmp_path)
    np.testing.assert_allclose(output(tmp_path / "net.tenon", tmp_path, TENON_ISA=isa), exact, rtol=1e-3, atol=1e-4)


BAD = {
    "no output": ([], 2, "-o"),
    "serve": (["-o", "OUT", "--stage", "serve"], 4, "serve"),
    "unknown stage": (["-o", "OUT", "--stage", "best"], 2, "stage"),
    "allow without data": (["-o", "OUT", "--allow", "bf16"], 2, "--data"),
    "unknown precision": (["-o", "OUT", "--allow", "int3", "--data", "DATA"], 2, "int3"),
    "precision": (["-o", "OUT", "--precision", "bf16"], 2, "--allow"),
    "drop": (["-o", "OUT", "--max-drop", "much"], 2, "much"),
    "budget": (["-o", "OUT", "--budget", "soon"], 2, "soon"),
    "no data": (["-o", "OUT", "--allow", "bf16", "--data", "nowhere"], 3, "nowhere"),
}


@pytest.mark.parametrize("what", BAD)
def test_asked_wrongly(net, tmp_path, what):
    flags, code, word = BAD[what]
    flags = [str(tmp_path / "out.tenon") if f == "OUT" else str(tmp_path) if f == "DATA" else f for f in flags]
    done = command.tenon("tune", net, *flags)
    assert done.returncode == code and word in command.error_line(done), (done.returncode, done.stderr)
    assert not (tmp_path / "out.tenon").exists()
