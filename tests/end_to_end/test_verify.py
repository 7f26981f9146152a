"""`tenon verify`: layer by layer against itself, another model, another runtime's values; the operator to blame is found."""
import csv
import json
import time

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from support import build_model as B
from support import command, transformer

COLUMNS = ("Index,OpSequence,OpType,NPUDump,DataType,Address,GroundTruth,DataType,TensorIndex,Shape,OverFlow,CosineSimilarity,"
           "MaxAbsoluteError,AccumulatedRelativeError,RelativeEuclideanDistance,KullbackLeiblerDivergence,StandardDeviation,"
           "MeanAbsoluteError,RootMeanSquareError,MaxRelativeError,MeanRelativeError,CompareFailReason").split(",")


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    return B.conv_net(tmp_path_factory.mktemp("net") / "net.onnx")


def altered(path, out, name, change):
    """A copy of the model at `path` whose initializer `name` went through `change`."""
    model = onnx.load(path)
    tensor = next(t for t in model.graph.initializer if t.name == name)
    tensor.CopyFrom(numpy_helper.from_array(change(numpy_helper.to_array(tensor).copy()), name))
    onnx.save(model, out)
    return out


def refused(*arguments):
    done = command.tenon("verify", *arguments, "--json")
    assert done.returncode == 5, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_a_model_is_like_itself(net, tmp_path):
    table = tmp_path / "result.csv"
    report = command.tenon_json("verify", net, "--shape", "x=1x3x16x16", "--per-op", "--bisect", "--csv", table)
    assert report["first_bad"] is None and report["guilty"]["name"] is None
    assert report["compared"] >= 4 and report["samples"] == 1
    for op in report["ops"]:
        if op["compared"]:
            assert op["cosine"] > 0.9999 and op["max_abs"] < 1e-3 and op["rmse"] < 1e-4, op
        assert op["own"]["bad"] is False
    with open(table, newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0][:len(COLUMNS)] == COLUMNS
    assert all(len(row) == len(rows[0]) for row in rows) and len(rows) == len(report["ops"]) + 1


def test_the_artifact_is_compared_with_reference_kernels_or_with_the_model(net, tmp_path):
    artifact = tmp_path / "net.tenon"
    assert command.tenon("compile", net, "-o", artifact).returncode == 0
    for other in ([], [net]):
        report = command.tenon_json("verify", artifact, *other, "--shape", "x=1x3x16x16")
        assert report["first_bad"] is None and report["compared"] >= 4


def test_bisect_names_the_operator_whose_weights_differ(net, tmp_path):
    def spoil(weights):
        weights.flat[3] += 1
        return weights
    bad = altered(net, tmp_path / "bad.onnx", "w2", spoil)
    report = refused(bad, net, "--shape", "x=1x3x16x16", "--bisect", "--opt-level", "0")
    assert report["error"]["code"] == "guard-refused"
    guilty = next(n for n in onnx.load(net).graph.node if "w2" in n.input)
    assert report["guilty"]["value"] == guilty.output[0]
    assert report["first_bad"] == report["guilty"]["name"]
    # Optimised, the convolution and what it took in are one.
    report = refused(bad, net, "--shape", "x=1x3x16x16", "--bisect")
    assert report["guilty"]["type"] == "FusedConv"


@pytest.mark.parametrize("level", ("0", "99"))
def test_bisect_finds_the_operator_in_twenty_models(tmp_path, level):
    """Each a copy of a small BERT or convolutional net with one weight altered; what is named must read that weight."""
    bases = [(transformer.bert(tmp_path / "bert.onnx"), transformer.bert_inputs()),
             (B.conv_net(tmp_path / "conv.onnx"), {"x": np.random.default_rng(2).standard_normal((1, 3, 12, 12)).astype(np.float32)})]
    for seed in range(20):
        rng = np.random.default_rng(seed)
        base, feeds = bases[seed % len(bases)]
        graph = onnx.load(base).graph
        weights = [t.name for t in graph.initializer if t.data_type == onnx.TensorProto.FLOAT and np.prod(t.dims) > 1]
        name = weights[rng.integers(len(weights))]

        def spoil(array):
            # All of it: single words and places may not occur in the inputs.
            array += (np.abs(array).max() * rng.choice([-1, 1], array.shape)).astype(np.float32)
            return array
        bad = altered(base, tmp_path / f"{seed}.onnx", name, spoil)
        flags = []
        for key, array in feeds.items():
            np.save(tmp_path / f"{key}.npy", array)
            flags += ["--input", f"{key}={tmp_path / key}.npy"]
        start = time.monotonic()
        report = refused(bad, base, *flags, "--bisect", "--opt-level", level)
        assert time.monotonic() - start < 60
        guilty = report["guilty"]
        assert guilty["name"] is not None, (name, guilty)
        if level == "0":
            reader = next(n for n in graph.node if name in n.input)
            assert guilty["value"] == reader.output[0], (name, guilty)
        else:
            # What was fused carries the name of what it gives, at most a few operators after the weight's reader.
            assert guilty["value"].split(":")[0] in downstream(graph, name, 12), (name, guilty)


def downstream(graph, name, depth):
    """Names of the values computed from `name` in at most `depth` steps."""
    found, edge = set(), {name}
    for _ in range(depth):
        edge = {o for n in graph.node if edge & set(n.input) for o in n.output}
        found |= edge
    return found


def test_bf16_is_within_its_own_bounds(net):
    report = command.tenon_json("verify", net, "--shape", "x=1x3x16x16", "--precision", "bf16", "--per-op")
    assert report["first_bad"] is None
    lowered = [op for op in report["ops"] if op["dtype"] == "bfloat16"]
    assert lowered and all(op["compared"] for op in lowered)
    assert max(op["own"]["relative_euclidean"] for op in lowered) > 1e-4   # it is another precision


def dump(path, out, feeds):
    """Every value of a model as ONNX Runtime computes it, in an .npz by tensor name."""
    model = onnx.shape_inference.infer_shapes(onnx.load(path))
    known = {o.name for o in model.graph.output}
    model.graph.output.extend(v for v in model.graph.value_info if v.name not in known)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    values = dict(zip(names, session.run(names, feeds)))
    np.savez(out, **values, **feeds)
    return values


def test_dumps_of_another_runtime(net, tmp_path):
    feeds = {"x": np.random.default_rng(0).standard_normal((1, 3, 16, 16)).astype(np.float32)}
    values = dump(net, tmp_path / "dump.npz", feeds)
    report = command.tenon_json("verify", net, "--dumps", tmp_path / "dump.npz")
    assert report["compared"] >= 4 and report["first_bad"] is None
    # The same as files, the model's inputs given apart; and one value is wrong.
    folder = tmp_path / "dump"
    folder.mkdir()
    for name, value in values.items():
        np.save(folder / f"{name}.npy", value * 1.1 if name == "e" else value)
    np.save(tmp_path / "x.npy", feeds["x"])
    report = refused(net, "--dumps", folder, "--input", f"x={tmp_path / 'x.npy'}", "--bisect", "--opt-level", "0")
    assert report["guilty"]["value"] == "e"
    done = command.tenon("verify", net, "--dumps", folder)
    assert done.returncode == 2 and "--data or --input" in command.error_line(done)


def test_data_is_read(net, tmp_path):
    np.savez_compressed(tmp_path / "batch.npz", x=np.random.default_rng(0).standard_normal((5, 3, 8, 8)).astype(np.float32))
    report = command.tenon_json("verify", net, "--data", tmp_path, "--samples", "3")
    assert report["samples"] == 3 and "5 samples" in report["data"]
    np.savez(tmp_path / "batch.npz", y=np.zeros((1, 3, 8, 8), np.float32))
    done = command.tenon("verify", net, "--data", tmp_path)
    assert done.returncode == 3 and "holds no array 'x'" in command.error_line(done)
    (tmp_path / "batch.npz").write_bytes(b"PK\x03\x04")
    assert command.tenon("verify", net, "--data", tmp_path).returncode == 3
    assert command.tenon("verify", net, "--data", tmp_path / "none").returncode == 3


def test_N18_overflow_of_half_precision_is_named(tmp_path):
    """fp16 norm variance overflows without an error: the first value that is no number is found, with the operator that made it."""
    def model(path, dtype):
        nodes = [B.node("Cast", ["x"], ["c"], to=dtype, name="cast"), B.node("Mul", ["c", "c"], ["squares"], name="square"),
                 B.node("ReduceMean", ["squares", "axes"], ["variance"], name="mean"),
                 B.node("Cast", ["variance"], ["y"], to=onnx.TensorProto.FLOAT, name="back")]
        return B.model(path, nodes, [B.value("x", [1, 64])], [B.value("y", [1, 1])], {"axes": np.array([1])})
    half = model(tmp_path / "half.onnx", onnx.TensorProto.FLOAT16)
    full = model(tmp_path / "full.onnx", onnx.TensorProto.FLOAT)
    np.save(tmp_path / "x.npy", np.linspace(-300, 300, 64, dtype=np.float32)[None])
    report = refused(half, full, "--input", f"x={tmp_path / 'x.npy'}", "--bisect", "--opt-level", "0")
    assert report["first_not_finite"] == "square" and report["first_bad"] == "square"


def test_what_is_wrong_is_said(net, tmp_path):
    other = B.small_net(tmp_path / "other.onnx")[0]
    done = command.tenon("verify", net, other, "--shape", "x=1x3x16x16")
    assert done.returncode in (2, 3), done.stderr
    command.error_line(done)
    done = command.tenon("verify", net, other, "--dumps", tmp_path)
    assert done.returncode == 2
    done = command.tenon("verify", net, tmp_path / "none.onnx")
    assert done.returncode == 3
