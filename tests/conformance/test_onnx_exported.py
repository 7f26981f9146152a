"""The `onnx` package's small models exported by PyTorch, with their data: patterns of real exporters, operator by operator."""
import pathlib

import onnx
import pytest
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

from support import compare, library

CASES = [case for kind in ("simple", "pytorch-converted", "pytorch-operator") for case in load_model_tests(kind=kind)]


def load(path, is_sequence):
    data = path.read_bytes()
    if is_sequence:
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def load_all(folder, prefix, infos):
    return [load(folder / f"{prefix}_{i}.pb", info["is_sequence"]) for i, info in enumerate(infos)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_model(case):
    folder = pathlib.Path(case.model_dir)
    with library.open_model(folder / "model.onnx", cache_dir="none") as session:
        sets = sorted(folder.glob("test_data_set_*"))
        assert sets
        for data in sets:
            inputs = {info["name"]: value for info, value in zip(session.inputs, load_all(data, "input", session.inputs))}
            wanted = load_all(data, "output", session.outputs)
            for info, got, want in zip(session.outputs, session.run(inputs), wanted):
                compare.assert_equal(got, want, info["name"], case.rtol, case.atol)
