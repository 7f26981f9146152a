"""The models of the board and what they are fed: one list, read by bench/board and bench/memory."""
import pathlib

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / ".cache" / "models"


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
    "silero": ("silero/silero_vad.onnx", speech),
    "silero_ov": ("silero/silero_vad_openvino_16k.onnx", lambda batch: {k: v for k, v in speech(1).items() if k != "sr"}),   # batch 1 only
    "magika": ("magika/models/standard_v3_3/model.onnx", lambda batch: {
        "bytes": np.random.default_rng(2).integers(0, 257, (batch, 2048)).astype(np.int32)}),
}
ACCEPTANCE = ("det", "rec", "resnet50", "mobilenet_v2", "minilm", "silero", "magika")


def path_of(name):
    path = MODELS / PROBLEMS[name][0]
    if not path.exists():
        raise FileNotFoundError(f"{path.relative_to(ROOT)} is missing; run scripts/fetch_models --all, then scripts/export_models")
    return path


def inputs_of(name, batch):
    return PROBLEMS[name][1](batch)
