"""Templates of reductions, products, convolutions, pooling, normalisation, and the patterns that fusions look for."""
import numpy as np

from graphs.generator import F32, F64, I32, I64, U8


def reduce_(g):
    op = g.pick_from(("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare",
                      "ReduceLogSumExp", "ReduceProd"))
    x = g.get(g.pick_from((F32, F32, F32, I64)) if op in ("ReduceSum", "ReduceMax", "ReduceMin") else F32, (1, 2, 3, 4),
              lambda v: v.size > 0)
    if x.dtype == I64 and x.bound > 1e4:
        return None
    axes = [int(a) for a in g.rng.permutation(x.rank)[:g.integer(1, x.rank)]]
    keep = g.integer(0, 1)
    shape = [1 if i in axes else d for i, d in enumerate(x.shape) if keep or i not in axes]
    count = int(np.prod([x.shape[a] for a in axes]))
    bound = {"ReduceSum": count * x.bound, "ReduceL1": count * x.bound, "ReduceL2": np.sqrt(count) * x.bound,
             "ReduceSumSquare": count * x.bound**2, "ReduceLogSumExp": x.bound + np.log(count)}.get(op, x.bound)
    if op == "ReduceProd":
        if count > 10 or x.bound > 2:
            return None
        bound = x.bound**count + 1
    exact = x.exact and (op in ("ReduceMax", "ReduceMin") or x.dtype == I64)
    axes = [a - x.rank if g.chance(0.4) else a for a in axes]
    inputs = [x] if len(axes) == x.rank and g.chance(0.5) else [x, g.ints(*axes)]
    return g.emit(op, inputs, x.dtype, shape, exact, bound, keepdims=keep)


def arg_reduce(g):
    x = g.get(F32, (1, 2, 3), lambda v: v.size > 0, exact=True)
    axis, keep = g.axis(x), g.integer(0, 1)
    shape = [1 if i == axis % x.rank else d for i, d in enumerate(x.shape) if keep or i != axis % x.rank]
    return g.emit(g.pick_from(("ArgMax", "ArgMin")), [x], I64, shape, True, 100, axis=axis, keepdims=keep,
                  select_last_index=g.integer(0, 1))


def cumsum(g):
    x = g.get(F32, (1, 2, 3))
    axis = g.axis(x)
    return g.emit("CumSum", [x, g.constant(np.array(axis, np.int64))], F32, x.shape, False, x.bound * x.shape[axis],
                  exclusive=g.integer(0, 1), reverse=g.integer(0, 1))


def softmax(g):
    x = g.get(F32, (1, 2, 3, 4), lambda v: v.size > 0)
    op = g.pick_from(("Softmax", "Softmax", "LogSoftmax"))
    return g.emit(op, [x], F32, x.shape, False, 1 if op == "Softmax" else 2 * x.bound + 10, axis=g.axis(x))


def top_k(g):
    # Distinct elements: ties are broken differently by definition.
    shape = g.shape(g.integer(1, 3), 500)
    x = g.constant(g.rng.permutation(int(np.prod(shape))).reshape(shape).astype(np.float32) / 64)
    axis = g.axis(x)
    k = g.integer(1, x.shape[axis])
    out = list(x.shape)
    out[axis] = k
    return g.emit_many("TopK", [x, g.ints(k)], [(F32, tuple(out), True, x.bound), (I64, tuple(out), True, 100.0)], axis=axis,
                       largest=g.integer(0, 1))[0]


def matmul(g):
    a = g.get(F32, (2, 3, 4), lambda v: v.size > 0)
    k = a.shape[-1]
    n = g.pick_from((1, 2, 3, 5, 8, 16, 17, 33))
    if a.size // k * n > 8000:
        return None
    batch = [1 if g.chance(0.3) else d for d in a.shape[:-2]] if g.chance(0.4) else []
    b = g.find(F32, None, lambda v: v.shape == (*batch, k, n)) or g.fresh(F32, (*batch, k, n))
    y = g.emit("MatMul", [a, b], F32, (*a.shape[:-1], n), False, a.bound * b.bound * k)
    if g.chance(0.4):
        bias = g.fresh(F32, (n,))
        y = g.emit("Add", [y, bias] if g.chance(0.6) else [bias, y], F32, y.shape, False, y.bound + bias.bound)
    return activated(g, y)


def activated(g, y):
    if g.chance(0.5):
        return y
    op = g.pick_from(("Relu", "Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSwish", "Clip6"))
    if op == "Clip6":
        zero, six = (g.constant(np.array(c, np.float32)) for c in (0, 6))
        return g.emit("Clip", [y, zero, six], F32, y.shape, False, 6)
    return g.emit(op, [y], F32, y.shape, False, y.bound)


def gemm(g):
    a = g.get(F32, 2, lambda v: v.size > 0)
    trans_a, trans_b = g.integer(0, 1), g.integer(0, 1)
    m, k = a.shape[::-1] if trans_a else a.shape
    n = g.pick_from((1, 3, 8, 16, 19))
    b = g.fresh(F32, (n, k) if trans_b else (k, n))
    inputs = [a, b]
    if g.chance(0.7):
        inputs.append(g.fresh(F32, g.pick_from(((n,), (1, n), (m, n), (m, 1), (), (1,)))))
    attributes = {"alpha": 0.5, "beta": 2.0} if g.chance(0.3) else {}
    y = g.emit("Gemm", inputs, F32, (m, n), False, a.bound * b.bound * k + 4, transA=trans_a, transB=trans_b, **attributes)
    return activated(g, y)


def einsum(g):
    b, i, j, k = (g.pick_from((1, 2, 3, 4)) for _ in range(4))
    equation, first, second, out = g.pick_from((
        ("bij,bjk->bik", (b, i, j), (b, j, k), (b, i, k)), ("bij,bkj->bik", (b, i, j), (b, k, j), (b, i, k)),
        ("ij,jk->ki", (i, j), (j, k), (k, i)), ("bijk,bik->bj", (b, i, j, k), (b, i, k), (b, j)),
        ("i,j->ij", (i,), (j,), (i, j)), ("bij->bji", (b, i, j), None, (b, j, i)), ("bij->b", (b, i, j), None, (b,))))
    x = g.fresh(F32, first)
    inputs = [x] if second is None else [x, g.fresh(F32, second)]
    return g.emit("Einsum", inputs, F32, out, False, 64 * 4, equation=equation)


def window(g, size, kernel, stride, dilation, begin, end, ceil=False):
    span = size + begin + end - (kernel - 1) * dilation - 1
    return (-(-span // stride) if ceil else span // stride) + 1 if span >= 0 else 0


def conv_input(g, rank=None):
    x = g.get(F32, rank or g.pick_from((3, 4, 4, 4)), lambda v: 0 < v.size < 3000)
    return x


def conv(g):
    x = conv_input(g)
    if x is None:
        return None
    channels, spatial = x.shape[1], x.shape[2:]
    group = g.pick_from([d for d in (1, 1, 1, 2, 4, channels) if channels % d == 0])
    out = group * g.pick_from((1, 1, 2, 3) if group > 1 else (1, 2, 4, 8, 16, 5))
    kernel = [g.pick_from([k for k in (1, 1, 2, 3, 3, 5) if k <= d + 1]) for d in spatial]
    stride = [g.pick_from((1, 1, 2)) for _ in spatial]
    dilation = [g.pick_from((1, 1, 1, 2)) if k > 1 else 1 for k in kernel]
    pads = [g.integer(0, k - 1) for k in kernel] * 2 if g.chance(0.6) else [g.integer(0, 2) for _ in range(2 * len(kernel))]
    attributes = {"strides": stride, "dilations": dilation, "group": group, "kernel_shape": kernel}
    auto = g.pick_from((None, None, None, None, "SAME_UPPER", "SAME_LOWER", "VALID"))
    n = len(kernel)
    if auto == "SAME_UPPER" or auto == "SAME_LOWER":
        attributes.update(auto_pad=auto, dilations=[1] * n)
        shape = [-(-d // s) for d, s in zip(spatial, stride)]
    else:
        pads = [0] * (2 * n) if auto else pads
        attributes.update({"auto_pad": "VALID"} if auto else {"pads": pads})
        shape = [window(g, d, k, s, l, pads[i], pads[i + n]) for i, (d, k, s, l) in enumerate(zip(spatial, kernel, stride, dilation))]
    if min(shape) <= 0 or out * np.prod(shape) * x.shape[0] > 8000:
        return None
    w = g.constant(g.array(F32, (out, channels // group, *kernel), -0.5, 0.5), "w")
    inputs = [x, w]
    if g.chance(0.5):
        inputs.append(g.constant(g.array(F32, (out,)), "b"))
    bound = x.bound * w.bound * np.prod(w.shape[1:]) + 2
    y = g.emit("Conv", inputs, F32, (x.shape[0], out, *shape), False, bound, **attributes)
    if g.chance(0.25):
        y = batch_norm_of(g, y)
    if g.chance(0.25):
        other = g.find(F32, None, lambda v: v.shape == y.shape and v is not y) or g.fresh(F32, y.shape)
        other = g.tamed(other)
        y = g.emit("Add", [y, other] if g.chance(0.5) else [other, y], F32, y.shape, False, y.bound + other.bound)
    return activated(g, y)


def conv_transpose(g):
    x = conv_input(g)
    if x is None or x.size > 800:
        return None
    channels, spatial = x.shape[1], x.shape[2:]
    group = g.pick_from([d for d in (1, 1, 2) if channels % d == 0])
    out = g.pick_from((1, 2, 3)) * group
    kernel = [g.pick_from((1, 2, 3)) for _ in spatial]
    stride = [g.pick_from((1, 2, 2)) for _ in spatial]
    pads = [g.integer(0, k - 1) if k > 1 and d > 1 else 0 for d, k in zip(spatial, kernel)]
    extra = [g.integer(0, s - 1) for s in stride]
    shape = [(d - 1) * s + k - 2 * p + e for d, s, k, p, e in zip(spatial, stride, kernel, pads, extra)]
    if min(shape) <= 0 or np.prod(shape) * out > 8000:
        return None
    w = g.constant(g.array(F32, (channels, out // group, *kernel), -0.5, 0.5), "w")
    return g.emit("ConvTranspose", [x, w], F32, (x.shape[0], out, *shape), False, x.bound * channels * np.prod(kernel), strides=stride,
                  pads=pads * 2, output_padding=extra, group=group, kernel_shape=kernel)


def pool(g):
    x = conv_input(g)
    if x is None:
        return None
    if g.chance(0.3):
        op = g.pick_from(("GlobalAveragePool", "GlobalMaxPool"))
        return g.emit(op, [x], F32, (*x.shape[:2], *[1] * (x.rank - 2)), x.exact and op == "GlobalMaxPool", x.bound)
    spatial = x.shape[2:]
    kernel = [g.integer(1, min(3, d)) for d in spatial]
    stride = [g.pick_from((1, 2)) for _ in spatial]
    pads = [g.integer(0, (k - 1) // 2) for k in kernel] * 2
    n, ceil = len(kernel), g.integer(0, 1)
    shape = []
    for i, (d, k, s) in enumerate(zip(spatial, kernel, stride)):
        out = window(g, d, k, s, 1, pads[i], pads[i + n], ceil)
        # A last window that would begin in the padding at the end is left out.
        if ceil and (out - 1) * s >= d + pads[i]:
            out -= 1
        shape.append(out)
    op = g.pick_from(("MaxPool", "AveragePool"))
    attributes = {"kernel_shape": kernel, "strides": stride, "pads": pads, "ceil_mode": ceil}
    if op == "AveragePool":
        attributes["count_include_pad"] = g.integer(0, 1)
    return g.emit(op, [x], F32, (*x.shape[:2], *shape), x.exact and op == "MaxPool", x.bound, **attributes)


def batch_norm_of(g, x):
    channels = x.shape[1]
    scale, bias, mean = (g.constant(g.array(F32, (channels,)), "bn") for _ in range(3))
    variance = g.constant(g.array(F32, (channels,), 0.5, 2.0), "bn")
    return g.emit("BatchNormalization", [x, scale, bias, mean, variance], F32, x.shape, False, 4 * x.bound + 8)


def batch_norm(g):
    x = g.get(F32, (2, 3, 4))
    return batch_norm_of(g, x)


def norm(g):
    x = g.get(F32, (3, 4), lambda v: v.size > 0 and np.prod(v.shape[2:]) > 1)
    if x is None:
        return None
    channels = x.shape[1]
    op = g.pick_from(("InstanceNormalization", "GroupNormalization", "LRN", "LpNormalization"))
    scale, bias = (g.constant(g.array(F32, (channels,)), "g") for _ in range(2))
    # Constant groups would divide rounding noise by itself.
    epsilon = 1e-2
    if op == "InstanceNormalization":
        return g.emit(op, [x, scale, bias], F32, x.shape, False, 40, epsilon=epsilon)
    if op == "GroupNormalization":
        groups = g.pick_from([d for d in (1, 2, channels) if channels % d == 0])
        return g.emit(op, [x, scale, bias], F32, x.shape, False, 40, num_groups=groups, epsilon=epsilon)
    if op == "LRN":
        return g.emit(op, [x], F32, x.shape, False, x.bound, size=3, alpha=0.1, bias=1.0) if x.rank == 4 else None
    x = positive(g, x)
    return g.emit(op, [x], F32, x.shape, False, 1, axis=g.axis(x), p=g.pick_from((1, 2)))


def positive(g, x):
    x = g.emit("Abs", [x], F32, x.shape, x.exact, x.bound)
    return g.emit("Add", [x, g.constant(np.array(1, np.float32))], F32, x.shape, False, x.bound + 1)


def layer_norm(g):
    x = g.get(F32, (2, 3), lambda v: v.shape[-1] > 1 and v.size)
    n = x.shape[-1]
    scale, bias = (g.constant(g.array(F32, (n,)), "ln") for _ in range(2))
    if g.chance(0.5):
        return g.emit("LayerNormalization", [x, scale, bias] if g.chance(0.7) else [x, scale], F32, x.shape, False, 40, epsilon=1e-2)

    def mean(v):
        return g.emit("ReduceMean", [v, g.ints(-1)], F32, (*x.shape[:-1], 1), False, v.bound)

    d = g.emit("Sub", [x, mean(x)], F32, x.shape, False, 2 * x.bound)
    two, epsilon = g.constant(np.array(2, np.float32)), g.constant(np.array(1e-2, np.float32))
    square = g.emit("Pow", [d, two], F32, x.shape, False, d.bound**2) if g.chance(0.5) else \
        g.emit("Mul", [d, d], F32, x.shape, False, d.bound**2)
    v = mean(square)
    v = g.emit("Sqrt", [g.emit("Add", [v, epsilon], F32, v.shape, False, v.bound + 1)], F32, v.shape, False, v.bound)
    y = g.emit("Div", [d, v], F32, x.shape, False, 10)
    y = g.emit("Mul", [y, scale], F32, x.shape, False, 20)
    return g.emit("Add", [y, bias], F32, x.shape, False, 22)


def squeeze_excite(g):
    x = g.get(F32, 4, lambda v: v.size > 0 and v.shape[1] > 1)
    if x is None:
        return None
    n, c = x.shape[:2]
    s = g.emit("GlobalAveragePool", [x], F32, (n, c, 1, 1), False, x.bound)
    for out, op in ((max(c // 2, 1), "Relu"), (c, "HardSigmoid")):
        w = g.constant(g.array(F32, (out, s.shape[1], 1, 1), -0.5, 0.5), "w")
        s = g.emit("Conv", [s, w, g.constant(g.array(F32, (out,)))], F32, (n, out, 1, 1), False, s.bound * s.shape[1] + 2)
        s = g.emit(op, [s], F32, s.shape, False, s.bound if op == "Relu" else 1)
    return g.emit("Mul", [x, s] if g.chance(0.5) else [s, x], F32, x.shape, False, x.bound)


def attention(g):
    """Scaled dot product by parts, as exporters write it."""
    b, h, n, m, d = (g.pick_from((1, 2, 3)), g.pick_from((1, 2, 4)), g.pick_from((1, 3, 5, 8)), g.pick_from((2, 5, 9)), g.pick_from((2, 4, 8)))
    q, k, v = g.fresh(F32, (b, n, h * d)), g.fresh(F32, (b, m, h * d)), g.fresh(F32, (b, m, h * d))

    def heads(x, extent, perm):
        x = g.emit("Reshape", [x, g.ints(0, 0 if g.chance(0.5) else extent, h, d)], F32, (b, extent, h, d), True, x.bound)
        return g.emit("Transpose", [x], F32, [(b, extent, h, d)[p] for p in perm], True, x.bound, perm=perm)

    q, v = heads(q, n, [0, 2, 1, 3]), heads(v, m, [0, 2, 1, 3])
    if g.chance(0.5):
        k = heads(k, m, [0, 2, 3, 1])
    else:
        k = heads(k, m, [0, 2, 1, 3])
        k = g.emit("Transpose", [k], F32, (b, h, d, m), True, k.bound, perm=[0, 1, 3, 2])
    scale = g.constant(np.array(np.sqrt(d), np.float32))
    scores = g.emit("MatMul", [q, k], F32, (b, h, n, m), False, 4 * d)
    scores = g.emit("Div", [scores, scale], F32, scores.shape, False, 4 * d)
    if g.chance(0.4):
        mask = g.fresh(F32, g.pick_from(((b, 1, n, m), (1, 1, n, m), (n, m), (b, 1, 1, m))))
        scores = g.emit("Add", [scores, mask] if g.chance(0.7) else [mask, scores], F32, scores.shape, False, 4 * d + 2)
    weights = g.emit("Softmax", [scores], F32, scores.shape, False, 1, axis=-1)
    y = g.emit("MatMul", [weights, v], F32, (b, h, n, d), False, 2)
    if g.chance(0.3):
        return y
    y = g.emit("Transpose", [y], F32, (b, n, h, d), False, 2, perm=[0, 2, 1, 3])
    return g.emit("Reshape", [y, g.ints(0, -1, h * d)], F32, (b, n, h * d), False, 2)


def recurrent(g):
    op = g.pick_from(("LSTM", "GRU", "RNN"))
    time, batch, width, hidden = g.integer(1, 5), g.integer(1, 3), g.pick_from((1, 3, 8)), g.pick_from((1, 4, 8, 17))
    direction = g.pick_from(("forward", "reverse", "bidirectional"))
    ways, gates = (2 if direction == "bidirectional" else 1), {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    x = g.fresh(F32, (time, batch, width))
    w, r = (g.constant(g.array(F32, (ways, gates * hidden, n), -0.5, 0.5)) for n in (width, hidden))
    inputs = [x, w, r, g.constant(g.array(F32, (ways, 2 * gates * hidden))) if g.chance(0.6) else ""]
    lengths = g.chance(0.2)
    inputs.append(g.constant(g.rng.integers(1, time + 1, batch).astype(np.int32)) if lengths else "")
    inputs.append(g.fresh(F32, (ways, batch, hidden)) if g.chance(0.5) else "")
    attributes = {"hidden_size": hidden, "direction": direction}
    if op == "GRU":
        attributes["linear_before_reset"] = g.integer(0, 1)
    state = (F32, (ways, batch, hidden), False, 2.0)
    outputs = [(F32, (time, ways, batch, hidden), False, 2.0), state] + ([(F32, state[1], False, 20.0)] if op == "LSTM" else [])
    return g.emit_many(op, inputs, outputs, **attributes)[0]


def integer_matmul(g):
    a = g.fresh(U8, g.shape(g.pick_from((2, 3)), 1500), 0, 255)
    b = g.constant(g.array(g.pick_from((np.dtype("uint8"), np.dtype("int8"))), (a.shape[-1], g.pick_from((1, 4, 16, 19))), -128, 255))
    zeros = [g.constant(np.array(120, np.uint8)), g.constant(np.array(3, b.dtype))] if g.chance(0.6) else []
    return g.emit("MatMulInteger", [a, b, *zeros], I32, (*a.shape[:-1], b.shape[-1]), True, 255 * 255 * a.shape[-1])


def dynamic_quantize(g):
    # Not all zero: ONNX gives 1/255 for the scale then, the peer 1.
    x = g.fresh(F32, g.shape(g.integer(1, 3)), 0.25, 2)
    scalar = (F32, (), False, 1.0)
    return g.emit_many("DynamicQuantizeLinear", [x], [(U8, x.shape, False, 255.0), scalar, (U8, (), False, 255.0)])[1]


def double_matmul(g):
    a = g.fresh(F64, (g.integer(1, 5), g.integer(1, 5)))
    b = g.fresh(F64, (a.shape[1], g.integer(1, 5)))
    return g.emit("MatMul", [a, b], F64, (a.shape[0], b.shape[1]), False, a.bound * b.bound * a.shape[1])


TEMPLATES = {f.__name__: (f, weight) for f, weight in (
    (reduce_, 4), (arg_reduce, 1), (cumsum, 0.7), (softmax, 2), (top_k, 0.7), (matmul, 4), (gemm, 2), (einsum, 0.7), (conv, 7),
    (conv_transpose, 1), (pool, 3), (batch_norm, 1), (norm, 1.5), (layer_norm, 2), (squeeze_excite, 1), (attention, 1.5), (recurrent, 1),
    (integer_matmul, 0.7), (dynamic_quantize, 0.4), (double_matmul, 0.3))}
