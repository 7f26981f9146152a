"""tenon serve over HTTP, with the real tritonclient and by hand."""
import gzip
import json
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import ml_dtypes
import numpy as np
import pytest
import tritonclient.http as triton
from tritonclient.utils import shared_memory

from end_to_end.serving import serve
from support import build_model

TYPES = {"BOOL": (np.bool_, 9), "UINT8": (np.uint8, 2), "UINT16": (np.uint16, 4), "UINT32": (np.uint32, 12), "UINT64": (np.uint64, 13),
         "INT8": (np.int8, 3), "INT16": (np.int16, 5), "INT32": (np.int32, 6), "INT64": (np.int64, 7), "FP16": (np.float16, 10),
         "FP32": (np.float32, 1), "FP64": (np.float64, 11), "BYTES": (np.object_, 8), "BF16": (ml_dtypes.bfloat16, 16)}


def identity(path, onnx_type):
    return build_model.model(path, [build_model.node("Identity", ["x"], ["y"])], [build_model.value("x", ["batch", "n"], onnx_type)],
                             [build_model.value("y", ["batch", "n"], onnx_type)])


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name, (_, onnx_type) in TYPES.items():
        identity(folder / f"id_{name}.onnx", onnx_type)
    build_model.small_net(folder / "net.onnx")
    build_model.rounds_model(folder / "rounds.onnx")
    (folder / "broken.onnx").write_bytes(b"not a model")
    with serve("--models", folder, "--max-queue", 8) as served:
        served.folder = folder
        yield served


@pytest.fixture
def client(server):
    with triton.InferenceServerClient(server.http) as connected:
        yield connected


def sample(name):
    kind = TYPES[name][0]
    if name == "BYTES":
        return np.array([[b"one", "zw\u00f6lf".encode(), b""], [b"a" * 300, b"\"\\\n", b"x"]], dtype=np.object_)
    if name == "BOOL":
        return np.array([[True, False, True], [False, False, True]])
    if np.issubdtype(kind, np.integer):
        info = np.iinfo(kind)
        return np.array([[info.min, 0, 1], [info.max, 2, 3]], dtype=kind)
    return np.array([[0.5, -1.25, 3], [1e3, 0, -0.0]], dtype=kind)


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("name", TYPES)
def test_every_datatype(client, name, binary):
    if not binary and name in ("FP16", "BF16"):
        pytest.skip("no JSON form")
    data = sample(name)
    given = triton.InferInput("x", data.shape, name)
    given.set_data_from_numpy(data, binary_data=binary)
    result = client.infer(f"id_{name}", [given], outputs=[triton.InferRequestedOutput("y", binary_data=binary)], request_id="r 1")
    got = result.as_numpy("y")
    if name == "BYTES":
        assert [v.encode() if isinstance(v, str) else v for v in got.ravel()] == list(data.ravel())
    else:
        np.testing.assert_array_equal(got, data)
    assert result.get_response()["id"] == "r 1" and result.get_response()["model_name"] == f"id_{name}"


def test_metadata_and_control_plane(client):
    assert client.is_server_live() and client.is_server_ready()
    assert client.is_model_ready("net") and not client.is_model_ready("broken") and not client.is_model_ready("nothing")
    meta = client.get_server_metadata()
    assert meta["name"] == "tenon" and {"binary_tensor_data", "trace", "logging", "generate"} <= set(meta["extensions"])
    model = client.get_model_metadata("net")
    assert model["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    config = client.get_model_config("net")
    assert config["max_batch_size"] == 8 and config["input"][0]["dims"] == [4] and config["input"][0]["data_type"] == "TYPE_FP32"
    index = {m["name"]: m for m in client.get_model_repository_index()}
    assert index["net"]["state"] == "READY" and index["broken"]["state"] == "UNAVAILABLE" and index["broken"]["reason"]
    stats = client.get_inference_statistics("net")["model_stats"][0]
    assert stats["name"] == "net" and "inference_stats" in stats


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_compression(client, algorithm):
    data = np.zeros((4, 4096), np.float32)
    given = triton.InferInput("x", data.shape, "FP32")
    given.set_data_from_numpy(data)
    result = client.infer("id_FP32", [given], request_compression_algorithm=algorithm, response_compression_algorithm=algorithm)
    np.testing.assert_array_equal(result.as_numpy("y"), data)


def test_classification(client, server):
    data = np.array([[1, 5, 3], [9, 7, 8]], np.float32)
    given = triton.InferInput("x", data.shape, "FP32")
    given.set_data_from_numpy(data)
    result = client.infer("id_FP32", [given], outputs=[triton.InferRequestedOutput("y", class_count=2)])
    assert [v.decode().split(":") for v in result.as_numpy("y").ravel()] == [["5.000000", "1"], ["3.000000", "2"], ["9.000000", "0"],
                                                                            ["8.000000", "2"]]


def test_shared_memory(client):
    data = np.arange(12, dtype=np.float32).reshape(3, 4)
    region = shared_memory.create_shared_memory_region("in_out", "/tenon_test_region", 2 * data.nbytes)
    try:
        shared_memory.set_shared_memory_region(region, [data])
        client.register_system_shared_memory("in_out", "/tenon_test_region", 2 * data.nbytes)
        assert client.get_system_shared_memory_status()[0]["name"] == "in_out"
        given = triton.InferInput("x", data.shape, "FP32")
        given.set_shared_memory("in_out", data.nbytes)
        wanted = triton.InferRequestedOutput("y")
        wanted.set_shared_memory("in_out", data.nbytes, offset=data.nbytes)
        client.infer("id_FP32", [given], outputs=[wanted])
        got = shared_memory.get_contents_as_numpy(region, np.float32, [3, 4], offset=data.nbytes)
        np.testing.assert_array_equal(got, data)
        given.set_shared_memory("in_out", 3 * data.nbytes)
        with pytest.raises(Exception, match="shared memory region"):
            client.infer("id_FP32", [given])
        client.unregister_system_shared_memory("in_out")
        assert client.get_system_shared_memory_status() == []
    finally:
        shared_memory.destroy_shared_memory_region(region)


def test_plain_infer_and_picture(server, tmp_path):
    status, answer = server.json("/infer/net", {"x": [[1, 2, 3, 4]]})
    assert status == 200 and answer["outputs"][0]["shape"] == [1, 3]
    status, answer = server.json("/infer", {"x": [[1, 2, 3, 4]]})
    assert status == 400 and "net" in answer["error"]
    status, answer = server.json("/health")
    assert (status, answer) == (200, {"status": "ok"})


GOOD = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}


@pytest.mark.parametrize("change", [
    {"name": None}, {"name": 3}, {"name": "z"}, {"shape": None}, {"shape": "-1"}, {"shape": [-1, 4]}, {"shape": [1, "4"]}, {"shape": [1.5, 4]},
    {"shape": [2**62, 2**62]}, {"shape": [1] * 100}, {"shape": [1, 5]}, {"shape": [4]}, {"datatype": None}, {"datatype": "FP33"},
    {"datatype": "INT64"}, {"data": None}, {"data": [{"b64": "AAAA"}]}, {"data": "1,2,3,4"}, {"data": [1, 2, 3]}, {"data": [1, 2, 3, "4"]},
    {"data": [1, 2, 3, {}]}, {"data": {}}, {"parameters": {"binary_data_size": 16}}, {"parameters": {"binary_data_size": -1}},
    {"parameters": {"shared_memory_region": "none", "shared_memory_byte_size": 16}}])
def test_v01_bad_request_is_refused_and_server_lives(server, change):
    tensor = {**GOOD, **change}
    for gone in [k for k, v in change.items() if v is None]:
        for value in (tensor, {k: v for k, v in tensor.items() if k != gone}):
            status, answer = server.json("/v2/models/net/infer", {"inputs": [value]})
            assert status == 400 and answer["error"], answer
    status, answer = server.json("/v2/models/net/infer", {"inputs": [tensor]})
    assert status == 400 and answer["error"], answer
    assert server.json("/v2/models/net/infer", {"inputs": [GOOD]})[0] == 200


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{", b"{}", b'{"inputs":{}}', b'{"inputs":[]}', b'{"inputs":[1]}', b'{"inputs":null}',
                                  b'{"inputs":[' * 200, b"[" * 100000, b"\xff\xfe", b'{"id":5,"inputs":[]}', b'{"outputs":3,"inputs":[]}'])
def test_v01_bad_bodies(server, body):
    status, _, answer = server.request("/v2/models/net/infer", body, {"Content-Type": "application/x-www-form-urlencoded"})
    assert status == 400, answer
    assert "error" in json.loads(answer)


def test_v01_form_content_type_with_good_json(server):
    status, _, _ = server.request("/v2/models/net/infer", json.dumps({"inputs": [GOOD]}).encode(), {"Content-Type": "application/x-www-form-urlencoded"})
    assert status == 200


def test_unknown_things(server):
    assert server.json("/v2/models/none/infer", {"inputs": [GOOD]})[0] == 404
    assert server.json("/v2/models/net/versions/7/infer", {"inputs": [GOOD]})[0] == 404
    assert server.json("/v2/models/net/versions/x/infer", {"inputs": [GOOD]})[0] == 404
    assert server.json("/v2/nothing")[0] == 404
    assert server.request("/v2/models/net/infer")[0] == 405


def test_other_sites_and_the_metrics_port(server):
    body = json.dumps({"inputs": [GOOD]}).encode()
    assert server.request("/v2/models/net/infer", body, {"Origin": "http://evil.example"})[0] == 403
    assert server.request("/v2/models/net/infer", body, {"Origin": f"http://{server.http}"})[0] == 200
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://{server.metrics_address}/v2/models/net", timeout=30)


def raw(server, data, timeout=30):
    host, port = server.http.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=timeout) as s:
        s.sendall(data)
        s.settimeout(timeout)
        try:
            return s.recv(1 << 16)
        except ConnectionError:
            return b""


def test_s05_a_million_chunks_of_one_byte(server):
    head = b"POST /v2/models/net/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    before = server.resident()
    host, port = server.http.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=60) as s:
        try:
            s.sendall(head + b"1\r\n{\r\n" * 1_000_000 + b"0\r\n\r\n")
            answer = s.recv(100)
        except ConnectionError:
            answer = b""
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
    assert server.resident() < before + (64 << 20)
    assert server.json("/v2/health/live")[0] == 200


def test_hostile_framing(server):
    assert raw(server, b"POST /v2/models/net/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n").startswith(b"HTTP/1.1 413")
    assert raw(server, b"POST / HTTP/1.1\r\nX: " + b"a" * 100000 + b"\r\n\r\n").startswith(b"HTTP/1.1 431")
    assert raw(server, b"nonsense\r\n\r\n").startswith(b"HTTP/1.1 400")
    assert server.request("/v2/models/net/infer", b"\x1f\x8bnot gzip", {"Content-Encoding": "gzip"})[0] == 400
    assert server.request("/v2/models/net/infer", b"{}", {"Content-Encoding": "br"})[0] == 415
    bomb = gzip.compress(b"\0" * (300 << 20), compresslevel=9)
    assert server.request("/v2/models/net/infer", bomb, {"Content-Encoding": "gzip"}, timeout=60)[0] == 413
    assert server.request("/v2/models/net/infer", b"{}", {"Inference-Header-Content-Length": "9"})[0] == 400


def rounds_body(rounds):
    """A request to rounds_model as (body, headers)."""
    inputs = [{"name": "x", "shape": [4], "datatype": "FP32", "parameters": {"binary_data_size": 16}},
              {"name": "rounds", "shape": [], "datatype": "INT64", "data": [rounds]}]
    header = json.dumps({"inputs": inputs})
    return header.encode() + bytes(16), {"Inference-Header-Content-Length": str(len(header))}


def in_flight(server, count):
    """Waits until that many requests are accepted and not yet answered."""
    until = time.time() + 30
    while server.total("tenon_requests_in_flight") != count and time.time() < until:
        time.sleep(0.02)
    assert server.total("tenon_requests_in_flight") == count


class Endless:
    """A client whose request runs until it goes away."""

    def __init__(self, server):
        host, port = server.http.rsplit(":", 1)
        body, headers = rounds_body(build_model.ENDLESS)
        head = (f"POST /v2/models/rounds/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
                f"Inference-Header-Content-Length: {headers['Inference-Header-Content-Length']}\r\n\r\n").encode()
        self.message = head + body
        self.head_bytes = len(head)
        self.socket = socket.create_connection((host, int(port)))

    def send(self, size=None):
        self.socket.sendall(self.message[:size])
        return self


def test_v07_full_queue_answers_503_with_retry_after(server):
    """Eight may wait (--max-queue); one more may run."""
    outcomes = ("overload", "cancelled", "ok")
    before = {o: server.total("tenon_requests_total", model="rounds", outcome=o) for o in outcomes}
    runs = Endless(server).send()
    in_flight(server, 1)
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(server.request("/v2/models/rounds/infer", *rounds_body(1)))) for _ in range(24)]
    for t in threads:
        t.start()
    until = time.time() + 30
    while len(answers) < 15 and time.time() < until:
        time.sleep(0.02)
    assert [status for status, _, _ in answers] == [503] * len(answers)
    runs.socket.close()   # the queue moves again
    for t in threads:
        t.join()
    codes = [status for status, _, _ in answers]
    assert set(codes) == {200, 503} and 8 <= codes.count(200) <= 9
    assert all(int(h["Retry-After"]) >= 1 for status, h, _ in answers if status == 503)
    in_flight(server, 0)
    server.check_invariant()
    ended = {o: server.total("tenon_requests_total", model="rounds", outcome=o) - before[o] for o in outcomes}
    assert ended == {"overload": codes.count(503), "cancelled": 1, "ok": codes.count(200)}


def test_v05_vanished_clients_are_cancelled(server):
    before = server.total("tenon_requests_total", model="rounds", outcome="cancelled")
    for i in range(300):
        client = Endless(server)
        client.send([client.head_bytes // 2, client.head_bytes, client.head_bytes + 10][i % 3]).socket.close()
    clients = [Endless(server).send() for _ in range(6)]
    in_flight(server, 6)
    for client in clients:
        client.socket.close()
    in_flight(server, 0)
    assert server.total("tenon_requests_total", model="rounds", outcome="cancelled") == before + 6
    server.check_invariant()


def test_deadline_while_queued_and_running(server):
    def ask(timeout_us):
        document = {"inputs": [{"name": "x", "shape": [4], "datatype": "FP32", "data": [0] * 4},
                               {"name": "rounds", "shape": [], "datatype": "INT64", "data": [build_model.ENDLESS]}],
                    "parameters": {"timeout": timeout_us}}
        status, answer = server.json("/v2/models/rounds/infer", document)
        assert status == 504 and re.search("time was over|deadline", answer["error"])

    ask(200_000)   # while it runs
    runs = Endless(server).send()
    in_flight(server, 1)
    ask(1)   # while it waits
    runs.socket.close()
    in_flight(server, 0)
    server.check_invariant()


def test_v11_metrics_count_every_end(server):
    server.json("/v2/models/net/infer", {"inputs": [GOOD]})
    accepted = server.total("tenon_requests_accepted_total", model="net")
    bad = server.total("tenon_requests_total", model="net", outcome="bad_request")
    ok = server.total("nv_inference_request_success", model="net")
    server.json("/v2/models/net/infer", {"inputs": []})
    server.json("/v2/models/net/infer", {"inputs": [GOOD]})
    assert server.total("tenon_requests_accepted_total", model="net") == accepted + 2
    assert server.total("tenon_requests_total", model="net", outcome="bad_request") == bad + 1
    assert server.total("nv_inference_request_success", model="net") == ok + 1
    server.check_invariant()


def test_statistics_of_responses(server):
    def counts():
        stats = server.json("/v2/models/rounds/stats")[1]["model_stats"][0]
        (index,) = stats["response_stats"]   # each request has one
        response, request = stats["response_stats"][index], stats["inference_stats"]
        assert index == "0" and response["empty_response"] == {"count": 0, "ns": 0}
        assert response["success"]["ns"] == request["compute_infer"]["ns"] + request["compute_output"]["ns"]
        assert response["compute_infer"] == request["compute_infer"] and response["compute_output"] == request["compute_output"]
        for unit in ("count", "ns"):
            assert response["fail"][unit] + response["cancel"][unit] == request["fail"][unit]
        return {name: response[name]["count"] for name in ("success", "fail", "cancel")}

    before = counts()
    assert server.request("/v2/models/rounds/infer", *rounds_body(1))[0] == 200
    assert server.json("/v2/models/rounds/infer", {"inputs": []})[0] == 400
    gone = Endless(server).send()
    in_flight(server, 1)
    gone.socket.close()
    in_flight(server, 0)
    assert {name: n - before[name] for name, n in counts().items()} == {"success": 1, "fail": 1, "cancel": 1}


def test_answers_equal_tenon_run(server, client):
    _, weights = build_model.small_net(server.folder.parent / "again.onnx")
    x = np.random.default_rng(3).standard_normal((5, 4)).astype(np.float32)
    given = triton.InferInput("x", x.shape, "FP32")
    given.set_data_from_numpy(x)
    got = client.infer("net", [given]).as_numpy("y")
    np.testing.assert_allclose(got, np.maximum(x @ weights["w"] + weights["b"], 0), rtol=1e-5, atol=1e-6)


def test_page_needs_nothing_from_elsewhere(server):
    status, headers, body = server.request("/")
    assert status == 200 and headers["Content-Type"].startswith("text/html")
    assert b"src=" not in body and b"href=" not in body and b"://" not in body
    status, numbers = server.json("/status")
    net = next(m for m in numbers["models"] if m["name"] == "net")
    assert net["state"] == "READY" and len(net["latency_buckets"]) == len(numbers["latency_edges_us"]) + 1
    # Every number that the page reads is there.
    for name in ("ok", "success_ns", "queued", "in_flight", "failed", "rows", "runs", "memory", "instances", "threads", "reason", "version"):
        assert name in net and (b"m." + name.encode()) in body


def test_page_in_a_browser(server, tmp_path):
    """The page as Chromium shows it after some seconds of its own time; the screenshot stays beside the test's files."""
    if shutil.which("chromium") is None:
        pytest.fail("chromium is missing; run scripts/install_dependencies test")
    common = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=4000"]
    shot = tmp_path / "page.png"
    done = subprocess.run([*common, "--dump-dom", f"http://{server.http}/"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    assert re.search(r'id="state"[^>]*>ready<', done.stdout), done.stdout[:3000] + done.stderr[-500:]
    assert re.search(r"<td>net</td><td>1</td><td>READY</td>", done.stdout) and "<polyline" in done.stdout
    subprocess.run([*common, f"--screenshot={shot}", "--window-size=1200,900", f"http://{server.http}/"], stdin=subprocess.DEVNULL,
                   capture_output=True, timeout=120, check=True)
    assert shot.stat().st_size > 5000


def test_client_that_ends_its_side_is_answered_and_let_go(server):
    host, port = server.http.split(":")
    with socket.create_connection((host, int(port)), timeout=30) as s:
        ask = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"
        s.sendall(ask)
        assert s.recv(4096).startswith(b"HTTP/1.1 200")
        server.process.send_signal(signal.SIGSTOP)   # request and end arrive together
        s.sendall(ask)
        s.shutdown(socket.SHUT_WR)
        server.process.send_signal(signal.SIGCONT)
        answer = b""
        while piece := s.recv(4096):
            answer += piece
        assert answer.startswith(b"HTTP/1.1 200")
