"""The models of the board and what they are fed: one list, read by bench/board and bench/memory."""
import pathlib
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / ".cache" / "models"


sys.path.insert(0, str(ROOT / "tests"))


def floats(*shape, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def tokens(batch, length):
    ids = np.random.default_rng(1).integers(1000, 20000, (batch, length))
    return {"input_ids": ids, "attention_mask": np.ones((batch, length), np.int64)}


def speech(batch):
    return {"input": floats(batch, 576), "state": np.zeros((2, batch, 128), np.float32), "sr": np.array(16000, np.int64)}


# name: (file below .cache/models, inputs of a batch)
PROBLEMS = {
    "det": ("ppocr/ch_PP-OCRv4_det_infer.onnx", lambda batch: {"x": floats(batch, 3, 640, 640)}),
    "rec": ("ppocr/ch_PP-OCRv4_rec_infer.onnx", lambda batch: {"x": floats(batch, 3, 48, 320)}),
    "cls": ("ppocr/ch_ppocr_mobile_v2.0_cls_infer.onnx", lambda batch: {"x": floats(batch, 3, 48, 192)}),
    "resnet50": ("export/resnet50.onnx", lambda batch: {"input": floats(batch, 3, 224, 224)}),
    "mobilenet_v2": ("export/mobilenet_v2.onnx", lambda batch: {"input": floats(batch, 3, 224, 224)}),
    "efficientnet_lite0": ("export/efficientnet_lite0_dynamo.onnx", lambda batch: {"input": floats(batch, 3, 224, 224)}),
    "minilm": ("export/minilm_dynamo.onnx", lambda batch: tokens(batch, 128)),
    "minilm_torchscript": ("export/minilm_torchscript.onnx", lambda batch: tokens(batch, 128)),
    "vit_b_16": ("export/vit_b_16.onnx", lambda batch: {"input": floats(batch, 3, 224, 224)}),
    "bert_base": ("made/bert_base.onnx", lambda batch: {**tokens(batch, 128), "token_type_ids": np.zeros((batch, 128), np.int64)}),
    "silero": ("silero/silero_vad.onnx", speech),
    "silero_ov": ("silero/silero_vad_openvino_16k.onnx", lambda batch: {k: v for k, v in speech(1).items() if k != "sr"}),   # batch 1 only
    "magika": ("magika/models/standard_v3_3/model.onnx", lambda batch: {
        "bytes": np.random.default_rng(2).integers(0, 257, (batch, 2048)).astype(np.int32)}),
}
ACCEPTANCE = ("det", "rec", "resnet50", "mobilenet_v2", "minilm", "silero", "magika")


# The board's choice below f32; ONNX Runtime's quantiser makes files of det and rec that OpenVINO refuses.
LOWERED = {"bf16": ("det", "rec", "resnet50", "mobilenet_v2", "minilm", "magika", "bert_base"),
           "int8": ("resnet50", "mobilenet_v2", "efficientnet_lite0", "minilm", "magika", "bert_base")}


def make_bert(path):
    """BERT-base with random weights; other runs never see half of it."""
    from support import transformer
    path.parent.mkdir(exist_ok=True)
    transformer.bert(path.with_suffix(".part"), transformer.BASE).rename(path)


class OneSample:
    def __init__(self, inputs):
        self.rest = iter([inputs])

    def get_next(self):
        return next(self.rest, None)


def quantised(name):
    """The model in int8 as ONNX Runtime's quantiser writes it: QDQ, u8 activations, s8 weights by channel. (Its pre-processing makes
    invalid files of some of these models, so they go in as they are.)"""
    out = MODELS / "qdq" / f"{name}.onnx"
    if not out.exists():
        import logging
        from onnxruntime import quantization
        from onnxruntime.quantization import QuantFormat, QuantType
        logging.getLogger().setLevel(logging.ERROR)   # it advises pre-processing
        out.parent.mkdir(exist_ok=True)
        part = out.with_suffix(".part.onnx")
        by_channel = name not in ("minilm", "bert_base", "magika")   # a gather of a table quantised by channel gives an invalid file
        quantization.quantize_static(str(path_of(name)), str(part), OneSample(inputs_of(name, 1)), quant_format=QuantFormat.QDQ,
                                     activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, per_channel=by_channel)
        part.rename(out)
    return out


def path_of(name):
    path = MODELS / PROBLEMS[name][0]
    if name == "bert_base" and not path.exists():
        make_bert(path)
    if not path.exists():
        raise FileNotFoundError(f"{path.relative_to(ROOT)} is missing; run scripts/fetch_models --all, then scripts/export_models")
    return path


def inputs_of(name, batch):
    return PROBLEMS[name][1](batch)
