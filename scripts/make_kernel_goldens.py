#!/usr/bin/env python3
"""Writes golden files for kernel tests from ONNX's own node tests (package `onnx`): inputs, attributes and expected outputs.

usage: make_kernel_goldens.py [--max-bytes=N] OUT.golden OP...      (OP as Tenon names it: "LSTM", "ai.onnx.ml.LabelEncoder")

Format, one item a line: `case NAME OP NUM_OUT`, `attr NAME KIND VALUE...`, `in DTYPE RANK DIMS... HEX`, `out ...`, `end`.
An absent input is `in 0`; elements are their little-endian bytes in hex, packed as ONNX packs them; strings are hex, one a word.
"""
import sys

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case import node as node_cases

PACKED = {onnx.TensorProto.INT4, onnx.TensorProto.UINT4, onnx.TensorProto.FLOAT4E2M1,
          onnx.TensorProto.INT2, onnx.TensorProto.UINT2}
DEFAULT_MAX_BYTES = 4000  # larger cases are left to the conformance tests


def tensor_line(word, t):
    if t is None:
        return f"{word} 0"
    dims = " ".join(str(d) for d in t.dims)
    if t.data_type == onnx.TensorProto.STRING:
        body = " ".join("s" + s.hex() for s in t.string_data)
    else:
        if not t.raw_data:
            t = raw(t)
        body = "x" + t.raw_data.hex()
    return f"{word} {t.data_type} {len(t.dims)} {dims} {body}".replace("  ", " ")


def raw(t):
    a = numpy_helper.to_array(t)
    if t.data_type in PACKED:
        return onnx.helper.make_tensor(t.name or "x", t.data_type, list(t.dims), packed(a, t.data_type), raw=True)
    return onnx.helper.make_tensor(t.name or "x", t.data_type, list(t.dims), a.tobytes(), raw=True)


def packed(a, data_type):
    bits = 2 if data_type in (onnx.TensorProto.INT2, onnx.TensorProto.UINT2) else 4
    codes = a.astype(a.dtype).view(np.uint8).ravel() & ((1 << bits) - 1)
    per = 8 // bits
    codes = np.concatenate([codes, np.zeros((-len(codes)) % per, np.uint8)])
    out = np.zeros(len(codes) // per, np.uint8)
    for i in range(per):
        out |= codes[i::per] << (bits * i)
    return out.tobytes()


def attr_line(a):
    kinds = onnx.AttributeProto
    if a.type == kinds.FLOAT:
        return f"attr {a.name} f {a.f!r}"
    if a.type == kinds.INT:
        return f"attr {a.name} i {a.i}"
    if a.type == kinds.STRING:
        return f"attr {a.name} s s{a.s.hex()}"
    if a.type == kinds.FLOATS:
        return f"attr {a.name} fs {len(a.floats)} " + " ".join(repr(v) for v in a.floats)
    if a.type == kinds.INTS:
        return f"attr {a.name} is {len(a.ints)} " + " ".join(str(v) for v in a.ints)
    if a.type == kinds.STRINGS:
        return f"attr {a.name} ss {len(a.strings)} " + " ".join("s" + v.hex() for v in a.strings)
    if a.type == kinds.TENSOR:
        return tensor_line(f"attr {a.name} t", a.t)
    return None


def to_proto(v):
    if isinstance(v, onnx.TensorProto):
        return v
    return numpy_helper.from_array(np.asarray(v))


def render(case, op):
    n = case.model.graph.node[0]
    inputs, outputs = case.data_sets[0]
    given = iter(inputs)
    constants = {i.name: i for i in case.model.graph.initializer}
    lines = [f"case {case.name} {op} {len(n.output)}"]
    for a in n.attribute:
        line = attr_line(a)
        if line is None:
            return None
        lines.append(line)
    seen = {}
    for name in n.input:
        if not name:
            lines.append(tensor_line("in", None))
        elif name in constants:
            lines.append(tensor_line("in", constants[name]))
        else:
            if name not in seen:
                seen[name] = to_proto(next(given))
            lines.append(tensor_line("in", seen[name]))
    wanted = iter(outputs)
    for name in n.output:
        lines.append(tensor_line("out", to_proto(next(wanted)) if name else None))
    lines.append("end")
    return "\n".join(lines)


def main():
    args = sys.argv[1:]
    max_bytes = DEFAULT_MAX_BYTES
    if args[0].startswith("--max-bytes="):
        max_bytes = int(args.pop(0).split("=")[1])
    out, ops = args[0], set(args[1:])
    cases = []
    for case in node_cases.collect_testcases(None):
        nodes = case.model.graph.node
        if len(nodes) != 1 or "_expanded" in case.name or not case.data_sets:
            continue
        n = nodes[0]
        op = f"{n.domain}.{n.op_type}" if n.domain else n.op_type
        if op not in ops:
            continue
        version = next(o.version for o in case.model.opset_import if o.domain == n.domain)
        if version < onnx.defs.get_schema(n.op_type, n.domain).since_version:
            continue  # an older form, which the importer upgrades
        try:
            text = render(case, op)
        except Exception as e:  # a value that is not a tensor
            print(f"{case.name}: left out: {e!r}", file=sys.stderr)
            continue
        if text is None or len(text) > 2 * max_bytes:
            print(f"{case.name}: left out: {'attribute' if text is None else 'size'}", file=sys.stderr)
            continue
        cases.append(text)
    with open(out, "w") as f:
        f.write("\n".join(cases) + "\n")
    print(f"{out}: {len(cases)} cases")


if __name__ == "__main__":
    main()
