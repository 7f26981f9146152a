"""tenon device: the machine, and the groups of a running server."""
import os

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
    assert "cpu" in text and "OK" in text


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
        if len(cores) == 2:
            assert tenon("device", "split", "--layout", "1/4+3/4", *at).returncode == 4
        refused = tenon("device", "split", "--layout", "2", *at)   # 'net' has no group: it would have no core
        assert refused.returncode == 2 and "net" in refused.stderr
        assert len(tenon_json("device", "list", *at)["devices"]) == 1   # all parts or none
        looks = tenon("device", "watch", "--count", "2", "--interval", "0.1", *at)
        assert looks.returncode == 0 and looks.stdout.count("cpu") >= 2


def test_wrong_use():
    assert tenon("device", "list", "--count", "x").returncode == 2
    assert tenon("device", "split", "--server", "127.0.0.1:1").returncode == 3
    assert tenon("device", "group").returncode == 2
