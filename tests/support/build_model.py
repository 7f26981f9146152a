"""Small ONNX models for tests, written with the `onnx` package."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F32, I64 = TensorProto.FLOAT, TensorProto.INT64


def value(name, shape, dtype=F32):
    return helper.make_tensor_value_info(name, dtype, shape)


def model(path, nodes, inputs, outputs, weights=None, opset=18, name="test"):
    """Writes and returns `path`. `weights`: {name: array}."""
    initializers = [numpy_helper.from_array(np.asarray(array), key) for key, array in (weights or {}).items()]
    graph = helper.make_graph(nodes, name, inputs, outputs, initializers)
    built = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    onnx.checker.check_model(built)
    path.write_bytes(built.SerializeToString())
    return path


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, **attributes)


def small_net(path):
    """x [batch, 4] -> Relu(x W + b) -> y [batch, 3]."""
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((4, 3)).astype(np.float32), "b": rng.standard_normal(3).astype(np.float32)}
    nodes = [node("MatMul", ["x", "w"], ["xw"]), node("Add", ["xw", "b"], ["sum"]), node("Relu", ["sum"], ["y"])]
    return model(path, nodes, [value("x", ["batch", 4])], [value("y", ["batch", 3])], weights), weights


def conv_net(path):
    """x [1, 3, h, w] -> three convolutions with a residual -> mean over h and w -> y [1, 8]: what M01 runs at random sizes."""
    rng = np.random.default_rng(1)

    def weight(*shape):
        return (rng.standard_normal(shape) * 0.2).astype(np.float32)

    weights = {"w1": weight(8, 3, 3, 3), "w2": weight(8, 8, 3, 3), "w3": weight(8, 1, 3, 3), "axes": np.array([2, 3])}
    nodes = [node("Conv", ["x", "w1"], ["a"], pads=[1] * 4, strides=[2, 2]), node("Relu", ["a"], ["b"]),
             node("Conv", ["b", "w2"], ["c"], pads=[1] * 4), node("Add", ["c", "b"], ["d"]), node("Relu", ["d"], ["e"]),
             node("Conv", ["e", "w3"], ["f"], pads=[1] * 4, group=8), node("ReduceMean", ["f", "axes"], ["y"], keepdims=0)]
    return model(path, nodes, [value("x", [1, 3, "h", "w"])], [value("y", [1, 8])], weights)


def wide_net(path):
    """x [n, 512] -> two products -> y [n, 8]: weights of 2 MB, so that artifacts hold them packed too."""
    rng = np.random.default_rng(2)
    weights = {"w1": (rng.standard_normal((512, 1024)) * 0.05).astype(np.float32),
               "w2": (rng.standard_normal((1024, 8)) * 0.05).astype(np.float32)}
    nodes = [node("MatMul", ["x", "w1"], ["a"]), node("Relu", ["a"], ["b"]), node("MatMul", ["b", "w2"], ["y"])]
    return model(path, nodes, [value("x", ["n", 512])], [value("y", ["n", 8])], weights)


ENDLESS = 1 << 50   # rounds of rounds_model that no machine gets through


def rounds_model(path):
    """x [4], rounds [] -> x + 1 as often as `rounds` says -> y [4]: takes as long as it is told. Without a batch, so each request runs alone."""
    body = helper.make_graph(
        [node("Identity", ["go"], ["go_on"]), node("Add", ["h", "one"], ["next"])], "body",
        [value("i", [], I64), value("go", [], TensorProto.BOOL), value("h", [4])],
        [value("go_on", [], TensorProto.BOOL), value("next", [4])])
    return model(path, [node("Loop", ["rounds", "", "x"], ["y"], body=body)], [value("x", [4]), value("rounds", [], I64)],
                 [value("y", [4])], {"one": np.float32(1)})


def masked_mean_model(path):
    """ids, mask [batch, seq] -> hidden [batch, seq, 8] of looked-up rows; pooled [batch, 8], their mean where the mask is 1."""
    rng = np.random.default_rng(3)
    weights = {"table": rng.standard_normal((50, 8)).astype(np.float32), "w": rng.standard_normal((8, 8)).astype(np.float32),
               "one": np.array([1]), "last": np.array([2])}
    nodes = [node("Gather", ["table", "ids"], ["rows"]), node("MatMul", ["rows", "w"], ["x"]), node("Tanh", ["x"], ["hidden"]),
             node("Cast", ["mask"], ["m"], to=F32), node("Unsqueeze", ["m", "last"], ["m3"]), node("Mul", ["hidden", "m3"], ["kept"]),
             node("ReduceSum", ["kept", "one"], ["sum"], keepdims=0), node("ReduceSum", ["m", "one"], ["count"], keepdims=1),
             node("Div", ["sum", "count"], ["pooled"])]
    return model(path, nodes, [value("ids", ["batch", "seq"], I64), value("mask", ["batch", "seq"], I64)],
                 [value("hidden", ["batch", "seq", 8]), value("pooled", ["batch", 8])], weights)


def maskless_mean_model(path):
    """x [batch, seq] -> doubled [batch, seq], element by element; mean [batch], over whatever stands there, padding too."""
    nodes = [node("Add", ["x", "x"], ["doubled"]), node("ReduceMean", ["x", "axes"], ["mean"], keepdims=0)]
    return model(path, nodes, [value("x", ["batch", "seq"])], [value("doubled", ["batch", "seq"]), value("mean", ["batch"])],
                 {"axes": np.array([1])})


def ragged_model(path):
    """values [n], ends [requests] int32 -> doubled [n]; sums [requests] of each request's values: made for ragged batches."""
    weights = {"two": np.float32(2), "zero": np.array([0]), "axis": np.int64(0), "from": np.array([0], np.int32)}
    nodes = [node("Mul", ["values", "two"], ["doubled"]), node("CumSum", ["values", "axis"], ["running"]),
             node("Concat", ["zerof", "running"], ["padded"], axis=0), node("Gather", ["padded", "ends"], ["at"]),
             node("Concat", ["zerof", "at"], ["starts"], axis=0), node("Shape", ["ends"], ["count"]),
             node("Slice", ["starts", "zero", "count"], ["before"]), node("Sub", ["at", "before"], ["sums"])]
    weights["zerof"] = np.zeros(1, np.float32)
    del weights["from"]
    return model(path, nodes, [value("values", ["n"]), value("ends", ["requests"], TensorProto.INT32)],
                 [value("doubled", ["n"]), value("sums", ["requests"])], weights)
