"""Settings in files: tenon.yaml of a whole server, and what of config.pbtxt means something, is without effect, or is refused."""
import json
import re
import signal
import time

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from onnx import TensorProto

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


TRITON = """
max_batch_size: 4
dynamic_batching {
  preferred_batch_size: [ 2, 4 ]
  preserve_ordering: true
  priority_levels: 3
  default_priority_level: 2
  default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 5000000000 allow_timeout_override: true max_queue_size: 7 }
  priority_queue_policy { key: 1 value { timeout_action: REJECT default_timeout_microseconds: 250 max_queue_size: 3 } }
}
model_warmup [
  { name: "zeros" batch_size: 4 inputs { key: "x" value { data_type: TYPE_FP32 dims: [ 4 ] zero_data: true } } count: 3 },
  { name: "noise" batch_size: 1 inputs { key: "x" value { data_type: TYPE_FP32 dims: [ 4 ] random_data: true } } },
  { name: "file" batch_size: 2 inputs { key: "x" value { data_type: TYPE_FP32 dims: [ 4 ] input_data_file: "row.bin" } } }
]
"""
# What nobody here acts on; content that nobody reads may be anything.
WITHOUT_EFFECT = """
optimization { graph { level: 1 } execution_accelerators { cpu_execution_accelerator [ { name: "openvino" } ] } cuda { graph_spec [ { batch_size: 1 } ] } }
metric_tags { key: "a" value: "b" }
response_cache { enable: true }
model_transaction_policy { decoupled: false }
input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] format: FORMAT_NHWC } ]
instance_group [ { kind: KIND_CPU rate_limiter { resources [ { name: "r" count: 4 } ] priority: 2 } } ]
"""


def repository(tmp_path, text, build=build_model.small_net):
    folder = tmp_path / "models" / "net"
    (folder / "1").mkdir(parents=True)
    (folder / "warmup").mkdir()
    build(folder / "1" / "model.onnx")
    (folder / "config.pbtxt").write_text(text)
    (folder / "warmup" / "row.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    return folder.parent


def only(server):
    (model,) = server.json("/v2/repository/index", {})[1]
    return model


def test_config_pbtxt_is_told_as_it_was_read_and_may_be_sent_back(tmp_path):
    with serve("--models", repository(tmp_path, TRITON + WITHOUT_EFFECT), "--model-control", "explicit", "--load", "net") as server:
        model = only(server)
        assert model["state"] == "READY"
        ignored = ("optimization", "metric_tags", "response_cache.enable", "input.format", "instance_group.rate_limiter")
        assert sorted(model["reason"].split("; ")) == sorted(f"{name} has no effect here" for name in ignored)
        told = server.json("/v2/models/net/config")[1]
        batching = told["dynamic_batching"]
        assert batching["preserve_ordering"] and batching["priority_levels"] == 3 and batching["default_priority_level"] == 2
        assert batching["default_queue_policy"] == {"timeout_action": "DELAY", "default_timeout_microseconds": 5000000000,
                                                    "allow_timeout_override": True, "max_queue_size": 7}
        assert batching["priority_queue_policy"]["1"] == {"timeout_action": "REJECT", "default_timeout_microseconds": 250,
                                                          "allow_timeout_override": False, "max_queue_size": 3}
        assert [(w["name"], w["batch_size"], w["count"]) for w in told["model_warmup"]] == [("zeros", 4, 3), ("noise", 1, 1), ("file", 2, 1)]
        assert told["model_warmup"][2]["inputs"]["x"]["input_data_file"] == "row.bin" and told["model_warmup"][0]["inputs"]["x"]["dims"] == [4]
        with triton_grpc.InferenceServerClient(server.grpc) as client:
            assert client.get_model_config("net", as_json=True)["config"]["dynamic_batching"]["priority_queue_policy"]["1"]["max_queue_size"] == 3
        with triton_http.InferenceServerClient(server.http) as client:
            with pytest.raises(Exception, match="input_data_file is 'row.bin'; a file of the same request"):
                client.load_model("net", config=json.dumps(told))
            files = {"file:1/model.onnx": (tmp_path / "models/net/1/model.onnx").read_bytes(), "file:warmup/row.bin": bytes(16)}
            client.load_model("net", config=json.dumps(told), files=files)
        assert server.json("/v2/models/net/config")[1] == told
        assert server.json("/v2/models/net/infer", ASK)[0] == 200


@pytest.mark.parametrize("change, reason", [
    (("", "sequence_batching { max_sequence_idle_microseconds: 5 }"), "specified along with"),
    (("", "model_transaction_policy { decoupled: true }"), "model_transaction_policy.decoupled; it is not supported"),
    (("", 'model_repository_agents { agents [ { name: "checksum" } ] }'), "model_repository_agents; it is not supported"),
    (("", 'input [ { name: "x" data_type: TYPE_FP32 dims: [ 2, 2 ] reshape: { shape: [ 4 ] } } ]'), "input.reshape; it is not supported"),
    (("", 'default_model_filename: "net.plan"'), "default_model_filename is 'net.plan'"),
    (("preserve_ordering", "preserve_order"), 'line 5, column \\d+; .*no field named "preserve_order"'),
    (("max_batch_size", "max_bach_size"), 'line 2, column \\d+; .*no field named "max_bach_size"'),
    (("DELAY", "LATER"), "LATER"),
    (("DELAY", "7"), "timeout_action is 7"),
    (("default_priority_level: 2", "default_priority_level: 4"), "default_priority_level is 4; allowed: 1..priority_levels, which is 3"),
    (("default_priority_level: 2", ""), "default_priority_level is 0"),
    (("priority_levels: 3", "priority_levels: 4000000000"), "priority_levels is 4000000000"),
    (("key: 1", "key: 4"), "priority_queue_policy of level 4"),
    (("batch_size: 4 inputs", "batch_size: 5 inputs"), "model_warmup 'zeros'; batch_size is 5; allowed: 1..4"),
    (("batch_size: 4 inputs", "inputs"), "batch_size is 0"),
    (("count: 3", "count: 3000000"), "count is 3000000"),
    (("zero_data: true", ""), "one of zero_data, random_data, input_data_file"),
    (("dims: [ 4 ] zero", "dims: [ -1 ] zero"), "dims has -1"),
    (("dims: [ 4 ] zero", "dims: [ 5 ] zero"), "warm-up 'zeros'.*'x'"),
    (("dims: [ 4 ] zero", "dims: [ 4, 9000000000000000000, 9000000000000000000 ] zero"), "warm-up 'zeros': input 'x': it has .* elements"),
    (("TYPE_FP32 dims: [ 4 ] zero", "TYPE_INT8 dims: [ 4 ] zero"), "warm-up 'zeros'.*int8"),
    (('key: "x" value { data_type: TYPE_FP32 dims: [ 4 ] zero', 'key: "z" value { data_type: TYPE_FP32 dims: [ 4 ] zero'), "warm-up 'zeros'.*'z'"),
    (('"row.bin"', '"no.bin"'), "warm-up 'file': input 'x'.*no.bin"),
    (('"row.bin"', '"../config.pbtxt"'), "input_data_file is '../config.pbtxt'"),
    (('"row.bin"', '"/etc/passwd"'), "input_data_file is '/etc/passwd'"),
    (("dims: [ 4 ] input", "dims: [ 3 ] input"), "row.bin' has 16 bytes; a row has 12")])
def test_config_pbtxt_that_cannot_be_used(tmp_path, change, reason):
    old, new = change
    assert old in TRITON
    text = TRITON.replace(old, new, 1) if old else TRITON + new
    with serve("--models", repository(tmp_path, text)) as server:
        model = only(server)
        assert model["state"] == "UNAVAILABLE" and re.search(reason, model["reason"]), model["reason"]


def test_sequences_are_refused(tmp_path):
    text = """max_batch_size: 4 sequence_batching {
  direct { minimum_slot_utilization: 0.5 }
  control_input [ { name: "START" control [ { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } ] } ]
  state [ { input_name: "i" output_name: "o" data_type: TYPE_FP32 dims: [ -1 ] initial_state: { data_type: TYPE_FP32 zero_data: true } } ]
}"""
    with serve("--models", repository(tmp_path, text)) as server:
        assert only(server)["state"] == "UNAVAILABLE" and "sequence_batching; it is not supported" in only(server)["reason"]


def test_unknown_fields_in_json_are_refused(tmp_path):
    with serve("--models", repository(tmp_path, ""), "--model-control", "explicit") as server, triton_http.InferenceServerClient(server.http) as client:
        for config, reason in (({"max_bach_size": 3}, "unknown field 'max_bach_size'"), ({"dynamicBatching": {"delay": 3}}, "dynamicBatching.delay"),
                               ({"dynamic_batching": {"priority_queue_policy": {"1": {"a": 1}}}}, "priority_queue_policy.a"),
                               ({"dynamic_batching": {"default_queue_policy": {"timeout_action": "LATER"}}}, "unknown value 'LATER'"),
                               ({"sequence_batching": {"direct": {"anything": 1}}}, "sequence_batching; it is not supported")):
            with pytest.raises(Exception, match=reason):
                client.load_model("net", config=json.dumps(config))
        client.load_model("net", config=json.dumps({"maxBatchSize": 3, "optimization": {"graph": {"anything": [1, {"at": "all"}]}}}))
        assert only(server)["reason"] == "optimization has no effect here"
    assert 'load model=net reason="optimization has no effect here"' in server.errors


def table(path):
    """ids [batch, 1] -> a row of a table of 3: a file with another index shows that what is in it ran."""
    weights = {"t": np.arange(3, dtype=np.float32)}
    build_model.model(path, [build_model.node("Gather", ["t", "ids"], ["y"])], [build_model.value("ids", ["batch", 1], TensorProto.INT64)],
                      [build_model.value("y", ["batch", 1])], weights)


@pytest.mark.parametrize("data, ready", [("zero_data: true", True), ("random_data: true", True), ('input_data_file: "in"', True),
                                         ('input_data_file: "out"', False)])
def test_warm_up_runs_what_it_is_told(tmp_path, data, ready):
    text = f'max_batch_size: 2 model_warmup [ {{ name: "w" batch_size: 2 inputs {{ key: "ids" value {{ data_type: TYPE_INT64 dims: [ 1 ] {data} }} }} }} ]'
    models = repository(tmp_path, text, table)
    (models / "net/warmup/in").write_bytes(np.int64(2).tobytes())
    (models / "net/warmup/out").write_bytes(np.int64(3).tobytes())
    with serve("--models", models) as server:
        assert (only(server)["state"] == "READY") == ready, only(server)["reason"]
        assert ready or "warm-up 'w'" in only(server)["reason"]
        if ready:   # nobody asked: nothing is counted
            assert server.json("/v2/models/net/stats")[1]["model_stats"][0]["execution_count"] == 0


@pytest.mark.parametrize("word, reason", [("bf16", "computes in bf16"), ("f32", ""), ("int4", "precision 'int4'")])
def test_precision_in_config_pbtxt(tmp_path, word, reason):
    text = f'max_batch_size: 2 parameters {{ key: "precision" value {{ string_value: "{word}" }} }}'
    with serve("--models", repository(tmp_path, text, build_model.wide_net)) as server:
        assert reason in only(server)["reason"] and (only(server)["state"] == "READY") == (word != "int4")
