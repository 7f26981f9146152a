#!/usr/bin/env python3
"""Writes src/import/onnx/attr_schema.inc from the installed onnx package: attributes and their kinds, all opset versions."""
import collections
import pathlib

import onnx.defs

LETTERS = {"FLOAT": "f", "INT": "i", "STRING": "s", "TENSOR": "t", "GRAPH": "g", "SPARSE_TENSOR": "p", "TYPE_PROTO": "y",
           "FLOATS": "F", "INTS": "I", "STRINGS": "S", "TENSORS": "T", "GRAPHS": "G"}
HEADER = """// Attributes of operators and their kinds over all opset versions: i f s t g p y for one integer, float, string, tensor, graph,
// sparse tensor, type; I F S T G for lists. Several letters: the kind changed. Made by scripts/generate_onnx_schema.py.
"""


def line(name, attributes):
    words = [f"{a}:{''.join(sorted(kinds))}" for a, kinds in sorted(attributes.items())]
    out, current = [], f'SCHEMA("{name}", "'
    for i, word in enumerate(words):
        if len(current) + len(word) > 122:
            out.append(current + '"')
            current = '       "'
        current += word + (" " if i + 1 < len(words) else "")
    return "\n".join(out + [current + '")'])


schema = collections.defaultdict(lambda: collections.defaultdict(set))
for s in onnx.defs.get_all_schemas_with_history():
    for a in s.attributes.values():
        schema[s.name if s.domain == "" else f"{s.domain}.{s.name}"][a.name].add(LETTERS[a.type.name])
target = pathlib.Path(__file__).parent.parent / "src/import/onnx/attr_schema.inc"
target.write_text(HEADER + "\n".join(line(k, v) for k, v in sorted(schema.items())) + "\n")
