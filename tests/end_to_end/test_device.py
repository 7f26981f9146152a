"""tenon device: the machine, and the groups of a running server."""
import os
import pathlib

import pytest

from end_to_end.serving import serve
from support import build_model
from support.command import tenon, tenon_json


def test_list_without_a_server():
    document = tenon_json("device", "list", "--server", "127.0.0.1:1")
    device = document["devices"][0]
    assert device["name"] == "cpu" and not document["serving"]
    assert set(device["cores"]) == os.sched_getaffinity(0) and 0 <= device["utilisation"] <= 1
    assert device["memory"]["limit"] > device["memory"]["used"] > 0
    text = tenon("device", "list", "--server", "127.0.0.1:1").stdout
    header, row = text.splitlines()[:2]
    assert "cpu" in row and "OK" in row and "temp C" in header
    assert (device["temperature"] is None) == (" - " in row)   # most virtual machines show none


def test_split_group_reset(tmp_path):
    build_model.small_net(tmp_path / "net.onnx")
    with serve("--models", tmp_path) as server:
        at = ("--server", server.http)
        listed = tenon_json("device", "list", *at)
        assert listed["serving"] and listed["devices"][0]["models"] == ["net"]
        cores = listed["devices"][0]["cores"]
        if len(cores) < 2:
            pytest.skip("one core cannot be split")
        made = tenon_json("device", "group", "side", "--cores", cores[0], *at)
        assert made["groups"] == [{"name": "side", "cores": cores[:1]}]
        assert [d["name"] for d in tenon_json("device", "list", *at)["devices"]] == ["cpu", "cpu:side"]
        assert tenon_json("device", "reset", *at)["removed"] == ["side"]
        if len(cores) == 2:   # a quarter is no whole number of cores: both parts have all, by weight
            parts = tenon_json("device", "split", "--layout", "1/4+3/4", *at)["groups"]
            assert parts == [{"name": "part0", "cores": cores, "weight": 0.25, "quota": 0.5},
                             {"name": "part1", "cores": cores, "weight": 0.75, "quota": 1.5}]
            assert [(d["exclusive"], d["weight"]) for d in tenon_json("device", "list", *at)["devices"]] == [(False, 1), (False, 0.25), (False, 0.75)]
            assert tenon_json("device", "reset", *at)["removed"] == ["part0", "part1"]
        weighed = tenon("device", "group", "side", "--cores", cores[0], "--weight", "2.5", *at)
        assert weighed.returncode == 0
        assert "shared, weight 2.5" in tenon("device", "list", *at).stdout
        for wrong in ({"cores": cores[:1], "exclusive": False, "weight": 0}, {"cores": cores[:1], "weight": 2},
                      {"cores": cores[:1], "exclusive": False, "weight": 1e6}, {"cores": cores[:1], "weight": "2"},
                      {"cores": cores[:1], "quota": 1.5}, {"cores": cores[:1], "quota": -1}, {"cores": cores[:1], "quota": "1"}):
            assert server.json("/v2/devices/side", wrong)[0] == 400, wrong
        assert tenon_json("device", "reset", *at)["removed"] == ["side"]
        refused = tenon("device", "split", "--layout", "2", *at)   # 'net' has no group: it would have no core
        assert refused.returncode == 2 and "net" in refused.stderr
        assert len(tenon_json("device", "list", *at)["devices"]) == 1   # all parts or none
        looks = tenon("device", "watch", "--count", "2", "--interval", "0.1", *at)
        assert looks.returncode == 0 and looks.stdout.count("cpu") >= 2


def own_cgroups():
    """What the server made below its own cgroup, which is ours too."""
    with open("/proc/self/cgroup") as file:
        rows = [line.rstrip("\n").split(":", 2) for line in file]
    roots = [f"/sys/fs/cgroup/{controllers}{path}" for _, controllers, path in rows if "cpu" in controllers.split(",")]
    roots += [f"/sys/fs/cgroup{path}" for _, controllers, path in rows if not controllers]
    return sorted(str(p) for root in roots for p in pathlib.Path(root).glob("tenon-*"))


def test_a_fraction_of_a_core_where_the_kernel_keeps_it(tmp_path):
    (tmp_path / "m" / "net" / "1").mkdir(parents=True)
    build_model.small_net(tmp_path / "m" / "net" / "1" / "model.onnx")
    before = own_cgroups()
    with serve("--models", tmp_path / "m", "--model-control", "explicit") as server:
        at, core = ("--server", server.http), min(os.sched_getaffinity(0))
        means = tenon_json("device", "list", *at)["devices"][0]["quota_means"]
        assert f"fractions of a core by {means}" in tenon("device", "list", *at).stdout
        if means.startswith("weights"):
            assert "; " in means   # and why
            pytest.skip(means)
        assert own_cgroups() == before   # nothing before somebody asks
        assert tenon("device", "group", "side", "--cores", core, "--quota", "0.25", *at).returncode == 0
        assert f"0.25 CPUs by {means}" in tenon("device", "list", *at).stdout
        (tmp_path / "m" / "net" / "tenon.yaml").write_text("group: side\n")
        assert server.json("/v2/repository/models/net/load", {})[0] == 200
        (made,) = [p for p in own_cgroups() if p not in before]
        assert f"tenon-{server.process.pid}-" in made
        limit = {name: pathlib.Path(made, name) for name in ("cpu.max", "cpu.cfs_quota_us")}
        assert any(file.exists() and file.read_text().split()[0] == "5000" for file in limit.values())
        threads = pathlib.Path(made, "cgroup.threads" if limit["cpu.max"].exists() else "tasks")
        assert threads.read_text().split()
        body = {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}
        assert server.json("/v2/models/net/infer", body)[0] == 200
        assert tenon("device", "group", "side", "--cores", core, "--quota", "0.5", *at).returncode == 0   # live
        assert any(file.exists() and file.read_text().split()[0] == "10000" for file in limit.values())
        assert [p for p in own_cgroups() if p not in before] == [made]
        assert server.json("/v2/models/net/infer", body)[0] == 200
    assert own_cgroups() == before


def test_a_server_with_keys(tmp_path):
    (tmp_path / "models").mkdir()
    build_model.small_net(tmp_path / "models" / "net.onnx")
    asks, rules = "asks-0123456789abcdef", "rules-0123456789abcdef"
    (tmp_path / "keys").write_text(f"{asks} infer\n{rules} admin\n")
    (tmp_path / "mine").write_text(f"{rules}\n")
    (tmp_path / "weak").write_text(asks)
    (tmp_path / "empty").write_text("\n")
    with serve("--models", tmp_path / "models", "--api-keys", tmp_path / "keys") as server:
        def device(*arguments, key=None):
            return tenon("device", *arguments, "--server", server.http, *(("--api-key-file", tmp_path / key) if key else ()))

        refused = device("list")
        assert refused.returncode == 2 and "key" in refused.stderr   # not: no server, so the machine alone
        assert device("list", key="weak").returncode == 0
        assert device("list", key="mine").returncode == 0
        cores = sorted(os.sched_getaffinity(0))
        assert device("group", "side", "--cores", cores[0], "--shared", key="weak").returncode == 2
        assert device("group", "side", "--cores", cores[0], "--shared", key="mine").returncode == 0
        assert device("list", key="empty").returncode == 2
        assert device("list", key="missing").returncode == 3


def test_wrong_use():
    assert tenon("device", "list", "--count", "x").returncode == 2
    assert tenon("device", "split", "--server", "127.0.0.1:1").returncode == 3
    assert tenon("device", "group").returncode == 2
