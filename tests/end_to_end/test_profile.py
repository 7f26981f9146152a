"""tenon profile: times that add up, rates against measured peaks, CSV, trace, and the same in JSON."""
import copy
import csv
import io
import json

import numpy as np
import pytest

from support import build_model, command, trace_format

OP_SUMMARY = ["Device_id", "Model Name", "Model ID", "Task ID", "Stream ID", "Infer ID", "Op Name", "OP Type", "OP State", "Task Type",
              "Task Start Time(us)", "Task Duration(us)", "Task Wait Time(us)", "Block Dim", "HF32 Eligible", "Input Shapes", "Input Data Types",
              "Input Formats", "Output Shapes", "Output Data Types", "Output Formats", "Context ID"]
OP_STATISTIC = ["Device_id", "Model Name", "OP Type", "Core Type", "Count", "Total Time(us)", "Min Time(us)", "Avg Time(us)", "Max Time(us)", "Ratio(%)"]


def network(path):
    """Convolutions, a matrix product, Softmax: enough work for the clock."""
    rng = np.random.default_rng(0)
    node, weights = build_model.node, {}
    nodes, last, channels = [], "x", 3
    for i, out in enumerate((32, 64, 64)):
        weights[f"w{i}"] = rng.standard_normal((out, channels, 3, 3)).astype(np.float32) / 10
        nodes += [node("Conv", [last, f"w{i}"], [f"c{i}"], name=f"conv {i}", pads=[1, 1, 1, 1]), node("Relu", [f"c{i}"], [f"r{i}"])]
        last, channels = f"r{i}", out
    weights["m"] = rng.standard_normal((64, 128)).astype(np.float32)
    nodes += [node("ReduceMean", [last, "axes"], ["pooled"], keepdims=0), node("MatMul", ["pooled", "m"], ["logits"], name="last"),
              node("Softmax", ["logits"], ["y"])]
    weights["axes"] = np.array([2, 3])
    return build_model.model(path, nodes, [build_model.value("x", ["n", 3, 96, 96])], [build_model.value("y", ["n", 128])], weights)


@pytest.fixture(scope="module")
def profiled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("profile")
    model = network(folder / "net.onnx")
    files = {name: folder / name for name in ("ops.csv", "types.csv", "trace.json")}
    report = command.tenon_json("profile", model, "--shape", "x=1x3x96x96", "--runs", "10", "--threads", "1", "--csv", files["ops.csv"],
                                "--csv-summary", files["types.csv"], "--trace", files["trace.json"], "--cache-dir", folder / "cache")
    return report, {name: path.read_text() for name, path in files.items()}


def test_times_add_up(profiled):
    report, _ = profiled
    assert sum(op["us"] for op in report["ops"]) == pytest.approx(report["total_us"])
    assert report["total_us"] + report["overhead"]["us"] == pytest.approx(report["run_us"])
    print(f"{100 * report['accounted']:.2f} % of the run is in operators")
    assert 0.95 <= report["accounted"] <= 1
    assert sum(op["share"] for op in report["ops"]) == pytest.approx(report["accounted"])
    assert sum(t["us"] for t in report["types"]) == pytest.approx(report["total_us"])
    assert sum(t["calls"] for t in report["types"]) == sum(op["calls"] for op in report["ops"]) == 10 * len(report["ops"])
    assert report["unobserved_run_us"] > 0 and 0 < report["cpu_share"] <= 1


def test_costs_are_those_of_the_formulas(profiled):
    report, _ = profiled
    ops = {op["name"]: op for op in report["ops"]}
    second = next(op for name, op in ops.items() if "conv 1" in name)
    assert second["flops"] == 2 * 64 * 96 * 96 * 32 * 9 and second["product_dtype"] == "float32"
    assert second["bytes"] >= 4 * (32 * 96 * 96 + 64 * 32 * 9 + 64 * 96 * 96)
    assert second["gflops"] == pytest.approx(second["flops"] / (second["us"] * 1e3))
    assert second["bound"] == "compute" and 0 < second["peak"] and second["threads"] == 1
    assert second["peak"] == pytest.approx(second["roof_us"] / second["us"])
    assert second["inputs"][1] == {"dtype": "float32", "shape": [64, 32, 3, 3]}
    assert next(op for op in report["ops"] if op["type"] == "Softmax")["flops"] == 5 * 128
    for op in report["ops"]:
        assert op["min_us"] <= op["us"] / op["calls"] * report["runs"] <= op["max_us"] and op["bound"] in ("compute", "memory")
        assert all(row["kernel"] and row["reason"] for row in op["refused"])


def test_peaks_are_measured_once(profiled, tmp_path):
    report, _ = profiled
    arithmetic = {row["name"]: row for row in report["peaks"]["arithmetic"]}
    assert arithmetic["f32 base"]["one_thread"] > 1e8
    assert all(0 < rate["bytes_per_s"] < 1e13 for level in report["peaks"]["reading"] for rate in level["rates"])
    assert report["peaks"]["took_ms"] < 5000
    first = command.tenon_json("doctor", "--cache-dir", tmp_path)["peaks"]
    assert command.tenon_json("doctor", "--cache-dir", tmp_path)["peaks"] == first, "kept, not measured again"
    again = command.tenon_json("doctor", "--cache-dir", tmp_path, "--measure-peaks")["peaks"]
    assert again != first
    assert all(new["one_thread"] >= old["one_thread"] for new, old in zip(again["arithmetic"], first["arithmetic"])), "the faster stays"
    assert "measured peak" in command.tenon("doctor", "--cache-dir", tmp_path).stdout


def test_counters_are_there_or_explained(profiled):
    report, _ = profiled
    if report["counters"]["available"]:
        assert any(op["cycles"] for op in report["ops"])
    else:
        assert report["counters"]["note"] and all(op["cycles"] is None for op in report["ops"])


def test_csv_has_the_columns_of_op_summary(profiled):
    report, files = profiled
    rows = list(csv.DictReader(io.StringIO(files["ops.csv"])))
    assert list(rows[0])[:len(OP_SUMMARY)] == OP_SUMMARY
    assert {"GFLOP/s", "GB/s", "Peak(%)", "Bound", "cycles", "IPC", "LLC misses", "Kernel"} <= set(rows[0])
    assert len(rows) == len(report["ops"])
    for row, op in zip(rows, report["ops"]):
        assert row["Op Name"] == op["name"] and row["OP Type"] == op["type"] and int(row["Block Dim"]) == op["threads"]
        assert float(row["Task Duration(us)"]) == pytest.approx(op["us"] / op["calls"] * report["runs"], abs=1e-3)
        assert len(row["Input Shapes"].split(";")) == len(op["inputs"]) == len(row["Input Data Types"].split(";"))
        assert row["Input Data Types"].startswith("FLOAT") and row["OP State"] == "static"
    starts = [float(row["Task Start Time(us)"]) for row in rows]
    assert starts == sorted(starts)


def test_summary_has_the_columns_of_op_statistic(profiled):
    report, files = profiled
    rows = list(csv.DictReader(io.StringIO(files["types.csv"])))
    assert list(rows[0])[:len(OP_STATISTIC)] == OP_STATISTIC
    assert [row["OP Type"] for row in rows] == [t["type"] for t in report["types"]]
    assert sum(float(row["Ratio(%)"]) for row in rows) == pytest.approx(100 * report["accounted"], abs=0.1)


def test_trace_is_sound(profiled):
    report, files = profiled
    trace = json.loads(files["trace.json"])
    assert trace_format.problems(trace) == []
    events = trace["traceEvents"]
    runs = [e for e in events if e["ph"] == "X" and e["cat"] == "run"]
    operators = [e for e in events if e["ph"] == "X" and e["cat"] == "operator"]
    assert len(runs) == 3 and len(operators) == 3 * len(report["ops"])
    assert {"process_name", "thread_name"} == {e["name"] for e in events if e["ph"] == "M"}
    assert sum(e["ph"] == "s" and e["name"] == "next run" for e in events) == 2
    assert {e["args"]["op_name"] for e in operators} == {op["name"] for op in report["ops"]}
    for run in runs:
        assert sum(run["ts"] <= e["ts"] <= run["ts"] + run["dur"] for e in operators) == len(report["ops"])


def test_checker_finds_faults(profiled):
    _, files = profiled
    trace = json.loads(files["trace.json"])
    index = next(i for i, e in enumerate(trace["traceEvents"]) if e.get("cat") == "operator")
    flow = next(i for i, e in enumerate(trace["traceEvents"]) if e["ph"] == "f")
    first, second = trace["traceEvents"][index:index + 2]
    into_the_next = second["ts"] + second["dur"] / 2 - first["ts"]
    for at, change in ((index, {"ph": "Q"}), (index, {"dur": -1}), (index, {"dur": into_the_next}), (index, {"ts": "soon"}), (index, {"tid": "two"}),
                       (index, {"name": ""}), (flow, {"id": 77}), (flow, {"ts": 1e12}), (0, {"name": "process"})):
        broken = copy.deepcopy(trace)
        broken["traceEvents"][at].update(change)
        assert trace_format.problems(broken), change


def test_tables_for_people(profiled, tmp_path):
    model = network(tmp_path / "net.onnx")
    done = command.tenon("profile", model, "--runs", "3", "--threads", "1", "--cache-dir", tmp_path)
    assert done.returncode == 0, done.stderr
    for word in ("GFLOP/s", "GB/s", "peak %", "bound", "executor (all else)", "conv 1", "measured peaks"):
        assert word in done.stdout, word


def test_operators_in_loops_and_of_unknown_shape(tmp_path):
    """A body's operators count by iteration; a shape that depends on data is called dynamic."""
    node, value = build_model.node, build_model.value
    from onnx import TensorProto, helper
    body = helper.make_graph([node("Identity", ["go"], ["more"]), node("Sin", ["state"], ["next"], name="in the body")], "body",
                             [value("i", [], TensorProto.INT64), value("go", [], TensorProto.BOOL), value("state", ["m"])],
                             [value("more", [], TensorProto.BOOL), value("next", ["m"])])
    nodes = [node("NonZero", ["x"], ["places"], name="places"), node("Cast", ["places"], ["floats"], to=1), node("Reshape", ["floats", "flat"], ["start"]),
             node("Loop", ["five", "", "start"], ["y"], body=body)]
    model = build_model.model(tmp_path / "loop.onnx", nodes, [value("x", ["n"])], [value("y", [None])],
                              {"five": np.array(5), "flat": np.array([-1])})
    report = command.tenon_json("profile", model, "--shape", "x=16", "--input", "x=ones", "--runs", "4", "--threads", "1", "--cache-dir", tmp_path,
                                "--trace", tmp_path / "trace.json")
    calls = {op["name"]: op["calls"] for op in report["ops"]}
    assert calls["places"] == 4 and calls["in the body"] == 20
    loop = next(op for op in report["ops"] if op["type"] == "Loop")
    assert loop["calls"] == 4 and loop["bound"] == "-" and loop["flops"] == 0
    inside = sum(op["us"] for op in report["ops"] if op["name"] == "in the body")
    assert sum(op["us"] for op in report["ops"]) == pytest.approx(report["total_us"]) and inside > 0
    assert report["total_us"] <= report["run_us"], "what a body takes counts once"
    assert trace_format.problems(json.loads((tmp_path / "trace.json").read_text())) == []
    assert next(op for op in report["ops"] if op["name"] == "places")["dynamic"]
