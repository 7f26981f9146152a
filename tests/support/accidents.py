"""Three models with one block each that fails in bf16: a norm of numbers far from zero, a softmax over large logits, the difference of
two large sums."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

from support import library

TOKENS, WIDTH, LAYERS, SAMPLES = 48, 192, 4, 320


class Net:
    """A stack of dense layers over tokens; each method adds nodes and returns the name of what it makes."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.weights = [], []

    def const(self, value):
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    def node(self, op, *inputs, name=None, **attributes):
        out = name or f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [f"{out}_out"], name=out, **attributes))
        return f"{out}_out"

    def product(self, x, width, name=None, scale=1.0):
        w = self.rng.standard_normal((WIDTH, width)) * scale / np.sqrt(WIDTH)
        return self.node("MatMul", x, self.const(w), name=name)

    def body(self):
        x = "x"
        for _ in range(LAYERS):
            h = self.node("Relu", self.product(x, WIDTH, scale=np.sqrt(2)))
            x = self.node("LayerNormalization", h, self.const(np.ones(WIDTH)), self.const(np.zeros(WIDTH)))
        return x

    def save(self, y, shape, path):
        self.nodes.append(helper.make_node("Identity", [y], ["y"], name="result"))
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", TOKENS, WIDTH])
        out = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
        graph = helper.make_graph(self.nodes, "accident", [x], [out], self.weights)
        path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString())


def norm_model(path):
    """A norm of numbers around 2000, apart by about one: bf16 knows steps of 8 there."""
    net = Net(1)
    x = net.body()
    far = net.node("Add", net.product(x, WIDTH, name="before_norm"), net.const(np.full(WIDTH, 2000.0)), name="far_from_zero")
    n = net.node("LayerNormalization", far, net.const(np.ones(WIDTH)), net.const(np.zeros(WIDTH)), name="fragile_norm")
    net.save(net.product(n, 4, name="head"), ["n", TOKENS, 4], path)


def softmax_model(path):
    """A softmax over logits around 600 whose differences matter."""
    net = Net(2)
    x = net.body()
    logits = net.node("Add", net.product(x, 64, name="scores", scale=1.5), net.const(np.full(64, 600.0)), name="large_logits")
    p = net.node("Softmax", logits, axis=-1, name="fragile_softmax")
    w = net.const(net.rng.standard_normal((64, 4)))
    net.save(net.node("MatMul", p, w, name="head"), ["n", TOKENS, 4], path)


def regression_model(path):
    """A small difference of two large sums."""
    net = Net(3)
    x = net.body()
    a = net.rng.standard_normal((WIDTH, 8))
    big = 400 * net.rng.standard_normal((WIDTH, 8))
    plus = net.node("MatMul", x, net.const(big + a), name="plus")
    minus = net.node("MatMul", x, net.const(big), name="minus")
    net.save(net.node("Sub", plus, minus, name="difference"), ["n", TOKENS, 8], path)


MODELS = {"norm": (norm_model, "top1"), "softmax": (softmax_model, "top1"), "regression": (regression_model, "rmse")}


def write(name, folder):
    """net.onnx and data with labels that the f32 model gets right in about 92 of 100, in `folder`; gives the metric."""
    make, metric = MODELS[name]
    make(folder / "net.onnx")
    rng = np.random.default_rng(7)
    x = rng.standard_normal((SAMPLES, TOKENS, WIDTH)).astype(np.float32)
    with library.open_model(folder / "net.onnx") as session:
        y = np.concatenate([session.run({"x": x[i : i + 1]})[0] for i in range(SAMPLES)])
    if metric == "top1":
        labels = y.argmax(-1)
        wrong = rng.random(labels.shape) < 0.08
        labels[wrong] = rng.integers(0, y.shape[-1], wrong.sum())
        labels = labels.astype(np.int64)
    else:
        labels = (y + rng.standard_normal(y.shape) * y.std()).astype(np.float32)
    (folder / "data").mkdir()
    for i in range(0, SAMPLES, 40):
        np.savez(folder / "data" / f"{i:04}.npz", x=x[i : i + 40], labels=labels[i : i + 40])
    return metric
