"""Settings in files: tenon.yaml of a whole server, and what of config.pbtxt means something, is without effect, or is refused."""
import json
import re
import signal
import time

import pytest

from end_to_end.serving import serve
from support import build_model
from support.command import tenon, tenon_json

ASK = {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}
PORTS = ("--http-port", "0", "--grpc-port", "0", "--metrics-port", "0")


@pytest.fixture
def net(tmp_path):
    build_model.small_net(tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def write(tmp_path, text):
    path = tmp_path / "tenon.yaml"
    path.write_text(text)
    return path


def test_options_of_serve_are_keys(net, tmp_path):
    (tmp_path / "keys").write_text("0123456789abcdef admin\n")
    file = write(tmp_path, f"""
body_limit: 1K
header_limit: 2K
max_connections: 100
max_queue: 9
max_batch: 4
preferred_batch: [2, 4]
open: [health]
api_keys: {tmp_path}/keys
log_requests: true
memory_limit: 64M
models:
  - {{name: a, path: {net}}}
  - {{name: b, path: {net}, max_queue: 3}}
""")
    key = {"Authorization": "Bearer 0123456789abcdef"}
    with serve("--config", file) as server:
        def config(name):
            return server.request(f"/v2/models/{name}/config", headers=key)[2].decode()

        assert server.request("/v2")[0] == 401 and server.request("/v2", headers=key)[0] == 200
        assert server.request("/v2", headers={**key, "X": "x" * 3000})[0] == 431
        assert server.request("/v2/models/a/infer", b"x" * 2000, key)[0] == 413
        assert '"max_queue_size":9' in config("a") and '"max_queue_size":3' in config("b")
        assert '"preferred_batch_size":[2,4]' in config("a")
        assert json.loads(server.request("/v2/devices", headers=key)[2])["devices"][0]["memory"]["limit"] == 64 << 20
        (tmp_path / "keys").write_text("fedcba9876543210 admin\n")   # what SIGHUP reads again is read again
        server.process.send_signal(signal.SIGHUP)
        until = time.time() + 20
        while server.request("/v2", headers=key)[0] != 401 and time.time() < until:
            time.sleep(0.02)
        assert server.request("/v2", headers=key)[0] == 401
        assert server.request("/v2", headers={"Authorization": "Bearer fedcba9876543210"})[0] == 200
    assert '"path":"/v2"' in server.errors or "/v2" in server.errors   # log_requests


def test_the_command_line_and_the_environment_go_before_the_file(net, tmp_path):
    file = write(tmp_path, f"body_limit: 1K\nmax_queue: 9\nmax_batch: 4\nmodels: [{{name: a, path: {net}}}]\n")
    with serve("--config", file, "--body-limit", "1M", env={"TENON_MAX_QUEUE": "11"}) as server:
        assert server.request("/v2/models/a/infer", b"x" * 2000)[0] == 400   # read, and no JSON
        config = server.json("/v2/models/a/config")[1]
        assert config["dynamic_batching"]["default_queue_policy"]["max_queue_size"] == 11 and config["max_batch_size"] == 4


@pytest.mark.parametrize("text, reason", [
    ("host: 127.0.0.1\nmax_que: 3\n", "line 2; unknown key 'max_que'; allowed: groups, models, .*max_queue"),
    ("\n\nconfig: other.yaml\n", "line 3; unknown key 'config'"),
    ("http_port: 99999\n", "line 1; http_port: .*99999"),
    ("max_batch: many\n", "line 1; max_batch: .*many"),
    ("body_limit: 3 apples\n", "line 1; body_limit: .*3 apples"),
    ("host: [a, b]\n", "line 1; host: "),
    ("host: {a: b}\n", "line 1; host: a text is expected"),
    ("host: a\nhost: b\n", "line 2; 'host' stands there twice"),
    ("models:\n  - path: NET\n    presision: bf16\n", "line 3; unknown key 'presision'"),
    ("models:\n  - path: NET\n    precision: bf17\n", "unknown precision 'bf17'; allowed: f32, bf16, mixed"),
    ("models:\n  - path: NET\n    precision: int8\n", "integers need ranges measured on data"),
    ("groups: 3\n", "line 1; groups: a list of groups is expected"),
    ("groups:\n  - {name: a, cores: x}\n", "line 2; cores: numbers of CPUs"),
    ("groups:\n  - {name: a, cores: 0, speed: 3}\n", "line 2; unknown key 'speed'"),
    ("groups:\n  - {name: a}\n", "line 2; a group needs a name and cores"),
    ("groups:\n  - {name: a, cores: 4000}\nmodels: [path: NET]\n", "core 4000 is not among those of this server"),
    ("groups:\n  - {name: a, cores: 0, shared: 1}\n", "line 2; shared: true or false"),
    ("split: 1/4+7/4\nmodels: [path: NET]\n", "part '7/4'"),
    ("split: 2\ngroups:\n  - {name: a, cores: 0}\nmodels: [path: NET]\n", "groups and a split")])
def test_settings_of_a_server_that_cannot_be_used(net, tmp_path, text, reason):
    file = write(tmp_path, text.replace("NET", str(net)))
    ports = PORTS[2:] if "http_port" in text else PORTS
    done = tenon("serve", "--config", file, *ports)
    assert done.returncode in (2, 3, 4), done.stderr
    assert re.search(reason, done.stderr), done.stderr


def test_groups_and_parts_from_the_start(net, tmp_path):
    cores = tenon_json("device", "list")["devices"][0]["cores"]
    file = write(tmp_path, f"""
memory_limit: 100M
groups:
  - {{name: fast, cores: "{cores[0]}", memory_limit: 40M, shared: true}}
  - {{name: slow, cores: [{cores[0]}], memory_limit: 20M, weight: 0.25}}
models:
  - {{name: a, path: {net}, group: fast}}
  - {{name: b, path: {net}, group: slow}}
""")
    with serve("--config", file) as server:
        devices = {d["name"]: d for d in server.json("/v2/devices")[1]["devices"]}
        assert devices["fast"]["models"] == ["a"] and devices["slow"]["models"] == ["b"]
        assert devices["fast"]["memory"]["limit"] == 40 << 20 and devices[""]["memory"]["limit"] == 40 << 20
        assert not devices["fast"]["exclusive"] and not devices["slow"]["exclusive"] and devices["slow"]["weight"] == 0.25
        assert server.json("/v2/models/b/infer", ASK)[0] == 200
    file = write(tmp_path, f"memory_limit: 100M\nmodels: [{{name: a, path: {net}, group: part1}}]\n")
    with serve("--config", file, "--split", "1/5+4/5") as server:
        devices = {d["name"]: d for d in server.json("/v2/devices")[1]["devices"]}
        assert sorted(devices) == ["", "part0", "part1"] and devices["part1"]["models"] == ["a"]
        assert abs(devices["part1"]["memory"]["limit"] - (80 << 20)) <= 1
        assert server.json("/v2/models/a/infer", ASK)[0] == 200


def test_precision_of_one_model(net, tmp_path):
    build_model.wide_net(tmp_path / "wide.onnx")
    artifact = tmp_path / "wide.tenon"
    assert tenon("compile", tmp_path / "wide.onnx", "-o", artifact, "--precision", "bf16").returncode == 0
    file = write(tmp_path, f"""
models:
  - {{name: exact, path: {tmp_path}/wide.onnx}}
  - {{name: quick, path: {tmp_path}/wide.onnx, precision: bf16}}
  - {{name: compiled, path: {artifact}}}
""")
    with serve("--config", file) as server:
        said = {m["name"]: m for m in server.document["models"]}
        assert said["exact"]["reason"] == "" and said["quick"]["reason"] == said["compiled"]["reason"] == "computes in bf16"
        index = {m["name"]: m["reason"] for m in server.json("/v2/repository/index", {})[1]}
        assert index == {name: m["reason"] for name, m in said.items()}
        parameters = {name: server.json(f"/v2/models/{name}/config")[1]["parameters"] for name in said}
        assert parameters["quick"]["precision"] == {"string_value": "bf16"} and "precision" not in parameters["exact"]
        ask = {"inputs": [{"name": "x", "shape": [1, 512], "datatype": "FP32", "data": [i / 512 for i in range(512)]}]}
        data = {name: server.json(f"/v2/models/{name}/infer", ask)[1]["outputs"][0]["data"] for name in said}
        assert data["quick"] == data["compiled"] != data["exact"]   # as tenon compile --precision makes it
    file = write(tmp_path, f"models: [{{name: a, path: {tmp_path}/wide.onnx}}, {{name: b, path: {tmp_path}/wide.onnx, precision: f32}}]\n")
    with serve("--config", file, "--precision", "bf16") as server:
        assert [m["reason"] for m in server.document["models"]] == ["computes in bf16", ""]
    file = write(tmp_path, f"models: [{{path: {artifact}, precision: bf16}}]\n")
    done = tenon("serve", "--config", file, *PORTS)
    assert done.returncode == 2 and "its precision was settled then" in done.stderr
