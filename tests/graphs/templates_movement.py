"""Templates of operators that move elements."""
import numpy as np

from graphs.generator import BOOL, F32, F64, I32, I64, U8


def any_value(g, rank=None, where=lambda v: True):
    return g.get(g.pick_from((F32, F32, F32, F32, I64, I32, F64, BOOL, U8)), rank, where)


def moved(g, op, x, shape, inputs=None, **attributes):
    return g.emit(op, inputs or [x], x.dtype, shape, x.exact, x.bound, **attributes)


def transpose(g):
    x = any_value(g, (1, 2, 3, 4))
    if g.chance(0.1):
        return moved(g, "Transpose", x, x.shape[::-1])
    perm = [int(p) for p in g.rng.permutation(x.rank)]
    if x.rank == 4 and g.chance(0.4):
        perm = g.pick_from(([0, 2, 3, 1], [0, 3, 1, 2], [0, 2, 1, 3]))
    return moved(g, "Transpose", x, [x.shape[p] for p in perm], perm=perm)


def factors(g, n):
    """Random extents whose product is n."""
    dims = []
    while n > 1 and len(dims) < 3:
        divisors = [d for d in range(1, n + 1) if n % d == 0]
        dims.append(int(g.pick_from(divisors)))
        n //= dims[-1]
    return dims + ([n] if n > 1 or not dims else [])


def reshape(g):
    x = any_value(g, where=lambda v: v.size > 0)
    dims = factors(g, x.size)
    if g.chance(0.3):
        dims.insert(g.integer(0, len(dims)), 1)
    target = list(dims)
    if target and g.chance(0.5):
        target[g.integer(0, len(target) - 1)] = -1
    if x.rank and target and target[0] == x.shape[0] and g.chance(0.5):
        target[0] = 0
    return moved(g, "Reshape", x, dims, [x, g.ints(*target)])


def reshape_by_shape(g):
    """x -> [first extent, rest], with the extent taken from Shape: what exporters write for dynamic batches."""
    x = any_value(g, (2, 3, 4), lambda v: v.size > 0)
    shape = g.emit("Shape", [x], I64, (x.rank,), True, 1e4)
    first = g.emit("Gather", [shape, g.constant(np.array(0, np.int64))], I64, (), True, 1e4, axis=0)
    first = g.emit("Unsqueeze", [first, g.ints(0)], I64, (1,), True, 1e4)
    target = g.emit("Concat", [first, g.ints(-1)], I64, (2,), True, 1e4, axis=0)
    return moved(g, "Reshape", x, (x.shape[0], x.size // x.shape[0]), [x, target])


def flatten(g):
    x = any_value(g, (1, 2, 3, 4))
    axis = g.integer(-x.rank, x.rank)
    at = axis + x.rank if axis < 0 else axis
    return moved(g, "Flatten", x, (int(np.prod(x.shape[:at])), int(np.prod(x.shape[at:]))), axis=axis)


def squeeze(g):
    x = any_value(g, (1, 2, 3, 4), lambda v: 1 in v.shape)
    if x is None:
        return None
    ones = [i for i, d in enumerate(x.shape) if d == 1]
    if g.chance(0.3):
        return moved(g, "Squeeze", x, [d for d in x.shape if d != 1])
    axis = g.pick_from(ones)
    return moved(g, "Squeeze", x, [d for i, d in enumerate(x.shape) if i != axis], [x, g.ints(axis - (x.rank if g.chance(0.5) else 0))])


def unsqueeze(g):
    x = any_value(g, (0, 1, 2, 3))
    axis = g.integer(0, x.rank)
    shape = list(x.shape)
    shape.insert(axis, 1)
    return moved(g, "Unsqueeze", x, shape, [x, g.ints(axis - (len(shape) if g.chance(0.4) else 0))])


def slice_(g):
    x = any_value(g, (1, 2, 3, 4), lambda v: v.size > 0)
    axes = sorted(int(a) for a in g.rng.permutation(x.rank)[:g.integer(1, x.rank)])
    starts, ends, steps, shape = [], [], [], list(x.shape)
    for a in axes:
        d = x.shape[a]
        step = g.pick_from((1, 1, 1, 2, 3, -1, -2))
        start, end = g.integer(0, d - 1), g.integer(0, d)
        if step < 0:
            start, end = max(start, end - 1), -d - 1 if g.chance(0.5) else 0
            shape[a] = len(range(start, -1 if end < 0 else end, step))
        else:
            start, end = min(start, end), max(start, end)
            if end == d and g.chance(0.5):
                end = np.iinfo(np.int64).max
            shape[a] = len(range(*slice(start, end, step).indices(d)))
        starts.append(start - d if g.chance(0.3) and step > 0 else start)
        ends.append(end)
        steps.append(step)
    if min(shape) == 0 and not g.chance(0.1):
        return None
    inputs = [x, g.ints(*starts), g.ints(*ends), g.ints(*axes)]
    return moved(g, "Slice", x, shape, inputs + [g.ints(*steps)] if set(steps) != {1} or g.chance(0.5) else inputs)


def concat(g):
    x = any_value(g, (1, 2, 3, 4))
    axis = g.axis(x)
    parts, total = [x], x.shape[axis]
    for _ in range(g.integer(0, 3)):
        other = g.find(x.dtype, x.rank, lambda v: all(a == b for i, (a, b) in enumerate(zip(v.shape, x.shape)) if i != axis % x.rank))
        if other is None or g.chance(0.3):
            shape = list(x.shape)
            shape[axis] = g.integer(1, 4)
            other = g.fresh(x.dtype, tuple(shape))
        parts.append(other)
        total += other.shape[axis]
    shape = list(x.shape)
    shape[axis] = total
    return g.emit("Concat", parts, x.dtype, shape, all(p.exact for p in parts), max(p.bound for p in parts), axis=axis)


def split(g):
    x = any_value(g, (1, 2, 3, 4), lambda v: max(v.shape, default=0) > 1)
    if x is None:
        return None
    axis = g.pick_from([i for i, d in enumerate(x.shape) if d > 1])
    d = x.shape[axis]

    def part(n):
        shape = list(x.shape)
        shape[axis] = n
        return x.dtype, tuple(shape), x.exact, x.bound

    if d % 2 == 0 and g.chance(0.5):
        return g.emit_many("Split", [x], [part(d // 2)] * 2, axis=axis, num_outputs=2)[0]
    at = g.integer(1, d - 1)
    return g.emit_many("Split", [x, g.ints(at, d - at)], [part(at), part(d - at)], axis=axis)[0]


def pad(g):
    x = g.get(g.pick_from((F32, F32, I64)), (1, 2, 3, 4))
    mode = g.pick_from(("constant", "constant", "reflect", "edge"))
    limit = (min(x.shape) - 1) if mode == "reflect" else 2
    if limit < 0 or min(x.shape) == 0:
        return None
    pads = [g.integer(0, min(limit, 2)) if g.chance(0.5) else 0 for _ in range(2 * x.rank)]
    inputs = [x, g.ints(*pads)]
    if mode == "constant" and g.chance(0.5):
        inputs.append(g.constant(g.array(x.dtype, ())))
    return moved(g, "Pad", x, [d + pads[i] + pads[i + x.rank] for i, d in enumerate(x.shape)], inputs, mode=mode)


def tile(g):
    x = any_value(g, (1, 2, 3), lambda v: v.size < 800)
    if x is None:
        return None
    times = [g.pick_from((1, 1, 2, 3)) for _ in x.shape]
    return moved(g, "Tile", x, [d * t for d, t in zip(x.shape, times)], [x, g.ints(*times)])


def expand(g):
    x = any_value(g, (0, 1, 2, 3), lambda v: v.size < 800)
    if x is None:
        return None
    target = [g.integer(1, 4) if d == 1 and g.chance(0.6) else d for d in x.shape]
    given = [1 if t == d and g.chance(0.3) else t for t, d in zip(target, x.shape)]
    if g.chance(0.3):
        target, given = [2, *target], [2, *given]
    return moved(g, "Expand", x, target, [x, g.ints(*given)]) if given else None


def index(g, shape, extent):
    dtype = g.pick_from((I64, I64, I32))
    return g.constant(g.rng.integers(-extent, extent, shape).astype(dtype)) if g.chance(0.5) else g.fresh(dtype, shape, -extent, extent - 1)


def gather(g):
    x = any_value(g, (1, 2, 3, 4), lambda v: min(v.shape) > 0)
    axis = g.axis(x)
    at = axis % x.rank
    i = index(g, g.pick_from(((), (1,), (3,), (2, 2))), x.shape[at])
    shape = (*x.shape[:at], *i.shape, *x.shape[at + 1:])
    return moved(g, "Gather", x, shape, [x, i], axis=axis) if np.prod(shape) <= 6000 else None


def gather_elements(g):
    x = any_value(g, (1, 2, 3), lambda v: min(v.shape) > 0)
    axis = g.integer(0, x.rank - 1)
    shape = list(x.shape)
    shape[axis] = g.integer(1, 4)
    return moved(g, "GatherElements", x, shape, [x, index(g, tuple(shape), x.shape[axis])], axis=axis)


def gather_nd(g):
    x = any_value(g, (2, 3), lambda v: min(v.shape) > 0)
    k, n = g.integer(1, x.rank), g.integer(1, 4)
    i = g.constant(np.stack([g.rng.integers(0, d, n) for d in x.shape[:k]], -1).astype(np.int64))
    return moved(g, "GatherND", x, (n, *x.shape[k:]), [x, i])


def scatter_elements(g):
    x = g.get(F32, (1, 2, 3), lambda v: min(v.shape) > 0)
    axis = g.integer(0, x.rank - 1)
    d = x.shape[axis]
    shape = list(x.shape)
    shape[axis] = k = g.integer(1, min(d, 3))
    # Each place at most once, else the order of writes would decide.
    order = np.argsort(g.rng.random((*shape[:axis], d, *shape[axis + 1:])), axis)
    i = g.constant(np.take(order, range(k), axis).astype(np.int64))
    updates = g.fresh(F32, tuple(shape))
    reduction = g.pick_from(("none", "none", "add", "max"))
    return g.emit("ScatterElements", [x, i, updates], F32, x.shape, x.exact and reduction != "add", x.bound + 2, axis=axis,
                  reduction=reduction)


def scatter_nd(g):
    x = g.get(F32, (1, 2, 3), lambda v: min(v.shape) > 0)
    n = g.integer(1, min(x.shape[0], 3))
    i = g.constant(g.rng.permutation(x.shape[0])[:n].reshape(n, 1).astype(np.int64))
    return g.emit("ScatterND", [x, i, g.fresh(F32, (n, *x.shape[1:]))], F32, x.shape, x.exact, x.bound + 2)


def depth_space(g):
    x = g.get(F32, 4, lambda v: v.shape[1] % 4 == 0 and v.size)
    if x is not None and g.chance(0.5):
        n, c, h, w = x.shape
        return moved(g, "DepthToSpace", x, (n, c // 4, h * 2, w * 2), blocksize=2, mode=g.pick_from(("DCR", "CRD")))
    x = g.get(F32, 4, lambda v: v.shape[2] % 2 == 0 and v.shape[3] % 2 == 0)
    if x is None:
        return None
    n, c, h, w = x.shape
    return moved(g, "SpaceToDepth", x, (n, c * 4, h // 2, w // 2), blocksize=2)


def shape_of(g):
    x = any_value(g)
    if g.chance(0.3):
        return g.emit("Size", [x], I64, (), True, 6000)
    return g.emit("Shape", [x], I64, (x.rank,), True, 6000)


def trilu(g):
    x = g.get(g.pick_from((F32, F32, F64, I64)), (2, 3))
    k = g.integer(-2, 2)
    return moved(g, "Trilu", x, x.shape, [x, g.constant(np.array(k, np.int64))], upper=g.integer(0, 1))


def one_hot(g):
    depth = g.integer(1, 5)
    i = g.fresh(I64, g.shape(g.integer(1, 2)), -depth, depth - 1)
    values = g.constant(np.array([0, 1], np.float32))
    axis = g.integer(-1, len(i.shape))
    shape = list(i.shape)
    shape.insert(len(shape) if axis == -1 else axis, depth)
    return g.emit("OneHot", [i, g.constant(np.array(depth, np.int64)), values], F32, shape, True, 1, axis=axis)


def reverse_sequence(g):
    x = g.get(F32, (2, 3), lambda v: min(v.shape) > 0)
    lengths = g.constant(g.rng.integers(1, x.shape[0] + 1, x.shape[1]).astype(np.int64))
    return moved(g, "ReverseSequence", x, x.shape, [x, lengths], time_axis=0, batch_axis=1)


def resize(g):
    x = g.get(F32, 4, lambda v: min(v.shape) > 0 and v.size < 1500)
    if x is None:
        return None
    n, c, h, w = x.shape
    mode = g.pick_from(("nearest", "linear", "nearest"))
    # Nearest by other factors: the peer divides in f32, so that 4 * 14 / 8 falls just below 7.
    double = mode == "nearest" or g.chance(0.4)
    size = (n, c, h * 2, w * 2) if double else (n, c, g.integer(1, 2 * h), g.integer(1, 2 * w))
    coordinates = g.pick_from(("half_pixel", "asymmetric", "align_corners"))
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode == "nearest":
        attributes["nearest_mode"] = "floor"
        if coordinates == "align_corners":
            return None  # which neighbour depends on the last bit of the scale
    return g.emit("Resize", [x, "", "", g.ints(*size)], F32, size, False if mode == "linear" else x.exact, x.bound, **attributes)


def constant_of_shape(g):
    x = any_value(g, where=lambda v: v.rank > 0)
    if x is None:
        return None
    shape = g.emit("Shape", [x], I64, (x.rank,), True, 6000)
    filled = g.emit("ConstantOfShape", [shape], F32, x.shape, True, 0)
    other = g.partner(filled)
    return g.emit("Add", [filled, other], F32, x.shape, other.exact, other.bound)


def range_(g):
    stop = g.integer(1, 12)
    ends = [g.constant(np.array(v, np.int64)) for v in (0, stop, 1)]
    if g.chance(0.5):
        x = any_value(g, (1, 2, 3))
        shape = g.emit("Shape", [x], I64, (x.rank,), True, 6000)
        ends[1] = g.emit("Gather", [shape, g.constant(np.array(0, np.int64))], I64, (), True, 6000, axis=0)
        stop = x.shape[0]
    return g.emit("Range", ends, I64, (stop,), True, stop)


def data_dependent(g):
    """Extents that only data tell: the results feed nothing else."""
    x = g.get(F32, (1, 2, 3), exact=True)
    if g.chance(0.5):
        return g.emit_many("NonZero", [x], [(I64, None, True, 1e4)])[0]
    condition = g.constant(g.array(BOOL, (x.shape[0],)))
    return g.emit_many("Compress", [x, condition], [(F32, None, True, x.bound)], axis=0)[0]


TEMPLATES = {f.__name__: (f, weight) for f, weight in (
    (transpose, 4), (reshape, 4), (reshape_by_shape, 1), (flatten, 1), (squeeze, 1), (unsqueeze, 2), (slice_, 3), (concat, 3),
    (split, 2), (pad, 2), (tile, 1), (expand, 1.5), (gather, 2), (gather_elements, 1), (gather_nd, 0.7), (scatter_elements, 1),
    (scatter_nd, 0.7), (depth_space, 0.7), (shape_of, 0.7), (trilu, 0.7), (one_hot, 0.5), (reverse_sequence, 0.5), (resize, 1),
    (constant_of_shape, 0.5), (range_, 0.5), (data_dependent, 0.3))}
