"""Precision control: what --precision, --mixlist and --keep-dtype say is obeyed exactly, or refused loudly."""
import json

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from support import command

WIDTH = 64


@pytest.fixture
def net(tmp_path):
    """Two products with an activation and a norm between; named nodes."""
    rng = np.random.default_rng(3)
    weights = [numpy_helper.from_array((rng.standard_normal((WIDTH, WIDTH)) / 8).astype(np.float32), n) for n in ("w1", "w2")]
    ones = [numpy_helper.from_array(np.ones(WIDTH, np.float32), "scale")]
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"], name="first"),
        helper.make_node("Softmax", ["a"], ["s"], name="soft"),
        helper.make_node("LayerNormalization", ["s", "scale"], ["b"], name="norm"),
        helper.make_node("MatMul", ["b", "w2"], ["y"], name="second"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", WIDTH])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", WIDTH])
    graph = helper.make_graph(nodes, "net", [x], [y], weights + ones)
    path = tmp_path / "net.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString())
    return path


def compiled(net, *flags):
    out = net.with_suffix(".tenon")
    report = command.tenon_json("compile", net, "-o", out, *flags)
    return report, {o["name"]: o for o in report["lowered"]}


def output(model, x, tmp_path):
    np.save(tmp_path / "x.npy", x)
    assert command.tenon("run", model, "--input", f"x={tmp_path / 'x.npy'}", "--output", tmp_path).returncode == 0
    return np.load(tmp_path / "y.npy")


def mixlist(tmp_path, **lists):
    path = tmp_path / "mix.json"
    path.write_text(json.dumps({name.replace("_", "-"): edits for name, edits in lists.items()}))
    return path


def test_nothing_is_lowered_unless_told(net):
    report, lowered = compiled(net)
    assert lowered == {} and report["notes"] == []


@pytest.mark.parametrize("word", ["bf16", "mixed", "allow_fp32_to_bf16", "mixed_bfloat16", "allow_mix_precision_bf16"])
def test_every_lowered_operator_is_listed_and_the_result_is_near(net, tmp_path, word):
    x = np.random.default_rng(0).standard_normal((5, WIDTH)).astype(np.float32)
    exact = output(net, x, tmp_path)
    _, lowered = compiled(net, "--precision", word)
    assert {"first", "second"} <= set(lowered) and all(o["precision"] == "bfloat16" for o in lowered.values())
    low = output(net.with_suffix(".tenon"), x, tmp_path)
    assert low.dtype == np.float32
    error = np.abs(low - exact).max() / np.abs(exact).max()
    assert 0 < error < 0.02    # of bf16's 8 bits, through two products; not equal, or nothing was lowered
    kernels = command.tenon_json("inspect", net.with_suffix(".tenon"), "--stage", "kernels")["kernels"]
    assert {k["node"] for k in kernels if k["precision"] == "bfloat16"} >= {"first", "second"}


def test_lists_are_obeyed(net, tmp_path):
    _, lowered = compiled(net, "--precision", "mixed", "--mixlist", mixlist(tmp_path, black_list={"to-add": ["MatMul"]}))
    assert lowered == {}
    _, lowered = compiled(net, "--precision", "mixed", "--mixlist", mixlist(tmp_path, white_list={"to-remove": ["MatMul"]}))
    assert lowered == {}
    _, lowered = compiled(net, "--precision", "mixed", "--mixlist", mixlist(tmp_path, gray_list={"to-remove": ["Softmax"]}))
    assert "soft" not in lowered and {"first", "second"} <= set(lowered)


def test_kept_nodes_are_kept(net, tmp_path):
    keep = tmp_path / "keep.txt"
    keep.write_text("# comment\n\nfirst\r\n")
    _, lowered = compiled(net, "--precision", "bf16", "--keep-dtype", keep)
    assert "first" not in lowered and "second" in lowered
    keep.write_text("OpType::MatMul\n")
    assert compiled(net, "--precision", "bf16", "--keep-dtype", keep)[1] == {}


BAD = {
    "unknown word": (["--precision", "f7"], 2, "f7"),
    "half": (["--precision", "force_fp16"], 4, "bf16"),
    "integers": (["--precision", "int8"], 4, "quantize"),
    "list without mixed": (["--precision", "bf16", "--mixlist", "{}"], 2, "mixed"),
    "pass disabled": (["--precision", "bf16", "--disable-pass", "LowerPrecision"], 2, "LowerPrecision"),
    "no such file": (["--precision", "mixed", "--mixlist", "none.json"], 3, "none.json"),
    "not json": (["--precision", "mixed", "--mixlist", "["], 3, "JSON"),
    "unknown list": (["--precision", "mixed", "--mixlist", '{"red-list": {}}'], 3, "red-list"),
    "unknown edit": (["--precision", "mixed", "--mixlist", '{"black-list": {"add": ["Add"]}}'], 3, "add"),
    "unknown operator": (["--precision", "mixed", "--mixlist", '{"black-list": {"to-add": ["MatMull"]}}'], 3, "MatMull"),
    "two lists": (
        ["--precision", "mixed", "--mixlist", '{"black-list": {"to-add": ["Add"]}, "white-list": {"to-add": ["Add"]}}'], 3, "Add"),
    "not served": (["--precision", "mixed", "--mixlist", '{"white-list": {"to-add": ["CumSum"]}}'], 0, ""),
    "unknown node": (["--precision", "bf16", "--keep-dtype", "third\n"], 3, "third"),
    "unknown type": (["--precision", "bf16", "--keep-dtype", "OpType::Frobnicate\n"], 3, "Frobnicate"),
}


@pytest.mark.parametrize("what", BAD)
def test_refused_loudly(net, tmp_path, what):
    flags, code, word = BAD[what]
    flags = list(flags)
    for flag in ("--mixlist", "--keep-dtype"):
        if flag in flags and "none" not in flags[-1]:
            (tmp_path / "list").write_text(flags[-1])
            flags[-1] = str(tmp_path / "list")
    done = command.tenon("compile", net, "-o", tmp_path / "out.tenon", *flags)
    assert done.returncode == code, (done.stdout, done.stderr)
    if code != 0:
        assert word in command.error_line(done)
        assert not (tmp_path / "out.tenon").exists()


def test_a_fused_node_cannot_keep_its_own_type(tmp_path):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"], name="product"), helper.make_node("Relu", ["a"], ["y"], name="relu")]
    w = numpy_helper.from_array(np.eye(WIDTH, dtype=np.float32), "w")
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", WIDTH]) for n in "xy")
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y], [w]), opset_imports=[helper.make_opsetid("", 18)])
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    (tmp_path / "keep").write_text("relu\n")
    done = command.tenon("compile", path, "-o", tmp_path / "out.tenon", "--precision", "bf16", "--keep-dtype", tmp_path / "keep")
    assert done.returncode == 4 and "relu" in command.error_line(done)


def test_a_compiled_model_has_its_precision(net, tmp_path):
    compiled(net)
    done = command.tenon("run", net.with_suffix(".tenon"), "--precision", "bf16", "--input", "x=ones", "--shape", f"x=1x{WIDTH}")
    assert done.returncode == 2 and "compiled" in command.error_line(done)


@pytest.fixture
def convolution(tmp_path):
    """A convolution that Winograd's way serves."""
    rng = np.random.default_rng(5)
    w = numpy_helper.from_array((rng.standard_normal((64, 64, 3, 3)) / 24).astype(np.float32), "w")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64, 56, 56])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 64, 56, 56])
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv", pads=[1, 1, 1, 1])
    graph = helper.make_graph([node], "net", [x], [y], [w])
    path = tmp_path / "conv.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString())
    return path


def test_high_precision_leaves_out_what_is_less_exact(convolution, tmp_path):
    def kernels(*flags):
        out = convolution.with_suffix(".tenon")
        command.tenon_json("compile", convolution, "-o", out, *flags)
        done = command.tenon("inspect", out, "--stage", "kernels")
        assert done.returncode == 0, done.stderr
        return done.stdout
    assert "Conv_winograd" in kernels()
    for flags in (["--op-select-implmode", "high_precision"], ["--op-select-implmode", "high_precision_for_all"],
                  ["--op-select-implmode", "high_precision", "--optypelist-for-implmode", "Conv"]):
        text = kernels(*flags)
        chosen = [line for line in text.splitlines() if "conv" in line and "less exact than asked for" not in line]
        assert "less exact than asked for" in text and not any("winograd" in line for line in chosen), text
    done = command.tenon("run", convolution.with_suffix(".tenon"), "--input", "x=random", "--op-select-implmode", "high_precision")
    assert done.returncode == 2 and "is compiled" in done.stderr
    for what, code, message in ((["--op-select-implmode", "best"], 2, "best"),
                                (["--op-select-implmode", "high_precision", "--optypelist-for-implmode", "Softmax"], 3, "Softmax")):
        done = command.tenon("compile", convolution, "-o", tmp_path / "no.tenon", *what)
        assert done.returncode == code and message in done.stderr, done.stderr
