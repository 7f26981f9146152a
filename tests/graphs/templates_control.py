"""Templates with bodies: If, Loop and Scan over random sub-graphs that read the outer scope too."""
import numpy as np
from onnx import helper

from graphs.generator import BOOL, F32, I64, Value

MAX_DEPTH = 2


def result_of(g, scope, shape):
    """A value of `shape` made in the body: the last float value, brought to that shape."""
    made = {name for node in scope.nodes for name in node.output}
    own = [v for v in scope.values if v.name in made and v.dtype == F32 and v.shape == shape]
    if own:
        v = g.tamed(own[-1])
    else:
        v = g.tamed(g.find(F32, None, lambda v: v.shape == shape) or g.constant(g.array(F32, shape)))
    return g.emit("Identity", [v], F32, shape, v.exact, v.bound)


def graph_of(g, scope, name, inputs, outputs):
    return helper.make_graph(scope.nodes, name, [g.info(v) for v in inputs], [g.info(v) for v in outputs], scope.initializers)


def if_(g):
    if g.depth >= MAX_DEPTH:
        return None
    condition = g.get(BOOL, 0) if g.chance(0.5) else g.constant(g.array(BOOL, ()))
    if condition is None:
        return None
    shapes = [v.shape for v in g.scope.visible() if v.dtype == F32 and v.shape is not None] or [(2, 3)]
    shape = g.pick_from(shapes)
    branches, results = {}, []
    for name in ("then_branch", "else_branch"):
        scope = g.body(name, g.integer(0, 4))
        out = result_of(g, scope, shape)
        results.append(out)
        branches[name] = graph_of(g, scope, name, [], [out])
        g.end_body()
    return g.emit("If", [condition], F32, shape, all(r.exact for r in results), max(r.bound for r in results), **branches)


def loop(g):
    if g.depth >= MAX_DEPTH:
        return None
    x = g.get(F32, (0, 1, 2, 3))
    iteration, go_on = Value(g.name("i"), I64, (), True, 10), Value(g.name("c"), BOOL, (), True, 1)
    carried = Value(g.name("s"), F32, x.shape, False, 50.0)
    scope = g.body("loop", g.integer(1, 4), [iteration, go_on, carried])
    out = result_of(g, scope, x.shape)
    # The carried value is bounded so that iterations cannot make it grow.
    low, high = (g.constant(np.array(c, np.float32)) for c in (-50, 50))
    out = g.emit("Clip", [out, low, high], F32, x.shape, False, 50)
    stay = g.emit("Identity", [go_on], BOOL, (), True, 1)
    scanned = g.emit("Identity", [out], F32, x.shape, False, 50)
    body = graph_of(g, scope, "loop", [iteration, go_on, carried], [stay, out, scanned])
    g.end_body()
    # What is stacked in no iteration has the extents that planning the body tells, and a body within is not planned.
    nested = any(a.HasField("g") for node in scope.nodes for a in node.attribute)
    times = g.integer(1 if nested else 0, 4)
    trips = g.constant(np.array(times, np.int64))
    outputs = [(F32, x.shape, False, 50.0), (F32, (times, *x.shape), False, 50.0)]
    return g.emit_many("Loop", [trips, "" if g.chance(0.5) else g.constant(np.array(True)), x], outputs, body=body)[0]


def scan(g):
    if g.depth >= MAX_DEPTH:
        return None
    sequence = g.get(F32, (2, 3), lambda v: v.shape[0] > 0)
    element = sequence.shape[1:]
    initial = g.fresh(F32, element)
    state, item = Value(g.name("s"), F32, element, False, 50.0), Value(g.name("e"), F32, element, False, 50.0)
    scope = g.body("scan", g.integer(0, 3), [state, item])
    total = g.emit("Add", [state, item], F32, element, False, 100)
    low, high = (g.constant(np.array(c, np.float32)) for c in (-50, 50))
    total = g.emit("Clip", [total, low, high], F32, element, False, 50)
    out = result_of(g, scope, element)
    body = graph_of(g, scope, "scan", [state, item], [total, out])
    g.end_body()
    outputs = [(F32, element, False, 50.0), (F32, (sequence.shape[0], *element), False, 50.0)]
    return g.emit_many("Scan", [initial, sequence], outputs, body=body, num_scan_inputs=1,
                       scan_input_directions=[g.integer(0, 1)])[0]


TEMPLATES = {f.__name__: (f, weight) for f, weight in ((if_, 0.7), (loop, 0.5), (scan, 0.4))}
