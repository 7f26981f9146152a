"""Hostile ONNX files: thirty small valid ones, cut at every byte and with every byte changed in turn, are run or refused with code 3, 4
or 6; never a crash, a hang, or memory beyond what the small model needs. (--long: each copy; else a share of them.)"""
import pathlib
import subprocess
import sys

import pytest
from onnx import TensorProto, helper

from conformance import onnx_backend
from support import command

WORKER = pathlib.Path(__file__).with_name("small_file_worker.py")
CASES = """abs add argmax_default_axis_example averagepool_2d_default basic_conv_with_padding bitshift_left_uint8 cast_FLOAT_to_STRING
clip concat_1d_axis_0 constantofshape_int_zeros convtranspose cumsum_1d depthtospace_example dequantizelinear einsum_transpose expand_dim_changed
gather_0 gemm_default_vector_bias gru_defaults if_seq loop11 lstm_defaults maxpool_2d_default nonzero_example onehot_with_axis
pow range_float_type_positive_delta reshape_reordered_all_dims resize_upsample_sizes_nearest scan9_sum slice split_equal_parts_1d_opset18
strnorm_model_monday_casesensintive_lower tile topk unsqueeze_axis_0""".split()
COUNT = 30
# A process with numpy and the library, beyond which only a runaway would go.
PEAK_KIB = 700 << 10


def small_models():
    known = onnx_backend.collect()
    named = [known[f"test_{name}"] for name in CASES if f"test_{name}" in known]
    assert len(named) >= COUNT
    return named[:COUNT]


@pytest.mark.parametrize("index", range(COUNT))
def test_damaged_copies(index, tmp_path, long_mode):
    case = small_models()[index]
    path = tmp_path / "model.onnx"
    path.write_bytes(case.model.SerializeToString())
    stride, start, found = (1 if long_mode else 7), 0, []
    while len(found) < 10:
        done = subprocess.run([sys.executable, str(WORKER), str(path), str(stride), str(start)], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=600)
        lines = done.stdout.splitlines()
        found += [line for line in lines if line.startswith("bad ")]
        if done.returncode == 0:
            assert int(lines[-1].split()[1]) < PEAK_KIB, lines[-1]
            break
        tries = [int(line.split()[1]) for line in lines if line.startswith("try ")]
        assert tries, done.stderr
        found.append(f"copy {tries[-1]} ended the process with {done.returncode}: {done.stderr[-300:]}")
        start = tries[-1] + 1
    assert found == [], case.name


def bomb(tmp_path, nodes, outputs, initializers):
    graph = helper.make_graph(nodes, "bomb", [], outputs, initializers)
    path = tmp_path / "bomb.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString())
    assert path.stat().st_size < 400
    return path


BOMBS = {
    "constant_of_shape": ([helper.make_node("ConstantOfShape", ["s"], ["y"])], [("s", TensorProto.INT64, [3], [1 << 16, 1 << 16, 16])]),
    "expand": ([helper.make_node("Expand", ["v", "s"], ["y"])], [("v", TensorProto.FLOAT, [], [1.0]),
                                                                ("s", TensorProto.INT64, [2], [1 << 20, 1 << 16])]),
    "tile": ([helper.make_node("Tile", ["v", "s"], ["y"])], [("v", TensorProto.FLOAT, [1], [1.0]), ("s", TensorProto.INT64, [1], [1 << 36])]),
    "range": ([helper.make_node("Range", ["a", "b", "c"], ["y"])], [("a", TensorProto.INT64, [], [0]), ("b", TensorProto.INT64, [], [1 << 40]),
                                                                   ("c", TensorProto.INT64, [], [1])]),
    "one_hot": ([helper.make_node("OneHot", ["i", "d", "v"], ["y"])], [("i", TensorProto.INT64, [2], [0, 1]), ("d", TensorProto.INT64, [], [1 << 34]),
                                                                      ("v", TensorProto.FLOAT, [2], [0.0, 1.0])]),
    "pad": ([helper.make_node("Pad", ["v", "p"], ["y"])], [("v", TensorProto.FLOAT, [1], [1.0]), ("p", TensorProto.INT64, [2], [1 << 33, 1 << 33])]),
    "resize": ([helper.make_node("Resize", ["v", "", "", "s"], ["y"])], [("v", TensorProto.FLOAT, [1, 1, 1, 1], [1.0]),
                                                                        ("s", TensorProto.INT64, [4], [1, 1, 1 << 18, 1 << 18])]),
    "initializer": ([helper.make_node("Identity", ["v"], ["y"])], None),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_allocates_little(name, tmp_path):
    """A file of some hundred bytes cannot ask for gigabytes: the command ends with 3, 4 or 6 within a memory limit."""
    nodes, weights = BOMBS[name]
    if weights is None:
        tensor = TensorProto(name="v", data_type=TensorProto.FLOAT, dims=[1 << 20, 1 << 14])
        initializers = [tensor]
    else:
        initializers = [helper.make_tensor(n, t, dims, values) for n, t, dims, values in weights]
    path = bomb(tmp_path, nodes, [helper.make_empty_tensor_value_info("y")], initializers)
    script = "import resource,sys,subprocess; code=subprocess.call(sys.argv[1:], stdin=subprocess.DEVNULL); " \
             "print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    from support import paths
    for arguments in (["compile", path, "-o", tmp_path / "x.tenon"], ["run", path, "--memory-limit", "512M", "--output", tmp_path / "o"]):
        done = subprocess.run([sys.executable, "-c", script, str(paths.TENON), *map(str, arguments)], capture_output=True, text=True, timeout=120)
        code, peak = map(int, done.stdout.split()[-2:])
        assert code in (0, 3, 4, 6), (arguments[0], code, done.stderr)
        assert code == 0 or command.error_line(done)
        assert peak < PEAK_KIB, f"{arguments[0]}: {peak >> 10} MiB"
