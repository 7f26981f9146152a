"""tenon quantize: what is written computes in integers, as well as the method promises, and the same each time."""
import json

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from support import command

SAMPLES = 60
METHODS = ("minmax", "mse", "entropy", "percentile")


def net(path, fragile=False):
    """Two convolutions and two products over pictures of noise; `fragile`: with a product of huge, nearly cancelling terms."""
    rng = np.random.default_rng(4)
    weights = {"w1": (rng.standard_normal((16, 8, 3, 3)) / 8), "w2": rng.standard_normal((32, 16, 3, 3)) / 12,
               "w3": rng.standard_normal((32, 24)) / 5, "w4": rng.standard_normal((24, 10)) / 4}
    weights["w1"][:, 2] = 0    # what this channel holds sets ranges, and nothing else
    if fragile:
        # What counts is a thousandth of what the input's range is set by.
        weights["w4"][0] = 0
        weights["w3"][:, 0] *= 4000
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"], name="conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], name="relu1"),
        helper.make_node("Conv", ["b", "w2"], ["c"], name="conv2", pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["c"], ["d"], name="relu2"),
        helper.make_node("GlobalAveragePool", ["d"], ["e"], name="pool"),
        helper.make_node("Flatten", ["e"], ["f"], name="flat"),
        helper.make_node("MatMul", ["f", "w3"], ["g"], name="hidden"),
        helper.make_node("MatMul", ["g", "w4"], ["y"], name="head"),
    ]
    constants = [numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()]
    constants.append(numpy_helper.from_array(np.linspace(-0.2, 0.3, 16, dtype=np.float32), "b1"))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8, 14, 14])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 10])
    graph = helper.make_graph(nodes, "net", [x], [y], constants)
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString())
    return path


@pytest.fixture
def model(tmp_path):
    return net(tmp_path / "net.onnx")


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(5)
    folder = tmp_path / "data"
    folder.mkdir()
    x = rng.standard_normal((SAMPLES, 8, 14, 14)).astype(np.float32)
    x[::9, 2, 5, 5] = 40     # outliers
    np.savez(folder / "x.npz", x=x)
    return folder


def quantize(model, data, out, *flags, **options):
    return command.tenon_json("quantize", model, "-o", out, "--data", data, "--threads", "1", *flags, **options)


def ops(artifact):
    return command.tenon_json("inspect", artifact)["ops"]


@pytest.mark.parametrize("method", METHODS)
def test_int8_is_static_and_close(model, data, tmp_path, method):
    out = tmp_path / "net.tenon"
    report = quantize(model, data, out, "--calibration", method, "--metric", "rmse")
    assert {o["name"]: o["precision"] for o in report["ops"]} == dict.fromkeys(("conv1", "conv2", "hidden", "head"), "int8")
    assert ops(out)["QuantizedConv"] == 2 and ops(out)["QuantizedMatMul"] == 2
    assert 0 < report["drop"]["relative"] < 0.05
    assert report["quantization"]["calibration"]["method"].startswith(method)


def test_clipping_outliers_pays(model, data, tmp_path):
    loss = {m: quantize(model, data, tmp_path / "net.tenon", "--calibration", m, "--percentile", "99.9", "--metric",
                        "cosine")["drop"]["relative"] for m in ("minmax", "percentile")}
    assert loss["percentile"] < loss["minmax"], loss


@pytest.mark.parametrize("method", METHODS)
def test_Q01_calibration_is_repeatable(model, data, tmp_path, method):
    """Same samples and seed: the same table to the last bit, whose digest is reported and stored, and the same artifact."""
    seen = []
    for _ in range(2):
        out, table = tmp_path / "net.tenon", tmp_path / "table.json"
        report = quantize(model, data, out, "--calibration", method, "--export-table", table)
        digest = report["quantization"]["calibration"]["digest"]
        assert json.loads(table.read_text())["digest"] == digest
        seen.append((digest, table.read_bytes(), out.read_bytes()))
    assert seen[0] == seen[1]
    other = quantize(model, data, tmp_path / "other.tenon", "--calibration", method, "--seed", "1")
    assert other["quantization"]["calibration"]["digest"] != seen[0][0]    # other samples


def test_a_table_can_be_used_again_and_edited(model, data, tmp_path):
    table = tmp_path / "table.json"
    first = quantize(model, data, tmp_path / "a.tenon", "--calibration", "mse", "--export-table", table, "--metric", "rmse")
    again = command.tenon_json("quantize", model, "-o", tmp_path / "b.tenon", "--calibration-table", table)
    assert again["quantization"]["calibration"]["digest"] == first["quantization"]["calibration"]["digest"]
    assert {o["name"] for o in again["ops"]} == {"conv1", "conv2", "hidden", "head"} and "drop" not in again
    content = json.loads(table.read_text())
    content["tensors"] = {name: [low / 500, high / 500] for name, (low, high) in content["tensors"].items()}
    table.write_text(json.dumps(content))
    worse = quantize(model, data, tmp_path / "c.tenon", "--calibration-table", table, "--metric", "rmse")
    assert worse["drop"]["relative"] > 0.1 > 3 * first["drop"]["relative"]


def test_dynamic_leaves_convolutions_and_needs_no_data(model, tmp_path):
    report = command.tenon_json("quantize", model, "-o", tmp_path / "net.tenon", "--scheme", "int8-dynamic")
    assert {o["name"] for o in report["ops"]} == {"hidden", "head"}
    assert {r["name"] for r in report["refused"]} == {"conv1", "conv2"}


def test_the_guard_keeps_what_cannot_bear_it(data, tmp_path):
    model = net(tmp_path / "fragile.onnx", fragile=True)
    out = tmp_path / "net.tenon"
    bare = quantize(model, data, out, "--metric", "rmse")
    assert bare["drop"]["relative"] > 0.1
    kept = quantize(model, data, out, "--metric", "rmse", "--max-drop", "5%")
    assert kept["drop"]["relative"] < 0.05
    precision = {o["name"]: o["precision"] for o in kept["ops"]}
    assert precision["head"] == "float32" and "int8" in precision.values()


def test_what_the_guard_refuses_stays_f32_with_exit_code_5(model, data, tmp_path):
    done = command.tenon("quantize", model, "-o", tmp_path / "net.tenon", "--data", data, "--metric", "rmse", "--max-drop", "0")
    assert done.returncode == 5
    assert "QuantizedConv" not in ops(tmp_path / "net.tenon")


def test_kept_nodes_stay(model, data, tmp_path):
    report = quantize(model, data, tmp_path / "net.tenon", "--keep-nodes", "conv1", "--keep-nodes", "head")
    assert {o["name"] for o in report["ops"]} == {"conv2", "hidden"}
    done = command.tenon("quantize", model, "-o", tmp_path / "no.tenon", "--data", data, "--keep-nodes", "nobody")
    assert done.returncode == 3 and "nobody" in done.stderr


def test_bias_correction_takes_out_the_mean_error(data, tmp_path):
    """Inputs far from zero: rounded weights move the mean, which the corrected bias has again."""
    rng = np.random.default_rng(6)
    x = (4 + np.abs(rng.standard_normal((SAMPLES, 8, 14, 14)))).astype(np.float32)
    np.savez(data / "x.npz", x=x)
    model = net(tmp_path / "net.onnx")
    loss = {flag: quantize(model, data, tmp_path / "net.tenon", flag, "--metric", "rmse")["drop"]["relative"]
            for flag in ("--bias-correction", "--no-bias-correction")}
    assert loss["--bias-correction"] < 0.7 * loss["--no-bias-correction"], loss


def transformer_block(path):
    """A norm whose channels differ by orders of magnitude, two products that read it, and one behind a GELU."""
    rng = np.random.default_rng(8)
    width = 64
    gamma = np.ones(width, np.float32)
    gamma[[3, 17, 40]] = 60
    w = {"wa": rng.standard_normal((width, width)) / 8, "wb": rng.standard_normal((width, width)) / 8,
         "wc": rng.standard_normal((width, 16)) / 8}
    w["wa"][[3, 17, 40]] /= 60
    w["wb"][[3, 17, 40]] /= 60
    nodes = [
        helper.make_node("LayerNormalization", ["x", "gamma", "beta"], ["n"], name="norm"),
        helper.make_node("MatMul", ["n", "wa"], ["a"], name="left"),
        helper.make_node("MatMul", ["n", "wb"], ["b"], name="right"),
        helper.make_node("Mul", ["a", "b"], ["c"], name="gate"),
        helper.make_node("MatMul", ["c", "wc"], ["y"], name="out"),
    ]
    constants = [numpy_helper.from_array(v.astype(np.float32), k) for k, v in w.items()]
    constants += [numpy_helper.from_array(gamma, "gamma"), numpy_helper.from_array(gamma * 0.1, "beta")]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 12, width])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 12, 16])
    graph = helper.make_graph(nodes, "block", [x], [y], constants)
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString())
    folder = path.parent / "block_data"
    folder.mkdir()
    np.savez(folder / "x.npz", x=rng.standard_normal((SAMPLES, 12, width)).astype(np.float32))
    return path, folder


def test_balancing_changes_nothing_but_the_rounding(tmp_path):
    model, data = transformer_block(tmp_path / "block.onnx")
    kept = [f for n in ("left", "right", "out") for f in ("--keep-nodes", n)]
    report = quantize(model, data, tmp_path / "f32.tenon", "--balance", *kept)
    assert report["quantization"]["balance"] == {"alpha": 0.5, "tensors": 2, "folded": 1} and report["ops"] == []
    x = np.load(data / "x.npz")["x"][:4]
    want = command.run_model(model, {"x": x}, tmp_path / "a")[1]["y"]
    got = command.run_model(tmp_path / "f32.tenon", {"x": x}, tmp_path / "b")[1]["y"]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    loss = {flags: quantize(model, data, tmp_path / "i8.tenon", *flags, "--metric", "rmse")["drop"]["relative"]
            for flags in ((), ("--balance=0.5",))}
    assert loss["--balance=0.5",] < 0.7 * loss[()], loss


def run_onnxruntime(model, x):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL   # as the nodes say
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


@pytest.mark.parametrize("balance", [(), ("--balance=0.6",)])
@pytest.mark.parametrize("kind", ["net", "block"])
def test_the_exported_model_is_the_same_elsewhere(data, tmp_path, kind, balance):
    if kind == "net":
        model = net(tmp_path / "net.onnx")
    else:
        model, data = transformer_block(tmp_path / "block.onnx")
    out = tmp_path / "qdq.onnx"
    report = quantize(model, data, tmp_path / "q.tenon", "--export-onnx", out, "--calibration", "mse", *balance)
    assert report["onnx"]["exported"] == len(report["ops"]) and not report["onnx"]["kept"]
    exported = onnx.load(out)
    onnx.checker.check_model(exported, full_check=True)
    assert {n.name for n in exported.graph.node if n.op_type in ("Conv", "MatMul")} == {o["name"] for o in report["ops"]}
    x = np.load(data / "x.npz")["x"][:8]
    ours = command.run_model(tmp_path / "q.tenon", {"x": x}, tmp_path / "a")[1]["y"]
    theirs = run_onnxruntime(str(out), x)
    back = command.run_model(out, {"x": x}, tmp_path / "b")[1]["y"]
    exact = command.run_model(model, {"x": x}, tmp_path / "c")[1]["y"]
    scale = np.abs(exact).max()
    for other in (theirs, back):
        # Biases are integers there, so that a value near the border of two steps may round the other way; no more than that.
        assert np.abs(other - ours).max() < 0.012 * scale
        assert np.sqrt(np.mean((other - ours) ** 2)) < 0.5 * np.sqrt(np.mean((exact - ours) ** 2))
    integers = command.tenon_json("inspect", out, "--stage", "optimized")["ops"]
    assert integers.get("QuantizedConv", 0) + integers.get("QuantizedMatMul", 0) == len(report["ops"])


def test_export_alone_and_what_cannot_be(model, data, tmp_path):
    report = quantize(model, data, tmp_path / "alone.onnx")
    assert report["onnx"]["exported"] == 4 and onnx.load(tmp_path / "alone.onnx").graph.node
    old = onnx.load(model)
    old.opset_import[0].version = 12
    onnx.save(old, tmp_path / "old.onnx")
    done = command.tenon("quantize", tmp_path / "old.onnx", "-o", tmp_path / "no.onnx", "--data", data)
    assert done.returncode == 4 and "13" in done.stderr and not (tmp_path / "no.onnx").exists()


BAD = {
    "no output": (["--data", "DATA"], 2, "-o"),
    "no data": (["-o", "OUT"], 2, "--data"),
    "unknown scheme": (["-o", "OUT", "--scheme", "int3"], 2, "int3"),
    "unknown method": (["-o", "OUT", "--data", "DATA", "--calibration", "best"], 2, "best"),
    "drop without data": (["-o", "OUT", "--scheme", "int8-dynamic", "--max-drop", "1%"], 2, "--data"),
    "table of another": (["-o", "OUT", "--calibration-table", "TABLE"], 3, "none of the model's tensors"),
    "table that is none": (["-o", "OUT", "--calibration-table", "MODEL"], 3, "calibration table"),
    "dynamic table": (["-o", "OUT", "--scheme", "int8-dynamic", "--calibration-table", "TABLE"], 2, "table"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_usage(model, data, tmp_path, case):
    flags, code, words = BAD[case]
    (tmp_path / "table.json").write_text('{"tensors": {"nothing": [0, 1]}}')
    names = {"DATA": data, "OUT": tmp_path / "out.tenon", "MODEL": model, "TABLE": tmp_path / "table.json"}
    done = command.tenon("quantize", model, *[names.get(f, f) for f in flags])
    assert done.returncode == code and words in done.stderr, done.stderr
    assert not (tmp_path / "out.tenon").exists()


# Rounding normal numbers, 32 of one scale, to 4 bits costs 0.085 of their deviation, to 8 bits 0.005, and here three times over.
@pytest.mark.parametrize("scheme, most", [("w8", 0.012), ("w4", 0.2)])
def test_weights_alone_are_rounded(tmp_path, scheme, most):
    """Products and the table of embeddings hold blocks; negative ids still count from the end; the file is much smaller."""
    rng = np.random.default_rng(12)
    model = tmp_path / "net.onnx"
    constants = [numpy_helper.from_array(rng.standard_normal((500, 64)).astype(np.float32), "table"),
                 numpy_helper.from_array((rng.standard_normal((64, 256)) / 8).astype(np.float32), "w1"),
                 numpy_helper.from_array((rng.standard_normal((256, 20)) / 16).astype(np.float32), "w2")]
    nodes = [helper.make_node("Gather", ["table", "ids"], ["e"], name="embed"), helper.make_node("MatMul", ["e", "w1"], ["h"], name="up"),
             helper.make_node("Relu", ["h"], ["r"], name="relu"), helper.make_node("MatMul", ["r", "w2"], ["y"], name="down")]
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 20])], constants)
    model.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString())
    report = command.tenon_json("quantize", model, "-o", tmp_path / "net.tenon", "--scheme", scheme)
    precision = "int8" if scheme == "w8" else "int4"
    assert {o["name"]: o["precision"] for o in report["ops"]} == {"embed": precision, "up": precision, "down": precision}
    ids = {"ids": np.array([0, 7, 499, -1, -500])}
    want = command.run_model(model, ids, tmp_path / "a")[1]["y"]
    got = command.run_model(tmp_path / "net.tenon", ids, tmp_path / "b")[1]["y"]
    assert 0 < np.sqrt(np.mean((got - want) ** 2)) < most * np.sqrt(np.mean(want ** 2))
    assert (tmp_path / "net.tenon").stat().st_size < (0.45 if scheme == "w8" else 0.35) * model.stat().st_size
    done = command.tenon("quantize", model, "-o", tmp_path / "no.tenon", "--scheme", scheme, "--export-onnx", tmp_path / "no.onnx")
    assert done.returncode == 2 and scheme in done.stderr
