"""Models of one node, run by Tenon and by ONNX Runtime."""
import itertools

import numpy as np
import onnxruntime
from onnx import helper, numpy_helper

from support import library


def build(op, inputs, attributes, outputs, constants=(), domain="com.microsoft", symbolic=False, opset=21):
    """A serialised model of one node. `inputs`: arrays, None where absent; those whose index is in `constants` are initializers.
    `outputs`: a number of outputs, or a list of names where "" is absent. `symbolic`: extents of inputs are not given."""
    names = [f"i{k}" if array is not None else "" for k, array in enumerate(inputs)]
    results = [f"o{k}" for k in range(outputs)] if isinstance(outputs, int) else outputs
    count = itertools.count()
    feeds, weights, infos = {}, [], []
    for k, (name, array) in enumerate(zip(names, inputs)):
        if array is None:
            continue
        tensor = numpy_helper.from_array(np.asarray(array), name)
        if k in constants:
            weights.append(tensor)
        else:
            feeds[name] = np.asarray(array)
            shape = [f"d{next(count)}" if symbolic else extent for extent in np.asarray(array).shape]
            infos.append(helper.make_tensor_value_info(name, tensor.data_type, shape))
    node = helper.make_node(op, names, results, name="the_node", domain=domain, **attributes)
    # ONNX Runtime infers what the node gives.
    declared = [helper.make_empty_tensor_value_info(name) for name in results if name]
    graph = helper.make_graph([node], "single_node", infos, declared, weights)
    opsets = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString(), feeds, [n for n in results if n]


def by_onnx_runtime(model, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, feeds)


def expect(op, inputs, attributes, outputs=1):
    model, feeds, _ = build(op, inputs, attributes, outputs)
    return by_onnx_runtime(model, feeds)


def by_tenon(model, feeds, path, **options):
    path.write_bytes(model)
    with library.open_model(path, cache_dir="none", **options) as session:
        return session.run(feeds)
