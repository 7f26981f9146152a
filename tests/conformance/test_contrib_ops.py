"""Operators of com.microsoft, one node each, against ONNX Runtime (or NumPy, where ONNX Runtime has no kernel for CPUs)."""
import dataclasses

import numpy as np
import pytest

from support import compare, library, single_node

RNG = np.random.default_rng(0)


def f32(*shape, low=-1.0, high=1.0):
    return RNG.uniform(low, high, shape).astype(np.float32)


def i32(*values):
    return np.array(values, np.int32)


def i64(*values):
    return np.array(values, np.int64)


def scalar(value, dtype=np.float32):
    return np.array(value, dtype)


def integers(dtype, *shape):
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max, shape, dtype, endpoint=True)


@dataclasses.dataclass
class Case:
    """`want`: a function of the inputs, instead of ONNX Runtime. `steps`: difference allowed in integer results."""
    op: str
    note: str
    inputs: list
    attributes: dict = dataclasses.field(default_factory=dict)
    outputs: object = 1
    constants: tuple = ()
    want: object = None
    keep: object = None
    steps: int = 0
    rtol: float = 1e-4
    atol: float = 1e-5
    symbolic: bool = True
    domain: str = "com.microsoft"
    opset: int = 21

    def __str__(self):
        return f"{self.op}-{self.note}"


CASES = []


def case(op, note, inputs, attributes=None, outputs=1, **more):
    CASES.append(Case(op, note, inputs, attributes or {}, outputs, **more))


# Attention: [batch, seq, hidden], 4 heads.
def attention():
    b, s, d, n = 2, 5, 16, 4
    x, w, bias = f32(b, s, d), f32(d, 3 * d), f32(3 * d)
    masks = {
        "ends": i32(5, 3), "ends-starts": i32(5, 4, 0, 2), "raw-2d": i32([1, 1, 1, 0, 0], [0, 1, 1, 1, 1]),
        "raw-3d": RNG.integers(0, 2, (b, s, s)).astype(np.int32) | np.eye(s, dtype=np.int32), "nothing-visible": i32([0] * 5, [1] * 5),
    }
    case("Attention", "plain", [x, w, bias], {"num_heads": n})
    case("Attention", "constant-weights", [x, w, bias], {"num_heads": n}, constants=(1, 2))
    case("Attention", "scale", [x, w, bias], {"num_heads": n, "scale": 0.3})
    case("Attention", "unidirectional", [x, w, bias], {"num_heads": n, "unidirectional": 1})
    for name, mask in masks.items():
        for causal in (0, 1):
            case("Attention", f"{name}-{causal}", [x, w, bias, mask], {"num_heads": n, "unidirectional": causal})
    case("Attention", "filter", [x, w, bias, masks["raw-2d"]], {"num_heads": n, "mask_filter_value": -2.5})
    case("Attention", "bias", [x, w, bias, None, None, f32(b, n, s, s)], {"num_heads": n})
    case("Attention", "bias-broadcast", [x, w, bias, masks["ends"], None, f32(1, 1, s, s)], {"num_heads": n})
    case("Attention", "sizes", [x, f32(d, 8 + 8 + 24), f32(40)], {"num_heads": n, "qkv_hidden_sizes": [8, 8, 24]})
    case("Attention", "present", [x, w, bias], {"num_heads": n, "unidirectional": 1}, 2)
    past = f32(2, b, n, 3, 4)
    case("Attention", "past", [x, w, bias, None, past], {"num_heads": n}, 2)
    case("Attention", "past-causal", [x, w, bias, None, past], {"num_heads": n, "unidirectional": 1}, 2)
    case("Attention", "past-raw-mask", [x, w, bias, RNG.integers(0, 2, (b, 8)).astype(np.int32), past],
         {"num_heads": n, "unidirectional": 1}, 2)
    case("Attention", "past-one-token", [f32(b, 1, d), w, bias, None, past], {"num_heads": n, "unidirectional": 1}, 2)
    case("Attention", "empty-past", [x, w, bias, None, f32(2, b, n, 0, 4)], {"num_heads": n, "unidirectional": 1}, 2)


def multi_head_attention():
    b, s, l, d, n = 2, 4, 6, 16, 4
    q, k, v = f32(b, s, d), f32(b, l, d), f32(b, l, d)
    bias = f32(3 * d)
    case("MultiHeadAttention", "plain", [q, k, v], {"num_heads": n})
    case("MultiHeadAttention", "bias", [q, k, v, bias], {"num_heads": n, "scale": 0.2})
    case("MultiHeadAttention", "wide-values", [q, k, f32(b, l, 24), f32(2 * d + 24)], {"num_heads": n})
    # ONNX Runtime has these forms for other devices alone.
    case("MultiHeadAttention", "packed-kv", [q, f32(b, l, n, 2, 4)], {"num_heads": n}, want=lambda q, kv: single_node.expect(
        "MultiHeadAttention", [q, *(kv[..., i, :].reshape(b, l, d) for i in range(2))], {"num_heads": n}))
    case("MultiHeadAttention", "packed-qkv", [f32(b, s, n, 3, 4)], {"num_heads": n}, want=lambda qkv: single_node.expect(
        "MultiHeadAttention", [qkv[..., i, :].reshape(b, s, d) for i in range(3)], {"num_heads": n}))
    case("MultiHeadAttention", "cross-4d", [q, f32(b, n, l, 4), f32(b, n, l, 4)], {"num_heads": n})
    case("MultiHeadAttention", "cross-4d-bias", [q, f32(b, n, l, 4), f32(b, n, l, 4), bias], {"num_heads": n})
    case("MultiHeadAttention", "padding", [q, k, v, bias, RNG.integers(0, 2, (b, l)).astype(np.int32)], {"num_heads": n})
    case("MultiHeadAttention", "padding-ends", [q, k, v, None, i32(6, 2)], {"num_heads": n})
    case("MultiHeadAttention", "padding-3d", [q, k, v, None, RNG.integers(0, 2, (b, s, l)).astype(np.int32)], {"num_heads": n})
    case("MultiHeadAttention", "attention-bias", [q, k, v, None, None, f32(1, n, s, l)], {"num_heads": n})
    own = [f32(b, s, d) for _ in range(3)]
    case("MultiHeadAttention", "causal", own, {"num_heads": n, "unidirectional": 1})
    case("MultiHeadAttention", "present", own, {"num_heads": n}, 3)
    past = [f32(b, n, 3, 4), f32(b, n, 3, 4)]
    case("MultiHeadAttention", "past", [*own, bias, None, None, *past], {"num_heads": n}, 3)
    case("MultiHeadAttention", "past-causal", [*own, None, None, None, *past], {"num_heads": n, "unidirectional": 1}, 3)
    case("MultiHeadAttention", "past-masked", [*own, bias, RNG.integers(0, 2, (b, 7)).astype(np.int32), f32(b, 1, s, 7), *past],
         {"num_heads": n, "unidirectional": 1}, 3)
    one = [f32(b, 1, d) for _ in range(3)]
    op, shared = "DecoderMaskedMultiHeadAttention", {"num_heads": n, "past_present_share_buffer": 1}
    buffers = [f32(b, n, 8, 4), f32(b, n, 8, 4)]

    def in_use(out):
        return [out[0], out[1][:, :, :4], out[2][:, :, :4]]

    case(op, "past", [*one, None, None, *buffers, i32(3)], shared, 3, keep=in_use)
    case(op, "bias", [*one, None, f32(b, n, 1, 4), *buffers, i32(3), None, None, bias], shared, 3, keep=in_use)
    case(op, "masked", [*one, i32([1, 0, 1, 1], [0, 1, 1, 1]), None, *buffers, i32(3)], shared, 3, keep=in_use)
    case(op, "cross", [one[0], f32(b, n, l, 4), f32(b, n, l, 4)], {"num_heads": n}, want=lambda q, k, v: single_node.expect(
        "MultiHeadAttention", [q, k, v], {"num_heads": n}))


def caches(positions, half):
    angle = np.arange(positions)[:, None] * (0.5 ** np.arange(half))
    return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


def grouped():
    b, d, n, g = 2, 16, 4, 2

    def step(s, past, b=b, dim=d):
        """Query, key, value and a cache of `past` positions."""
        return [f32(b, s, n * dim), f32(b, s, g * dim), f32(b, s, g * dim), f32(b, g, past, dim), f32(b, g, past, dim)]

    heads = {"num_heads": n, "kv_num_heads": g}
    cos, sin = caches(32, d // 2)
    full = dict(heads, do_rotary=1)
    op = "GroupQueryAttention"
    case(op, "prompt", [*step(5, 0), i32(4, 4), scalar(5, np.int32)], heads, 3)
    case(op, "prompt-without-past", [*step(5, 0)[:3], None, None, i32(4, 4), scalar(5, np.int32)], heads, 3)
    case(op, "prompt-packed", [f32(b, 5, (n + 2 * g) * d), None, None, None, None, i32(4, 4), scalar(5, np.int32), cos, sin], full, 3)
    case(op, "prompt-padded", [*step(5, 0), i32(4, 2), scalar(5, np.int32), cos, sin], full, 3,
         keep=lambda out: [np.stack([out[0][0], np.pad(out[0][1, :3], ((0, 2), (0, 0)))]), *out[1:]])
    case(op, "token", [*step(1, 6), i32(6, 6), scalar(7, np.int32)], heads, 3)
    case(op, "token-rotary", [*step(1, 6), i32(6, 6), scalar(7, np.int32), cos, sin], full, 3)
    case(op, "token-interleaved", [*step(1, 6), i32(6, 6), scalar(7, np.int32), cos, sin], dict(full, rotary_interleaved=1), 3)
    case(op, "token-part-rotary", [*step(1, 6, dim=32), i32(6, 6), scalar(7, np.int32), *caches(32, 8)], full, 3, symbolic=False)
    # Batches of different lengths: only what is in use counts.
    case(op, "token-ragged", [*step(1, 6), i32(6, 3), scalar(7, np.int32), cos, sin], full, 3,
         keep=lambda out: [out[0], *(np.concatenate([o[0].ravel(), o[1, :, :4].ravel()]) for o in out[1:])])
    case(op, "token-long-cache", [*step(1, 16), i32(6, 6), scalar(7, np.int32), cos, sin], full, 3,
         keep=lambda out: [out[0], out[1][:, :, :7], out[2][:, :, :7]])
    case(op, "several-tokens", [*step(3, 6, 1), i32(8), scalar(9, np.int32), cos, sin], full, 3)
    case(op, "scale-softcap", [*step(5, 0), i32(4, 4), scalar(5, np.int32)], dict(heads, scale=0.5, softcap=2.0), 3)
    for window in (1, 3, 20):
        case(op, f"window-{window}-prompt", [*step(5, 0), i32(4, 4), scalar(5, np.int32)], dict(heads, local_window_size=window), 3)
        case(op, f"window-{window}-token", [*step(1, 6), i32(6, 6), scalar(7, np.int32)], dict(heads, local_window_size=window), 3)
    case(op, "bias", [*step(1, 6), i32(6, 6), scalar(7, np.int32), None, None, None, f32(1, n, 1, 7)], heads, 3)
    case(op, "positions", [*step(1, 6), i32(6, 6), scalar(7, np.int32), cos, sin, i64([9], [11])], full, 3)
    case(op, "positions-prompt", [*step(3, 0), i32(2, 2), scalar(3, np.int32), cos, sin, i64([0, 1, 2], [0, 1, 2])], full, 3)
    case(op, "bidirectional", [*step(5, 0), i32(4, 4), scalar(5, np.int32)], dict(heads, causal=0), 3)


def rotary():
    b, s, n, d = 2, 3, 2, 8
    cos, sin = caches(16, d // 2)
    for interleaved in (0, 1):
        attributes = {"interleaved": interleaved}
        case("RotaryEmbedding", f"ids-{interleaved}", [f32(b, s, n * d), i64([0, 1, 2], [5, 6, 7]), cos, sin], attributes, symbolic=False)
        case("RotaryEmbedding", f"offset-{interleaved}", [f32(b, s, n * d), i64(4), cos, sin], dict(attributes, num_heads=n))
        case("RotaryEmbedding", f"4d-{interleaved}", [f32(b, n, s, d), i64([0, 1, 2], [5, 6, 7]), cos, sin], attributes)
    case("RotaryEmbedding", "part", [f32(b, s, n * d), i64(1), *caches(16, 2)], {"num_heads": n, "rotary_embedding_dim": 4})


def embeddings():
    b, s, h = 2, 4, 8
    ids = RNG.integers(0, 11, (b, s)).astype(np.int32)
    segments = RNG.integers(0, 2, (b, s)).astype(np.int32)
    words, places, kinds, gamma, beta = f32(11, h), f32(6, h), f32(2, h), f32(h), f32(h)
    mask = i32([1, 1, 1, 0], [1, 1, 0, 0])
    op = "EmbedLayerNormalization"
    case(op, "all", [ids, segments, words, places, kinds, gamma, beta, mask], {}, 3)
    case(op, "no-segments", [ids, None, words, places, None, gamma, beta, mask], {"epsilon": 1e-3}, 2)
    case(op, "no-mask", [ids, segments, words, places, kinds, gamma, beta], {}, 2)
    case(op, "positions", [ids, segments, words, places, kinds, gamma, beta, mask, i32([3, 2, 1, 0], [0, 1, 4, 5])], {}, 2)
    case(op, "one-row-positions", [ids, segments, words, places, kinds, gamma, beta, None, i32([3, 2, 1, 0])], {}, 2)
    tables = [integers(np.uint8, 11, h), integers(np.uint8, 6, h), integers(np.uint8, 2, h), integers(np.uint8, h), integers(np.uint8, h)]
    scales = [scalar(v) for v in (0.01, 0.02, 0.03, 0.015, 0.025)]
    zeros = [scalar(v, np.uint8) for v in (128, 3, 200, 0, 77)]
    case("QEmbedLayerNormalization", "all", [ids, segments, *tables, mask, *scales, *zeros], {}, 2)


def blocks():
    def packed(n, k, bits, size, floats=False, zeros=True):
        count = -(-k // size)
        weights = integers(np.uint8, n, count, size * bits // 8)
        scales = f32(n, count, low=0.01, high=0.1)
        if not zeros:
            return [weights, scales]
        zero = f32(n, count, low=0, high=2 ** bits) if floats else integers(np.uint8, n, -(-count * bits // 8))
        return [weights, scales, zero]

    for bits in (2, 4, 8):
        for n, k, size in ((8, 32, 16), (5, 64, 32), (3, 50, 16), (7, 96, 32)):
            attributes = {"N": n, "K": k, "bits": bits, "block_size": size}
            for name, more in (("", {}), ("-symmetric", {"zeros": False}), ("-floats", {"floats": True})):
                if bits == 8 and more.get("floats"):
                    continue  # ONNX Runtime refuses it
                inputs = [f32(2, 3, k), *packed(n, k, bits, size, **more)]
                case("MatMulNBits", f"{bits}bits-{n}x{k}{name}", inputs, attributes, constants=(1, 2, 3), symbolic=False, atol=1e-4)
    inputs = [f32(4, 64), *packed(6, 64, 4, 32), None, f32(6)]
    case("MatMulNBits", "bias", inputs, {"N": 6, "K": 64, "bits": 4, "block_size": 32}, constants=(1, 2, 3), symbolic=False, atol=1e-4)
    table = [integers(np.uint8, 10, 32), i64([1, 9], [0, 3]), f32(10, 4, low=0.01, high=0.1)]
    attributes = {"bits": 4, "block_size": 16, "quantize_axis": 1}
    case("GatherBlockQuantized", "4bits", table, attributes, constants=(0, 2))
    case("GatherBlockQuantized", "4bits-zeros", [*table, integers(np.uint8, 10, 2)], attributes, constants=(0, 2, 3))
    case("GatherBlockQuantized", "8bits", [integers(np.uint8, 10, 32), i32(4, 2), f32(10, 2, low=0.01, high=0.1)],
         dict(attributes, bits=8), constants=(0, 2))


def quantized():
    def parameters(dtype, scale=0.05):
        return [scalar(scale), scalar(130 if dtype == np.uint8 else -7, dtype)]

    b, s, d, n = 2, 5, 16, 4
    for name, weights, scale, zero in (("u8s8", np.int8, scalar(0.01), scalar(0, np.int8)), ("u8u8", np.uint8, scalar(0.01), scalar(127, np.uint8)),
                                       ("columns", np.int8, f32(3 * d, low=0.005, high=0.02), integers(np.int8, 3 * d))):
        inputs = [integers(np.uint8, b, s, d), integers(weights, d, 3 * d), f32(3 * d), scalar(0.02), scale]
        case("QAttention", name, [*inputs, i32(5, 3), scalar(120, np.uint8), zero], {"num_heads": n}, constants=(1,))
        case("QAttention", f"{name}-past", [*inputs, None, scalar(120, np.uint8), zero, f32(2, b, n, 3, 4)],
             {"num_heads": n, "unidirectional": 1}, 2, constants=(1,))
    for dtype in (np.uint8, np.int8):
        name = np.dtype(dtype).name
        x, y = integers(dtype, 2, 3, 6, 6), integers(dtype, 2, 3, 6, 6)
        p, q = parameters(dtype), parameters(dtype, 0.07)
        for op in ("QLinearAdd", "QLinearMul"):
            case(op, name, [x, *p, y, *q, *parameters(dtype, 0.2)], steps=1)
        case("QLinearSigmoid", name, [x, *p, *parameters(dtype, 0.01)], steps=1)
        case("QLinearLeakyRelu", name, [x, *p, *q], {"alpha": 0.2}, steps=1)
        case("QLinearConcat", name, [*q, x, *p, y, *q], {"axis": 1}, steps=1)
        for opset, axis in ((13, 1), (13, -1), (12, 1), (12, 2), (12, 3)):
            case("QLinearSoftmax", f"{name}-{opset}-{axis}", [x, *p, scalar(1 / 256), scalar(0 if dtype == np.uint8 else -128, dtype)],
                 {"axis": axis, "opset": opset}, steps=1)
        case("QLinearWhere", name, [RNG.integers(0, 2, (2, 3, 6, 6)).astype(bool), x, *p, y, *q, *q], steps=1)
        case("QLinearReduceMean", name, [x, *p, *q], {"axes": [2, 3], "keepdims": 1}, steps=1,
             want=lambda x, xs, xz, ys, yz: [requantize(((x.astype(np.float32) - np.float32(xz)) * xs).mean((2, 3), keepdims=True), ys, yz)])
        for last in (0, 1):
            layout = {"channels_last": last}
            case("QLinearAveragePool", f"{name}-{last}", [x, *p, *q], dict(layout, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1]),
                 steps=1)
            case("QLinearGlobalAveragePool", f"{name}-{last}", [x, *p, *q], layout, steps=1)
        case("NhwcMaxPool", name, [x], {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [0, 1, 1, 0]})
        weights = integers(np.int8, 4, 3, 3, 3)
        case("QLinearConv", name, [x, *p, weights, f32(4, low=0.001, high=0.01), np.zeros(4, np.int8), *parameters(dtype, 0.3),
                                   RNG.integers(-99, 99, 4).astype(np.int32)], {"pads": [1, 1, 1, 1]}, constants=(3, 5), steps=1)
        case("QLinearConv", f"{name}-last", [x.transpose(0, 2, 3, 1).copy(), *p, weights, scalar(0.01), scalar(0, np.int8),
                                             *parameters(dtype, 0.3)], {"channels_last": 1, "strides": [2, 2]}, constants=(3, 5), steps=1)
    a, w = integers(np.uint8, 6, 8), integers(np.int8, 8, 5)
    scales, zeros = f32(5, low=0.01, high=0.02), integers(np.int8, 5)
    case("QGemm", "columns", [a, *parameters(np.uint8), w, scales, zeros, RNG.integers(-99, 99, 5).astype(np.int32),
                              *parameters(np.uint8, 0.5)], steps=1, symbolic=False)
    case("QGemm", "float", [a, *parameters(np.uint8), w, scales, zeros], {"transB": 0}, symbolic=False)
    case("MatMulIntegerToFloat", "bias", [a, w, scalar(0.02), scales, scalar(9, np.uint8), zeros, f32(5)])
    # The range of A decides on its scale: a tie of rounding moves an element by one step.
    case("DynamicQuantizeMatMul", "bias", [f32(6, 8), w, scales, zeros, f32(5)], atol=0.02)


def requantize(x, scale, zero):
    info = np.iinfo(zero.dtype)
    return np.clip(np.rint(x / scale) + np.float32(zero), info.min, info.max).astype(zero.dtype)


def lstm():
    # ONNX Runtime quantises X and the hidden state at each step to 8 bits; Tenon does not: results differ by their rounding.
    seq, batch, width, hidden = 4, 2, 8, 6
    for direction, dirs in (("forward", 1), ("bidirectional", 2)):
        for name, scale in (("tensor", f32(dirs, low=0.002, high=0.004)), ("channel", f32(dirs, 4 * hidden, low=0.002, high=0.004))):
            zero = np.zeros(scale.shape, np.int8)
            inputs = [f32(seq, batch, width), integers(np.int8, dirs, width, 4 * hidden), integers(np.int8, dirs, hidden, 4 * hidden),
                      f32(dirs, 8 * hidden), None, f32(dirs, batch, hidden), f32(dirs, batch, hidden), None, scale, zero, scale, zero]
            case("DynamicQuantizeLSTM", f"{direction}-{name}", inputs, {"hidden_size": hidden, "direction": direction}, 3,
                 constants=(1, 2, 9, 11), atol=0.02)


def silu(x):
    return x / (1 + np.exp(-x))


def group_norm(x, gamma, beta, groups, epsilon=1e-5):
    n, h, w, c = x.shape
    split = x.reshape(n, h, w, groups, c // groups)
    mean, var = split.mean((1, 2, 4), keepdims=True), split.var((1, 2, 4), keepdims=True)
    return ((split - mean) / np.sqrt(var + epsilon)).reshape(x.shape) * gamma + beta


def gelu(x):
    return x * 0.5 * (1 + np.vectorize(__import__("math").erf)(x / np.sqrt(2)))


def conv_last(x, w, bias):
    """1 x 1 kernels over channels."""
    return np.einsum("nhwc,oc->nhwo", x, w[:, :, 0, 0]) + bias


def floats():
    x = f32(2, 3, 8)
    case("FusedMatMul", "both", [f32(2, 4, 3), f32(2, 5, 4)], {"transA": 1, "transB": 1, "alpha": 0.5})
    case("FusedMatMul", "batch-a", [f32(3, 2, 4), f32(2, 4, 5)], {"transBatchA": 1})
    case("FusedMatMul", "batch-b", [f32(2, 3, 4), f32(4, 2, 5)], {"transBatchB": 1})
    case("FusedMatMul", "batch-all", [f32(4, 2, 3, 5), f32(6, 2, 3, 5)], {"transBatchA": 1, "transBatchB": 1, "transB": 1})
    case("TransposeMatMul", "a", [f32(4, 3), f32(4, 5)], {"transA": 1, "alpha": 2.0})
    case("FusedMatMulActivation", "leaky", [f32(3, 4), f32(5, 4)], {"transB": 1, "activation": "LeakyRelu", "activation_alpha": 0.3},
         want=lambda a, b: [np.where((v := a @ b.T) < 0, v * np.float32(0.3), v)])
    for activation in ("Relu", "Tanh", "LeakyRelu"):
        more = {"activation_alpha": 0.25} if activation == "LeakyRelu" else {}
        case("FusedGemm", activation, [f32(3, 4), f32(4, 5), f32(5)], {"activation": activation, **more})
    for activation, params in (("Relu", []), ("LeakyRelu", [0.2]), ("Clip", [-0.5, 0.5]), ("HardSigmoid", [0.3, 0.4]), ("Tanh", [])):
        attributes = {"activation": activation, "pads": [1, 1, 1, 1], **({"activation_params": params} if params else {})}
        case("FusedConv", activation, [f32(1, 3, 6, 6), f32(4, 3, 3, 3), f32(4)], attributes, constants=(1,))
        case("FusedConv", f"{activation}-sum", [f32(1, 3, 6, 6), f32(4, 3, 3, 3), f32(4), f32(1, 4, 6, 6)], attributes)
    case("GemmFastGelu", "bias", [x, f32(8, 4), f32(4)], want=lambda x, w, b: [fast_gelu(x @ w + b)])
    case("FastGelu", "bias", [x, f32(8)])
    case("BiasGelu", "plain", [x, f32(8)])
    case("Gelu", "plain", [x])
    case("QuickGelu", "alpha", [x], {"alpha": 1.3})
    case("BiasSplitGelu", "plain", [x, f32(8)], want=lambda x, b: [((x + b)[..., :4] * gelu((x + b)[..., 4:])).astype(np.float32)])
    case("BiasAdd", "plain", [x, f32(8), f32(2, 3, 8)], want=lambda x, b, s: [x + b + s])
    case("BiasSoftmax", "last", [x, f32(2, 1, 8)], {"axis": 2, "is_inner_broadcast": 1}, want=lambda x, b: [softmax(x + b)])
    case("BiasDropout", "residual", [x, f32(8), f32(2, 3, 8)], want=lambda x, b, r: [x + b + r])
    case("BitmaskDropout", "plain", [x], want=lambda x: [x])
    for op, gamma in (("SkipLayerNormalization", [f32(8), f32(8), f32(8)]), ("SkipSimplifiedLayerNormalization", [f32(8), f32(8)])):
        case(op, "bias", [x, f32(2, 3, 8), *gamma], {"epsilon": 1e-3}, ["a", "", "", "d"])
        case(op, "broadcast", [x, f32(3, 8), gamma[0]])
    picture = f32(2, 4, 4, 6)
    norm = {"groups": 3, "activation": 1, "channels_last": 1}
    case("GroupNorm", "silu", [picture, f32(6), f32(6)], norm, want=lambda x, g, b: [silu(group_norm(x, g, b, 3))])
    case("SkipGroupNorm", "skip", [picture, f32(6), f32(6), f32(2, 6), f32(6)], norm, 2, want=lambda x, g, b, s, c: [
        silu(group_norm(x + s[:, None, None] + c, g, b, 3)), x + s[:, None, None] + c])
    case("NhwcConv", "point", [picture, f32(5, 6, 1, 1), f32(5)], want=lambda x, w, b: [conv_last(x, w, b)], constants=(1,))
    case("NhwcFusedConv", "point", [picture, f32(5, 6, 1, 1), f32(5), f32(2, 4, 4, 5)], {"activation": "Relu"}, constants=(1,),
         want=lambda x, w, b, z: [np.maximum(conv_last(x, w, b) + z, 0)])
    case("ConvTransposeWithDynamicPads", "pads", [f32(1, 3, 5, 5), f32(3, 2, 3, 3), i64(1, 0, 1, 1), f32(2)], {"strides": [2, 2]}, constants=(2,))
    case("Inverse", "f32", [f32(3, 4, 4) + 4 * np.eye(4, dtype=np.float32)])
    case("Inverse", "f64", [f32(5, 5).astype(np.float64) + 3 * np.eye(5)])
    case("CDist", "square", [f32(4, 5), f32(3, 5)])
    case("CDist", "euclidean", [f32(4, 5), f32(3, 5)], {"metric": "euclidean"}, rtol=1e-3)
    case("Rfft", "plain", [f32(3, 10)], {"signal_ndim": 1, "onesided": 1, "normalized": 0}, want=lambda x: [parts(np.fft.rfft(x))])
    case("Irfft", "plain", [f32(3, 6, 2)], {"signal_ndim": 1, "onesided": 1, "normalized": 0},
         want=lambda x: [np.fft.irfft(x[..., 0] + 1j * x[..., 1]).astype(np.float32)])
    case("ImageScaler", "plain", [f32(1, 3, 4, 4)], {"scale": 0.5, "bias": [0.1, 0.2, 0.3]}, domain="", opset=9)
    case("Affine", "plain", [x], {"alpha": 0.5, "beta": 2.0}, domain="", opset=9)
    case("ScaledTanh", "plain", [x], {"alpha": 0.5, "beta": 2.0}, domain="", opset=9)
    case("ParametricSoftplus", "plain", [x], {"alpha": 0.5, "beta": 2.0}, domain="", opset=9)
    case("Crop", "border", [f32(1, 3, 8, 8)], {"border": [1, 2, 3, 1]}, domain="", opset=9)
    case("Crop", "scale", [f32(1, 3, 8, 8)], {"border": [1, 2, 0, 0], "scale": [3, 4]}, domain="", opset=9)


def fast_gelu(x):
    return (0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))).astype(np.float32)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def parts(z):
    return np.stack([z.real, z.imag], -1).astype(np.float32)


def shapes():
    x = f32(2, 3, 4)
    case("ExpandDims", "middle", [x, scalar(1, np.int32)], constants=(1,))
    case("ExpandDims", "end", [x, scalar(-1, np.int32)], constants=(1,))
    case("GatherND", "pairs", [x, i32([0, 2], [1, 1])])
    case("Pad", "constant", [x, i64(0, 1, 0, 2, 0, 1), f32(1)])
    case("Pad", "row", [x, i64([0, 1, 0, 0, 1, 0])], {"mode": "edge"})
    case("Range", "delta", [i64(2), i64(11), i64(3)])
    case("Range", "plain", [scalar(1.5), scalar(5.0)])
    case("Trilu", "upper", [x, scalar(1, np.int64)])
    case("Trilu", "lower", [x], {"upper": 0})
    case("Unique", "floats", [np.array([2, 1, 1, 3, 4, 3], np.float32)], {}, 3)
    case("UnfoldTensor", "last", [f32(2, 9)], {"size": 3, "step": 2})
    case("UnfoldTensor", "first", [f32(7, 2)], {"size": 2, "dim": 0})
    case("MatMulInteger16", "plain", [integers(np.int16, 3, 4), integers(np.int16, 4, 2) // 64])
    for n in (1, 2, 3, 9):
        case("NGramRepeatBlock", f"{n}", [i64([1, 2, 3, 1, 2], [4, 4, 4, 4, 4]), f32(2, 6)], {"ngram_size": n})
    for mode in ("bilinear", "nearest"):
        rois = np.array([[0.1, 0.2, 0.9, 0.7], [0, 0, 1, 1], [-0.5, 0.3, 0.5, 1.4]], np.float32)
        case("CropAndResize", mode, [f32(2, 3, 7, 5), rois, i32(0, 1, 0), i32(4, 3)], {"mode": mode, "extrapolation_value": 9.0})
        case("CropAndResize", f"{mode}-one", [f32(2, 3, 7, 5), rois, i32(0, 1, 0), i32(1, 2)], {"mode": mode})
    for mode in ("bilinear", "nearest", "bicubic"):
        case("GridSample", mode, [f32(1, 2, 4, 5), f32(1, 3, 3, 2)], {"mode": mode, "align_corners": 1})
    for dtype in (np.int32, np.uint32, np.int64, np.uint64):
        case("MurmurHash3", np.dtype(dtype).name, [integers(dtype, 5)])
    case("MurmurHash3", "float32", [f32(5)], {"positive": 0, "seed": 7})
    case("MurmurHash3", "float64", [f32(5).astype(np.float64)], {"seed": 3})


def gated():
    x = f32(2, 3, 8)
    for activation in ("silu", "sigmoid"):
        case("GatedRMSNorm", activation, [x, f32(4), f32(2, 3, 8)], {"activation": activation, "epsilon": 1e-3})
    case("ScaledSiLU", "alpha", [x], {"alpha": 1.5})
    case("ScaledSiLU", "input", [x, scalar(0.5)])
    case("GatedAdd", "plain", [x, f32(2, 3, 8), f32(2, 3, 1)])
    for activation in ("none", "silu"):
        case("CausalConvWithState", activation, [f32(2, 4, 5), f32(4, 1, 3), f32(4), f32(2, 4, 2)], {"activation": activation}, 2)
    case("CausalConvWithState", "fresh", [f32(2, 4, 5), f32(4, 1, 3)], {}, 2)
    q, k, v = f32(2, 3, 8), f32(2, 3, 8), f32(2, 3, 12)
    state, decay, beta = f32(2, 2, 4, 6), f32(2, 3, 2, low=-1, high=0), f32(2, 3, 2, low=0)
    heads = {"q_num_heads": 2, "kv_num_heads": 2}
    case("LinearAttention", "gated-delta", [q, k, v, state, decay, beta], heads, 2)
    case("LinearAttention", "gated", [q, k, v, state, decay], dict(heads, update_rule="gated", scale=0.3), 2)
    case("LinearAttention", "linear", [q, k, v], dict(heads, update_rule="linear"), 2)


for family in (gated, attention, multi_head_attention, grouped, rotary, embeddings, blocks, quantized, lstm, floats, shapes):
    family()


def different(got, want, steps, rtol, atol):
    if steps and got.dtype == want.dtype and got.shape == want.shape and want.dtype.kind in "iu":
        worst = np.abs(got.astype(np.int64) - want.astype(np.int64)).max(initial=0)
        return None if worst <= steps else f"{worst} steps apart"
    return compare.difference(got, want, rtol, atol)


@pytest.mark.parametrize("one", CASES, ids=str)
def test_operator(one, tmp_path):
    want = None
    for symbolic in ((False, True) if one.symbolic else (False,)):
        model, feeds, names = single_node.build(one.op, one.inputs, one.attributes, one.outputs, one.constants, one.domain, symbolic,
                                                 one.opset)
        if want is None:
            given = [i for i in one.inputs if i is not None]
            want = one.want(*given) if one.want else single_node.by_onnx_runtime(model, feeds)
        got = single_node.by_tenon(model, feeds, tmp_path / "model.onnx")
        pairs = (one.keep(got), one.keep(want)) if one.keep else (got, want)
        for name, g, w in zip(names, *pairs, strict=True):
            reason = different(np.asarray(g), np.asarray(w), one.steps, one.rtol, one.atol)
            assert reason is None, f"{name} ({'symbolic' if symbolic else 'static'} shapes): {reason}"


REFUSED = [
    ("BeamSearch", [i32([1])]), ("SparseAttention", [f32(1, 2, 4)]), ("PackedAttention", [f32(1, 2, 4)]), ("QMoE", [f32(1, 2, 4)]),
    ("MoE", [f32(1, 2, 4)]), ("WordConvEmbedding", [i32([1])]), ("DynamicTimeWarping", [f32(2, 2)]),
    ("QOrderedMatMul", [f32(2, 2)]), ("LongformerAttention", [f32(2, 2)]), ("NoSuchOperator", [f32(2, 2)]),
]


@pytest.mark.parametrize("op,inputs", REFUSED, ids=[op for op, _ in REFUSED])
def test_refused(op, inputs, tmp_path):
    model, feeds, _ = single_node.build(op, inputs, {}, 1)
    with pytest.raises(library.TenonError) as error:
        single_node.by_tenon(model, feeds, tmp_path / "model.onnx")
    assert error.value.code == 4 and "the_node" in error.value.message and op in error.value.message


REFUSED_FORMS = [
    ("Attention", [f32(1, 2, 4), f32(4, 12)], {"num_heads": 2, "do_rotary": 1}),
    ("Attention", [f32(1, 2, 4), f32(4, 12)], {"num_heads": 2, "past_present_share_buffer": 1}),
    ("Attention", [f32(1, 2, 4), f32(4, 12), f32(12), np.ones((1, 1, 2, 2), np.int32)], {"num_heads": 2}),
    ("RotaryEmbedding", [f32(1, 2, 8), i64(0), *caches(4, 4)], {"is_packed_batching": 1}),
    ("MatMulNBits", [f32(2, 16), integers(np.uint8, 4, 1, 8), f32(4, 1)], {"N": 4, "K": 16, "bits": 4, "block_size": 16}),
    ("BiasDropout", [f32(2, 4), f32(4), None, scalar(0.5), scalar(True, bool)], {}),
]


@pytest.mark.parametrize("op,inputs,attributes", REFUSED_FORMS, ids=[f"{op}-{i}" for i, (op, *_) in enumerate(REFUSED_FORMS)])
def test_refused_form(op, inputs, attributes, tmp_path):
    model, feeds, _ = single_node.build(op, inputs, attributes, 1)
    with pytest.raises(library.TenonError) as error:
        single_node.by_tenon(model, feeds, tmp_path / "model.onnx")
    assert error.value.code == 4 and "the_node" in error.value.message


WRONG = [
    ("Attention", [f32(1, 2, 4), f32(4, 12)], {}), ("Attention", [f32(1, 2, 4), f32(4, 12)], {"num_heads": -3}),
    ("Attention", [f32(1, 2, 4), f32(4, 12)], {"num_heads": 3}), ("Attention", [f32(1, 2, 4)], {"num_heads": 2}),
    ("Attention", [f32(1, 2, 4), f32(4, 12)], {"num_heads": 2, "qkv_hidden_sizes": [4, 4]}),
    ("MultiHeadAttention", [f32(1, 2, 4)], {"num_heads": 2}), ("MultiHeadAttention", [f32(2, 4), f32(2, 4), f32(2, 4)], {"num_heads": 2}),
    ("GroupQueryAttention", [f32(1, 2, 4)], {"num_heads": 2, "kv_num_heads": 1}),
    ("GroupQueryAttention", [f32(1, 2, 4), f32(1, 2, 4), f32(1, 2, 4), None, None, i32(1), scalar(2, np.int32)],
     {"num_heads": 3, "kv_num_heads": 2}),
    ("RotaryEmbedding", [f32(2, 8), i64(0), *caches(4, 4)], {}),
    ("NhwcMaxPool", [integers(np.uint8, 2, 2)], {"kernel_shape": [1, 1]}),
    ("UnfoldTensor", [f32(2, 9)], {"size": 0}), ("UnfoldTensor", [f32(2, 9)], {"size": 2, "dim": 7}),
    ("NGramRepeatBlock", [i64([1, 2]), f32(1, 6)], {"ngram_size": -1}), ("Inverse", [f32(3, 4)], {}), ("Inverse", [f32(3)], {}),
    ("CropAndResize", [f32(1, 1, 4, 4)], {}), ("QAttention", [integers(np.uint8, 1, 2, 4)], {"num_heads": 2}),
    ("EmbedLayerNormalization", [i32([1, 2])], {}), ("FusedMatMul", [f32(2, 2)], {}), ("QLinearConv", [integers(np.uint8, 2)], {"channels_last": 1}),
]


@pytest.mark.parametrize("op,inputs,attributes", WRONG, ids=[f"{op}-{i}" for i, (op, *_) in enumerate(WRONG)])
def test_wrong_input(op, inputs, attributes, tmp_path):
    model, feeds, _ = single_node.build(op, inputs, attributes, 1)
    with pytest.raises(library.TenonError) as error:
        single_node.by_tenon(model, feeds, tmp_path / "model.onnx")
    assert error.value.code == 3, error.value.message


def test_nbits_damaged(tmp_path):
    for attributes in ({"N": 4, "K": 16, "bits": 4, "block_size": 16}, {"N": 2**62, "K": 2**62, "bits": 8, "block_size": 16},
                       {"N": -1, "K": 16, "bits": 4, "block_size": 16}, {"N": 4, "K": 16, "bits": 4, "block_size": 0},
                       {"N": 4, "K": 16, "bits": 4, "block_size": 2**62}, {"N": 4, "K": 2**26, "bits": 8, "block_size": 2**26}):
        model, feeds, _ = single_node.build("MatMulNBits", [f32(2, 16), integers(np.uint8, 3, 1, 8), f32(4, 1)], attributes, 1, (1, 2))
        with pytest.raises(library.TenonError) as error:
            single_node.by_tenon(model, feeds, tmp_path / "model.onnx")
        assert error.value.code == 3, error.value.message


def damaged(one):
    """(inputs, attributes): each input left out, of another rank, empty, of another type; each integer attribute out of its range."""
    for k, array in enumerate(one.inputs):
        if array is None:
            continue
        array = np.asarray(array)
        others = [None, array[None], np.zeros((), array.dtype), array.reshape(-1), np.zeros((0,) * array.ndim, array.dtype),
                  array.astype(np.float64), array.astype(np.int64), np.concatenate([array, array], -1) if array.ndim else array]
        for other in others:
            yield [*one.inputs[:k], other, *one.inputs[k + 1:]], one.attributes
    for name, value in one.attributes.items():
        if isinstance(value, int):
            for other in (0, -1, 3, 2**31, 2**62, -2**63):
                yield one.inputs, dict(one.attributes, **{name: other})
        elif isinstance(value, list) and isinstance(value[0], int):
            for other in ([0] * len(value), [2**62] * len(value), [-1] * len(value), value + value):
                yield one.inputs, dict(one.attributes, **{name: other})


FIRST_OF_EACH = {one.op: one for one in reversed(CASES)}


@pytest.mark.parametrize("op", FIRST_OF_EACH)
def test_damaged(op, tmp_path, long_mode):
    """Whatever is wrong ends in an answer or an error that says so."""
    with np.errstate(all="ignore"):
        for one in CASES if long_mode else [FIRST_OF_EACH[op]]:
            for inputs, attributes in damaged(one) if one.op == op else ():
                for symbolic in (False, True):
                    model, feeds, _ = single_node.build(op, inputs, attributes, one.outputs, one.constants, one.domain, symbolic, one.opset)
                    try:
                        single_node.by_tenon(model, feeds, tmp_path / "model.onnx")
                    except library.TenonError as error:
                        given = [None if i is None else (i.dtype, i.shape) for i in inputs]
                        assert error.code in (3, 4), f"{error.message}; {given} {attributes} {symbolic}"
