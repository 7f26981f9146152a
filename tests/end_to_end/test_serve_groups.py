"""Clients of resource groups: served on the cores of the group that they ask, wherever they came in."""
import http.client
import json
import pathlib
import socket

import numpy as np
import pytest

from end_to_end.serving import serve
from support import build_model


@pytest.fixture
def server(tmp_path):
    """Models `left` and `right` in groups of those names, a core each."""
    for name in ("left", "right"):
        (tmp_path / name / "1").mkdir(parents=True)
        build_model.small_net(tmp_path / name / "1" / "model.onnx")
        (tmp_path / name / "tenon.yaml").write_text(f"threads: 1\ngroup: {name}\n")
    with serve("--models", tmp_path, "--model-control", "explicit") as server:
        cores = server.json("/v2/devices")[1]["devices"][0]["cores"]
        if len(cores) < 2:
            pytest.skip("two groups with cores of their own need two cores")
        server.cores = dict(zip(("left", "right"), cores))
        for name, core in server.cores.items():
            assert server.json(f"/v2/devices/{name}", {"cores": [core]})[0] == 200
            assert server.json(f"/v2/repository/models/{name}/load", {})[0] == 200
        yield server


def threads_on(server, core):
    """How many threads may run on this core alone."""
    threads = pathlib.Path(f"/proc/{server.process.pid}/task").glob("*/status")
    return sum(f"Cpus_allowed_list:\t{core}\n" in t.read_text() for t in threads)


def request(model, number):
    ask = {"id": str(number), "inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [number, 2, 3, 4]}]}
    return json.dumps(ask).encode()


def test_a_client_moves_to_the_loop_of_the_group_it_asks(server):
    host, port = server.http.rsplit(":", 1)
    client = http.client.HTTPConnection(host, int(port))

    def ask(model, times):
        for number in range(times):
            client.request("POST", f"/v2/models/{model}/infer", request(model, number))
            answer = client.getresponse()
            assert answer.status == 200 and json.loads(answer.read())["id"] == str(number)

    before = {name: threads_on(server, core) for name, core in server.cores.items()}
    ask("left", 1)   # one answer says little of what comes next
    assert threads_on(server, server.cores["left"]) == before["left"]
    ask("left", 3)
    assert threads_on(server, server.cores["left"]) == before["left"] + 1
    assert threads_on(server, server.cores["right"]) == before["right"]
    ask("right", 3)
    ask("left", 3)
    ask("right", 3)   # the loops are there already
    assert {name: threads_on(server, core) for name, core in server.cores.items()} == {n: b + 1 for n, b in before.items()}
    server.check_invariant()


def test_requests_sent_ahead_move_with_their_client(server):
    host, port = server.http.rsplit(":", 1)
    models = ["left", "left", "left", "right", "right", "right", "left", "right", "left", "left"] * 4
    wanted = {}
    for number in range(len(models)):
        answer = server.json(f"/v2/models/{models[number]}/infer", json.loads(request(models[number], number)))[1]
        wanted[str(number)] = answer["outputs"][0]["data"]
    with socket.create_connection((host, int(port))) as client, client.makefile("rb") as answers:
        for number, model in enumerate(models):
            body = request(model, number)
            client.sendall(f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        for number, model in enumerate(models):
            assert answers.readline() == b"HTTP/1.1 200 OK\r\n"
            headers = http.client.parse_headers(answers)
            answer = json.loads(answers.read(int(headers["Content-Length"])))
            assert (answer["id"], answer["model_name"]) == (str(number), model)
            assert np.array_equal(answer["outputs"][0]["data"], wanted[str(number)])
    server.check_invariant()
