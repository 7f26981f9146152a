"""tenon serve while things change: reload, unload, groups, settings in files, limits, an instance killed behind nginx and HAProxy."""
import contextlib
import http.client
import json
import re
import shutil
import signal
import threading
import time

import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from end_to_end.serving import Served, serve
from end_to_end.test_serve_http import Endless, identity, in_flight, rounds_body
from support import balancers, build_model
from support.command import tenon

ASK = {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}


class Load:
    """Clients in closed loops; statuses and latencies of all answers."""

    def __init__(self, send, clients=2):
        self.codes, self.stop = [], threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(send,)) for _ in range(clients)]

    def run(self, send):
        while not self.stop.is_set():
            self.codes.append(send())

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for t in self.threads:
            t.join()


@pytest.fixture
def folder(tmp_path):
    for version in ("1", "2"):
        (tmp_path / "models" / "net" / version).mkdir(parents=True)
        build_model.small_net(tmp_path / "models" / "net" / version / "model.onnx")
    return tmp_path / "models"


def test_v10_reload_under_load_fails_no_request(folder):
    with serve("--models", folder, "--model-control", "explicit", "--load", "net") as server:
        with Load(lambda: server.json("/v2/models/net/infer", ASK)[0]) as load:
            for _ in range(20):
                assert server.json("/v2/repository/models/net/load", {})[0] == 200
            good = (folder / "net/2/model.onnx").read_bytes()
            (folder / "net/2/model.onnx").write_bytes(b"damaged")
            status, answer = server.json("/v2/repository/models/net/load", {})
            assert status == 400 and "net" in answer["error"]
            assert server.json("/v2/models/net/infer", ASK)[0] == 200   # the old one stays
            (folder / "net/2/model.onnx").write_bytes(good)
        assert set(load.codes) == {200} and len(load.codes) > 20
        server.check_invariant()


def heavy_model(path):
    """x [batch, 768] through 64 products of 768 x 768 that share four weights (9 MiB)."""
    rng = np.random.default_rng(0)
    weights = {f"w{i}": (rng.standard_normal((768, 768)) * 0.03).astype(np.float32) for i in range(4)}
    nodes, last = [], "x"
    for i in range(64):
        nodes.append(build_model.node("MatMul", [last, f"w{i % 4}"], [f"h{i}"]))
        last = f"h{i}"
    nodes.append(build_model.node("Relu", [last], ["y"]))
    return build_model.model(path, nodes, [build_model.value("x", ["batch", 768])], [build_model.value("y", ["batch", 768])], weights)


def test_m08_unload_gives_memory_back(tmp_path):
    (tmp_path / "m").mkdir()
    heavy_model(tmp_path / "m" / "heavy.onnx")
    with serve("--models", tmp_path / "m", "--model-control", "explicit") as server:
        sizes = []
        for _ in range(22):
            assert server.json("/v2/repository/models/heavy/load", {})[0] == 200
            assert server.json("/v2/repository/models/heavy/unload", {})[0] == 200
            sizes.append(server.resident())
        assert server.total("tenon_memory_used_bytes") == 0
        assert sizes[-1] <= 1.05 * sizes[2] + (1 << 20)


def test_polling_follows_the_folder(folder):
    with serve("--models", folder, "--model-control", "poll", "--poll-seconds", "0.1") as server:
        build_model.small_net(folder / "later.onnx")
        until = time.time() + 20
        while server.request("/v2/models/later/ready")[0] != 200 and time.time() < until:
            time.sleep(0.05)
        assert server.request("/v2/models/later/ready")[0] == 200
        assert server.json("/v2/models/net")[1]["versions"] == ["2"]


def test_settings_in_files(folder):
    shutil.copytree(folder / "net", folder / "triton")
    (folder / "triton" / "config.pbtxt").write_text('''
name: "triton"  # a comment
backend: "onnxruntime"
max_batch_size: 4
input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]
instance_group [ { count: 2 kind: KIND_CPU } ]
version_policy: { all { } }
dynamic_batching { preferred_batch_size: [ 2, 4 ] max_queue_delay_microseconds: 100 default_queue_policy { max_queue_size: 7 } }
''')
    (folder / "net" / "tenon.yaml").write_text("max_batch: 2\nversions: [1]\n")
    shutil.copytree(folder / "net", folder / "wrong")
    (folder / "wrong" / "tenon.yaml").write_text("max_batch: 2\nmax_que: 3\n")
    with serve("--models", folder) as server:
        config = server.json("/v2/models/triton/config")[1]
        assert config["max_batch_size"] == 4 and config["dynamic_batching"]["preferred_batch_size"] == [2, 4]
        assert config["dynamic_batching"]["default_queue_policy"]["max_queue_size"] == 7
        assert server.json("/v2/models/triton")[1]["versions"] == ["1", "2"]
        assert server.json("/v2/models/net")[1]["versions"] == ["1"]
        assert server.json("/v2/models/net/infer", ASK)[0] == 200
        index = {m["name"]: m for m in server.json("/v2/repository/index", {})[1]}
        assert index["wrong"]["state"] == "UNAVAILABLE" and "max_que" in index["wrong"]["reason"] and "line 2" in index["wrong"]["reason"]


def test_a_sum_over_the_limit_does_not_start(folder, tmp_path):
    (tmp_path / "tenon.yaml").write_text(f"""
memory_limit: 100M
models:
  - {{name: a, path: {folder}/net/1/model.onnx, memory_limit: 60M}}
  - {{name: b, path: {folder}/net/2/model.onnx, memory_limit: 50M}}
""")
    done = tenon("serve", "--config", tmp_path / "tenon.yaml", "--http-port", "0", "--grpc-port", "0", "--metrics-port", "0")
    assert done.returncode == 6
    assert re.search(r"a: 60.0 MiB; b: 50.0 MiB; sum 110.0 MiB; the limit is 100.0 MiB", done.stderr)


def test_a_model_over_its_limit_is_refused_and_the_rest_served(folder, tmp_path):
    heavy_model(folder / "heavy.onnx")
    with serve("--models", folder, "--memory-limit", "8M") as server:
        index = {m["name"]: m for m in server.json("/v2/repository/index", {})[1]}
        assert index["heavy"]["state"] == "UNAVAILABLE" and "memory limit" in index["heavy"]["reason"]
        assert server.json("/v2/models/net/infer", ASK)[0] == 200
        assert server.total("tenon_memory_used_bytes") <= 8 << 20


def test_v03_a_large_answer_is_refused_before_it_is_written(tmp_path):
    """Counted as what it is: not as a success."""
    identity(tmp_path / "id.onnx", 1)
    data = np.zeros((1, 100000), np.float32)
    header = json.dumps({"inputs": [{"name": "x", "shape": [1, 100000], "datatype": "FP32", "parameters": {"binary_data_size": data.nbytes}}]})
    ask = header.encode() + data.tobytes(), {"Inference-Header-Content-Length": str(len(header))}
    with serve(tmp_path / "id.onnx", "--response-limit", "1M", "--body-limit", "1M") as server:
        status, _, answer = server.request("/v2/models/id/infer", *ask)
        assert status == 413 and b"binary" in answer
        assert server.total("tenon_requests_total", outcome="too_large") == 1
        assert server.total("nv_inference_request_success") == 0
        assert server.request("/v2/models/id/infer", bytes(2 << 20))[0] == 413
        server.check_invariant()


def test_groups_change_while_models_serve(folder):
    with serve("--models", folder) as server:
        cores = server.json("/v2/devices")[1]["devices"][0]["cores"]
        with Load(lambda: server.json("/v2/models/net/infer", ASK)[0]) as load:
            if len(cores) > 1:
                for _ in range(3):
                    assert server.json("/v2/devices/left", {"cores": cores[:1]}) == (200, {})
                    assert server.json("/v2/devices")[1]["devices"][0]["cores"] == cores[1:]
                    assert server.request("/v2/devices/left", method="DELETE")[0] == 200
            assert server.json("/v2/devices/all", {"cores": cores})[0] == 400   # the model would have none
            assert server.json("/v2/devices/odd", {"cores": [4000]})[0] == 400
        assert set(load.codes) == {200}


def test_drain_answers_what_waits(tmp_path):
    build_model.rounds_model(tmp_path / "rounds.onnx")
    with serve(tmp_path / "rounds.onnx") as server:
        runs = Endless(server).send()
        in_flight(server, 1)
        answers = []
        client = threading.Thread(target=lambda: answers.append(server.request("/v2/models/rounds/infer", *rounds_body(1))[0]))
        client.start()
        in_flight(server, 2)
        server.process.send_signal(signal.SIGTERM)
        runs.socket.close()
        client.join()
        assert answers == [200] and server.process.wait(20) == 0


def test_broken_model_on_the_command_line_ends_the_command(tmp_path):
    (tmp_path / "bad.onnx").write_bytes(b"nothing")
    done = tenon("serve", tmp_path / "bad.onnx", "--http-port", "0", "--grpc-port", "0", "--metrics-port", "0")
    assert done.returncode == 3 and "bad" in done.stderr


def ask_once(address):
    """Status of an answer, whatever its body: a balancer's own errors are no JSON. 0: none."""
    front = type("Front", (), {"http": address, "request": Served.request})()
    try:
        return front.request("/v2/models/net/infer", json.dumps(ASK).encode())[0]
    except (OSError, http.client.HTTPException):
        return 0


def wait_until(holds, seconds=20):
    until = time.time() + seconds
    while not holds() and time.time() < until:
        time.sleep(0.1)
    assert holds()


@pytest.mark.parametrize("name", balancers.NAMES)
def test_v19_killed_instance_behind_the_shipped_balancer(name, folder, tmp_path):
    with serve("--models", folder) as one, serve("--models", folder) as two, balancers.balancer(name, (one, two), tmp_path) as (front, _):
        wait_until(lambda: ask_once(front) == 200)
        with Load(lambda: ask_once(front), clients=4) as load:
            time.sleep(0.5)
            two.process.send_signal(signal.SIGKILL)
            time.sleep(1.5)
        lost = len(load.codes) - load.codes.count(200)
        # At most what the dead instance had begun to answer, one for each client.
        assert lost <= 4 and len(load.codes) > 50, load.codes
        assert ask_once(front) == 200


@pytest.mark.parametrize("name", balancers.NAMES)
def test_grpc_behind_the_shipped_balancer(name, folder, tmp_path):
    with serve("--models", folder) as one, serve("--models", folder) as two, balancers.balancer(name, (one, two), tmp_path) as (_, front):
        given = triton.InferInput("x", [1, 4], "FP32")
        given.set_data_from_numpy(np.ones((1, 4), np.float32))

        def asked(server):
            return server.total("tenon_requests_total", model="net", outcome="ok")

        def both_answered():
            with contextlib.suppress(InferenceServerException), triton.InferenceServerClient(front) as client:
                client.infer("net", [given])
            return asked(one) > 0 and asked(two) > 0

        wait_until(both_answered)
        time.sleep(2)   # health checks have had their turns
        before = asked(one) + asked(two)
        with triton.InferenceServerClient(front) as client:
            client.infer("net", [given])
        assert asked(one) + asked(two) == before + 1
