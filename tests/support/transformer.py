"""A BERT as exporters write it, with random weights: embeddings, layers of attention and feed-forward, layer norms. Small as it stands."""
import dataclasses

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


@dataclasses.dataclass(frozen=True)
class Sizes:
    hidden: int = 32
    heads: int = 4
    inner: int = 64
    words: int = 50
    places: int = 16
    layers: int = 2


SMALL, BASE = Sizes(), Sizes(768, 12, 3072, 30522, 512, 12)


class Writer:
    def __init__(self, sizes, seed=0):
        self.sizes, self.rng, self.nodes, self.weights, self.count = sizes, np.random.default_rng(seed), [], [], 0

    def name(self, op):
        self.count += 1
        return f"{op}_{self.count}"

    def __call__(self, op, *inputs, **attributes):
        name = self.name(op)
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def weight(self, array):
        name = self.name("weight")
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def random(self, *shape, scale=None):
        scale = min(0.3, 1.7 / self.sizes.hidden**0.5) if scale is None else scale
        return self.weight((self.rng.standard_normal(shape) * scale).astype(np.float32))

    def number(self, value):
        return self.weight(np.float32(value))

    def linear(self, x, width, filters):
        return self("Add", self("MatMul", x, self.random(width, filters)), self.random(filters))

    def norm(self, x):
        centred = self("Sub", x, self("ReduceMean", x, axes=[-1]))
        variance = self("ReduceMean", self("Pow", centred, self.number(2)), axes=[-1])
        scaled = self("Div", centred, self("Sqrt", self("Add", variance, self.number(1e-12))))
        return self("Add", self("Mul", scaled, self.random(self.sizes.hidden, scale=1)), self.random(self.sizes.hidden))

    def heads(self, x, perm):
        shape = self.weight(np.array([0, 0, self.sizes.heads, self.sizes.hidden // self.sizes.heads]))
        return self("Transpose", self("Reshape", x, shape), perm=perm)

    def gelu(self, x):
        grown = self("Add", self("Erf", self("Div", x, self.number(2**0.5))), self.number(1))
        return self("Mul", self("Mul", x, grown), self.number(0.5))

    def layer(self, x, mask):
        hidden, heads, inner = self.sizes.hidden, self.sizes.heads, self.sizes.inner
        q, k, v = (self.linear(x, hidden, hidden) for _ in range(3))
        scores = self("MatMul", self.heads(q, [0, 2, 1, 3]), self.heads(k, [0, 2, 3, 1]))
        scores = self("Add", self("Div", scores, self.number((hidden / heads) ** 0.5)), mask)
        context = self("MatMul", self("Softmax", scores, axis=-1), self.heads(v, [0, 2, 1, 3]))
        context = self("Reshape", self("Transpose", context, perm=[0, 2, 1, 3]), self.weight(np.array([0, 0, hidden])))
        x = self.norm(self("Add", self.linear(context, hidden, hidden), x))
        return self.norm(self("Add", self.linear(self.gelu(self.linear(x, hidden, inner)), inner, hidden), x))


def bert(path, sizes=SMALL):
    """Inputs input_ids, token_type_ids, attention_mask [batch, seq] (int64), output last_hidden_state."""
    w = Writer(sizes)
    long = w.weight(np.arange(sizes.places)[None])
    length = w("Unsqueeze", w("Gather", w("Shape", "input_ids"), w.weight(np.int64(1)), axis=0), axes=[0])
    places = w("Slice", long, w.weight(np.array([0])), length, w.weight(np.array([1])))
    words = w("Gather", w.random(sizes.words, sizes.hidden), "input_ids")
    kinds = w("Gather", w.random(2, sizes.hidden), "token_type_ids")
    x = w.norm(w("Add", w("Add", words, kinds), w("Gather", w.random(sizes.places, sizes.hidden), places)))
    mask = w("Cast", w("Unsqueeze", w("Unsqueeze", "attention_mask", axes=[1]), axes=[2]), to=TensorProto.FLOAT)
    mask = w("Mul", w("Sub", w.number(1), mask), w.number(-10000))
    for _ in range(sizes.layers):
        x = w.layer(x, mask)
    w.nodes[-1].output[0] = "last_hidden_state"
    inputs = [helper.make_tensor_value_info(n, TensorProto.INT64, ["batch", "seq"]) for n in ("input_ids", "token_type_ids", "attention_mask")]
    outputs = [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "seq", sizes.hidden])]
    model = helper.make_model(helper.make_graph(w.nodes, "bert", inputs, outputs, w.weights), opset_imports=[helper.make_opsetid("", 11)], ir_version=7)
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())
    return path


def bert_inputs(batch=2, length=9, seed=1, sizes=SMALL):
    rng = np.random.default_rng(seed)
    mask = np.ones((batch, length), np.int64)
    mask[1:, length // 2:] = 0
    return {"input_ids": rng.integers(0, sizes.words, (batch, length)), "token_type_ids": rng.integers(0, 2, (batch, length)), "attention_mask": mask}
