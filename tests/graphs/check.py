"""One random graph: run by Tenon at every level and by ONNX Runtime, compared under a tolerance that follows from the graph itself,
and a failing one cut down to what still fails."""
import copy
import pathlib
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from support import compare, library

LEVELS = (0, 1, 2, 3, 99)
# A first look, relative to the largest element: most graphs pass it, and need no second run of the peer.
LOOSE = 2e-5
# The peer run again on inputs that differ by this much (relative) shows how far rounding may carry.
NUDGE = 4e-7
# Other orders of summation than the peer's own: so many times the change that the nudge made.
AMPLIFY = 32


class PeerRefuses(Exception):
    pass


def peer_session(model, optimise=False):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    level = onnxruntime.GraphOptimizationLevel
    # Unoptimised: the peer's own fusions are not what is tested here.
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimise else level.ORT_DISABLE_ALL
    try:
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as e:
        raise PeerRefuses(str(e).splitlines()[0][:300]) from None


def run_peer(session, inputs):
    try:
        return session.run(None, inputs)
    except Exception as e:
        raise PeerRefuses(str(e).splitlines()[0][:300]) from None


def nudged(model, inputs, seed):
    """The same with every float of inputs and initializers changed by about NUDGE."""
    rng = np.random.default_rng(seed)

    def shake(a):
        return a if a.dtype not in (np.float32, np.float64) else (a * (1 + NUDGE * rng.uniform(-1, 1, a.shape))).astype(a.dtype)

    def shake_graph(graph):
        for i in graph.initializer:
            i.CopyFrom(numpy_helper.from_array(shake(numpy_helper.to_array(i)), i.name))
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    shake_graph(attribute.g)

    model = copy.deepcopy(model)
    shake_graph(model.graph)
    return model, {k: shake(v) for k, v in inputs.items()}


def allowed(model, inputs, want):
    """Per output the error that is within rounding, from runs of the peer on nudged numbers."""
    spread = [np.zeros(w.shape) if w.dtype.kind == "f" else None for w in want]
    for seed in range(3):
        other_model, other_inputs = nudged(model, inputs, seed)
        for i, (w, o) in enumerate(zip(want, run_peer(peer_session(other_model), other_inputs))):
            if w.dtype.kind == "f" and o.shape == w.shape:
                spread[i] = np.fmax(spread[i], np.abs(o.astype(np.float64) - w))
    # A sum that cancels is as wrong as its terms were large, and no nudge shows that.
    floor = 1e-6 * largest_value(model, inputs) + 1e-7
    # Elements of one output share their history: what moved a neighbour may move this one.
    return [None if s is None else AMPLIFY * np.fmax(s, s.mean() if s.size else 0) + 1e-6 * np.abs(w) + floor
            for s, w in zip(spread, want)]


def largest_value(model, inputs):
    """The largest finite absolute value of any float that the graph makes (outside bodies)."""
    probe = copy.deepcopy(model)
    del probe.graph.output[:]
    probe.graph.output.extend(helper.make_empty_tensor_value_info(o) for node in probe.graph.node for o in node.output if o)
    values = [v[np.isfinite(v)] for v in run_peer(peer_session(probe), inputs) if v.dtype.kind == "f"]
    return max((float(np.abs(v).max()) for v in values if v.size), default=0.0)


def judge(got, want, tolerance):
    """None, or what is wrong with one output."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype} {got.shape}, not {want.dtype} {want.shape}"
    if want.dtype.kind != "f":
        return compare.difference(got, want, 0, 0)
    if tolerance is None:
        finite = np.abs(want[np.isfinite(want)])
        scale = float(finite.max()) if finite.size else 0.0
        return compare.difference(got, want, LOOSE, LOOSE * scale)
    with np.errstate(invalid="ignore"):
        wrong = ~((got == want) | (np.isnan(got) & np.isnan(want)) | (np.abs(got.astype(np.float64) - want) <= tolerance))
    if not wrong.any():
        return None
    at = tuple(int(i[0]) for i in np.nonzero(wrong)) if want.ndim else ()
    return f"{got[at]} for {want[at]} at {at}, allowed {np.asarray(tolerance)[at]:.3g}; {int(wrong.sum())} of {want.size} wrong"


def check(model, inputs, levels=LEVELS, isa=None):
    """None when all agree, else a reason. Raises PeerRefuses when the peer cannot run it."""
    want = run_peer(peer_session(model), inputs)
    tolerances = None
    options = {"isa": isa, "cache_dir": "none"} if isa else {"cache_dir": "none"}
    with tempfile.NamedTemporaryFile(suffix=".onnx", dir="/dev/shm" if pathlib.Path("/dev/shm").is_dir() else None) as file:
        file.write(model.SerializeToString())
        file.flush()
        for level in levels:
            try:
                with library.open_model(file.name, opt_level=level, threads=1, **options) as session:
                    got = session.run({i["name"]: inputs[i["name"]] for i in session.inputs})
            except library.TenonError as e:
                return f"level {level}: {e.message} (code {e.code})"
            for index, (g, w) in enumerate(zip(got, want)):
                reason = judge(g, w, None)
                if reason and w.dtype.kind == "f" and g.shape == w.shape and g.dtype == w.dtype:
                    if tolerances is None:
                        tolerances = allowed(model, inputs, want)
                    reason = judge(g, w, tolerances[index])
                if reason:
                    return f"level {level}: output {index} ({model.graph.output[index].name}): {reason}"
    return None


def shrink(model, inputs, fails):
    """A smaller model and inputs for which fails(model, inputs) still holds: fewer outputs, nodes cut off by giving their values."""
    outputs = {o.name: o for o in model.graph.output}

    def values_of(m, feed, names):
        probe = copy.deepcopy(m)
        del probe.graph.output[:]
        probe.graph.output.extend(helper.make_empty_tensor_value_info(n) for n in names)
        return dict(zip(names, run_peer(peer_session(probe), feed)))

    def pruned(m, feed):
        needed, nodes = {o.name for o in m.graph.output}, []
        for node in reversed(m.graph.node):
            if needed & set(node.output):
                nodes.append(node)
                needed |= set(node.input) | captured(node)
        small = copy.deepcopy(m)
        del small.graph.node[:]
        small.graph.node.extend(reversed(nodes))
        for field in (small.graph.input, small.graph.initializer):
            kept = [copy.deepcopy(v) for v in field if v.name in needed]
            del field[:]
            field.extend(kept)
        return small, {k: v for k, v in feed.items() if k in needed}

    def captured(node):
        names = set()
        for attribute in node.attribute:
            if attribute.HasField("g"):
                for inner in attribute.g.node:
                    names |= set(inner.input) | captured(inner)
                names |= {o.name for o in attribute.g.output}
        return names

    def still(m, feed):
        try:
            return fails(m, feed)
        except PeerRefuses:
            return False

    def attempt(m, feed):
        nonlocal model, inputs
        m, feed = pruned(m, feed)
        if still(m, feed):
            model, inputs = m, feed
            return True
        return False

    for name in list(outputs):
        m = copy.deepcopy(model)
        del m.graph.output[:]
        m.graph.output.append(outputs[name])
        if attempt(m, inputs):
            break
    changed = True
    while changed:
        changed = False
        names = [o for node in model.graph.node[:-1] for o in node.output if o and not o.endswith("_unused")]
        known = {}
        try:
            known = values_of(model, inputs, names)
        except PeerRefuses:
            pass
        for name in names:
            if name not in known or name not in {o for node in model.graph.node for o in node.output}:
                continue
            value = known[name]
            cut = copy.deepcopy(model)
            for node in cut.graph.node:
                for i, o in enumerate(node.output):
                    if o == name:
                        node.output[i] = f"{name}_unused"
            cut.graph.input.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape))
            changed |= attempt(cut, {**inputs, name: value})
    return model, inputs


def save(folder, name, model, inputs, reason):
    """A reproducer that test_repro.py runs: one model file that carries its inputs as defaults."""
    model = copy.deepcopy(model)
    model.doc_string = reason
    for key, value in inputs.items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), key))
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / f"{name}.onnx")


def load(path):
    """(model, inputs, doc)"""
    model = onnx.load(path)
    names = {i.name for i in model.graph.input}
    inputs = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer if i.name in names}
    kept = [i for i in model.graph.initializer if i.name not in names]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    return model, inputs, model.doc_string
