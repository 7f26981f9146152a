"""Real models, their inputs at several shapes, and ONNX Runtime as the oracle."""
import dataclasses
import functools
import pathlib

import numpy as np
import onnx
import onnxruntime

from support import paths


@dataclasses.dataclass(frozen=True)
class Case:
    """A model with one set of inputs: `inputs()` makes them, always the same."""
    name: str
    path: pathlib.Path
    inputs: object

    def __str__(self):
        return self.name


def floats(*shape, seed=0, low=-1.0, high=1.0):
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def ppocr():
    shapes = {
        "ch_PP-OCRv4_det_infer": [(1, 3, 64, 64), (1, 3, 160, 224), (2, 3, 96, 128)],
        "ch_PP-OCRv4_rec_infer": [(1, 3, 48, 32), (1, 3, 48, 160), (4, 3, 48, 96)],
        "ch_ppocr_mobile_v2.0_cls_infer": [(1, 3, 48, 192), (6, 3, 48, 192)],
    }
    for stem, sizes in shapes.items():
        path = paths.MODELS / "ppocr" / f"{stem}.onnx"
        for size in sizes:
            yield Case(f"{stem.split('_')[-2]}-{'x'.join(map(str, size))}", path, lambda size=size: {"x": floats(*size)})


def magika():
    path = paths.MODELS / "magika/models/standard_v3_3/model.onnx"
    for batch in (1, 7):
        yield Case(f"magika-{batch}", path, lambda batch=batch: {
            "bytes": np.random.default_rng(1).integers(0, 257, (batch, 2048)).astype(np.int32)})


def silero():
    """One step of each variant; tests/conformance/test_silero.py carries state over a whole recording."""
    state = {"state": floats(2, 1, 128, seed=2)}
    rate = {"sr": np.array(16000, np.int64)}
    sound = {"input": floats(1, 576, seed=3)}
    variants = {
        "silero_vad": {**sound, **state, **rate},
        "silero_vad_16k_op15": {**sound, **state, **rate},
        "silero_vad_half": {**sound, **state},
        "silero_vad_op18_ifless": {**sound, **state, **rate},
        "silero_vad_openvino_16k": {**sound, **state},
        "silero_vad_16k_sequence": {"input": floats(9, 576, seed=3), "h": floats(1, 1, 128, seed=4), "c": floats(1, 1, 128, seed=5)},
    }
    for stem, inputs in variants.items():
        yield Case(stem, paths.MODELS / "silero" / f"{stem}.onnx", lambda inputs=inputs: inputs)
    eight = {"input": floats(1, 288, seed=6), **state, "sr": np.array(8000, np.int64)}
    yield Case("silero_vad-8k", paths.MODELS / "silero/silero_vad.onnx", lambda: eight)


def light():
    """The classic networks that come with `onnx`, with weights made by nodes of constants."""
    folder = pathlib.Path(onnx.__file__).parent / "backend/test/data/light"
    for path in sorted(folder.glob("*.onnx")):
        yield Case(path.stem, path, lambda path=path: only_input(path))


def only_input(path):
    """Random data for the one input of a model with fixed shapes."""
    graph = onnx.load(path, load_external_data=False).graph
    weights = {w.name for w in graph.initializer}
    (value,) = [v for v in graph.input if v.name not in weights]
    return {value.name: floats(*[d.dim_value for d in value.type.tensor_type.shape.dim], seed=7)}


def exported():
    """Models that scripts/export_models wrote, where it was run."""
    def tokens(batch, length):
        rng = np.random.default_rng(8)
        mask = np.ones((batch, length), np.int64)
        if batch > 1:
            mask[1:, length // 2:] = 0
        return {"input_ids": rng.integers(1000, 20000, (batch, length)), "attention_mask": mask}

    for path in sorted(paths.EXPORTED.glob("*.onnx")):
        if path.stem.startswith("minilm"):
            sizes = [(1, 16), (3, 40)]
            yield from (Case(f"{path.stem}-{b}x{n}", path, lambda b=b, n=n: tokens(b, n)) for b, n in sizes)
        else:
            yield from (Case(f"{path.stem}-{b}", path, lambda b=b: {"input": floats(b, 3, 224, 224, seed=9)}) for b in (1, 2))


@functools.cache
def reference_session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def reference(path, inputs):
    """{output name: array} by ONNX Runtime."""
    session = reference_session(path)
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, inputs)))
