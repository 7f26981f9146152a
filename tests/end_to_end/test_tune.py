"""tenon tune without the guard: kernels by measurement, never another result; records of what was decided; interruption; options
that contradict each other; reports."""
import json
import random
import signal
import sqlite3
import subprocess
import time

import jsonschema
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from end_to_end.serving import serve
from support import command, models, paths


@pytest.fixture
def net(tmp_path):
    """Convolutions that several kernels can serve, and a product."""
    rng = np.random.default_rng(4)

    def weights(name, *shape):
        return numpy_helper.from_array((rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], name="conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], name="relu1"),
        helper.make_node("Conv", ["b", "w2"], ["c"], name="conv2", pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["c"], ["d"], name="pool"),
        helper.make_node("Flatten", ["d"], ["e"], name="flat"),
        helper.make_node("MatMul", ["e", "w3"], ["y"], name="head"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 32, 28, 28])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 10])
    constants = [weights("w1", 32, 32, 3, 3), weights("w2", 48, 32, 3, 3), weights("w3", 48, 10)]
    graph = helper.make_graph(nodes, "net", [x], [y], constants)
    path = tmp_path / "net.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString())
    np.save(tmp_path / "x.npy", rng.standard_normal((2, 32, 28, 28)).astype(np.float32))
    return path


def output(model, folder, **environment):
    done = command.tenon("run", model, "--input", f"x={folder / 'x.npy'}", "--output", folder, env=environment)
    assert done.returncode == 0, done.stderr
    return np.load(folder / "y.npy")


def test_kernels_are_measured_and_the_result_stays(net, tmp_path):
    exact = output(net, tmp_path)
    report = command.tenon_json("tune", net, "-o", tmp_path / "net.tenon", "--input", f"x={tmp_path / 'x.npy'}", "--threads", "1",
                                "--budget", "20s", "--report", tmp_path / "report.json")
    assert {"groups", "memory", "latency_ms", "kernels", "ops"} <= set(report) and report["ops"] == []
    kernels = report["kernels"]
    rows = {r["name"]: r for r in kernels["operators"]}
    assert {"conv1", "conv2"} <= set(rows)     # more than one kernel can serve them
    for row in rows.values():
        names = [c["kernel"] for c in row["candidates"]]
        assert len(names) > 1 and row["winner"] in names and all(c["us"] > 0 for c in row["candidates"])
    assert json.loads((tmp_path / "report.json").read_text())["kernels"] == kernels
    served = {k["node"]: k["kernel"] for k in command.tenon_json("inspect", tmp_path / "net.tenon", "--stage", "kernels")["kernels"]}
    for name, row in rows.items():
        assert served[name] == (row["winner"] if kernels["accepted"] else row["candidates"][0]["kernel"])
    np.testing.assert_allclose(output(tmp_path / "net.tenon", tmp_path), exact, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("isa", ["baseline", "avx2"])
def test_a_choice_made_for_another_cpu_gives_way(net, tmp_path, isa):
    command.tenon_json("tune", net, "-o", tmp_path / "net.tenon", "--threads", "1", "--budget", "10s")
    exact = output(net, tmp_path)
    np.testing.assert_allclose(output(tmp_path / "net.tenon", tmp_path, TENON_ISA=isa), exact, rtol=1e-3, atol=1e-4)


BAD = {
    "no output": ([], 2, "-o"),
    "p99": (["-o", "OUT", "--p99", "5ms"], 2, "--p99"),
    "unknown stage": (["-o", "OUT", "--stage", "best"], 2, "stage"),
    "allow without data": (["-o", "OUT", "--allow", "bf16"], 2, "--data"),
    "unknown precision": (["-o", "OUT", "--allow", "int3", "--data", "DATA"], 2, "int3"),
    "precision": (["-o", "OUT", "--precision", "bf16"], 2, "--allow"),
    "drop": (["-o", "OUT", "--max-drop", "much"], 2, "much"),
    "budget": (["-o", "OUT", "--budget", "soon"], 2, "soon"),
    "no data": (["-o", "OUT", "--allow", "bf16", "--data", "nowhere"], 3, "nowhere"),
}


@pytest.mark.parametrize("what", BAD)
def test_asked_wrongly(net, tmp_path, what):
    flags, code, word = BAD[what]
    flags = [str(tmp_path / "out.tenon") if f == "OUT" else str(tmp_path) if f == "DATA" else f for f in flags]
    done = command.tenon("tune", net, *flags)
    assert done.returncode == code and word in command.error_line(done), (done.returncode, done.stderr)
    assert not (tmp_path / "out.tenon").exists()


def tune(folder, *flags, budget="30s", **options):
    return command.tenon_json("tune", folder / "net.onnx", "-o", folder / "net.tenon", "--input", f"x={folder / 'x.npy'}", "--threads", "1",
                              "--records", folder / "records.sqlite", "--budget", budget, *flags, **options)


def notes(folder, *flags, **options):
    """What a tuning that succeeds says on stderr of its records."""
    done = command.tenon("tune", folder / "net.onnx", "-o", folder / "net.tenon", "--input", f"x={folder / 'x.npy'}", "--threads", "1",
                         "--budget", "10s", *flags, **options)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stderr.splitlines() if "records" in line]


def test_the_same_records_give_the_same_artifact(net, tmp_path):
    first = tune(tmp_path)
    assert first["records"]["added"] > 0 and {r["source"] for r in first["kernels"]["operators"]} == {"measured"}
    artifact, y = (tmp_path / "net.tenon").read_bytes(), output(tmp_path / "net.tenon", tmp_path)
    second = tune(tmp_path)
    assert {r["source"] for r in second["kernels"]["operators"]} == {"records"} and second["records"]["added"] == 0
    assert [r["winner"] for r in second["kernels"]["operators"]] == [r["winner"] for r in first["kernels"]["operators"]]
    assert (tmp_path / "net.tenon").read_bytes() == artifact
    np.testing.assert_array_equal(output(tmp_path / "net.tenon", tmp_path), y)


def test_records_go_from_file_to_file(net, tmp_path):
    tune(tmp_path)
    at = ["--records", tmp_path / "records.sqlite"]
    count = command.tenon_json("tune", "export", tmp_path / "a.json", *at)["records"]
    assert count > 0 and len(json.loads((tmp_path / "a.json").read_text())["choices"]) > 0
    command.tenon_json("tune", "export", tmp_path / "b.sqlite", *at)
    command.tenon_json("tune", "prune", "--all", *at)
    for file in ("a.json", "b.sqlite"):
        report = command.tenon_json("tune", "import", tmp_path / file, *at)
        assert report["added"] == (count if file == "a.json" else 0) and report["differing"] == 0
    merged = command.tenon_json("tune", "merge", tmp_path / "a.json", tmp_path / "b.sqlite", "-o", tmp_path / "c.json")
    assert merged["records"] == count and (tmp_path / "c.json").read_text() == (tmp_path / "a.json").read_text()
    assert {r["source"] for r in tune(tmp_path)["kernels"]["operators"]} == {"records"}
    assert command.tenon_json("tune", "prune", *at)["removed"] == 0
    assert command.tenon_json("tune", "prune", *at, env={"TENON_ISA": "avx2"})["kept"] == 0


@pytest.mark.parametrize("damage", ["", "garbage", "[]", '{"tenon_records": 1, "choices": [{}]}', "SQLite format 3\0garbage"])
def test_a_damaged_file_is_not_imported(tmp_path, damage):
    (tmp_path / "bad").write_text(damage)
    done = command.tenon("tune", "import", tmp_path / "bad", "--records", tmp_path / "records.sqlite")
    assert done.returncode == 3 and "bad" in command.error_line(done)
    done = command.tenon("tune", "merge", tmp_path / "bad", "-o", tmp_path / "out.json")
    assert done.returncode == 3 and not (tmp_path / "out.json").exists()


def test_records_that_are_of_no_use_are_told_once(net, tmp_path):
    records = tmp_path / "r.sqlite"
    assert notes(tmp_path, "--records", records) == []
    assert len(notes(tmp_path, "--records", records, env={"TENON_ISA": "avx2"})) == 1   # another CPU
    with sqlite3.connect(records) as db:
        db.execute("UPDATE choices SET build = 'older'")
        db.execute("DELETE FROM timings")
        db.execute("DELETE FROM choices WHERE machine NOT IN (SELECT min(machine) FROM choices)")
    db.close()
    assert len(notes(tmp_path, "--records", records)) == 1
    db = sqlite3.connect(records, isolation_level=None)
    db.execute("BEGIN EXCLUSIVE")
    assert len(notes(tmp_path, "--records", records)) == 1   # locked
    db.close()
    for bytes_ in (b"garbage" * 1000, records.read_bytes()[:5000], b""):
        (tmp_path / "bad").write_bytes(bytes_)
        assert len(notes(tmp_path, "--records", tmp_path / "bad")) == (1 if bytes_ else 0)
        assert not bytes_ or (tmp_path / "bad").read_bytes() == bytes_
    assert len(notes(tmp_path, "--records", tmp_path)) == 1    # a folder
    assert len(notes(tmp_path, "--records", "/proc/nowhere/records")) == 1   # cannot be made
    assert notes(tmp_path, "--records", "none") == []


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_stopped_at_any_moment_it_leaves_a_model_that_works(net, tmp_path, how):
    exact = output(net, tmp_path)
    arguments = [paths.TENON, "tune", net, "-o", tmp_path / "net.tenon", "--input", f"x={tmp_path / 'x.npy'}", "--threads", "1", "--records",
                 tmp_path / "records.sqlite", "--budget", "20s", "--resume", "--quiet"]
    start = time.monotonic()
    subprocess.run(arguments, check=True, stderr=subprocess.DEVNULL)
    longest = time.monotonic() - start
    (tmp_path / "net.tenon").unlink()
    (tmp_path / "records.sqlite").unlink()
    choose = random.Random(5)
    for i in range(6):
        process = subprocess.Popen(arguments, stderr=subprocess.DEVNULL)
        try:
            process.wait(longest * choose.uniform(0.1, 1))
        except subprocess.TimeoutExpired:
            process.send_signal(how)
            code = process.wait()
            assert how == signal.SIGKILL or code in (0, 130), code
        if (tmp_path / "net.tenon").exists():
            np.testing.assert_allclose(output(tmp_path / "net.tenon", tmp_path), exact, rtol=1e-3, atol=1e-4, err_msg=f"stop {i}")
    report = tune(tmp_path, "--resume")
    assert report["kernels"]["complete"] and tune(tmp_path, "--resume")["records"]["added"] == 0


def test_without_time_it_is_the_default(net, tmp_path):
    report = tune(tmp_path, budget="0s")
    assert not report["kernels"]["complete"] and not report["kernels"]["accepted"] and report["records"]["added"] == 0
    np.testing.assert_array_equal(output(tmp_path / "net.tenon", tmp_path), output(net, tmp_path))


SCHEMA = json.loads((paths.ROOT / "docs" / "tune-report.schema.json").read_text())


def test_the_report_is_as_its_schema_says(net, tmp_path):
    report = tune(tmp_path, "--report", tmp_path / "report.json", "--report", tmp_path / "report.html")
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(report, SCHEMA)
    assert json.loads((tmp_path / "report.json").read_text()) == report
    operators = {r["name"]: r for r in report["operators"]}
    assert {"conv1", "conv2", "pool", "head"} <= set(operators)
    for name in ("conv1", "conv2", "head"):
        row = operators[name]
        assert row["before_us"] > 0 and row["after_us"] > 0 and row["flops"] > 0 and row["roof_us"] > 0, row
    assert report["groups"]["before"] == 6 and report["memory"]["before"]["charged"] > 0
    (aoe,) = [v for k, v in report.items() if k.startswith("report_")]
    assert aoe[1]["OPAT"]["repo_summary"]["total_num"] > 0


def test_the_page_needs_nothing_else_and_escapes_names(net, tmp_path):
    import onnx
    model = onnx.load(net)
    for node in model.graph.node:
        node.name = f"<script>alert('{node.name}')</script>&\"" + node.name
    onnx.save(model, net)
    tune(tmp_path, "--report", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and page.count("<svg") >= 2
    assert "<script" not in page and "&lt;script&gt;alert(&#39;conv1&#39;)" in page
    for outside in ("http:", "https:", "src=", "href=", "url(", "@import"):
        assert outside not in page, outside


def test_Q04_tuned_on_one_shape_it_serves_others(net, tmp_path):
    tune(tmp_path)
    for batch in (1, 5):
        np.save(tmp_path / "x.npy", models.floats(batch, 32, 28, 28, seed=batch))
        np.testing.assert_allclose(output(tmp_path / "net.tenon", tmp_path), output(net, tmp_path), rtol=1e-3, atol=1e-4)


def test_without_data_every_operator_stays_in_f32(net, tmp_path):
    """No silent change of precision, whatever the records of other tunings hold."""
    report = tune(tmp_path)
    assert report["ops"] == [] and "guard" not in report
    kernels = command.tenon_json("inspect", tmp_path / "net.tenon", "--stage", "kernels")["kernels"]
    assert {k["precision"] for k in kernels if k["kernel"]} == {"float32"}


def test_serving_search(net, tmp_path):
    found = command.tenon_json("tune", net, "-o", tmp_path / "tenon.yaml", "--stage", "serve", "--shape", "x=1x32x28x28", "--budget", "2s",
                               "--max-batch", "4", "--p99", "10s")["serve"]
    best = found["trials"][found["best"]]
    assert all(t["failed"] == 0 and t["requests"] > 0 and t["within"] for t in found["trials"])
    assert best["throughput_per_s"] == max(t["throughput_per_s"] for t in found["trials"])
    with serve("--config", tmp_path / "tenon.yaml") as served:
        _, config = served.json("/v2/models/net/config")
        assert config["max_batch_size"] == best["max_batch"]
        assert config["instance_group"][0]["count"] == best["instances"]
        status, answer = served.json("/infer/net", {"x": np.zeros((1, 32, 28, 28)).tolist()})
        assert status == 200 and answer["outputs"][0]["shape"] == [1, 10]


def test_serving_search_without_a_chance(net, tmp_path):
    done = command.tenon("tune", net, "-o", tmp_path / "tenon.yaml", "--stage", "serve", "--shape", "x=1x32x28x28", "--budget", "1s", "--p99",
                         "1us", "--precision", "bf16")
    assert done.returncode == 0 and "nothing met --p99" in done.stderr
    with serve("--config", tmp_path / "tenon.yaml") as served:   # what was measured is what is served
        assert [m["reason"] for m in served.document["models"]] == ["computes in bf16"]
