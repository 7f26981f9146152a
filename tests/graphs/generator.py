"""Random valid ONNX graphs, a pure function of a seed. Shapes and value ranges are tracked while a graph grows, so that every
graph runs and that what it computes stays finite and well conditioned; operators come from templates (templates_*.py)."""
import dataclasses

import numpy as np
from onnx import TensorProto, helper, numpy_helper

F32, F64, F16, I32, I64, I8, U8, BOOL = (np.dtype(t) for t in ("float32", "float64", "float16", "int32", "int64", "int8", "uint8",
                                                              "bool"))
ONNX_TYPE = {F32: TensorProto.FLOAT, F64: TensorProto.DOUBLE, F16: TensorProto.FLOAT16, I32: TensorProto.INT32,
             I64: TensorProto.INT64, I8: TensorProto.INT8, U8: TensorProto.UINT8, BOOL: TensorProto.BOOL}
OPSET = 21
MAX_ELEMENTS = 6000
EXTENTS = (1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17)
# Beyond this a value is brought back by a Clip before it is used where ranges multiply.
MAX_ABS = 50.0


@dataclasses.dataclass
class Value:
    """`exact`: the same bits on any correct runtime (moved or compared, never rounded), so that operators with jumps (Round,
    ArgMax, Greater) may read it. `bound`: no element's absolute value is larger. `shape` None: depends on data."""
    name: str
    dtype: np.dtype
    shape: tuple
    exact: bool
    bound: float

    @property
    def rank(self):
        return len(self.shape)

    @property
    def size(self):
        return int(np.prod(self.shape, dtype=np.int64))


class Scope:
    """One graph, or one body: what exists in it and the nodes so far."""

    def __init__(self, outer=None):
        self.values, self.nodes, self.initializers, self.outer = [], [], [], outer

    def visible(self):
        return self.values + (self.outer.visible() if self.outer else [])


class Generator:
    def __init__(self, seed, templates):
        self.rng = np.random.default_rng(seed)
        self.templates = templates
        self.inputs = {}        # name: array
        self.declared = {}      # name: dims of the declaration
        self.scope = Scope()
        self.depth = 0
        self.count = 0

    # Chances.
    def chance(self, p):
        return self.rng.random() < p

    def pick_from(self, items):
        return items[int(self.rng.integers(len(items)))]

    def integer(self, low, high):
        """low <= result <= high"""
        return int(self.rng.integers(low, high + 1))

    def shape(self, rank=None, limit=MAX_ELEMENTS):
        rank = self.pick_from((0, 1, 1, 2, 2, 3, 3, 4, 4)) if rank is None else rank
        while True:
            dims = tuple(self.pick_from(EXTENTS) for _ in range(rank))
            if np.prod(dims, dtype=np.int64) <= limit:
                return dims

    def axis(self, value, negative=True):
        axis = self.integer(0, value.rank - 1)
        return axis - value.rank if negative and self.chance(0.4) else axis

    # Values.
    def name(self, hint="v"):
        self.count += 1
        return f"{hint}{self.count}"

    def array(self, dtype, shape, low=-2.0, high=2.0):
        return np.asarray(self.elements(dtype, shape, low, high))

    def elements(self, dtype, shape, low, high):
        if dtype.kind == "f":
            # Multiples of 1/64: exact in half precision too, and ties are common.
            return (np.round(self.rng.uniform(low, high, shape) * 64) / 64).astype(dtype)
        if dtype == BOOL:
            return self.rng.random(shape) < 0.5
        low, high = max(low, np.iinfo(dtype).min), min(high, np.iinfo(dtype).max)
        return self.rng.integers(int(low), int(high) + 1, shape).astype(dtype)

    def keep(self, value):
        self.scope.values.append(value)
        return value

    def constant(self, array, hint="c"):
        array = np.asarray(array)
        name = self.name(hint)
        self.scope.initializers.append(numpy_helper.from_array(array, name))
        bound = float(np.abs(array.astype(np.float64)).max()) if array.size and array.dtype != BOOL else 1.0
        return Value(name, array.dtype, array.shape, True, bound)

    def ints(self, *values):
        return self.constant(np.array(values, np.int64))

    def fresh(self, dtype, shape, low=-2.0, high=2.0):
        """A new value: mostly a graph input (of the outermost graph), sometimes a constant."""
        array = self.array(dtype, shape, low, high)
        if self.chance(0.35):
            return self.constant(array, "w")
        name = self.name("x")
        self.inputs[name] = array
        self.declared[name] = [f"{name}_{i}" if self.chance(0.3) else d for i, d in enumerate(array.shape)]
        bound = float(np.abs(array.astype(np.float64)).max()) if array.size and dtype != BOOL else 1.0
        value = Value(name, dtype, array.shape, True, bound)
        outermost = self.scope
        while outermost.outer:
            outermost = outermost.outer
        outermost.values.append(value)
        return value

    def find(self, dtype=F32, rank=None, where=lambda v: True):
        """An existing value, newest ones more often, or None."""
        fitting = [v for v in self.scope.visible() if v.dtype == dtype and v.shape is not None
                   and (rank is None or v.rank in (rank if isinstance(rank, tuple) else (rank,))) and where(v)]
        if not fitting:
            return None
        if self.chance(0.6):
            fitting = fitting[-4:] if self.scope.outer is None else fitting[:4]
        return self.pick_from(fitting)

    def get(self, dtype=F32, rank=None, where=lambda v: True, exact=False):
        """An existing value or, failing that, a new one; its bound is at most MAX_ABS."""
        found = self.find(dtype, rank, lambda v: where(v) and (v.exact or not exact)) if self.chance(0.85) else None
        if found is not None:
            return self.tamed(found)
        for _ in range(40):
            shape = self.shape(self.pick_from(rank) if isinstance(rank, tuple) else rank)
            if where(Value("", dtype, shape, True, 1.0)):
                return self.fresh(dtype, shape)
        return None

    def tamed(self, value, limit=MAX_ABS):
        if value.dtype.kind != "f" or value.bound <= limit:
            return value
        low, high = self.constant(np.array(-limit, value.dtype)), self.constant(np.array(limit, value.dtype))
        return self.emit("Clip", [value, low, high], value.dtype, value.shape, value.exact, limit)

    def partner(self, value, low=-2.0, high=2.0):
        """Another operand whose shape broadcasts with `value` without growing beyond the limit."""
        dims = [1 if self.chance(0.25) else d for d in value.shape]
        while dims and self.chance(0.3):
            dims = dims[1:]
        shape = tuple(dims)
        found = self.find(value.dtype, None, lambda v: v.shape == shape and v.bound <= high and low < 0) if self.chance(0.6) else None
        return found or self.fresh(value.dtype, shape, low, high)

    def emit_many(self, op, inputs, outputs, domain="", **attributes):
        """outputs: (dtype, shape, exact, bound) each; returns the new values."""
        made = [Value(self.name(), *o) for o in outputs]
        names = [v.name if isinstance(v, Value) else (v or "") for v in inputs]
        while names and not names[-1]:
            names.pop()
        self.scope.nodes.append(helper.make_node(op, names, [v.name for v in made], domain=domain, **attributes))
        return [self.keep(v) for v in made]

    def emit(self, op, inputs, dtype, shape, exact, bound, **attributes):
        return self.emit_many(op, inputs, [(dtype, tuple(int(d) for d in shape), exact, float(bound))], **attributes)[0]

    # Graphs.
    def grow(self, steps):
        names = list(self.templates)
        weights = np.array([self.templates[n][1] for n in names], float)
        weights /= weights.sum()
        done = tries = 0
        while done < steps and tries < steps * 10:
            tries += 1
            template = self.templates[names[int(self.rng.choice(len(names), p=weights))]][0]
            done += template(self) is not None

    def body(self, name, steps, parameters=()):
        """Runs `with` a new scope; see templates_control.py."""
        self.scope = Scope(self.scope)
        self.scope.values += parameters
        self.depth += 1
        self.grow(steps)
        return self.scope

    def end_body(self):
        self.scope = self.scope.outer
        self.depth -= 1

    def info(self, value, dims=None):
        dims = dims if dims is not None else (value.shape if value.shape is not None else None)
        return helper.make_tensor_value_info(value.name, ONNX_TYPE[value.dtype], dims)


def readable(values):
    return [v for v in values if not (v.dtype.kind == "f" and not np.isfinite(v.bound))]


def generate(seed, templates, steps=None):
    """(model, {input name: array}, {output name: Value})"""
    g = Generator(seed, templates)
    g.grow(steps or g.integer(1, 14))
    used = {name for node in g.scope.nodes for name in node.input}
    made = {name for node in g.scope.nodes for name in node.output}
    leaves = [v for v in g.scope.values if v.name in made and v.name not in used]
    others = [v for v in g.scope.values if v.name in used and v.name in made and g.chance(0.12)]
    outputs = leaves + others
    # Inputs that nothing reads stay: a model may have those.
    inputs = [helper.make_tensor_value_info(n, ONNX_TYPE[a.dtype], g.declared[n]) for n, a in g.inputs.items()]
    declared = [g.info(v) if g.chance(0.5) else g.info(v, [None] * v.rank if v.shape is not None else None) for v in outputs]
    graph = helper.make_graph(g.scope.nodes, f"random{seed}", inputs, declared, g.scope.initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    return model, g.inputs, {v.name: v for v in outputs}
