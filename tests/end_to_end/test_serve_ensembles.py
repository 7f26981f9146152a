"""Ensembles: a picture goes to one address and its text comes back; settings that cannot work are refused."""
import io
import json
import shutil

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton
from PIL import Image, ImageDraw, ImageFont

from end_to_end.serving import serve
from support import build_model, paths
from support.command import tenon

MODELS = {"det": "ch_PP-OCRv4_det_infer", "cls": "ch_ppocr_mobile_v2.0_cls_infer", "rec": "ch_PP-OCRv4_rec_infer"}
SETTINGS = paths.ROOT / "examples/ppocr/tenon.yaml"


def drawn(lines, size=(640, 360), angle=0, kind="PNG"):
    """A picture with texts at (x, y), black on white, and its file."""
    picture = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(picture)
    font = ImageFont.load_default(30)
    for text, at in lines:
        draw.text(at, text, font=font, fill="black")
    picture = picture.rotate(angle, expand=True, fillcolor="white", resample=Image.Resampling.BICUBIC)
    file = io.BytesIO()
    picture.save(file, kind)
    return file.getvalue()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ppocr")
    text = SETTINGS.read_text()
    for name, stem in MODELS.items():
        text = text.replace(f"path: {name}.onnx", f"path: {paths.MODELS / 'ppocr' / stem}.onnx")
    (folder / "tenon.yaml").write_text(text)
    with serve("--config", folder / "tenon.yaml") as served:
        yield served


def read(server, picture, path="/infer"):
    status, _, body = server.request(path, picture)
    assert status == 200, body
    outputs = {o["name"]: o for o in json.loads(body)["outputs"]}
    boxes = np.array(outputs["boxes"]["data"], np.float32).reshape(outputs["boxes"]["shape"])
    return outputs["text"]["data"], boxes, outputs["scores"]["data"]


LINES = [("Order number 48213", (40, 40)), ("Total: 1299.50 EUR", (40, 120)), ("Thank you for your visit", (40, 200)), ("Page 7", (420, 300))]


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_picture_to_text(server, kind):
    texts, boxes, scores = read(server, drawn(LINES, kind=kind))
    assert [t.replace(" ", "") for t in texts] == [t.replace(" ", "") for t, _ in LINES]
    assert min(scores) > 0.8
    for (_, (x, y)), box in zip(LINES, boxes):
        assert abs(box[0][0] - x) < 12 and abs(box[0][1] - y) < 16 and box[2][0] > x + 60 and box[2][1] > y + 20


def test_text_upside_down_and_at_an_angle(server):
    texts, _, _ = read(server, drawn(LINES, angle=180))
    assert sorted(t.replace(" ", "") for t in texts) == sorted(t.replace(" ", "") for t, _ in LINES)
    texts, boxes, _ = read(server, drawn(LINES[:3], angle=20))
    assert [t.replace(" ", "") for t in texts] == [t.replace(" ", "") for t, _ in LINES[:3]]
    assert boxes[0][1][1] < boxes[0][0][1] - 20   # it climbs


def test_no_text_and_one_line(server):
    texts, boxes, scores = read(server, drawn([]))
    assert texts == [] and boxes.shape == (0, 4, 2) and scores == []
    texts, boxes, _ = read(server, drawn([("Order number 48213", (10, 5))], size=(420, 44)))   # it fills the picture: room is made around it
    assert "".join(texts).replace(" ", "") == "Ordernumber48213" and boxes.min() >= 0 and boxes[..., 1].max() <= 44


def test_hostile_pictures(server):
    good = drawn(LINES)
    tall = io.BytesIO()
    Image.new("RGB", (1, 5000)).save(tall, "PNG")
    huge = bytearray(good)
    huge[16:24] = (65535).to_bytes(4, "big") * 2
    for data, wanted in ((good[: len(good) // 2], 400), (b"\x89PNG\r\n\x1a\n", 400), (b"\xff\xd8\xff" + bytes(100), 400), (tall.getvalue(), 400),
                         (bytes(huge), 413)):
        status, _, body = server.request("/infer/ocr", data)
        assert status == wanted, (status, body)
        assert "error" in json.loads(body)
    rng = np.random.default_rng(0)
    for _ in range(40):   # damaged in places: an answer or a refusal
        bad = bytearray(good)
        for at in rng.integers(8, len(bad), 5):
            bad[at] = rng.integers(256)
        assert server.request("/infer/ocr", bytes(bad))[0] in (200, 400, 413)
    assert read(server, good)[0]
    server.check_invariant()


def test_tritonclient_sees_an_ensemble(server):
    picture = np.frombuffer(drawn(LINES), np.uint8)
    for module, address in ((triton, server.http), (triton_grpc, server.grpc)):
        with module.InferenceServerClient(address) as client:
            given = module.InferInput("picture", picture.shape, "UINT8")
            given.set_data_from_numpy(picture)
            result = client.infer("ocr", [given], outputs=[module.InferRequestedOutput("text"), module.InferRequestedOutput("boxes")])
            assert result.as_numpy("text").shape == (4,) and result.as_numpy("boxes").shape == (4, 4, 2)
    with triton.InferenceServerClient(server.http) as client:
        assert client.get_model_metadata("ocr")["platform"] == "ensemble"
        steps = client.get_model_config("ocr")["ensemble_scheduling"]["step"]
        assert [s["model_name"] for s in steps if not s["model_name"].startswith("tenon.")] == ["det", "cls", "rec"]
        assert client.get_model_metadata("ocr")["inputs"] == [{"name": "picture", "datatype": "UINT8", "shape": [-1]}]


def text_config(parts):
    steps = []
    for model, inputs, outputs in parts:
        maps = "".join(f'input_map {{ key: "{k}" value: "{v}" }} ' for k, v in inputs.items())
        maps += "".join(f'output_map {{ key: "{k}" value: "{v}" }} ' for k, v in outputs.items())
        steps.append(f'step {{ model_name: "{model}" model_version: -1 {maps}}}')
    return 'platform: "ensemble"\nensemble_scheduling {\n' + "\n".join(steps) + "\n}\n"


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    (folder / "net").mkdir()
    build_model.small_net(folder / "net/model.onnx")
    for name, parts in {
        "twice": [("net", {"x": "a"}, {"y": "b"}), ("tenon.top_labels", {"scores": "b"}, {"labels": "best", "scores": "how"})],
        "chain": [("twice", {"a": "start"}, {"best": "best"})],
        "circle": [("net", {"x": "y"}, {"y": "x"}), ("tenon.top_labels", {"scores": "x"}, {"scores": "y", "labels": "z"})],
        "nobody": [("none", {"x": "x"}, {"y": "y"})],
        "wrong": [("net", {"q": "x"}, {"y": "y"})],
        "typed": [("tenon.decode_picture", {"bytes": "b"}, {"picture": "p"}), ("net", {"x": "p"}, {"y": "y"})],
        "itself": [("itself", {"x": "x"}, {"y": "y"})],
    }.items():
        (folder / name / "1").mkdir(parents=True)
        config = text_config(parts)
        if name == "twice":
            config += 'parameters { key: "top_labels.labels" value { string_value: "names.txt" } }\noutput { name: "best" data_type: TYPE_STRING dims: [-1, -1] }\n'
        (folder / name / "config.pbtxt").write_text(config)
    (folder / "twice/names.txt").write_text("red\ngreen\nblue\n")
    (folder / "lone").mkdir()
    (folder / "lone/config.pbtxt").write_text('platform: "tenon_step"\nparameters { key: "step" value { string_value: "nms" } }\n')
    with serve("--models", folder, "--model-control", "explicit", "--load", "*") as served:
        served.folder = folder
        yield served


def test_ensembles_of_a_repository(repository):
    with triton.InferenceServerClient(repository.http) as client:
        index = {m["name"]: m for m in client.get_model_repository_index()}
    assert {n for n, m in index.items() if m["state"] == "READY"} == {"net", "twice", "chain", "lone"}
    for name, reason in {"circle": "comes after it", "nobody": "none", "wrong": "unknown input 'q'", "typed": "uint8", "itself": "itself"}.items():
        assert reason in index[name]["reason"], index[name]
    status, answer = repository.json("/infer/chain", {"start": [[1, 2, 3, 4]]})
    assert status == 200
    (best,) = answer["outputs"]
    assert best["name"] == "best" and sorted(best["data"]) == ["blue", "green", "red"]
    assert repository.json("/infer/chain", {"start": [[1, 2, 3]]})[0] == 400
    assert repository.json("/infer/lone", {"boxes": [[0, 0, 1, 1], [0, 0, 1, 1]], "scores": [[0.9], [0.8]]})[1]["outputs"][1]["shape"] == [1]
    repository.check_invariant()


def test_model_of_an_ensemble_goes_and_comes_back(repository):
    with triton.InferenceServerClient(repository.http) as client:
        client.unload_model("net")
        status, headers, body = repository.request("/infer/chain", b'{"start": [[1, 2, 3, 4]]}')
        assert status == 503 and b"net" in body and int(headers["Retry-After"]) >= 1
        client.load_model("twice")   # brings its model along
        assert client.is_model_ready("net")
    assert repository.json("/infer/chain", {"start": [[1, 2, 3, 4]]})[0] == 200


def test_a_model_cannot_become_a_circle(repository):
    folder = repository.folder / "net"
    shutil.copy(folder / "model.onnx", folder / "kept")
    (folder / "config.pbtxt").write_text(text_config([("chain", {"start": "x"}, {"best": "y"})]))
    try:
        status, answer = repository.json("/v2/repository/models/net/load", {})
        assert status == 400 and "itself" in answer["error"], answer
    finally:
        (folder / "config.pbtxt").unlink()
    assert repository.json("/infer/chain", {"start": [[1, 2, 3, 4]]})[0] == 200


@pytest.mark.parametrize("text,reason", [
    ("models: [{name: e, ensemble: [{step: fly, inputs: {a: b}, outputs: {c: d}}]}]", "no such step"),
    ("models: [{name: e, ensemble: [{step: nms}]}]", "no output"),
    ("models: [{name: e, ensemble: [{step: nms, inputs: {boxes: b}, outputs: {boxes: c}}]}]", "scores"),
    ("models: [{name: e, ensemble: [{step: nms, model: x}]}]", "'model' or 'step'"),
    ("models: [{name: e, ensemble: [{step: nms, inputs: {boxes: b, scores: s}, outputs: {boxes: b}}]}]", "comes after it"),
    ("models: [{name: e, ensemble: [{step: nms, inputs: {boxes: b, scores: s}, outputs: {boxes: c, scores: c}}]}]", "twice"),
    ("models: [{name: e, ensemble: [{step: decode_picture, inputs: {bytes: b}, outputs: {picture: p}}, "
     "{step: text_crops, inputs: {page: p, boxes: q}, outputs: {crops: c}}]}]", "a list"),
    ("models: [{name: e, ensemble: [{step: nms, parameters: {speed: 3}, inputs: {boxes: b, scores: s}, outputs: {boxes: c}}]}]", "speed"),
    ("models: [{name: e, ensemble: {}}]", "a list of models"),
    ("models: [{ensemble: [{step: nms, inputs: {boxes: b, scores: s}, outputs: {boxes: c}}]}]", "needs a name"),
])
def test_settings_that_cannot_work(tmp_path, text, reason):
    (tmp_path / "tenon.yaml").write_text(text)
    result = tenon("serve", "--config", str(tmp_path / "tenon.yaml"), "--http-port", "0", "--grpc-port", "0", "--metrics-port", "0")
    assert result.returncode == 3 and reason in result.stderr, result.stderr
