"""Gradient: every rule of differentiation against central differences in float64, with fixed and with symbolic extents, and the
gradient of the gradient against differences of the gradient."""
import re

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from support import library, paths

RULES = set(re.findall(r'^GRADIENT\("(\w+)"', (paths.ROOT / "src/import/onnx/gradient/rules.inc").read_text(), re.M))
CASES = {}
STEP = 1e-5


def case(op, *inputs, wrt=None, outputs=1, constants=(), name="", **attributes):
    """One node. `wrt`: indices of inputs to differentiate by, default all of floats that are not constants."""
    arrays = [None if x is None else np.asarray(x) for x in inputs]
    if wrt is None:
        wrt = [i for i, x in enumerate(arrays) if x is not None and x.dtype == np.float64 and i not in constants]
    label = f"{op}{'-' + name if name else ''}"
    assert label not in CASES
    CASES[label] = (op, arrays, wrt, outputs, constants, attributes)


def rnd(*shape, low=-2.0, high=2.0):
    return np.random.default_rng(sum(shape) * 7 + len(shape)).uniform(low, high, shape)


def ints(*values):
    return np.array(values, np.int64)


for op in ("Abs Asinh Atan Celu Cos Cosh Elu Erf Exp HardSigmoid LeakyRelu Neg Relu Selu Sigmoid Sin Sinh Softplus Softsign Tanh ThresholdedRelu "
           "Ceil Floor Round Sign Gelu HardSwish Mish Swish Identity").split():
    case(op, rnd(3, 4))
for op in ("Acos", "Asin", "Atanh", "Tan"):
    case(op, rnd(3, 4, low=-0.9, high=0.9))
for op in ("Log", "Reciprocal", "Sqrt"):
    case(op, rnd(3, 4, low=0.3, high=2))
case("Acosh", rnd(3, 4, low=1.5, high=3))
case("Celu", rnd(2, 3), name="alpha", alpha=0.7)
case("Elu", rnd(2, 3), name="alpha", alpha=0.7)
case("HardSigmoid", rnd(2, 3), name="alpha", alpha=0.4, beta=0.3)
case("LeakyRelu", rnd(2, 3), name="alpha", alpha=0.3)
case("Selu", rnd(2, 3), name="alpha", alpha=0.3, gamma=1.7)
case("ThresholdedRelu", rnd(2, 3), name="alpha", alpha=0.5)
case("Gelu", rnd(2, 3), name="tanh", approximate="tanh")
case("Swish", rnd(2, 3), name="alpha", alpha=1.5)

for op in ("Add", "Sub", "Mul", "Max", "Min", "Sum", "Mean"):
    case(op, rnd(2, 3, 4), rnd(2, 3, 4) * 0.7)
    case(op, rnd(2, 3, 4), rnd(3, 1), name="broadcast")
    case(op, rnd(1, 4), rnd(5, 2, 1), name="both")
    case(op, rnd(3), rnd(), name="scalar")
case("Sum", rnd(2, 3), rnd(3), rnd(2, 1), name="three")
case("Max", rnd(2, 3), rnd(3), rnd(2, 1), name="three")
case("Div", rnd(2, 3, 4), rnd(3, 1, low=0.5, high=2), name="broadcast")
case("Div", rnd(4), rnd(2, 3, 4, low=0.5, high=2))
case("Pow", rnd(2, 3, low=0.3), rnd(3))
case("Pow", rnd(2, 3), 2.0, name="square", constants=(1,))
case("Pow", rnd(2, 3), 3.0, name="cube", constants=(1,))
case("Pow", rnd(2, 3), 0.0, name="zero", constants=(1,))
case("Pow", rnd(2, 3), ints(2, 3, 1), name="integers")
case("Where", np.array([[True], [False]]), rnd(2, 3), rnd(3))
case("Clip", rnd(3, 4), np.float64(-0.5), np.float64(0.8))
case("Clip", rnd(3, 4), None, np.float64(0.8), name="above")
case("PRelu", rnd(2, 3, 4), rnd(3, 1))
case("Expand", rnd(3, 1), ints(2, 3, 4))

for a, b in (((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((4,), (4,)), ((4,), (2, 4, 3)), ((2, 3, 4), (4,))):
    case("MatMul", rnd(*a), rnd(*b), name="x".join(map(str, a)) + "_" + "x".join(map(str, b)))
for ta in (0, 1):
    for tb in (0, 1):
        case("Gemm", rnd(*((4, 3) if ta else (3, 4))), rnd(*((5, 4) if tb else (4, 5))), rnd(5), name=f"{ta}{tb}", transA=ta, transB=tb, alpha=0.5,
             beta=1.5)
case("Gemm", rnd(3, 4), rnd(4, 5), name="without_c")
case("Conv", rnd(2, 3, 6, 5), rnd(4, 3, 3, 2), rnd(4))
case("Conv", rnd(2, 4, 8, 7), rnd(6, 2, 3, 3), rnd(6), name="all", group=2, strides=[2, 3], dilations=[2, 1], pads=[1, 2, 0, 1])
case("Conv", rnd(1, 3, 9), rnd(3, 1, 2), name="depthwise", group=3, strides=[4])
case("Conv", rnd(1, 2, 4, 3, 5), rnd(2, 2, 2, 2, 2), name="3d", auto_pad="VALID")

case("ConvTranspose", rnd(2, 3, 4, 5), rnd(3, 2, 3, 2), rnd(2))
case("ConvTranspose", rnd(2, 4, 3, 4), rnd(4, 3, 3, 2), name="all", group=2, strides=[2, 3], dilations=[2, 1], pads=[1, 0, 2, 1], output_padding=[1, 1])

case("Cast", rnd(2, 3), to=TensorProto.DOUBLE)
case("CastLike", rnd(2, 3), rnd(1), wrt=[0])
case("Concat", rnd(2, 3), rnd(2, 1), rnd(2, 2), axis=1)
case("Concat", rnd(2, 3), rnd(1, 3), name="negative", axis=-2)
case("DepthToSpace", rnd(1, 8, 2, 3), blocksize=2)
case("SpaceToDepth", rnd(1, 2, 4, 6), blocksize=2)
case("Flatten", rnd(2, 3, 4), axis=2)
case("Gather", rnd(3, 4), ints(0, 2, 2, -1), axis=0)
case("Gather", rnd(3, 4), np.array([[1, 0], [3, 3]]), name="last", axis=1)
case("GatherElements", rnd(3, 4), np.array([[0, 0], [3, 1]]), axis=1)
case("GatherND", rnd(3, 4), np.array([[0, 1], [2, 3], [0, 1]]))
case("Pad", rnd(2, 3), ints(1, 0, 0, 2), np.float64(7), wrt=[0])
case("Pad", rnd(2, 5), ints(0, 2, 1, 1), name="reflect", mode="edge")
case("Reshape", rnd(2, 3, 4), ints(4, -1))
case("ScatterElements", rnd(3, 4), np.array([[0, 2], [3, 1]]), rnd(2, 2), axis=1)
case("ScatterElements", rnd(3, 4), np.array([[0, 0], [3, 1]]), rnd(2, 2), name="add", axis=1, reduction="add")
case("Slice", rnd(4, 5), ints(1, 4), ints(4, 0), ints(0, 1), ints(2, -1))
case("Split", rnd(2, 6), ints(1, 2, 3), outputs=3, axis=1)
case("Squeeze", rnd(2, 1, 3), ints(1))
case("Tile", rnd(2, 3), ints(2, 2))
case("Transpose", rnd(2, 3, 4), perm=[1, 2, 0])
case("Transpose", rnd(2, 3), name="plain")
case("Trilu", rnd(3, 4), np.int64(1), upper=0)
case("Unsqueeze", rnd(2, 3), ints(0, 3))

case("CumSum", rnd(3, 4), np.int64(1))
case("CumSum", rnd(3, 4), np.int64(0), name="backwards", reverse=1, exclusive=1)
for op in ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "ReduceSumSquare"):
    x = rnd(2, 3, 4, low=0.2) if op == "ReduceLogSum" else rnd(2, 3, 4)
    case(op, x, name="all")
    case(op, x, name="all_dropped", keepdims=0)
    case(op, x, ints(1, -1), constants=(1,), keepdims=0)
    case(op, x, ints(0), name="kept", keepdims=1)
    case(op, x, ints(2), name="fed_axes", keepdims=0)
for op in ("Softmax", "LogSoftmax"):
    case(op, rnd(3, 4))
    case(op, rnd(2, 3, 4), name="middle", axis=1)

case("GlobalAveragePool", rnd(2, 3, 4, 5))
case("BatchNormalization", rnd(2, 3, 4), rnd(3), rnd(3), rnd(3), rnd(3, low=0.5))
case("InstanceNormalization", rnd(2, 3, 4), rnd(3), rnd(3), epsilon=1e-3)
case("LayerNormalization", rnd(2, 3, 4), rnd(4), rnd(4))
case("LayerNormalization", rnd(2, 3, 4), rnd(3, 4), name="two_axes", axis=1, epsilon=1e-3)
case("RMSNormalization", rnd(2, 3, 4), rnd(4))


def build(name, symbolic):
    """y of the case; L, the product of each output with weights of its own; dL/dx; the derivative of the sum of dL/dx of the first."""
    op, arrays, wrt, outputs, constants, attributes = CASES[name]
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(arrays)]
    infos, initializers, feeds = [], [], {}

    def feed(label, array):
        tensor = numpy_helper.from_array(array, label)
        shape = [f"{label}.{k}" for k in range(array.ndim)] if symbolic else array.shape
        infos.append(helper.make_tensor_value_info(label, tensor.data_type, shape))
        feeds[label] = array

    for i, x in enumerate(arrays):
        if x is not None and i in constants:
            initializers.append(numpy_helper.from_array(x, names[i]))
        elif x is not None:
            feed(names[i], x)
    nodes = [helper.make_node(op, names, [f"y{k}" for k in range(outputs)], name="the_node", **attributes)]
    for k in range(outputs):
        # A weight that differs by element, from nothing but y's own size.
        nodes += [helper.make_node("Size", [f"y{k}"], [f"size{k}"]), helper.make_node("Range", ["zero", f"size{k}", "one"], [f"range{k}"]),
                  helper.make_node("CastLike", [f"range{k}", "unit"], [f"float{k}"]), helper.make_node("Sin", [f"float{k}"], [f"w{k}"]),
                  helper.make_node("Reshape", [f"y{k}", "flat"], [f"f{k}"]), helper.make_node("Mul", [f"f{k}", f"w{k}"], [f"l{k}"]),
                  helper.make_node("ReduceSum", [f"l{k}"], [f"s{k}"], keepdims=0)]
    nodes.append(helper.make_node("Sum", [f"s{k}" for k in range(outputs)], ["L"]))
    initializers += [numpy_helper.from_array(np.array(0), "zero"), numpy_helper.from_array(np.array(1), "one"),
                     numpy_helper.from_array(np.array([-1]), "flat"), numpy_helper.from_array(np.array(1.0), "unit")]
    xs = [names[i] for i in wrt]
    training = {"domain": "ai.onnx.preview.training"}
    nodes.append(helper.make_node("Gradient", xs, [f"d{x}" for x in xs], xs=xs, y="L", **training))
    nodes.append(helper.make_node("Mul", [f"d{xs[0]}", f"d{xs[0]}"], ["squares"]))
    nodes.append(helper.make_node("Gradient", xs, [f"dd{x}" for x in xs], xs=xs, y="squares", **training))
    results = ["L", "squares"] + [f"d{x}" for x in xs] + [f"dd{x}" for x in xs]
    graph = helper.make_graph(nodes, name, infos, [helper.make_tensor_value_info(r, TensorProto.DOUBLE, None) for r in results], initializers)
    opsets = [helper.make_opsetid("", 24), helper.make_opsetid("ai.onnx.preview.training", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString(), feeds, results, xs


def differences(run, feeds, x):
    """d of (L, sum of squares of dL/dx0) by each element of x."""
    shape = feeds[x].shape
    found = np.zeros((2, feeds[x].size))
    for i in range(feeds[x].size):
        sides = []
        for step in (STEP, -STEP):
            moved = feeds[x].copy().reshape(-1)
            moved[i] += step
            out = run({**feeds, x: moved.reshape(shape)})
            sides.append(np.array([out["L"], np.sum(out["squares"])]))
        found[:, i] = (sides[0] - sides[1]) / (2 * STEP)
    return found.reshape((2, *shape))


@pytest.mark.parametrize("symbolic", (False, True), ids=("fixed", "symbolic"))
@pytest.mark.parametrize("name", CASES)
def test_rule(name, symbolic, tmp_path):
    model, feeds, results, xs = build(name, symbolic)
    path = tmp_path / "model.onnx"
    path.write_bytes(model)
    with library.open_model(path, cache_dir="none") as session:
        def run(values):
            return dict(zip(results, session.run(values)))

        got = run(feeds)
        for x in xs:
            first, second = differences(run, feeds, x)
            assert got[f"d{x}"].shape == feeds[x].shape
            np.testing.assert_allclose(got[f"d{x}"], first, rtol=1e-6, atol=1e-7, err_msg=f"first by {x}")
            np.testing.assert_allclose(got[f"dd{x}"], second, rtol=1e-5, atol=1e-6, err_msg=f"second by {x}")


def test_every_rule_has_a_case():
    assert RULES == {c[0] for c in CASES.values()}
