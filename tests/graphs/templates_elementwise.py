"""Templates of elementwise operators, comparisons, casts and quantisation. A template adds nodes to the generator `g` and returns
the result, or None when nothing fits."""
import numpy as np

from graphs.generator import BOOL, F16, F32, F64, I8, I32, I64, U8

# name: (bound of the result from the bound of the input, attributes or None)
UNARY = {
    "Relu": lambda b: b, "Sigmoid": lambda b: 1, "Tanh": lambda b: 1, "Abs": lambda b: b, "Neg": lambda b: b, "Erf": lambda b: 1,
    "Softplus": lambda b: b + 1, "Softsign": lambda b: 1, "HardSwish": lambda b: b, "Mish": lambda b: b, "Sin": lambda b: 1,
    "Cos": lambda b: 1, "Atan": lambda b: 1.6, "Asinh": lambda b: b, "Identity": lambda b: b, "Selu": lambda b: 2 * b + 2,
    "Gelu": lambda b: b, "HardSigmoid": lambda b: 1, "LeakyRelu": lambda b: b, "Elu": lambda b: b + 2, "Celu": lambda b: b + 2,
}
EXACT_UNARY = {"Relu", "Abs", "Neg", "Identity"}


def unary(g):
    op = g.pick_from(list(UNARY))
    x = g.get(g.pick_from((F32, F32, F32, F32, F64)) if op in ("Relu", "Abs", "Neg", "Tanh", "Sigmoid", "Sin", "Identity") else F32)
    attributes = {}
    if op == "HardSigmoid" and g.chance(0.6):
        attributes = {"alpha": 1 / 6, "beta": 0.5}
    elif op in ("LeakyRelu", "Elu") and g.chance(0.5):
        attributes = {"alpha": 0.25}
    elif op == "Celu" and g.chance(0.5):
        attributes = {"alpha": 1.5}
    elif op == "Gelu" and g.chance(0.5):
        attributes = {"approximate": "tanh"}
    return g.emit(op, [x], x.dtype, x.shape, x.exact and op in EXACT_UNARY, UNARY[op](x.bound), **attributes)


def exp(g):
    x = g.tamed(g.get(F32), 4.0)
    return g.emit("Exp", [x], F32, x.shape, False, np.exp(4.0))


def positive(g, x):
    """|x| + 1"""
    x = g.emit("Abs", [x], x.dtype, x.shape, x.exact, x.bound)
    one = g.constant(np.array(1, x.dtype))
    return g.emit("Add", [x, one], x.dtype, x.shape, False, x.bound + 1)


def of_positive(g):
    op = g.pick_from(("Log", "Sqrt", "Reciprocal"))
    x = positive(g, g.get(F32))
    return g.emit(op, [x], F32, x.shape, False, x.bound)


def jumps(g):
    x = g.get(F32, exact=True)
    return g.emit(g.pick_from(("Floor", "Ceil", "Round", "Sign")), [x], F32, x.shape, True, x.bound + 1)


def thresholded(g):
    x = g.get(F32, exact=True)
    return g.emit("ThresholdedRelu", [x], F32, x.shape, True, x.bound, alpha=0.5)


def broadcast_shape(a, b):
    return np.broadcast_shapes(a.shape, b.shape)


def binary(g):
    op = g.pick_from(("Add", "Sub", "Mul", "Min", "Max", "Add", "Mul"))
    x = g.get(g.pick_from((F32, F32, F32, F32, F64, I32, I64)))
    y = g.partner(x)
    bound = {"Add": x.bound + y.bound, "Sub": x.bound + y.bound, "Mul": x.bound * y.bound}.get(op, max(x.bound, y.bound))
    if x.dtype.kind != "f" and bound > 1e6:
        return None
    exact = x.exact and y.exact and (op in ("Min", "Max") or x.dtype.kind != "f")
    inputs = [y, x] if g.chance(0.4) else [x, y]
    return g.emit(op, inputs, x.dtype, broadcast_shape(x, y), exact, bound)


def scalar_arithmetic(g):
    x = g.get(F32)
    op = g.pick_from(("Add", "Mul", "Sub", "Div", "Pow"))
    if op == "Pow":
        power = g.pick_from((2.0, 2.0, 3.0))
        x = g.tamed(x, 8.0)
        return g.emit("Pow", [x, g.constant(np.array(power, np.float32))], F32, x.shape, False, x.bound**power)
    number = g.pick_from((0.0, 1.0, 2.0, 0.5, -1.5, 6.0)) if op != "Div" else g.pick_from((1.0, 2.0, 6.0, -3.0))
    shape = g.pick_from(((), (1,))) if x.rank else ()
    return g.emit(op, [x, g.constant(np.full(shape, number, np.float32))], F32, x.shape, False, x.bound * 6 + 6)


def divide(g):
    x = g.get(F32)
    y = positive(g, g.partner(x))
    return g.emit("Div", [x, y], F32, broadcast_shape(x, y), False, x.bound)


def integer_divide(g):
    x = g.get(g.pick_from((I32, I64)))
    y = g.fresh(x.dtype, x.shape, 1, 5)
    op = g.pick_from(("Div", "Mod"))
    if op == "Div":
        x = g.emit("Abs", [x], x.dtype, x.shape, True, x.bound)
    return g.emit(op, [x, y], x.dtype, x.shape, True, max(x.bound, 5))


def variadic(g):
    op = g.pick_from(("Sum", "Mean", "Min", "Max"))
    x = g.get(F32)
    more = [g.partner(x) for _ in range(g.integer(0, 3))]
    shape = np.broadcast_shapes(x.shape, *[m.shape for m in more])
    bound = sum(v.bound for v in [x, *more])
    return g.emit(op, [x, *more], F32, shape, op in ("Min", "Max") and all(v.exact for v in [x, *more]), bound)


def clip(g):
    x = g.get(F32)
    low, high = g.pick_from(((0.0, 6.0), (-1.0, 1.0), (None, 0.5), (0.0, None)))
    ends = ["" if e is None else g.constant(np.array(e, np.float32)) for e in (low, high)]
    return g.emit("Clip", [x, *ends], F32, x.shape, x.exact, x.bound + 1)


def hard_swish_by_parts(g):
    x = g.get(F32)
    three, six, zero = (g.constant(np.array(c, np.float32)) for c in (3, 6, 0))
    s = g.emit("Add", [x, three], F32, x.shape, False, x.bound + 3)
    c = g.emit("Clip", [s, zero, six], F32, x.shape, False, 6)
    if g.chance(0.5):
        return g.emit("Div", [g.emit("Mul", [x, c], F32, x.shape, False, 6 * x.bound), six], F32, x.shape, False, x.bound)
    d = g.emit("Div", [c, six], F32, x.shape, False, 1)
    return g.emit("Mul", [x, d] if g.chance(0.5) else [d, x], F32, x.shape, False, x.bound)


def gelu_by_parts(g):
    x = g.get(F32)
    root, one, half = (g.constant(np.array(c, np.float32)) for c in (np.sqrt(2), 1, 0.5))
    e = g.emit("Erf", [g.emit("Div", [x, root], F32, x.shape, False, x.bound)], F32, x.shape, False, 1)
    e = g.emit("Add", [e, one], F32, x.shape, False, 2)
    if g.chance(0.5):
        return g.emit("Mul", [g.emit("Mul", [x, e], F32, x.shape, False, 2 * x.bound), half], F32, x.shape, False, x.bound)
    return g.emit("Mul", [g.emit("Mul", [x, half], F32, x.shape, False, x.bound), e], F32, x.shape, False, x.bound)


def swish_by_parts(g):
    x = g.get(F32)
    s = g.emit("Sigmoid", [x], F32, x.shape, False, 1)
    return g.emit("Mul", [x, s] if g.chance(0.5) else [s, x], F32, x.shape, False, x.bound)


def prelu(g):
    x = g.get(F32)
    slope = g.partner(x)
    return g.emit("PRelu", [x, slope], F32, x.shape, False, x.bound * 2)


def compare(g):
    x = g.get(g.pick_from((F32, F32, I32, I64)), exact=True)
    y = g.partner(x) if g.chance(0.5) else g.constant(g.array(x.dtype, ()))
    if not y.exact:
        return None
    op = g.pick_from(("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"))
    return g.emit(op, [x, y], BOOL, broadcast_shape(x, y), True, 1)


def logic(g):
    x = g.get(BOOL)
    if g.chance(0.3):
        return g.emit("Not", [x], BOOL, x.shape, True, 1)
    y = g.partner(x)
    return g.emit(g.pick_from(("And", "Or", "Xor")), [x, y], BOOL, broadcast_shape(x, y), True, 1)


def where(g):
    c = g.get(BOOL)
    dtype = g.pick_from((F32, F32, I64))
    x = g.fresh(dtype, c.shape) if g.chance(0.4) else g.find(dtype, None, lambda v: v.shape == c.shape) or g.fresh(dtype, c.shape)
    y = g.partner(x)
    return g.emit("Where", [c, x, y], dtype, np.broadcast_shapes(c.shape, x.shape, y.shape), x.exact and y.exact,
                  max(x.bound, y.bound))


def cast(g):
    x = g.get(g.pick_from((F32, F32, I32, I64, BOOL, U8)), exact=True)
    to = g.pick_from((F32, F32, I32, I64, F64, BOOL, F16))
    if x.bound > 1000:
        return None
    from graphs.generator import ONNX_TYPE
    y = g.emit("Cast", [x], to, x.shape, True, max(x.bound, 1), to=ONNX_TYPE[to])
    # Half precision only on the way: other operators of it differ between runtimes by a rounding.
    return y if to != F16 else g.emit("Cast", [y], F32, x.shape, True, max(x.bound, 1), to=ONNX_TYPE[F32])


def bits(g):
    x = g.fresh(U8, g.shape(), 0, 200)
    y = g.partner(x, 0, 7)
    if g.chance(0.5):
        return g.emit(g.pick_from(("BitwiseAnd", "BitwiseOr", "BitwiseXor")), [x, y], U8, broadcast_shape(x, y), True, 255)
    return g.emit("BitShift", [x, y], U8, broadcast_shape(x, y), True, 255, direction=g.pick_from(("LEFT", "RIGHT")))


def quantize_round_trip(g):
    """Q then DQ of exact values; per tensor or per axis."""
    x = g.get(F32, exact=True)
    kind = g.pick_from((U8, I8))
    axis = g.integer(0, x.rank - 1) if x.rank and g.chance(0.4) else None
    shape = () if axis is None else (x.shape[axis],)
    # Powers of two: the division is exact, so that both sides round the same number.
    scale = g.constant(np.float32(2.0) ** -g.rng.integers(2, 6, shape).astype(np.float32))
    zero = g.constant(g.rng.integers(-5 if kind == I8 else 100, 20 if kind == I8 else 130, shape).astype(kind))
    attributes = {} if axis is None else {"axis": axis}
    q = g.emit("QuantizeLinear", [x, scale, zero], kind, x.shape, True, 255, **attributes)
    return g.emit("DequantizeLinear", [q, scale, zero], F32, x.shape, True, 64, **attributes)


TEMPLATES = {f.__name__: (f, weight) for f, weight in (
    (unary, 8), (exp, 1), (of_positive, 1), (jumps, 1), (thresholded, 0.3), (binary, 6), (scalar_arithmetic, 3), (divide, 1),
    (integer_divide, 1), (variadic, 1), (clip, 2), (hard_swish_by_parts, 1), (gelu_by_parts, 1), (swish_by_parts, 1), (prelu, 1),
    (compare, 2), (logic, 1), (where, 2), (cast, 2), (bits, 0.5), (quantize_round_trip, 1))}
