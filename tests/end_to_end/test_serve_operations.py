"""tenon serve: its log, traces, loads with settings and files of the request, generate endpoints."""
import base64
import datetime
import json
import queue
import re
import signal
import socket
import time

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http

from end_to_end.serving import serve
from support import build_model
from support.command import tenon

ASK = {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def given(client):
    tensor = client.InferInput("x", [1, 4], "FP32")
    tensor.set_data_from_numpy(np.array([[1, 2, 3, 4]], np.float32))
    return tensor


def ask(server, **headers):
    return server.request("/v2/models/net/infer", json.dumps(ASK).encode(), headers)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    build_model.small_net(folder / "net.onnx")
    return folder


def lines(path, count, pick=lambda line: True):
    """The lines that `pick` takes, once there are so many."""
    until = time.time() + 20
    while True:
        found = [line for line in path.read_text().splitlines() if pick(line)] if path.exists() else []
        if len(found) >= count or time.time() > until:
            return found
        time.sleep(0.02)


def test_a_json_line_for_each_request(models, tmp_path):
    log = tmp_path / "log"

    def logged(count):   # a line comes after its answer
        return lines(log, count, lambda line: '"message":"request"' in line)

    with serve("--models", models, "--log-file", log, "--log-format", "json", "--log-requests") as server:
        assert ask(server, **{"X-Request-Id": "mine-1", "traceparent": PARENT})[1]["X-Request-Id"] == "mine-1"
        logged(1)
        own = ask(server, **{"X-Request-Id": 'not "one" word', "traceparent": "nonsense"})[1]["X-Request-Id"]
        assert re.fullmatch(r"[0-9a-f]{16}-\d+", own)
        logged(2)
        server.request('/v2/models/"\n{}?secret=1'.replace("\n", "%0A"))
        logged(3)
        with triton_grpc.InferenceServerClient(server.grpc) as client:
            client.infer("net", [given(triton_grpc)], headers={"x-request-id": "mine-2", "traceparent": PARENT})
            logged(4)
            with pytest.raises(Exception):
                client.infer("nothing", [given(triton_grpc)])
        found = [json.loads(line) for line in logged(5)]
    assert len(found) == 5
    for record in found:
        assert datetime.datetime.fromisoformat(record["time"].replace("Z", "+00:00")).tzinfo and record["level"] == "verbose"
        assert record["client"] and record["request_id"] and record["duration_us"] >= 0
    first, second, third, fourth, fifth = found
    assert (first["method"], first["path"], first["status"], first["request_id"], first["traceparent"]) == (
        "POST", "/v2/models/net/infer", 200, "mine-1", PARENT)
    assert first["bytes_in"] == len(json.dumps(ASK)) and first["bytes_out"] > 0
    assert second["request_id"] == own and "traceparent" not in second
    assert third["status"] == 404 and "secret" not in third["path"]
    assert fourth["path"].endswith("/ModelInfer") and fourth["status"] == "OK" and fourth["request_id"] == "mine-2"
    assert fourth["traceparent"] == PARENT and fifth["status"] == "NOT_FOUND"


def test_the_line_counts_the_binary_part_of_an_answer(models, tmp_path):
    log = tmp_path / "log"
    binary = {"inputs": [{**ASK["inputs"][0], "shape": [64, 4], "data": [1] * 256}], "parameters": {"binary_data_output": True}}
    with serve("--models", models, "--log-file", log, "--log-format", "json", "--log-requests") as server:
        status, headers, body = server.request("/v2/models/net/infer", json.dumps(binary).encode())
        assert status == 200 and len(body) > int(headers["Inference-Header-Content-Length"])
        (found,) = [json.loads(line) for line in lines(log, 1, lambda line: '"message":"request"' in line)]
    assert found["bytes_out"] == len(body)


def test_requests_without_a_key_have_lines_too(models, tmp_path):
    (tmp_path / "keys").write_text("a-key-of-this-test\n")
    with serve("--models", models, "--api-keys", tmp_path / "keys", "--log-file", tmp_path / "log", "--log-requests") as server:
        assert ask(server)[0] == 401
        lines(tmp_path / "log", 1)   # comes after its answer
        assert ask(server, Authorization="Bearer a-key-of-this-test")[0] == 200
        assert [re.search(r"status=(\d+)", line)[1] for line in lines(tmp_path / "log", 2)] == ["401", "200"]
        assert "a-key-of" not in (tmp_path / "log").read_text()


def test_text_lines_stay_lines(models, tmp_path):
    log = tmp_path / "log"
    with serve("--models", models, "--model-control", "explicit", "--log-file", log) as server:
        assert server.json("/v2/repository/models/net/load", {})[0] == 200
        assert server.json("/v2/repository/models/a%0Ab%22/load", {})[0] == 400
        loads = lines(log, 2)
        assert len(loads) == 2
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z info load model=net", loads[0])
        assert re.match(r'\S+ error load model="a\\u000ab\\"" reason="', loads[1])


def test_log_file_is_opened_again_on_sighup(models, tmp_path):
    log = tmp_path / "log"
    with serve("--models", models, "--log-file", log, "--log-requests") as server:
        ask(server)
        assert len(lines(log, 1)) == 1
        log.rename(tmp_path / "old")
        server.process.send_signal(signal.SIGHUP)
        assert len(lines(log, 1, lambda line: line.endswith("info reload"))) == 1
        ask(server)
        assert len(lines(log, 1, lambda line: "request" in line and "status=200" in line)) == 1
        assert len(lines(tmp_path / "old", 1)) == 1


def test_log_settings_as_tritonclient_calls_them(models, tmp_path):
    log = tmp_path / "log"
    with serve("--models", models, "--log-file", log) as server:
        with triton_http.InferenceServerClient(server.http) as client:
            settings = client.get_log_settings()
            assert settings == {"log_file": str(log), "log_error": True, "log_warning": True, "log_info": True, "log_verbose_level": 0,
                                "log_format": "ISO8601"}
            ask(server)
            assert client.update_log_settings({"log_verbose_level": 1, "log_info": False})["log_verbose_level"] == 1
            assert client.update_log_settings(client.get_log_settings())["log_info"] is False
            ask(server)
            assert len(lines(log, 1, lambda line: "/infer" in line)) == 1   # not the one before
            for wrong in ({"log_file": "/tmp/elsewhere"}, {"log_info": 1}, {"log_verbose_level": True}, {"log_verbose_level": -1}, {"log": True},
                          {"log_format": "default"}, {"log_info": False, "x": 1}):
                with pytest.raises(Exception, match="log|setting"):
                    client.update_log_settings(wrong)
        with triton_grpc.InferenceServerClient(server.grpc) as client:
            client.update_log_settings({"log_verbose_level": 0, "log_info": True})
            got = client.get_log_settings(as_json=True)["settings"]
            assert got["log_info"] == {"bool_param": True} and got["log_verbose_level"] == {"uint32_param": 0}
            with pytest.raises(Exception, match="log_file"):
                client.update_log_settings({"log_file": "/tmp/elsewhere"})


NAMES = ["HTTP_RECV_START", "HTTP_RECV_END", "REQUEST_START", "QUEUE_START", "COMPUTE_START", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START",
         "COMPUTE_END", "INFER_RESPONSE_COMPLETE", "REQUEST_END", "HTTP_SEND_START", "HTTP_SEND_END"]


def traces(path, count):
    """{id: (model, version, [(name, ns)])}"""
    until = time.time() + 20
    while True:
        items = json.loads(path.read_text()) if path.exists() and path.read_text() else []
        heads = {i["id"]: i for i in items if "model_name" in i}
        if len(heads) >= count or time.time() > until:
            break
        time.sleep(0.02)
    stamps = {i["id"]: [(t["name"], t["ns"]) for t in i["timestamps"]] for i in items if "timestamps" in i}
    assert stamps.keys() <= heads.keys()
    return {i: (heads[i]["model_name"], heads[i]["model_version"], stamps.get(i)) for i in heads}


def test_traces_as_tritonclient_asks_for_them(models, tmp_path):
    file = tmp_path / "trace.json"
    with serve("--models", models, "--trace-file", file) as server, triton_http.InferenceServerClient(server.http) as client:
        assert client.get_trace_settings() == {"trace_file": str(file), "trace_level": ["OFF"], "trace_rate": "1000", "trace_count": "-1",
                                               "log_frequency": "0"}
        ask(server)
        assert not file.exists()
        assert client.update_trace_settings(settings={"trace_level": ["TIMESTAMPS"], "trace_rate": "2"})["trace_rate"] == "2"
        for _ in range(4):
            assert ask(server)[0] == 200
        found = traces(file, 2)
        assert len(found) == 2
        for model, version, stamps in found.values():
            assert (model, version) == ("net", 1) and [name for name, _ in stamps] == NAMES
            assert [ns for _, ns in stamps] == sorted(ns for _, ns in stamps)
        # A model's own settings go before those of the server; null gives them back.
        own = client.update_trace_settings("net", {"trace_rate": "1", "trace_count": "3"})
        assert own["trace_count"] == "3" and client.get_trace_settings()["trace_count"] == "-1"
        for _ in range(5):
            ask(server)
        time.sleep(0.2)
        assert len(traces(file, 5)) == 5 and client.get_trace_settings("net")["trace_count"] == "0"
        assert client.update_trace_settings("net", {"trace_rate": None, "trace_count": None})["trace_rate"] == "2"
        client.update_trace_settings("net", {"trace_level": "OFF"})
        ask(server)
        with pytest.raises(Exception, match="nothing"):
            client.get_trace_settings("nothing")
        for wrong in ({"trace_level": ["TENSOR"]}, {"trace_rate": "0"}, {"trace_rate": "x"}, {"trace_count": "-2"}, {"trace_file": "/tmp/t"},
                      {"x": "1"}, {"trace_level": [["OFF"]]}, {"trace_rate": {}}):
            with pytest.raises(Exception, match="trace_|setting"):
                client.update_trace_settings(settings=wrong)
        with pytest.raises(Exception, match="log_frequency"):
            client.update_trace_settings("net", {"log_frequency": "5"})
        with triton_grpc.InferenceServerClient(server.grpc) as other:
            settings = other.get_trace_settings(as_json=True)["settings"]
            assert settings["trace_rate"] == {"value": ["2"]} and settings["trace_level"] == {"value": ["TIMESTAMPS"]}
            other.update_trace_settings("net", {"trace_level": ["TIMESTAMPS"], "trace_rate": "1"})
            other.infer("net", [given(triton_grpc)])
            last = traces(file, 6)
            assert len(last) == 6 and [name for name, _ in last[6][2]] == NAMES[2:-2] + ["GRPC_SEND_START", "GRPC_SEND_END"]
            with pytest.raises(Exception, match="trace_level"):
                other.update_trace_settings(settings={"trace_level": ["TENSOR"]})


def test_traces_of_streams_and_of_tensors(models, tmp_path):
    file = tmp_path / "trace.json"
    options = ("--trace-file", file, "--trace-rate", "1", "--trace-level", "TIMESTAMPS", "--trace-level", "TENSORS")
    with serve("--models", models, *options) as server, triton_grpc.InferenceServerClient(server.grpc) as client:
        assert client.get_trace_settings(as_json=True)["settings"]["trace_level"] == {"value": ["TIMESTAMPS", "TENSORS"]}
        answers = queue.Queue()
        client.start_stream(lambda result, error: answers.put((result, error)))
        for i in range(3):
            client.async_stream_infer("net", [given(triton_grpc)], request_id=str(i))
        outputs = [answers.get(timeout=30)[0].as_numpy("y") for _ in range(3)]
        client.async_stream_infer("nothing", [given(triton_grpc)])
        assert answers.get(timeout=30)[1] is not None
        client.stop_stream()
        found = traces(file, 4)
        assert len(found) == 4
        for model, _, stamps in found.values():
            names = [name for name, _ in stamps]
            assert names == ["GRPC_WAITREAD_START", "GRPC_WAITREAD_END", *NAMES[2:-2], "GRPC_SEND_START", "GRPC_SEND_END"], model
            assert [ns for _, ns in stamps] == sorted(ns for _, ns in stamps)
        client.update_trace_settings(settings={"trace_level": ["TENSORS"]})
        assert ask(server)[0] == 200
        large = np.zeros((20000, 4), np.float32)
        tensor = triton_grpc.InferInput("x", list(large.shape), "FP32")
        tensor.set_data_from_numpy(large)
        client.infer("net", [tensor])
        assert len(traces(file, 6)) == 6
    records = [r for r in json.loads(file.read_text()) if "tensor" in r]
    assert not any("timestamps" in r for r in json.loads(file.read_text()) if r["id"] > 4)
    inputs = [r["tensor"] for r in records if r["activity"] == "TENSOR_QUEUE_INPUT"]
    assert inputs[0] == {"name": "x", "data": "1,2,3,4", "shape": "1,4", "dtype": "FP32"} and len(inputs) == 6
    results = [r["tensor"] for r in records if r["activity"] == "TENSOR_BACKEND_OUTPUT"]
    assert len(results) == 5 and results[0]["name"] == "y" and results[0]["shape"] == "1,3"
    np.testing.assert_array_equal(np.fromstring(results[0]["data"], np.float32, sep=","), outputs[0].ravel())
    assert inputs[-1]["data"] == "" and inputs[-1]["shape"] == "20000,4"   # too many to write


def test_traces_in_several_files(models, tmp_path):
    with serve("--models", models, "--trace-file", tmp_path / "t", "--trace-rate", "1", "--trace-count", "5") as server:
        assert server.json("/v2/trace/setting", {"log_frequency": 2})[1]["log_frequency"] == "2"
        for _ in range(7):
            ask(server)
        assert [len(traces(tmp_path / f"t.{i}", n)) for i, n in ((0, 2), (1, 2), (2, 1))] == [2, 2, 1]


def test_traces_need_a_file(models):
    with serve("--models", models) as server:
        status, answer = server.json("/v2/trace/setting", {"trace_level": ["TIMESTAMPS"]})
        assert status == 400 and "--trace-file" in answer["error"]
    done = tenon("serve", "--models", models, "--trace-rate", "5", "--http-port", "0", "--grpc-port", "0", "--metrics-port", "0")
    assert done.returncode == 2 and "--trace-file" in done.stderr


@pytest.mark.parametrize("abstract", (False, True))
def test_what_systemd_hears(models, tmp_path, abstract):
    name = f"@tenon-test-{time.time_ns()}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name.replace("@", "\0"))
        manager.settimeout(30)
        with serve("--models", models, env={"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "200000"}) as server:
            assert manager.recv(1000) == b"READY=1\nSTATUS=serving 1 models"
            assert manager.recv(1000) == manager.recv(1000) == b"WATCHDOG=1"
            server.process.send_signal(signal.SIGHUP)
            heard = [manager.recv(1000)]
            while not heard[-1].startswith(b"READY=1"):
                heard.append(manager.recv(1000))
            assert any(re.fullmatch(rb"RELOADING=1\nMONOTONIC_USEC=\d+", h) for h in heard)
            assert ask(server)[0] == 200
        heard = manager.recv(1000)
        while heard == b"WATCHDOG=1":
            heard = manager.recv(1000)
        assert heard.startswith(b"STOPPING=1")


def test_nobody_listens_to_what_systemd_would_hear(models, tmp_path):
    with serve("--models", models, env={"NOTIFY_SOCKET": str(tmp_path / "nobody"), "WATCHDOG_USEC": "10"}) as server:
        assert ask(server)[0] == 200
    with serve("--models", models, env={"NOTIFY_SOCKET": "/" + "x" * 300, "WATCHDOG_USEC": "x"}) as server:
        assert ask(server)[0] == 200


@pytest.fixture
def explicit(tmp_path):
    folder = tmp_path / "models"
    (folder / "net" / "1").mkdir(parents=True)
    build_model.small_net(folder / "net" / "1" / "model.onnx")
    (tmp_path / "tmp").mkdir()
    with serve("--models", folder, "--model-control", "explicit", "--load", "net", "--upload-limit", "1M",
               env={"TMPDIR": str(tmp_path / "tmp")}) as server:
        server.folder, server.uploads = folder, tmp_path / "tmp"
        yield server
    assert not list((tmp_path / "tmp").iterdir())   # nothing stays behind


def clients(server):
    return (triton_http.InferenceServerClient(server.http), triton_grpc.InferenceServerClient(server.grpc))


def test_load_with_settings_of_the_request(explicit):
    for client in clients(explicit):
        client.load_model("net", config=json.dumps({"max_batch_size": 3, "instance_group": [{"count": 1, "kind": "KIND_CPU"}], "backend": "x"}))
        assert explicit.json("/v2/models/net/config")[1]["max_batch_size"] == 3
        assert ask(explicit)[0] == 200
        for wrong in ("", "{", "[]", '{"max_batch_size": -1}', '{"max_batch_size": "many"}', '{"name": "other"}', "9" * 100,
                      '{"instance_group": [{"count": 100000}]}', "[" * 10000, '{"platform": "tenon_step", "parameters": {"step": {"string_value": "no"}}}'):
            with pytest.raises(Exception, match="net"):
                client.load_model("net", config=wrong)
            assert explicit.json("/v2/models/net/config")[1]["max_batch_size"] == 3
        client.load_model("net")
        assert explicit.json("/v2/models/net/config")[1]["max_batch_size"] == 8
        client.close()


def test_load_with_files_of_the_request(explicit, tmp_path):
    build_model.model(tmp_path / "id.onnx", [build_model.node("Identity", ["x"], ["y"])], [build_model.value("x", ["batch", 4])],
                      [build_model.value("y", ["batch", 4])])
    identity = (tmp_path / "id.onnx").read_bytes()
    before = json.loads(ask(explicit)[2])["outputs"][0]["shape"]
    for client in clients(explicit):
        for name in ("net", "fresh"):   # one that the repository has, one that it has not
            client.load_model(name, config="{}", files={"file:1/model.onnx": identity, "file:7/model.onnx": identity})
            assert explicit.json(f"/v2/models/{name}/infer", ASK)[1]["outputs"][0]["data"] == [1, 2, 3, 4]
            assert explicit.json(f"/v2/models/{name}")[1]["versions"] == ["7"]   # the policy is that of the settings: the newest
            assert len(list(explicit.uploads.iterdir())) == (1 if name == "net" else 2)
        with pytest.raises(Exception, match="fresh"):
            client.load_model("fresh", config="{}", files={"file:1/model.onnx": b"damaged"})
        assert explicit.json("/v2/models/fresh/infer", ASK)[0] == 200   # the old one stays
        client.load_model("net")
        client.unload_model("fresh")
        assert json.loads(ask(explicit)[2])["outputs"][0]["shape"] == before and not list(explicit.uploads.iterdir())
        client.close()


def test_loads_that_are_refused(explicit):
    content = base64.b64encode(b"x" * 10).decode()

    def load(name, **parameters):
        status, answer = explicit.json(f"/v2/repository/models/{name}/load", {"parameters": parameters})
        return status, answer.get("error", "")

    for path in ("", "/etc/x", "../x", "1/../../x", "1//x", "1/", ".x", "1/.x", "a/b/c/d/e", "1/m\u00e4.onnx", "1/a b", "1/\x00", "x" * 200, "1\\x"):
        status, error = load("net", config="{}", **{f"file:{path}": content})
        assert status == 400 and "file:" in error, path
    assert load("net", **{"file:1/model.onnx": content})[0] == 400                       # no config
    for bad in ("?", "abc", "ab=c", "=" * 8 + "a", 3, None):
        assert load("net", config="{}", **{"file:1/model.onnx": bad})[0] == 400, bad
    assert load("net", config=3)[0] == 400
    assert load("net", config="{}", **{f"file:{i}/model.onnx": content for i in range(1, 80)})[0] == 400
    assert load("net", config="{}", **{"file:1": content, "file:1/model.onnx": content})[0] in (400, 413)
    status, error = load("net", config="{}", **{"file:1/model.onnx": base64.b64encode(bytes(2 << 20)).decode()})
    assert status == 413 and "1048576" in error
    step = {"platform": "tenon_step", "parameters": {"step": {"string_value": "top_labels"}, "labels": {"string_value": "/etc/passwd"}}}
    status, error = load("labels", config=json.dumps(step), **{"file:x": content})
    assert status == 400 and "/etc/passwd" in error
    assert load("labels", config=json.dumps(step))[0] == 400
    assert [m["name"] for m in explicit.json("/v2/repository/index", {})[1]] == ["net"]   # names of failures are forgotten
    assert not list(explicit.uploads.iterdir()) and ask(explicit)[0] == 200


def test_a_step_with_labels_of_the_request(explicit):
    step = {"platform": "tenon_step", "parameters": {"step": {"string_value": "top_labels"}, "labels": {"string_value": "l.txt"},
                                                     "count": {"string_value": "1"}}}
    with triton_http.InferenceServerClient(explicit.http) as client:
        client.load_model("best", config=json.dumps(step), files={"file:l.txt": b"cat\ndog\n"})
    answer = explicit.json("/infer/best", {"scores": [[0, 1]]})[1]
    assert ["dog"] in [o["data"] for o in answer["outputs"]]


def test_generate(models, tmp_path):
    build_model.model(tmp_path / "join.onnx", [build_model.node("Identity", ["text_input"], ["text_output"]), build_model.node("Add", ["a", "b"], ["sum"])],
                      [build_model.value("text_input", ["batch", 1], 8), build_model.value("a", ["batch", "n"], 7), build_model.value("b", [1], 7)],
                      [build_model.value("text_output", ["batch", 1], 8), build_model.value("sum", ["batch", "n"], 7)])
    with serve(models / "net.onnx", tmp_path / "join.onnx") as server:
        fields = {"id": "7", "text_input": "gr\u00fcn", "a": [1, 2, 3], "parameters": {"b": 10, "temperature": 0.5, "timeout": 10000000}}
        whole = {"model_name": "join", "model_version": "1", "id": "7", "text_output": "gr\u00fcn", "sum": [11, 12, 13]}
        assert server.json("/v2/models/join/generate", fields) == (200, whole)
        assert server.json("/v2/models/join/versions/1/generate", fields) == (200, whole)
        status, headers, body = server.request("/v2/models/join/generate_stream", json.dumps(fields).encode())
        assert status == 200 and headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert body.startswith(b"data: ") and body.endswith(b"\n\n") and json.loads(body[6:]) == whole
        assert server.json("/v2/models/net/generate", {"x": [1, 2, 3, 4]}) == server.json("/v2/models/net/generate", {"x": [[1, 2, 3, 4]]})
        wrong = [({"a": 1, "b": 1}, 400), ({**fields, "z": 1}, 400), ({**fields, "a": ["x"]}, 400), ({**fields, "a": 1.5}, 400),
                 ({**fields, "a": [[1], [1, 2]]}, 400), ({**fields, "a": None}, 400), ({**fields, "parameters": 3}, 400), ({**fields, "id": 7}, 400),
                 ({**fields, "parameters": {"timeout": -1}}, 400), ({**fields, "text_input": ["a", "b"]}, 400), ([], 400), ("x", 400)]
        for document, code in wrong:
            for path in ("generate", "generate_stream"):
                status, answer = server.json(f"/v2/models/join/{path}", document)
                assert status == code and answer["error"], document
        assert server.json("/v2/models/nothing/generate", {})[0] == 404
        assert server.json("/v2/models/join/versions/9/generate", fields)[0] == 404
        server.check_invariant()
