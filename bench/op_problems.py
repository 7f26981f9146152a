"""About a hundred common shapes of single operators outside matrix products and convolutions: what bench/ops times. Each is a model of
one node; large enough that the call itself hardly counts."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

F, I64, I32, U8, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.UINT8, TensorProto.BOOL


def floats(*shape, low=-1.0, high=1.0, seed=0):
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def ints(shape, low, high, dtype=np.int64, seed=1):
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


class Problem:
    def __init__(self, family, op, inputs, constants=(), outputs=1, domain="", **attributes):
        """`inputs`: arrays fed at run time; `constants`: arrays (or None for an absent one) that follow them."""
        self.family, self.op, self.inputs, self.domain = family, op, [np.asarray(i) for i in inputs], domain
        self.constants, self.outputs, self.attributes = list(constants), outputs, attributes

    @property
    def name(self):
        shape = "x".join(map(str, self.inputs[0].shape))
        extra = ",".join(f"{k}={v}" for k, v in self.attributes.items() if not isinstance(v, (list, bytes)) or len(v) <= 4)
        return f"{self.op} {shape} {extra}".strip()[:64]

    def feed(self):
        return {f"x{i}": value for i, value in enumerate(self.inputs)}

    def model(self):
        names = [f"x{i}" for i in range(len(self.inputs))]
        initializers = []
        for i, c in enumerate(self.constants):
            names.append("" if c is None else f"c{i}")
            if c is not None:
                initializers.append(numpy_helper.from_array(np.asarray(c), f"c{i}"))
        outs = [f"y{i}" for i in range(self.outputs)]
        node = helper.make_node(self.op, names, outs, domain=self.domain, **self.attributes)
        declared = [helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for i, v in enumerate(self.inputs)]
        graph = helper.make_graph([node], "one", declared, [helper.make_empty_tensor_value_info(o) for o in outs], initializers)
        opsets = [helper.make_opsetid("", 21)] + ([helper.make_opsetid(self.domain, 3)] if self.domain else [])
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def elementwise():
    x, y = floats(1, 64, 112, 112), floats(1, 64, 112, 112, seed=3)
    tokens = floats(8, 128, 768)
    for op in ("Relu", "Sigmoid", "Tanh", "Exp", "Erf", "HardSwish", "LeakyRelu", "Softplus", "Neg", "Abs", "Sin", "Round", "Elu"):
        yield Problem("elementwise", op, [x])
    for op in ("Sqrt", "Log", "Reciprocal"):
        yield Problem("elementwise", op, [np.abs(x) + 0.5])
    yield Problem("elementwise", "Gelu", [tokens])
    yield Problem("elementwise", "Clip", [x], [np.float32(0), np.float32(6)])
    for op in ("Add", "Mul", "Sub", "Div", "Max"):
        yield Problem("elementwise", op, [x, np.abs(y) + 0.5])
    yield Problem("elementwise", "Add", [tokens, floats(768)])
    yield Problem("elementwise", "Mul", [x, floats(1, 64, 1, 1)])
    yield Problem("elementwise", "Add", [floats(8, 12, 128, 128), floats(8, 1, 1, 128)])
    yield Problem("elementwise", "Pow", [np.abs(tokens)], [np.float32(2)])
    yield Problem("elementwise", "Pow", [np.abs(tokens)], [np.float32(1.7)])
    yield Problem("elementwise", "Equal", [ints((8, 128, 768), 0, 9), ints((8, 128, 768), 0, 9, seed=5)])
    yield Problem("elementwise", "Greater", [x, y])
    yield Problem("elementwise", "Where", [tokens > 0, tokens, floats(8, 128, 768, seed=7)])
    yield Problem("elementwise", "Add", [ints((8, 128, 768), 0, 9), ints((8, 128, 768), 0, 9, seed=5)])
    yield Problem("elementwise", "Cast", [tokens], to=I32)
    yield Problem("elementwise", "Cast", [ints((8, 128, 768), 0, 9)], to=F)
    yield Problem("elementwise", "Cast", [ints((8, 128, 768), 0, 200, np.uint8)], to=F)
    yield Problem("elementwise", "PRelu", [x, floats(64, 1, 1)])
    yield Problem("elementwise", "And", [tokens > 0, tokens > 0.5])
    yield Problem("elementwise", "Not", [tokens > 0])


def reductions():
    x, tokens = floats(8, 64, 56, 56), floats(8, 128, 768)
    for op in ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceL2"):
        yield Problem("reduce", op, [tokens], [np.array([-1])])
        yield Problem("reduce", op, [x], [np.array([2, 3])])
    yield Problem("reduce", "ReduceMean", [tokens], [np.array([1])])
    yield Problem("reduce", "ReduceSum", [tokens], [np.array([0])])
    yield Problem("reduce", "ReduceMax", [tokens])
    yield Problem("reduce", "ReduceProd", [tokens], [np.array([-1])])
    yield Problem("reduce", "ReduceLogSumExp", [tokens], [np.array([-1])])
    yield Problem("reduce", "ArgMax", [floats(8, 40, 6625)], axis=2)
    yield Problem("reduce", "ArgMax", [floats(8, 21, 64, 64)], axis=1)
    yield Problem("reduce", "CumSum", [tokens], [np.array(1)])
    yield Problem("reduce", "Softmax", [floats(8, 12, 128, 128)], axis=-1)
    yield Problem("reduce", "Softmax", [floats(8, 21, 64, 64)], axis=1)
    yield Problem("reduce", "LogSoftmax", [floats(64, 10000)], axis=-1)
    yield Problem("reduce", "LayerNormalization", [tokens], [floats(768), floats(768)])
    yield Problem("reduce", "InstanceNormalization", [x], [floats(64), floats(64)])
    yield Problem("reduce", "BatchNormalization", [x], [floats(64), floats(64), floats(64), floats(64, low=0.5)])
    yield Problem("reduce", "LRN", [floats(1, 64, 56, 56)], size=5)


def movement():
    x, tokens = floats(8, 64, 56, 56), floats(8, 128, 768)
    for perm in ([0, 2, 3, 1], [0, 1, 3, 2], [1, 0, 2, 3]):
        yield Problem("transpose", "Transpose", [x], perm=perm)
    yield Problem("transpose", "Transpose", [floats(8, 128, 12, 64)], perm=[0, 2, 1, 3])
    yield Problem("transpose", "Transpose", [floats(1024, 1024)], perm=[1, 0])
    yield Problem("transpose", "Transpose", [floats(16, 16, 16, 16, 16)], perm=[4, 2, 0, 3, 1])
    yield Problem("gather", "Gather", [floats(30522, 384), ints((8, 128), 0, 30522)], axis=0)
    yield Problem("gather", "Gather", [tokens, ints((16,), 0, 128)], axis=1)
    yield Problem("gather", "GatherElements", [tokens, ints((8, 128, 768), 0, 128)], axis=1)
    yield Problem("gather", "GatherElements", [tokens, ints((8, 128, 768), 0, 768)], axis=2)
    yield Problem("gather", "GatherND", [tokens, np.stack([ints(2000, 0, 8), ints(2000, 0, 128, seed=2)], -1)])
    yield Problem("scatter", "ScatterElements", [tokens, np.argsort(floats(8, 128, 768), 1), floats(8, 128, 768)], axis=1)
    yield Problem("scatter", "ScatterND", [floats(4096, 256), np.random.default_rng(0).permutation(4096)[:1024, None], floats(1024, 256)])
    yield Problem("move", "Concat", [x, floats(8, 64, 56, 56, seed=2)], axis=1)
    yield Problem("move", "Concat", [tokens, floats(8, 128, 768, seed=2)], axis=2)
    yield Problem("move", "Split", [tokens], outputs=3, axis=2, num_outputs=3)
    yield Problem("move", "Slice", [x], [np.array([1, 1]), np.array([55, 55]), np.array([2, 3])])
    yield Problem("move", "Slice", [x], [np.array([0, 0]), np.array([56, 56]), np.array([2, 3]), np.array([2, 2])])
    yield Problem("move", "Pad", [x], [np.array([0, 0, 1, 1, 0, 0, 1, 1])])
    yield Problem("move", "Pad", [x], [np.array([0, 0, 3, 3, 0, 0, 3, 3])], mode="reflect")
    yield Problem("move", "Expand", [floats(8, 1, 768)], [np.array([8, 128, 768])])
    yield Problem("move", "Tile", [floats(8, 16, 768)], [np.array([1, 8, 1])])
    yield Problem("move", "DepthToSpace", [floats(1, 64, 112, 112)], blocksize=2)
    yield Problem("move", "SpaceToDepth", [floats(1, 16, 224, 224)], blocksize=2)
    yield Problem("move", "Trilu", [floats(8, 12, 128, 128)])
    yield Problem("move", "OneHot", [ints((8, 128), 0, 1000)], [np.array(1000), np.array([0, 1], np.float32)])
    yield Problem("move", "NonZero", [(floats(8, 128, 768) > 0.9)])
    yield Problem("move", "Compress", [floats(4096, 256)], [np.arange(4096) % 3 == 0], axis=0)


def pictures():
    x = floats(1, 64, 112, 112)
    sizes = np.array([1, 64, 224, 224])
    yield Problem("resize", "Resize", [x], [None, None, sizes], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    yield Problem("resize", "Resize", [x], [None, None, sizes], mode="linear", coordinate_transformation_mode="half_pixel")
    yield Problem("resize", "Resize", [x], [None, None, sizes], mode="linear", coordinate_transformation_mode="align_corners")
    yield Problem("resize", "Resize", [floats(1, 3, 480, 640)], [None, None, np.array([1, 3, 224, 224])], mode="linear")
    yield Problem("resize", "Resize", [floats(1, 3, 224, 224)], [None, None, np.array([1, 3, 320, 320])], mode="cubic")
    yield Problem("resize", "GridSample", [floats(1, 16, 64, 64), floats(1, 64, 64, 2)], mode="linear")
    yield Problem("pool", "MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    yield Problem("pool", "MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2])
    yield Problem("pool", "AveragePool", [x], kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1])
    yield Problem("pool", "AveragePool", [x], kernel_shape=[2, 2], strides=[2, 2])
    yield Problem("pool", "GlobalAveragePool", [floats(8, 1280, 7, 7)])
    yield Problem("pool", "GlobalMaxPool", [floats(8, 1280, 7, 7)])
    rois = np.concatenate([floats(50, 2, low=0, high=20), floats(50, 2, low=21, high=55)], 1)
    yield Problem("pool", "RoiAlign", [floats(1, 64, 56, 56), rois, np.zeros(50, np.int64)], output_height=7, output_width=7)
    boxes = np.concatenate([floats(1, 1000, 2, low=0, high=100), floats(1, 1000, 2, low=100, high=200)], 2)
    yield Problem("nms", "NonMaxSuppression", [boxes, floats(1, 20, 1000, low=0, seed=4)], [np.array(50), np.float32(0.5), np.float32(0.3)])
    for shape, k, axis in (((8, 6625), 5, 1), ((1, 100000), 100, 1), ((64, 1000), 10, 1), ((8, 128, 256), 4, 2)):
        yield Problem("topk", "TopK", [floats(*shape)], [np.array([k])], outputs=2, axis=axis)


def recurrent():
    for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        for time, batch, width, hidden, direction in ((40, 1, 96, 96, "bidirectional"), (20, 8, 256, 256, "forward"), (100, 1, 64, 128, "forward")):
            ways = 2 if direction == "bidirectional" else 1
            weights = [floats(ways, gates * hidden, width, high=0.2, low=-0.2), floats(ways, gates * hidden, hidden, high=0.2, low=-0.2),
                       floats(ways, 2 * gates * hidden)]
            yield Problem("rnn", op, [floats(time, batch, width)], weights, hidden_size=hidden, direction=direction)


def einsums():
    yield Problem("einsum", "Einsum", [floats(8, 12, 128, 64), floats(8, 12, 128, 64, seed=1)], equation="bhid,bhjd->bhij")
    yield Problem("einsum", "Einsum", [floats(8, 128, 12, 64), floats(8, 128, 12, 64, seed=1)], equation="bihd,bjhd->bhij")
    yield Problem("einsum", "Einsum", [floats(64, 128, 96)], equation="bij->bji")
    yield Problem("einsum", "Einsum", [floats(64, 128, 96), floats(64, 128, 96, seed=1)], equation="bij,bij->bi")


def quantisation():
    x, scale, zero = floats(8, 128, 768), np.float32(0.02), np.uint8(128)
    yield Problem("quantize", "QuantizeLinear", [x], [scale, zero])
    yield Problem("quantize", "DequantizeLinear", [ints((8, 128, 768), 0, 255, np.uint8)], [scale, zero])
    yield Problem("quantize", "DynamicQuantizeLinear", [x], outputs=3)


def trees():
    """A forest of 100 full trees of depth 8 on 32 features."""
    rng, depth, count, features = np.random.default_rng(0), 8, 100, 32
    inner, total = 2**depth - 1, 2 ** (depth + 1) - 1
    ids = np.tile(np.arange(total), count)
    tree = np.repeat(np.arange(count), total)
    branch = np.tile(np.arange(total) < inner, count)
    common = dict(
        nodes_treeids=tree.tolist(), nodes_nodeids=ids.tolist(), nodes_featureids=rng.integers(0, features, ids.size).tolist(),
        nodes_modes=["BRANCH_LEQ" if b else "LEAF" for b in branch], nodes_values=rng.uniform(-1, 1, ids.size).tolist(),
        nodes_truenodeids=np.where(branch, 2 * ids + 1, 0).tolist(), nodes_falsenodeids=np.where(branch, 2 * ids + 2, 0).tolist(),
        target_treeids=tree[~branch].tolist(), target_nodeids=ids[~branch].tolist(), target_ids=[0] * int((~branch).sum()),
        target_weights=rng.uniform(-1, 1, int((~branch).sum())).tolist(), n_targets=1, aggregate_function="SUM")
    for rows in (1, 1000, 20000):
        yield Problem("trees", "TreeEnsembleRegressor", [floats(rows, features, seed=rows)], domain="ai.onnx.ml", **common)


def problems():
    for group in (elementwise, reductions, movement, pictures, recurrent, einsums, quantisation, trees):
        yield from group()
