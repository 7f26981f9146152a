"""The other commands: reports others rely on, help, configuration."""
import json
import subprocess

import pytest

from support import build_model, command, paths

COMMANDS = ("run", "compile", "inspect", "bench", "verify", "doctor", "knobs", "version", "completion")


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    return build_model.small_net(tmp_path_factory.mktemp("net") / "net.onnx")[0]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example(name):
    done = command.tenon("help", name)
    assert done.returncode == 0 and f"tenon {name}" in done.stdout
    also = command.tenon(name, "--help")
    assert also.returncode == 0 and f"tenon {name}" in also.stdout


def test_help_lists_commands():
    done = command.tenon("help")
    assert done.returncode == 0
    assert all(name in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("arguments", (["frobnicate"], ["help", "frobnicate"], ["run"], ["compile"], ["bench"], ["completion", "tcsh"]))
def test_wrong_usage(arguments):
    done = command.tenon(*arguments)
    assert done.returncode == 2
    assert command.error_line(done)


def test_version():
    assert command.tenon("version").returncode == 0
    report = command.tenon_json("version")
    assert report["version"].count(".") == 2 and report["isa"]


def test_unknown_isa_is_refused():
    done = command.tenon("version", env={"TENON_ISA": "mmx"})
    assert done.returncode == 2 and "mmx" in command.error_line(done)


def test_bench_report(net):
    report = command.tenon_json("bench", net, "--shape", "x=1x4", "--batch", "1,8", "--duration", "0.3s", "--warmup", "0.1s", "--threads", "1")
    assert [row["batch"] for row in report["results"]] == [1, 8]
    assert {"cpu", "isa", "cores"} <= set(report["machine"])
    for row in report["results"]:
        assert {"model", "precision", "threads", "shapes", "runs", "throughput_per_s"} <= set(row)
        latency = row["latency_ms"]
        assert 0 < latency["min"] <= latency["median"] <= latency["p90"] <= latency["p95"] <= latency["p99"] <= latency["max"]
        assert row["threads"] == 1 and latency["mean"] > 0 and latency["cv"] >= 0


def test_inspect_model(net):
    report = command.tenon_json("inspect", net)
    assert report["inputs"] == [{"name": "x", "dtype": "float32", "shape": ["batch", 4]}]
    assert [row["name"] for row in report["outputs"]] == ["y"]


def test_inspect_stages(net):
    imported = command.tenon_json("inspect", net, "--stage", "import")
    assert imported["ops"] == {"MatMul": 1, "Add": 1, "Relu": 1}
    optimized = command.tenon_json("inspect", net, "--stage", "optimized")
    assert sum(optimized["ops"].values()) == 1, "matrix product, bias and activation are one"
    assert all({"name", "ms", "changes"} <= set(row) for row in optimized["passes"])
    kernels = command.tenon_json("inspect", net, "--stage", "kernels")["kernels"]
    assert all({"node", "op", "kernel", "precision", "refused"} <= set(row) for row in kernels)
    plan = command.tenon_json("inspect", net, "--stage", "plan")["memory"]
    assert {"weights", "arena_before", "arena"} <= set(plan)


def test_inspect_artifact(net, tmp_path):
    out = tmp_path / "net.tenon"
    assert command.tenon("compile", net, "-o", out).returncode == 0
    assert command.tenon_json("inspect", out)["inputs"][0]["shape"] == ["batch", 4]


def test_doctor():
    assert command.tenon("doctor").returncode == 0
    assert isinstance(command.tenon_json("doctor"), dict)


def test_knobs():
    done = command.tenon("knobs")
    assert done.returncode == 0 and "TENON_ISA" in done.stdout and "TENON_THREADS" in done.stdout


@pytest.mark.parametrize("shell", ("bash", "zsh", "fish"))
def test_completion(shell, tmp_path):
    done = command.tenon("completion", shell)
    assert done.returncode == 0 and "compile" in done.stdout
    if shell == "bash":
        script = tmp_path / "completion.bash"
        script.write_text(done.stdout)
        subprocess.run(["bash", "-n", script], check=True)


def test_environment_and_command_line(net):
    flags = ["bench", net, "--shape", "x=1x4", "--duration", "0.1s", "--warmup", "0s"]
    by_environment = command.tenon_json(*flags, env={"TENON_THREADS": "1"})
    assert by_environment["results"][0]["threads"] == 1
    by_flag = command.tenon_json(*flags, "--threads", "2", env={"TENON_THREADS": "1"})
    assert by_flag["results"][0]["threads"] == 2
    shown = command.tenon(*flags, "--print-config", env={"TENON_THREADS": "1"})
    assert shown.returncode == 0 and "threads" in shown.stdout


def test_json_is_one_document_and_nothing_else(net):
    for arguments in (["version"], ["knobs"], ["doctor"], ["inspect", net], ["run", net, "--input", "x=ones", "--shape", "x=1x4"]):
        done = command.tenon(*arguments, "--json")
        assert done.returncode == 0 and done.stderr == ""
        json.loads(done.stdout)


def test_metadata_survives():
    report = command.tenon_json("inspect", paths.model("ppocr/ch_PP-OCRv4_rec_infer.onnx"))
    assert report["inputs"][0]["name"] == "x"
    assert report["metadata"]["character"].splitlines()[:3] == ["'", "疗", "绚"]


def test_libraries_for_pictures_are_loaded_when_needed():
    """FFmpeg brings a hundred libraries, which no other command should wait for."""
    listed = command.tenon("version", env={"LD_TRACE_LOADED_OBJECTS": "1"}).stdout
    assert "libc.so" in listed and "libav" not in listed and "libsw" not in listed
