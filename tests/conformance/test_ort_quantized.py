"""Models quantised, fused and saved by ONNX Runtime's own tools, against ONNX Runtime on the same file without its optimiser.

Where a float lies between two steps of a quantiser to its last bits, both neighbours are right, and an element that moves by a step
moves what follows. So two things are asked: that a node whose inputs agree gives integers at most one step apart (sums of 32 bits:
equal) and floats that agree; and that the results are nearer to ONNX Runtime's than quantisation itself brought these to the float
model's. ONNX Runtime with its optimiser on is as far from itself without: it too decides ties by how it sums.
"""
import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime import quantization
from onnxruntime.quantization import QuantFormat, QuantType

from support import compare, library, models, transformer


def run_reference(path, inputs):
    """{output name: array} of the file as it stands."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, inputs)))


def run(path, inputs):
    with library.open_model(path, cache_dir="none") as session:
        return session.run_named(inputs)


def cases(*names):
    """{first word of the name: case} of the real models."""
    every = [*models.ppocr(), *models.magika(), *models.silero(), *models.exported()]
    return {case.name.split("-")[0]: case for case in every if case.name in names}


REAL = cases("cls-1x3x48x192", "rec-1x3x48x32", "det-1x3x64x64", "magika-1", "silero_vad_16k_op15", "efficientnet_lite0_dynamo-1",
             "minilm_dynamo-1x16")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("quantised")


def source(name, folder):
    """Path and inputs of a model."""
    if name != "bert":
        return REAL[name].path, REAL[name].inputs()
    path = folder / "bert.onnx"
    return path if path.exists() else transformer.bert(path), transformer.bert_inputs()


class Calibration(quantization.CalibrationDataReader):
    def __init__(self, inputs):
        self.rest = iter([inputs])

    def get_next(self):
        return next(self.rest, None)


def dynamic(weights, **options):
    return lambda path, out, inputs: quantization.quantize_dynamic(str(path), str(out), weight_type=weights, **options)


def static(form, activations, weights, **options):
    return lambda path, out, inputs: quantization.quantize_static(str(path), str(out), Calibration(inputs), quant_format=form,
                                                                  activation_type=activations, weight_type=weights, **options)


def blocks(bits, symmetric, form=QuantFormat.QOperator):
    def quantise(path, out, inputs):
        pytest.importorskip("onnx_ir")
        from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
        quantizer = MatMulNBitsQuantizer(onnx.load(str(path)), block_size=32, is_symmetric=symmetric, bits=bits, quant_format=form)
        quantizer.process()
        quantizer.model.save_model_to_file(str(out))
    return quantise


U8, S8 = QuantType.QUInt8, QuantType.QInt8
RECIPES = {
    "dynamic": dynamic(S8),
    "dynamic-u8-channel-reduced": dynamic(U8, per_channel=True, reduce_range=True),
    "qdq-u8s8": static(QuantFormat.QDQ, U8, S8),
    "qdq-s8s8-channel": static(QuantFormat.QDQ, S8, S8, per_channel=True),
    "operators-u8s8-channel-reduced": static(QuantFormat.QOperator, U8, S8, per_channel=True, reduce_range=True),
    "operators-u8u8": static(QuantFormat.QOperator, U8, U8),
    "int4": blocks(4, True), "int4-zeros": blocks(4, False), "int8-blocks": blocks(8, False),
    "int4-qdq": blocks(4, False, QuantFormat.QDQ),
}
EIGHT_BITS = [recipe for recipe in RECIPES if not recipe.startswith("int")]
BLOCKS = ["int4", "int4-zeros", "int8-blocks"]
# What ONNX Runtime's tools can do: det and rec keep weights in Constant nodes, which only QDQ takes; a gather of a table that is
# quantised by channel gives an invalid file.
WANTED = {"cls": EIGHT_BITS, "magika": EIGHT_BITS + BLOCKS, "silero_vad_16k_op15": EIGHT_BITS, "det": ["qdq-s8s8-channel"],
          "rec": ["qdq-u8s8"], "bert": [r for r in EIGHT_BITS if r != "qdq-s8s8-channel"] + BLOCKS,
          "efficientnet_lite0_dynamo": EIGHT_BITS[1:4], "minilm_dynamo": ["dynamic", "qdq-u8s8", "int4-zeros", "int4-qdq"]}
PAIRS = [(name, recipe) for name, recipes in WANTED.items() for recipe in recipes if name == "bert" or name in REAL]
CLASSIFIERS = ("cls", "rec", "magika", "efficientnet_lite0_dynamo")


def quantised(name, recipe, folder):
    path, inputs = source(name, folder)
    out = folder / f"{name}.{recipe}.onnx"
    if not out.exists():
        RECIPES[recipe](path, out, inputs)
    return path, out, inputs


FLOAT_ERROR = 1e-4  # of the largest value of a tensor: what inputs may differ by and still count as agreeing


def largest(values):
    return max((np.abs(v[np.isfinite(v)]).max(initial=0) for v in values if v.dtype.kind == "f"), default=0)


def difference(got, want, scale):
    """None when integers are equal and floats within 1e-3 or a part of `scale`, else what differs."""
    return compare.difference(got, want, *((1e-3, scale) if want.dtype.kind == "f" else (0, 0)))


def check_nodes(path, inputs, tmp_path):
    """Every node whose inputs agree gives integers of 8 bits within a step, and the rest equal."""
    model = onnx.load(str(path))
    named = {o.name for o in model.graph.output}
    for node in model.graph.node:
        model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(o) for o in node.output if o and o not in named)
    open_path = tmp_path / "open.onnx"
    onnx.save(model, str(open_path))
    want, got = run_reference(open_path, inputs), run(open_path, inputs)
    same = {name: difference(got[name], want[name], FLOAT_ERROR * largest([want[name]])) is None for name in want}
    checked = 0
    for node in model.graph.node:
        if not all(same.get(i, True) for i in node.input):
            continue
        checked += 1
        for name in (o for o in node.output if o and not same[o]):
            if want[name].dtype in (np.uint8, np.int8):
                steps = np.abs(got[name].astype(np.int64) - want[name]).max()
                assert steps <= 1, f"{node.op_type} '{node.name}', output {name}: {steps} steps"
            else:
                # Inputs may differ by their error, which a difference or a product of them hands on.
                scale = 3 * FLOAT_ERROR * largest([want[n] for n in [name, *node.input] if n in want])
                reason = difference(got[name], want[name], scale)
                assert reason is None, f"{node.op_type} '{node.name}', output {name}: {reason}"
    assert checked > len(model.graph.node) // 10


def check_results(name, float_path, path, inputs):
    got, want, exact = run(path, inputs), run_reference(path, inputs), run_reference(float_path, inputs)
    assert list(got) == list(want)
    for output, value in want.items():
        assert got[output].shape == value.shape and got[output].dtype == value.dtype
        apart, of_quantising = np.abs(got[output] - value).mean(), np.abs(exact[output] - value).mean()
        assert apart <= of_quantising + 1e-6 * np.abs(value).max(), f"{output}: {apart} apart; quantising costs {of_quantising}"
        if name in CLASSIFIERS:
            np.testing.assert_array_equal(got[output].argmax(-1), value.argmax(-1))


@pytest.mark.parametrize("name,recipe", PAIRS)
def test_quantised(name, recipe, folder, tmp_path):
    float_path, path, inputs = quantised(name, recipe, folder)
    check_results(name, float_path, path, inputs)
    check_nodes(path, inputs, tmp_path)


def saved_by_optimiser(path, out, level="EXTENDED"):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
    options.optimized_model_filepath = str(out)
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return out


def operators(path):
    return {node.op_type for node in onnx.load(str(path), load_external_data=False).graph.node if node.domain == "com.microsoft"}


@pytest.mark.parametrize("name", ["bert", *REAL])
def test_optimised(name, folder, tmp_path):
    path, inputs = source(name, folder)
    saved = saved_by_optimiser(path, tmp_path / "saved.onnx")
    got = run(saved, inputs)
    for output, want in run_reference(saved, inputs).items():
        compare.assert_equal(got[output], want, f"{output}, with {sorted(operators(saved))}")


QUANTISED_AND_OPTIMISED = [("cls", "qdq-u8s8"), ("cls", "operators-u8s8-channel-reduced"), ("magika", "qdq-u8s8"), ("magika", "dynamic"),
                           ("silero_vad_16k_op15", "operators-u8u8"), ("bert", "dynamic"), ("bert", "operators-u8s8-channel-reduced"),
                           ("efficientnet_lite0_dynamo", "qdq-u8s8"), ("minilm_dynamo", "dynamic")]


@pytest.mark.parametrize("name,recipe", [pair for pair in QUANTISED_AND_OPTIMISED if pair in PAIRS])
def test_quantised_then_optimised(name, recipe, folder, tmp_path):
    float_path, path, inputs = quantised(name, recipe, folder)
    # At the highest level convolutions and pools of integers become channels-last.
    saved = saved_by_optimiser(path, tmp_path / "saved.onnx", "ALL")
    check_results(name, float_path, saved, inputs)
    check_nodes(saved, inputs, tmp_path)


def test_blocked_layout_is_refused(folder, tmp_path):
    """At the highest level float convolutions are written for the CPU at hand, in a layout that is ONNX Runtime's own."""
    path, _ = source("cls", folder)
    saved = saved_by_optimiser(path, tmp_path / "saved.onnx", "ALL")
    with pytest.raises(library.TenonError, match="com.microsoft.nchwc") as error:
        library.open_model(saved, cache_dir="none")
    assert error.value.code == 4


@pytest.mark.parametrize("multi_head", (False, True))
def test_fused_transformer(multi_head, folder, tmp_path):
    """onnxruntime.transformers fuses embeddings, attention, norms; quantising that gives QAttention and QEmbedLayerNormalization."""
    pytest.importorskip("sympy")
    from onnxruntime.transformers import optimizer
    from onnxruntime.transformers.fusion_options import FusionOptions
    path, inputs = source("bert", folder)
    options = FusionOptions("bert")
    options.use_multi_head_attention = multi_head
    fused = tmp_path / "fused.onnx"
    optimizer.optimize_model(str(path), model_type="bert", num_heads=transformer.SMALL.heads, hidden_size=transformer.SMALL.hidden, opt_level=0,
                             optimization_options=options).save_model_to_file(str(fused))
    attention = "MultiHeadAttention" if multi_head else "Attention"
    assert operators(fused) >= {"EmbedLayerNormalization", attention, "SkipLayerNormalization", "BiasGelu"}
    got = run(fused, inputs)
    for output, want in run_reference(fused, inputs).items():
        compare.assert_equal(got[output], want, output)
    small = tmp_path / "small.onnx"
    quantization.quantize_dynamic(str(fused), str(small), weight_type=S8, extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT})
    assert operators(small) >= {"QEmbedLayerNormalization", "MultiHeadAttention" if multi_head else "QAttention"}
    check_results("bert", path, small, inputs)
