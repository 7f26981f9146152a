"""Field cases through the whole of Tenon: what users of comparable tools have hit, one test each, named by its id."""
import os

import numpy as np
import pytest
from onnx import TensorProto, helper

from support import build_model, command, compare, library, models

F = build_model
LEVELS = (0, 1, 2, 3, 99)


def at_every_level(path, inputs, want, **options):
    for level in LEVELS:
        with library.open_model(path, cache_dir="none", opt_level=level, **options) as session:
            got = session.run_named(inputs)
        assert list(got) == list(want)
        for name in want:
            compare.assert_equal(got[name], want[name], f"level {level}, {name}", 1e-5, 1e-6)


@pytest.mark.parametrize("also", ("t2", "t3"))
def test_G01_fusion_keeps_a_tensor_that_is_also_an_output(tmp_path, also):
    nodes = [F.node("Mul", ["t1", "k"], ["t2"]), F.node("Sigmoid", ["t2"], ["t3"]), F.node("Mul", ["t2", "t3"], ["t4"])]
    path = F.model(tmp_path / "m.onnx", nodes, [F.value("t1", ["n", 3])], [F.value("t4", ["n", 3]), F.value(also, ["n", 3])],
                   {"k": np.array([0.5, 2, -1], np.float32)})
    x = {"t1": models.floats(2, 3)}
    at_every_level(path, x, models.reference(path, x))


def test_G02_fusion_does_not_run_a_shared_product_twice(tmp_path):
    nodes = [F.node("MatMul", ["x", "w"], ["p"]), F.node("Mul", ["p", "k"], ["scaled"]), F.node("Add", ["p", "scaled"], ["y"])]
    path = F.model(tmp_path / "m.onnx", nodes, [F.value("x", ["n", 8])], [F.value("y", ["n", 4]), F.value("scaled", ["n", 4])],
                   {"w": models.floats(8, 4, seed=1), "k": np.array(0.25, np.float32)})
    x = {"x": models.floats(3, 8)}
    at_every_level(path, x, models.reference(path, x))
    ops = command.tenon_json("inspect", path, "--stage", "optimized")["ops"]
    assert sum(count for op, count in ops.items() if "MatMul" in op or "Gemm" in op) == 1, ops


@pytest.mark.parametrize("middle", ("Identity", "Dropout", "Cast"))
def test_G04_fusion_leaves_no_dangling_edge(tmp_path, middle):
    attributes = {"to": F.F32} if middle == "Cast" else {}
    nodes = [F.node(middle, ["x"], ["mid"], **attributes), F.node("Div", ["one", "one"], ["unit"]),
             F.node("Mul", ["unit", "mid"], ["product"]), F.node("Add", ["product", "zero"], ["y"])]
    path = F.model(tmp_path / "m.onnx", nodes, [F.value("x", [2, 3])], [F.value("y", [2, 3])],
                   {"one": np.array(1, np.float32), "zero": np.array(0, np.float32)})
    x = {"x": models.floats(2, 3)}
    at_every_level(path, x, {"y": x["x"]})


@pytest.fixture
def listed_weights(tmp_path):
    """A model whose weights are also listed as inputs, as old exporters did."""
    weights = {"w": models.floats(4, 3, seed=1), "b": models.floats(3, seed=2)}
    nodes = [F.node("MatMul", ["x", "w"], ["p"]), F.node("Add", ["p", "b"], ["y"])]
    inputs = [F.value("x", ["n", 4]), F.value("w", [4, 3]), F.value("b", [3])]
    return F.model(tmp_path / "m.onnx", nodes, inputs, [F.value("y", ["n", 3])], weights), weights


def test_G10_weights_listed_as_inputs_are_frozen_and_folded(listed_weights):
    path, weights = listed_weights
    x = models.floats(2, 4)
    at_every_level(path, {"x": x}, {"y": x @ weights["w"] + weights["b"]})
    report = command.tenon_json("inspect", path, "--stage", "optimized")
    assert [row["name"] for row in report["inputs"]] == ["x"]
    assert sum(report["ops"].values()) == 1, "fused although the weights were listed as inputs"
    done = command.tenon("run", path, "--input", "x=ones", "--shape", "x=1x4")
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert done.returncode == 0 and len(lines) <= 2, "one summary at most, not a line a weight"


def test_G10_a_caller_may_still_feed_them_when_asked_to_keep_them(listed_weights):
    path, weights = listed_weights
    x, other = models.floats(2, 4), models.floats(3, seed=9)
    options = {"keep_initializer_inputs": True}
    at_every_level(path, {"x": x}, {"y": x @ weights["w"] + weights["b"]}, **options)
    at_every_level(path, {"x": x, "b": other}, {"y": x @ weights["w"] + other}, **options)


def test_G12_one_symbol_two_sizes_is_an_error_that_names_it(tmp_path):
    nodes = [F.node("Relu", ["a"], ["ra"]), F.node("Relu", ["b"], ["rb"])]
    path = F.model(tmp_path / "m.onnx", nodes, [F.value("a", [16, "width"]), F.value("b", [16, "width"])],
                   [F.value("ra", [16, "width"]), F.value("rb", [16, "width"])])
    a, b = models.floats(16, 1024), models.floats(16, 1023, seed=1)
    with library.open_model(path, cache_dir="none") as session:
        with pytest.raises(library.TenonError, match="width") as caught:
            session.run({"a": a, "b": b})
        assert caught.value.code == 2
        got = session.run_named({"a": a, "b": a})
        np.testing.assert_array_equal(got["ra"], np.maximum(a, 0))
    done, _ = command.run_model(path, {"a": a, "b": b}, tmp_path / "cli")
    assert done.returncode == 2 and "width" in done.stdout + done.stderr


def test_M04_threads_from_the_affinity_mask(tmp_path):
    """What the process may use, not what the host has. (Quotas of cgroups: src/hw/quota_test.cc, on fake trees.)"""
    path, _ = F.small_net(tmp_path / "net.onnx")
    core = min(os.sched_getaffinity(0))
    report = command.tenon_json("bench", path, "--shape", "x=1x4", "--duration", "0.1s", "--warmup", "0s",
                                preexec_fn=lambda: os.sched_setaffinity(0, {core}))
    assert report["results"][0]["threads"] == 1 and report["machine"]["cores"] == 1
    shown = command.tenon("doctor", preexec_fn=lambda: os.sched_setaffinity(0, {core}))
    assert "affinity" in shown.stdout, "the doctor says how it came to the number"


M = np.iinfo(np.int64)
SLICES = [  # start, end, step, right answer over [0..9]
    (9, 0, -1, [9, 8, 7, 6, 5, 4, 3, 2, 1]), (9, 2, -1, [9, 8, 7, 6, 5, 4, 3]), (9, 0, -3, [9, 6, 3]), (0, 5, -1, []),
    (-1, M.max, -1, []), (9, M.min, -1, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]), (-1, M.min, -1, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]),
    (M.max, M.min, -1, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]), (M.min, M.max, 1, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]), (-3, -1, 1, [7, 8]),
    (0, -10, 1, []), (-10, M.max, 1, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]), (9, M.min, M.min, [9]), (0, M.max, M.max, [0]),
]


@pytest.mark.parametrize("known", (True, False), ids=("constant", "fed"))
@pytest.mark.parametrize("start,end,step,want", SLICES)
def test_N08_slice(tmp_path, start, end, step, want, known):
    values = {"start": np.array([start]), "end": np.array([end]), "axis": np.array([0]), "step": np.array([step])}
    inputs = [F.value("x", ["n"])] + ([] if known else [F.value(k, [1], F.I64) for k in values])
    path = F.model(tmp_path / "m.onnx", [F.node("Slice", ["x", *values], ["y"])], inputs, [F.value("y", ["m"])], values if known else None)
    x = {"x": np.arange(10, dtype=np.float32), **({} if known else values)}
    at_every_level(path, x, {"y": np.array(want, np.float32)})


def test_N08_slice_of_a_matrix(tmp_path):
    values = {"start": np.array([2]), "end": np.array([0]), "axis": np.array([0]), "step": np.array([-1])}
    path = F.model(tmp_path / "m.onnx", [F.node("Slice", ["x", *values], ["y"])], [F.value("x", [3, 4])], [F.value("y", ["m", 4])], values)
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    at_every_level(path, {"x": x}, {"y": x[[2, 1]]})


@pytest.mark.parametrize("isa", ("baseline", "avx2", "avx512", "avx512vnni", "amx", "native"))
@pytest.mark.parametrize("constant", (True, False), ids=("weights", "fed"))
def test_N19_u8s8_does_not_saturate(tmp_path, isa, constant):
    command.skip_unless_cpu_has(isa)
    import onnx
    depth, columns = 70, 33
    a = np.full((3, depth), 255, np.uint8)
    b = np.full((depth, columns), 127, np.int8)
    b[:, 1::2] = -128
    inputs = [F.value("a", ["m", depth], onnx.TensorProto.UINT8)]
    inputs += [] if constant else [F.value("b", [depth, columns], onnx.TensorProto.INT8)]
    path = F.model(tmp_path / "m.onnx", [F.node("MatMulInteger", ["a", "b"], ["y"])], inputs,
                   [F.value("y", ["m", columns], onnx.TensorProto.INT32)], {"b": b} if constant else None)
    done, got = command.run_model(path, {"a": a} if constant else {"a": a, "b": b}, tmp_path / "run", env={"TENON_ISA": isa})
    assert done.returncode == 0, done.stdout + done.stderr
    np.testing.assert_array_equal(got["y"], a.astype(np.int32) @ b.astype(np.int32))


def test_N19_the_pair_of_the_report(tmp_path):
    import onnx
    path = F.model(tmp_path / "m.onnx", [F.node("MatMulInteger", ["a", "b"], ["y"])], [F.value("a", [1, 2], onnx.TensorProto.UINT8)],
                   [F.value("y", [1, 1], onnx.TensorProto.INT32)], {"b": np.array([[127], [127]], np.int8)})
    at_every_level(path, {"a": np.array([[255, 255]], np.uint8)}, {"y": np.array([[64770]], np.int32)})


def encoder(path):
    """One layer of a transformer encoder: x [batch, length, 32] and a mask of real tokens -> y, heads of 8."""
    def const(name, value):
        weights[name] = np.asarray(value)
        return name

    weights = {name: models.floats(32, 32, seed=i) * 0.3 for i, name in enumerate(("wq", "wk", "wv", "wo"))}
    nodes = []
    for name in "qkv":
        nodes += [F.node("MatMul", ["x", f"w{name}"], [f"{name}0"]), F.node("Reshape", [f"{name}0", const("split", [0, 0, 4, 8])], [f"{name}1"]),
                  F.node("Transpose", [f"{name}1"], [name], perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3])]
    nodes += [F.node("Sub", ["mask", const("one", np.float32(1))], ["m0"]), F.node("Mul", ["m0", const("far", np.float32(1e9))], ["m1"]),
              F.node("Unsqueeze", ["m1", const("axes", [1, 2])], ["bias"]), F.node("MatMul", ["q", "k"], ["s0"]),
              F.node("Mul", ["s0", const("scale", np.float32(8**-0.5))], ["s1"]), F.node("Add", ["s1", "bias"], ["s2"]),
              F.node("Softmax", ["s2"], ["p"], axis=-1), F.node("MatMul", ["p", "v"], ["c0"]), F.node("Transpose", ["c0"], ["c1"], perm=[0, 2, 1, 3]),
              F.node("Reshape", ["c1", const("join", [0, 0, 32])], ["c2"]), F.node("MatMul", ["c2", "wo"], ["c3"]), F.node("Add", ["x", "c3"], ["y"])]
    return F.model(path, nodes, [F.value("x", ["b", "n", 32]), F.value("mask", ["b", "n"])], [F.value("y", ["b", "n", 32])], weights)


@pytest.mark.parametrize("threads", (1, 2))
def test_N22_a_sentence_has_the_same_answer_alone_and_among_others(tmp_path, threads):
    path = encoder(tmp_path / "encoder.onnx")
    lengths = (5, 17, 9, 64, 1, 33)
    sentences = [models.floats(1, n, 32, seed=n) for n in lengths]
    with library.open_model(path, cache_dir="none", threads=threads) as session:
        alone = [session.run({"x": s, "mask": np.ones((1, s.shape[1]), np.float32)})[0] for s in sentences]
        for padding in (0, 7):
            longest = max(lengths) + padding
            x, mask = np.full((len(lengths), longest, 32), 3.0, np.float32), np.zeros((len(lengths), longest), np.float32)
            for i, s in enumerate(sentences):
                x[i, :lengths[i]], mask[i, :lengths[i]] = s, 1
            together = session.run({"x": x, "mask": mask})[0]
            for i, want in enumerate(alone):
                compare.assert_equal(together[i:i + 1, :lengths[i]], want, f"sentence {i}, padding {padding}", 1e-5, 1e-6)
        # Without padding nothing changes at all: a row does not depend on its neighbours.
        pair = np.concatenate([sentences[3], models.floats(1, 64, 32, seed=99)])
        both = session.run({"x": pair, "mask": np.ones((2, 64), np.float32)})[0]
        np.testing.assert_array_equal(both[:1], alone[3])


def external(name, dtype, dims, location, offset, length):
    tensor = TensorProto(name=name, data_type=dtype, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def test_G16_weights_beyond_two_gigabytes(tmp_path, long_mode):
    """A sparse file: the weights lie behind 2 GiB of nothing. (--long: the nothing is a weight too, so that the artifact is as large.)"""
    before = (2 << 30) + (1 << 20)
    w = models.floats(4, 3)
    with open(tmp_path / "weights.bin", "wb") as file:
        file.seek(before)
        file.write(w.tobytes())
    weights = [external("w", TensorProto.FLOAT, [4, 3], "weights.bin", before, w.nbytes)]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y" if not long_mode else "xw"])]
    if long_mode:
        weights.insert(0, external("big", TensorProto.FLOAT, [before // 4], "weights.bin", 0, before))
        nodes += [helper.make_node("Gather", ["big", "i"], ["zeros"]), helper.make_node("Add", ["xw", "zeros"], ["y"])]
    inputs = [F.value("x", [2, 4])] + ([F.value("i", [3], F.I64)] if long_mode else [])
    graph = helper.make_graph(nodes, "big", inputs, [F.value("y", [2, 3])], weights)
    (tmp_path / "m.onnx").write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString())
    feed = {"x": models.floats(2, 4, seed=3), **({"i": np.array([0, 1 << 28, before // 4 - 1])} if long_mode else {})}
    with library.open_model(tmp_path / "m.onnx", cache_dir="none") as session:
        compare.assert_equal(session.run(feed)[0], feed["x"] @ w, "from the model", 1e-5, 1e-6)
    library.compile_model(tmp_path / "m.onnx", tmp_path / "m.tenon")
    assert not long_mode or (tmp_path / "m.tenon").stat().st_size > before
    with library.open_model(tmp_path / "m.tenon") as session:
        compare.assert_equal(session.run(feed)[0], feed["x"] @ w, "from the artifact", 1e-5, 1e-6)
