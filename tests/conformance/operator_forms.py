#!/usr/bin/env python3
"""Every operator of the installed `onnx` package in every version and with every element type that its schema allows.

Models are made from the node cases of onnx: one for each older version whose form can say the same (inputs that used to be attributes
become attributes), one for each type of each type variable. Results are compared with ONNX Runtime where it takes the model, with
onnx's reference evaluator, or (older versions) with the case's own results. Reasons begin with

  refused      Tenon does not run it
  wrong        the results differ
  unmade       no model: no case of the operator can be said in this version or with this type

usage: .venv-test/bin/python tests/conformance/operator_forms.py [versions] [types] [--filter TEXT] [--json FILE]
"""
import argparse
import collections
import json
import os
import pathlib
import sys
import tempfile
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import ml_dtypes  # noqa: E402,F401
import numpy as np  # noqa: E402
import onnx  # noqa: E402
from onnx import checker, defs, helper, numpy_helper, shape_inference  # noqa: E402

from conformance import onnx_backend  # noqa: E402
from support import compare  # noqa: E402

NEWEST = defs.onnx_opset_version()
OTHERS_AREA = "ai.onnx.ml"   # tests of its own
PASS, NO_ORACLE = "pass", "pass, unchecked"
# Inputs of today that were attributes.
AS_ATTRIBUTE = {
    "Clip": {1: "min", 2: "max"}, "Dropout": {1: "ratio"}, "Pad": {1: "pads", 2: "value"}, "Reshape": {1: "shape"},
    "Slice": {1: "starts", 2: "ends", 3: "axes"}, "Split": {1: "split"}, "Squeeze": {1: "axes"}, "TopK": {1: "k"},
    "Unsqueeze": {1: "axes"}, "Upsample": {1: "scales"}, "DFT": {2: "axis"}}
REDUCTIONS = {1: "axes"}
# No two runs, or no two implementations, give the same values: only types and shapes are compared.
RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}


def schemas():
    """{(domain, name): [schema by version]} without other people's domains."""
    found = collections.defaultdict(list)
    for schema in defs.get_all_schemas_with_history():
        if schema.domain != OTHERS_AREA:
            found[schema.domain, schema.name].append(schema)
    return {key: sorted(rows, key=lambda s: s.since_version) for key, rows in sorted(found.items())}


def cases_by_operator():
    """Two of {(domain, op): [case]}: cases of one node without bodies over tensors, and all cases that hold the operator anywhere."""
    single, anywhere = collections.defaultdict(list), collections.defaultdict(list)
    for case in onnx_backend.collect().values():
        nodes, (inputs, outputs) = case.model.graph.node, case.data_sets[0]
        for key in set(operators(case.model.graph)):
            anywhere[key].append(case)
        if len(nodes) != 1 or any(a.HasField("g") for a in nodes[0].attribute) or case.model.functions:
            continue
        arrays = [onnx_backend.to_array(v) for v in [*inputs, *outputs]]
        if all(isinstance(a, np.ndarray) for a in arrays):
            single[nodes[0].domain, nodes[0].op_type].append(case)
    return single, anywhere


def operators(graph):
    for node in graph.node:
        yield node.domain, node.op_type
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from operators(attribute.g)


def feeds_of(case):
    names = [value.name for value in case.model.graph.input]
    return {name: onnx_backend.to_array(value) for name, value in zip(names, case.data_sets[0][0])}


def model_of(node, feeds, opset, domain_version=None, outputs=None):
    """A model of one node, with the types of its outputs inferred."""
    inputs = [helper.make_tensor_value_info(n, dtype_of(a), a.shape) for n, a in feeds.items() if n in node.input]
    imports = [helper.make_opsetid("", opset)]
    if node.domain:
        imports.append(helper.make_opsetid(node.domain, domain_version or 1))
    empty = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph([node], "form", inputs, empty)
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    inferred = shape_inference.infer_shapes(model)
    types = {v.name: v for v in [*inferred.graph.value_info, *inferred.graph.output] if v.HasField("type")}
    for value in model.graph.output:
        if value.name in types and types[value.name].type.WhichOneof("value"):
            value.type.CopyFrom(types[value.name].type)
        if outputs and value.name in outputs and not value.type.tensor_type.HasField("shape"):
            array = outputs[value.name]
            value.CopyFrom(helper.make_tensor_value_info(value.name, value.type.tensor_type.elem_type or dtype_of(array), array.shape))
    checker.check_model(model)
    return model


def dtype_of(array):
    if array.dtype.kind in "OUS":
        return onnx.TensorProto.STRING
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def allows(schema, index, array, is_input=True):
    """The schema's input (or output) `index` may have the element type of `array`."""
    formal = (schema.inputs if is_input else schema.outputs)
    if not formal:
        return False
    types = formal[min(index, len(formal) - 1)].types
    return any(t == f"tensor({onnx.TensorProto.DataType.Name(dtype_of(array)).lower()})" for t in types) or \
        any(t == f"tensor({type_word(dtype_of(array))})" for t in types)


def type_word(dtype):
    return {1: "float", 11: "double", 10: "float16", 16: "bfloat16", 14: "complex64", 15: "complex128"}.get(
        dtype, onnx.TensorProto.DataType.Name(dtype).lower())


def said_in(case, schema):
    """The case's node and inputs as version `schema` says them; None when it cannot."""
    node, feeds = onnx.NodeProto(), feeds_of(case)
    node.CopyFrom(case.model.graph.node[0])
    moves = REDUCTIONS if node.op_type.startswith("Reduce") else AS_ATTRIBUTE.get(node.op_type, {})
    for index, name in sorted(moves.items(), reverse=True):
        if name not in schema.attributes or index >= len(node.input):
            continue
        if node.input[index]:
            value = feeds.pop(node.input[index])
            kind = schema.attributes[name].type
            given = value.ravel().tolist()
            if kind in (defs.OpSchema.AttrType.INT, defs.OpSchema.AttrType.FLOAT):
                given = given[0]
            if kind == defs.OpSchema.AttrType.FLOAT:
                given = float(given)
            if given == []:
                return None
            node.attribute.append(helper.make_attribute(name, given))
        del node.input[index]
    newest = defs.get_schema(node.op_type, NEWEST, node.domain) if not node.domain else schema
    for attribute in list(node.attribute):
        if attribute.name in schema.attributes:
            continue
        known = newest.attributes.get(attribute.name)
        default = known.default_value if known is not None else None
        if default is None or helper.get_attribute_value(attribute) != helper.get_attribute_value(default):
            return None
        node.attribute.remove(attribute)
    if not schema.min_input <= len(node.input) <= schema.max_input or len(node.output) > schema.max_output:
        return None
    given = {a.name for a in node.attribute}
    if any(a.required and name not in given for name, a in schema.attributes.items()):
        return None
    if any(name and not allows(schema, i, feeds[name]) for i, name in enumerate(node.input)):
        return None
    return node, feeds


def run_ort(model, feeds):
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {i.name: feeds[i.name] for i in session.get_inputs()})


def run_reference(model, feeds):
    from onnx.reference import ReferenceEvaluator
    return ReferenceEvaluator(model).run(None, feeds)


def run_tenon(model, feeds, folder):
    from support import library
    path = pathlib.Path(folder) / "model.onnx"
    path.write_bytes(model.SerializeToString())
    with library.open_model(path, cache_dir="none") as session:
        return session.run({i.name: feeds[i.name] for i in model.graph.input})


def oracle(model, feeds, runs):
    for run in runs:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return run(model, feeds)
        except Exception:   # another runtime's refusal is no news
            continue
    return None


def judge(model, feeds, want, folder, rtol, atol=1e-5):
    from support import library
    try:
        got = run_tenon(model, feeds, folder)
    except library.TenonError as error:
        return f"refused: {error.message}"
    if want is None:
        return NO_ORACLE
    random = any(op in RANDOM for _, op in operators(model.graph))
    for g, w in zip(got, want):
        numeric = isinstance(w, np.ndarray) and w.dtype.kind in "fc" and w.size
        largest = float(np.nanmax(np.abs(np.where(np.isfinite(w), w, 0)))) if numeric else 0
        reason = compare.difference(np.zeros_like(g) if random else g, np.zeros_like(w) if random else w, rtol,
                                    max(atol, 1e-6 * largest))
        if reason:
            return reason
    return PASS


def of_version(single, anywhere, schema, folder):
    """The result of the first case that can be said in this version."""
    opset = schema.since_version if not schema.domain else NEWEST
    for case in single:
        said = said_in(case, schema)
        if said is None:
            continue
        outputs = dict(zip((v.name for v in case.model.graph.output), map(onnx_backend.to_array, case.data_sets[0][1])))
        try:
            model = model_of(*said, opset, schema.since_version, outputs)
        except Exception:   # not a valid node of this version after all
            continue
        return verdict(case, model, said[1], list(outputs.values()), folder)
    for case in anywhere:
        model = onnx.ModelProto()
        model.CopyFrom(case.model)
        for opset_import in model.opset_import:
            if opset_import.domain in ("", schema.domain):
                opset_import.version = opset if opset_import.domain == "" else schema.since_version
        try:
            checker.check_model(model)
        except Exception:
            continue
        return verdict(case, model, feeds_of(case), list(map(onnx_backend.to_array, case.data_sets[0][1])), folder)
    return "unmade"


def verdict(case, model, feeds, newest_form, folder):
    want = oracle(model, feeds, [run_ort])
    result = judge(model, feeds, newest_form if want is None else want, folder, case.rtol)
    return result if result == PASS else f"{result} [{case.name}{', by the newest form' if want is None else ''}]"


def versions(found, single, anywhere, folder, text):
    results = {}
    for (domain, name), rows in found.items():
        for schema in rows:
            key = f"{domain + '.' if domain else ''}{name}-{schema.since_version}"
            if text in key and not schema.deprecated:
                results[key] = of_version(single[domain, name], anywhere[domain, name], schema, folder)
    return results


def converted(array, dtype):
    """The array with another element type, with values that fit."""
    target = helper.tensor_dtype_to_np_dtype(dtype)
    if dtype == onnx.TensorProto.STRING:
        return np.array([str(v) for v in array.ravel()], object).reshape(array.shape)
    if array.dtype.kind in "OUS":
        return None
    if array.dtype.kind in "fc" and np.dtype(target).kind in "iub" and np.all(np.abs(array) <= 2):
        array = array * 10
    array = np.nan_to_num(array.astype(np.float64) if array.dtype.kind != "c" else array, posinf=7, neginf=-7)
    if np.dtype(target).kind in "iu" or np.dtype(target).name.lstrip("u").startswith("int"):
        info = ml_dtypes.iinfo(target)
        array = np.clip(np.trunc(array), max(info.min, -100), min(info.max, 100))
    with np.errstate(all="ignore"):
        return array.astype(target)


def type_number(word):
    """"tensor(float)" to the number of the type; None for sequences and so on."""
    if not word.startswith("tensor("):
        return None
    name = {"float": "FLOAT", "double": "DOUBLE"}.get(word[7:-1], word[7:-1].upper())
    return onnx.TensorProto.DataType.Value(name)


def of_type(cases, schema, variable, dtype, folder):
    result = "unmade"
    for case in cases[:12]:
        node, feeds = case.model.graph.node[0], feeds_of(case)
        for index, name in enumerate(node.input):
            formal = schema.inputs[min(index, len(schema.inputs) - 1)] if schema.inputs else None
            if name and formal is not None and formal.type_str == variable and dtype_of(feeds[name]) != dtype:
                feeds[name] = converted(feeds[name], dtype)
        if any(a is None for a in feeds.values()):
            continue
        outputs = {}
        for i, (value, proto) in enumerate(zip(case.model.graph.output, case.data_sets[0][1])):
            array, formal = onnx_backend.to_array(proto), schema.outputs[min(i, len(schema.outputs) - 1)]
            outputs[value.name] = converted(array, dtype) if formal.type_str == variable else array
        try:
            model = model_of(node, feeds, NEWEST, schema.since_version, outputs)
        except Exception:
            continue
        # ONNX Runtime has been seen to lose strings.
        want = oracle(model, feeds, [run_reference] if dtype == onnx.TensorProto.STRING else [run_ort, run_reference])
        wide = dtype in (1, 11) or np.dtype(helper.tensor_dtype_to_np_dtype(dtype)).kind in "iub"
        result = judge(model, feeds, want, folder, case.rtol if wide else 0.05, 1e-5 if wide else 0.02)
        if result in (PASS, NO_ORACLE):
            return result
        result = f"{result} [{case.name}]"
        if want is not None:
            return result
    return result


def types(found, cases, _, folder, text):
    results = {}
    for (domain, name), rows in found.items():
        schema = rows[-1]
        if schema.deprecated or not cases[domain, name]:
            continue
        for constraint in schema.type_constraints:
            for word in constraint.allowed_type_strs:
                dtype = type_number(word)
                key = f"{domain + '.' if domain else ''}{name} {constraint.type_param_str} {word[7:-1]}"
                if dtype is not None and text in key:
                    results[key] = of_type(cases[domain, name], schema, constraint.type_param_str, dtype, folder)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["versions", "types"])
    parser.add_argument("--filter", default="")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    found, (single, anywhere), results = schemas(), cases_by_operator(), {}
    with tempfile.TemporaryDirectory() as folder:
        for what in arguments.what:
            results[what] = {"versions": versions, "types": types}[what](found, single, anywhere, folder, arguments.filter)
    for what, rows in results.items():
        counts = collections.Counter(reason.split(":")[0].split("[")[0].strip() for reason in rows.values())
        print(f"{what}: {len(rows)}; " + ", ".join(f"{n} {kind}" for kind, n in counts.most_common()))
        for key, reason in rows.items():
            if reason not in (PASS, NO_ORACLE) and not arguments.json:
                print(f"  {key}: {reason}"[:260])
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(results))


if __name__ == "__main__":
    main()
