"""Requests of different shapes in one run: padded where tenon.yaml says so, ragged where config.pbtxt does; with the real client."""
import concurrent.futures
import json

import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from end_to_end.serving import serve
from support import build_model

RAGGED = """
max_batch_size: 16
input [ { name: "values" data_type: TYPE_FP32 dims: [ -1 ] allow_ragged_batch: true } ]
output [ { name: "doubled" data_type: TYPE_FP32 dims: [ -1 ] }, { name: "sums" data_type: TYPE_FP32 dims: [ ] } ]
batch_input [ { kind: BATCH_ACCUMULATED_ELEMENT_COUNT target_name: "ends" data_type: TYPE_INT32 source_input: "values" } ]
batch_output [ { target_name: "doubled" kind: BATCH_SCATTER_WITH_INPUT_SHAPE source_input: "values" } ]
dynamic_batching { max_queue_delay_microseconds: 200000 priority_levels: 2 default_priority_level: 2 }
parameters { key: "max_batch_tokens" value { string_value: "64" } }
"""
MASKLESS = """
max_batch: 16
pad: {x: 0}
max_padding: 0.5
max_queue_delay_us: 200000
"""
PADDED = """
max_batch: 16
max_batch_tokens: 128
pad: {ids: 0, mask: 0}
max_padding: 0.5
max_queue_delay_us: 200000
priority_levels: 2
"""


def tensor(client, name, data, datatype):
    given = client.InferInput(name, data.shape, datatype)
    given.set_data_from_numpy(data)
    return given


def sentence(client, seed):
    rng = np.random.default_rng(seed)
    rows, length = 1 + seed % 2, 1 + seed % 13
    ids = rng.integers(1, 50, (rows, length))
    return ids, [tensor(client, "ids", ids, "INT64"), tensor(client, "mask", np.ones_like(ids), "INT64")]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name, build, file, text in (("encoder", build_model.masked_mean_model, "tenon.yaml", PADDED),
                                    ("plain", build_model.masked_mean_model, "tenon.yaml", "max_batch: 0\n"),
                                    ("maskless", build_model.maskless_mean_model, "tenon.yaml", MASKLESS),
                                    ("ragged", build_model.ragged_model, "config.pbtxt", RAGGED)):
        (folder / name / "1").mkdir(parents=True)
        build(folder / name / "1" / "model.onnx")
        (folder / name / file).write_text(text)
    with serve("--models", folder, "--threads", 1) as served:
        yield served


def together(ask, seeds):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        return list(pool.map(ask, seeds))


def test_padded_requests_get_what_they_would_alone(server):
    with triton.InferenceServerClient(server.grpc) as client:
        def ask(model):
            return lambda seed: client.infer(model, sentence(triton, seed)[1])

        def counted():
            return {name: server.total(f"tenon_{name}_total", model="encoder") for name in ("runs", "rows", "tokens", "padding_tokens")}

        seeds = range(64)
        alone = [ask("plain")(seed) for seed in seeds]
        before = counted()
        joined = together(ask("encoder"), seeds)
        now = counted()
    for seed, one, other in zip(seeds, alone, joined):
        ids = sentence(triton, seed)[0]
        assert other.as_numpy("hidden").shape == (*ids.shape, 8)
        np.testing.assert_allclose(other.as_numpy("hidden"), one.as_numpy("hidden"), rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(other.as_numpy("pooled"), one.as_numpy("pooled"), rtol=1e-6, atol=1e-6)
    added = {name: now[name] - before[name] for name in now}
    tokens = sum(sentence(triton, seed)[0].size for seed in seeds)
    assert added["rows"] == sum(sentence(triton, seed)[0].shape[0] for seed in seeds) and added["tokens"] == tokens
    assert added["runs"] < 64, "no two requests ran together"
    assert 0 < added["padding_tokens"] <= tokens   # at most half of what ran
    stats = server.json("/v2/models/encoder/stats")[1]["model_stats"][0]
    assert stats["inference_count"] == now["rows"] and stats["execution_count"] == now["runs"]
    assert max(b["batch_size"] for b in stats["batch_stats"]) <= 16
    server.check_invariant()


def test_a_model_without_a_mask_sees_the_padding(server):
    def line(seed):
        return np.arange(1, 2 + seed % 7, dtype=np.float32).reshape(1, -1)

    with triton.InferenceServerClient(server.grpc) as client:
        def ask(seed):
            return client.infer("maskless", [tensor(triton, "x", line(seed), "FP32")])

        def padding():
            return server.total("tenon_padding_tokens_total", model="maskless")

        for seed in range(7):   # alone, or beside requests of its length, there is none
            np.testing.assert_allclose(ask(seed).as_numpy("mean"), line(seed).mean(1), rtol=1e-6)
        for got in together(ask, [3] * 32):
            np.testing.assert_allclose(got.as_numpy("mean"), line(3).mean(1), rtol=1e-6)
        assert padding() == 0
        answers = list(zip(range(64), together(ask, range(64))))
        assert padding() > 0, "nothing was padded"
    seen = 0
    for seed, got in answers:
        np.testing.assert_array_equal(got.as_numpy("doubled"), line(seed) * 2)   # what looks at its own place only is as it was
        ran = line(seed).sum() / got.as_numpy("mean")[0]   # the length of the run: its own, or that of a longer request
        assert abs(ran - round(ran)) < 1e-3 and line(seed).size <= round(ran) <= 7
        seen += round(ran) - line(seed).size
    assert seen == padding()   # each padded token is in a mean


def test_a_request_that_disagrees_with_itself_fails_alone(server):
    with triton.InferenceServerClient(server.grpc) as client:
        def ask(seed):
            inputs = sentence(triton, seed)[1]
            if seed % 5 == 0:
                inputs[1] = tensor(triton, "mask", np.ones((1 + seed % 2, 2 + seed % 13), np.int64), "INT64")
            try:
                return client.infer("encoder", inputs).as_numpy("pooled").shape
            except InferenceServerException as error:
                return str(error)

        for seed, got in zip(range(30), together(ask, range(30))):
            assert ("seq" in got) if seed % 5 == 0 else got == (1 + seed % 2, 8), got


def test_ragged_requests_as_triton_has_them(server):
    metadata = server.json("/v2/models/ragged")[1]
    assert metadata["inputs"] == [{"name": "values", "datatype": "FP32", "shape": [-1, -1]}]
    assert {o["name"]: o["shape"] for o in metadata["outputs"]} == {"doubled": [-1, -1], "sums": [-1]}
    config = server.json("/v2/models/ragged/config")[1]
    assert config["input"][0]["allow_ragged_batch"] and config["input"][0]["dims"] == [-1]
    assert config["batch_input"] == [{"kind": "BATCH_ACCUMULATED_ELEMENT_COUNT", "target_name": ["ends"], "data_type": "TYPE_INT32",
                                      "source_input": ["values"]}]
    assert config["batch_output"][0]["kind"] == "BATCH_SCATTER_WITH_INPUT_SHAPE"

    def values(seed):
        return np.arange(1 + seed % 9, dtype=np.float32).reshape(1, -1) + seed

    with triton.InferenceServerClient(server.grpc) as client:
        told = client.get_model_config("ragged").config
        assert told.input[0].allow_ragged_batch and told.batch_input[0].target_name == ["ends"]

        def ask(seed):
            return client.infer("ragged", [tensor(triton, "values", values(seed), "FP32")], priority=1 + seed % 2)

        before = server.total("tenon_runs_total", model="ragged")
        for seed, got in zip(range(48), together(ask, range(48))):
            np.testing.assert_array_equal(got.as_numpy("doubled"), values(seed) * 2)
            np.testing.assert_allclose(got.as_numpy("sums"), [values(seed).sum()], rtol=1e-5)
        assert server.total("tenon_runs_total", model="ragged") - before < 48
        assert server.total("tenon_tokens_total", model="ragged") == sum(values(seed).size for seed in range(48))
        assert server.total("tenon_padding_tokens_total", model="ragged") == 0
        with pytest.raises(Exception, match="rows|row"):
            client.infer("ragged", [tensor(triton, "values", np.zeros((0, 3), np.float32), "FP32")])
        with pytest.raises(Exception, match="unknown input 'ends'"):
            client.infer("ragged", [tensor(triton, "values", values(1), "FP32"),
                                    tensor(triton, "ends", np.zeros((1, 1), np.int32), "INT32")])


@pytest.mark.parametrize("change, message", [
    (("BATCH_ACCUMULATED_ELEMENT_COUNT", "BATCH_NOTHING"), "BATCH_NOTHING"),
    (("BATCH_ACCUMULATED_ELEMENT_COUNT", "77"), "unknown kind 77"),
    (('target_name: "ends"', ""), "target_name is missing"),
    (('target_name: "ends"', 'target_name: "nobody"'), "no 'nobody'"),
    (('source_input: "values" } ]\nbatch_output', 'source_input: "nobody" } ]\nbatch_output'), "source_input is 'nobody'"),
    (('source_input: "values" } ]\nbatch_output', '} ]\nbatch_output'), "0 names in source_input"),
    (("TYPE_INT32", "TYPE_INT64"), "int32; int64 given"),
    (("TYPE_INT32", "TYPE_STRING"), "data_type is TYPE_STRING"),
    (("max_batch_size: 16", "max_batch_size: 0"), "max_batch_size is 0"),
    (("dims: [ -1 ] allow", "dims: [ -1, 9223372036854775807 ] allow"), "dims has 9223372036854775807"),
    (("dims: [ -1 ] allow", "dims: [ 0 ] allow"), "dims has 0"),
    (("dims: [ -1 ] allow", "dims: [ -1,1,1,1,1,1,1,1 ] allow"), "8 dims"),
    (('string_value: "64"', 'string_value: "-1"'), "max_batch_tokens is '-1'"),
    (('string_value: "64"', 'string_value: "99999999999999999999"'), "max_batch_tokens is"),
    (('"max_batch_tokens" value { string_value: "64" }', '"pad.values" value { string_value: "0" }'), "not padded"),
    (('"max_batch_tokens" value { string_value: "64" }', '"max_padding" value { string_value: "nan" }'), "max_padding is 'nan'")])
def test_settings_that_do_not_fit(tmp_path, change, message):
    (tmp_path / "ragged" / "1").mkdir(parents=True)
    build_model.ragged_model(tmp_path / "ragged" / "1" / "model.onnx")
    assert change[0] in RAGGED
    (tmp_path / "ragged" / "config.pbtxt").write_text(RAGGED.replace(change[0], change[1]))
    with serve("--models", tmp_path) as server:
        (index,) = json.loads(server.request("/v2/repository/index", b"{}")[2])
        assert index["state"] == "UNAVAILABLE" and message in index["reason"], index["reason"]


def test_unknown_kinds_in_json_are_no_first_kind(tmp_path):
    (tmp_path / "ragged" / "1").mkdir(parents=True)
    build_model.ragged_model(tmp_path / "ragged" / "1" / "model.onnx")
    config = {"max_batch_size": 4, "input": [{"name": "values", "data_type": "TYPE_FP32", "dims": [-1], "allow_ragged_batch": True}],
              "batch_input": [{"kind": "BATCH_NOTHING", "target_name": ["ends"], "data_type": "TYPE_INT32", "source_input": ["values"]}]}
    with serve("--models", tmp_path, "--model-control", "explicit") as server, triton_http.InferenceServerClient(server.http) as client:
        with pytest.raises(Exception, match="batch_input.*BATCH_NOTHING"):
            client.load_model("ragged", config=json.dumps(config))
        config["batch_input"][0]["kind"] = "BATCH_ACCUMULATED_ELEMENT_COUNT"
        client.load_model("ragged", config=json.dumps(config))
        got = client.infer("ragged", [tensor(triton_http, "values", np.array([[1, 2, 3]], np.float32), "FP32")])
        assert got.as_numpy("sums").tolist() == [6]
