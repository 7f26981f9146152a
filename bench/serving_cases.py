"""The cases of bench/serving that ask how fast. Each takes a Report and the seconds of one load."""
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import problems
from end_to_end import serving
from serving_load import Load, OtherProcesses, closed, http_request, infer_request, latencies, opened, quantile, run, stopped
from support import build_model, paths

CORES = sorted(os.sched_getaffinity(0))
SERVER, CLIENTS = CORES[:1], CORES[-1:]


class Report:
    """Numbers and their limits, printed as they come."""

    def __init__(self):
        self.rows, self.case = [], ""

    def begin(self, case):
        self.case = case
        print(f"{case}\n  {'':58}{'measured':>12}{'limit':>14}", flush=True)

    def add(self, what, value, most=None, least=None, unit=""):
        holds = None if most is None and least is None else (most is None or value <= most) and (least is None or value >= least)
        limit = f"<= {most:g}" if most is not None else f">= {least:g}" if least is not None else ""
        print(f"  {what:58}{value:>12.4g}{limit:>14} {unit:6}{'' if holds in (None, True) else 'FAILS'}", flush=True)
        self.rows.append({"case": self.case, "what": what, "value": value, "most": most, "least": least, "unit": unit, "holds": holds})


@contextlib.contextmanager
def serve(*arguments, cores=None):
    """tenon serve, on `cores` when they are named."""
    before = os.sched_getaffinity(0)
    if cores:
        os.sched_setaffinity(0, cores)   # inherited
    try:
        server = serving.serve(*arguments)
        served = server.__enter__()
    finally:
        os.sched_setaffinity(0, before)
    try:
        yield served
    finally:
        server.__exit__(None, None, None)


def rows_of(inputs, count):
    return {name: x[:count] for name, x in inputs.items()}


def in_process(model, inputs, threads, seconds, cores):
    """Rows a second of `tenon bench` at this batch."""
    shapes = [f"--shape={name}={'x'.join(map(str, x.shape))}" for name, x in inputs.items()]
    done = subprocess.run(["taskset", "-c", ",".join(map(str, cores)), paths.TENON, "bench", model, *shapes, "--threads", str(threads),
                           "--duration", f"{seconds}s", "--json"], check=True, capture_output=True, text=True)
    rows = next(iter(inputs.values())).shape[0]
    return rows * 1e3 / json.loads(done.stdout)["results"][0]["latency_ms"]["mean"]


def saturation(report, seconds):
    """The server has one core and the clients the other; `tenon bench` runs on the server's core while that is stopped."""
    for name in ("minilm", "rec"):
        model, batch = problems.path_of(name), 8
        inputs = problems.inputs_of(name, batch)
        loads = {"requests of 8 rows": (inputs, 2), "requests of 1 row, 16 clients": (rows_of(inputs, 1), 2 * batch)}
        with serve(f"m={model}", "--threads", 1, "--max-batch", batch, cores=SERVER) as server:
            for what, (asked, clients) in loads.items():
                message = infer_request("m", asked)
                run(closed, server.http, [message], clients, 0.5, cores=CLIENTS)
                ratios = []
                for _ in range(3):
                    with stopped(server.process):
                        alone = in_process(model, inputs, 1, seconds / 3, SERVER)
                    began = time.perf_counter()
                    rows = run(closed, server.http, [message], clients, seconds / 3, cores=CLIENTS)
                    ended = max(r[0] for r in rows)
                    served = len(latencies(rows)) * next(iter(asked.values())).shape[0] / (ended - began)
                    ratios.append(served / alone)
                    assert len(latencies(rows)) == len(rows), {r[2] for r in rows}
                report.add(f"{name}, {what}: of {alone:.0f} rows/s in process", quantile(ratios, 0.5), least=0.9)
            report.add(f"{name}: rows of a run", server.total("nv_inference_count") / server.total("nv_inference_exec_count"))


def identity(path, width=4):
    return build_model.model(path, [build_model.node("Identity", ["x"], ["y"])], [build_model.value("x", ["batch", width])],
                             [build_model.value("y", ["batch", width])])


def grpc_times(address, rounds, each):
    """Seconds of infer and of an empty handler, in turn, from one client."""
    import grpc
    from tritonclient.grpc import service_pb2, service_pb2_grpc
    request = service_pb2.ModelInferRequest(model_name="m", raw_input_contents=[bytes(16)])
    request.inputs.add(name="x", datatype="FP32", shape=[1, 4])
    times = {"infer": [], "empty": []}
    with grpc.insecure_channel(address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        calls = {"infer": lambda: stub.ModelInfer(request), "empty": lambda: stub.ServerLive(service_pb2.ServerLiveRequest())}
        for _ in range(rounds):
            for name, call in calls.items():
                for _ in range(each):
                    began = time.perf_counter()
                    call()
                    times[name].append(time.perf_counter() - began)
    return times


def overhead(report, seconds):
    """One client; both kinds of request in turn, so that a slow moment of the machine hits both."""
    with tempfile.TemporaryDirectory() as folder, serve(f"m={identity(pathlib.Path(folder) / 'm.onnx')}") as server:
        messages = {"infer": infer_request("m", {"x": np.zeros((1, 4), np.float32)}), "empty": http_request("/v2/health/live", method="GET")}
        times = {name: [] for name in messages}
        for _ in range(20):
            for name, message in messages.items():
                times[name] += latencies(run(closed, server.http, [message], 1, seconds / 40))
        by_protocol = {"HTTP": times, "gRPC": grpc_times(server.grpc, 20, 100)}
    for protocol, t in by_protocol.items():
        middle = {name: 1e6 * quantile(values, 0.5) for name, values in t.items()}
        report.add(f"{protocol}: p50 of an inference", middle["infer"], unit="us")
        report.add(f"{protocol}: above an empty handler", middle["infer"] - middle["empty"], most=150, unit="us")


def gears(report, seconds):
    """MiniLM on short sentences (16 tokens) from 16 clients, in batches of preferred sizes or each alone."""
    model = problems.path_of("minilm")
    message = infer_request("m", problems.tokens(1, 16))
    rates, lone = {}, {}
    settings = {"each alone": ["--max-batch", 0], "gears 1, 4, 8": ["--max-batch", 8, "--preferred-batch", 1, "--preferred-batch", 4,
                                                                    "--preferred-batch", 8, "--max-queue-delay", 5000]}
    for what, flags in settings.items():
        with serve(f"m={model}", "--threads", 1, *flags, cores=SERVER) as server:
            run(closed, server.http, [message], 16, 1, cores=CLIENTS)
            rates[what] = len(run(closed, server.http, [message], 16, seconds, cores=CLIENTS)) / seconds
            time.sleep(0.2)
            lone[what] = 1e3 * quantile(latencies(run(closed, server.http, [message], 1, seconds / 2, cores=CLIENTS)), 0.5)
    for what, rate in rates.items():
        report.add(what, rate, unit="1/s")
    report.add("gain", rates["gears 1, 4, 8"] / rates["each alone"], least=1.3)
    report.add("a lone request with a delay of 5 ms configured, p50", lone["gears 1, 4, 8"], unit="ms")
    report.add("the same without", lone["each alone"], unit="ms")
    report.add("its extra", lone["gears 1, 4, 8"] - lone["each alone"], most=1, unit="ms")


def folder_of(models, folder):
    """A folder of models: {name: (problem, lines of its tenon.yaml)}."""
    for name, (problem, settings) in models.items():
        version = pathlib.Path(folder) / name / "1"
        version.mkdir(parents=True)
        (version / "model.onnx").symlink_to(problems.path_of(problem))
        (version.parent / "tenon.yaml").write_text(settings)
    return folder


@contextlib.contextmanager
def partitions(groups):
    """rec and bert on a core of their own each, or on all cores together."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {name: f"threads: 1\ngroup: {group}\n" for name, group in groups.items()}
        folder_of({"rec": ("rec", settings.get("rec", "")), "bert": ("bert_base", settings.get("bert", ""))}, folder)
        with serve("--models", folder, "--model-control", "explicit") as server:
            for core, group in zip(CORES, groups.values()):
                assert server.json(f"/v2/devices/{group}", {"cores": [core]})[0] == 200
            for name in ("rec", "bert"):
                assert server.json(f"/v2/repository/models/{name}/load", {}, timeout=120)[0] == 200
            yield server


def in_process_tail(seconds, beside_bert):
    """p99 of `tenon bench` of rec on the first core, as many times as alone: what the machine gives without a server. On the second core
    runs a bench of bert, or a loop that touches no memory: what the latter costs, no partition can keep off."""
    bench = ["bench", problems.path_of("rec"), "--shape=x=1x3x48x320", "--threads", "1", "--warmup", "200ms", "--duration", f"{seconds}s", "--json"]

    def p99():
        done = subprocess.run(["taskset", "-c", str(CORES[0]), paths.TENON, *bench], check=True, capture_output=True, text=True)
        return json.loads(done.stdout)["results"][0]["latency_ms"]["p99"]

    shapes = [f"--shape={name}=1x128" for name in problems.inputs_of("bert_base", 1)]
    bert = [paths.TENON, "bench", problems.path_of("bert_base"), *shapes, "--threads", "1", "--duration", "60s"]
    loop = [sys.executable, "-c", "while True: pass"]
    alone = p99()
    other = subprocess.Popen(["taskset", "-c", str(CORES[1]), *(bert if beside_bert else loop)], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    try:
        time.sleep(2)   # it is loaded
        return p99() / alone
    finally:
        other.terminate()
        other.wait()


def bare_tail(seconds, work=6.7e-3):
    """p99 of a piece of `work` seconds on the first core that touches no memory and asks nobody, beside a loop on the second, as many times as
    alone: what the machine's own threads take where no core is idle."""
    def pieces():
        os.sched_setaffinity(0, CORES[:1])
        end, lost, taken, last = time.perf_counter() + seconds, 0.0, [], time.perf_counter()
        began = last
        while last < end:
            now = time.perf_counter()
            lost += now - last if now - last > 1e-5 else 0   # another had the core
            last = now
            if now - began >= work:
                taken.append(work + lost)
                began, lost = now, 0.0
        return quantile(taken, 0.99)

    alone = run(pieces)
    other = Load(spin, seconds + 0.2, cores=CORES[1:2])
    beside = run(pieces)
    other.result()
    return beside / alone


def spin(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def isolation(report, seconds):
    """PP-OCR rec from one client, alone and beside a BERT-base that two clients keep busy. Clients have no cores of their own here: each
    runs on the core of the model that it asks. Rounds in which other processes of the machine took part are left out."""
    rec, bert = infer_request("rec", problems.inputs_of("rec", 1)), infer_request("bert", problems.inputs_of("bert_base", 1))
    for what, groups in (("partitions", {"rec": "left", "bert": "right"}), ("no partitions", {})):
        own, other = (CORES[:1], CORES[1:2]) if groups else (None, None)
        rounds, length, left_out = [], 1.2, 0
        with partitions(groups) as server:
            run(closed, server.http, [rec], 1, 1, cores=own)
            run(closed, server.http, [bert], 2, 1, cores=other)
            until = time.time() + 6 * seconds
            while len(rounds) < seconds / length and time.time() < until:
                with OtherProcesses(server.process.pid) as others:
                    alone = latencies(run(closed, server.http, [rec], 1, length, cores=own))
                    bert_alone = len(run(closed, server.http, [bert], 2, length, cores=other)) / length
                    load = Load(closed, server.http, [bert], 2, length + 0.4, cores=other)
                    time.sleep(0.2)
                    beside = latencies(run(closed, server.http, [rec], 1, length, cores=own))
                    bert_beside = len(load.result()) / (length + 0.4)
                if others.share > 0.04:
                    left_out += 1
                    continue
                rounds.append([*(quantile(beside, q) / quantile(alone, q) for q in (0.5, 0.95, 0.99)), bert_beside / bert_alone])
        middle = [quantile([r[i] for r in rounds], 0.5) for i in range(4)]
        report.add(f"{what}: rounds, {left_out} more left out", len(rounds))
        report.add(f"{what}: rec p50 beside bert, times as long", middle[0])
        report.add(f"{what}: rec p95 beside bert, times as long", middle[1])
        report.add(f"{what}: rec p99 beside bert, times as long", middle[2], most=1.08 if groups else None)
        report.add(f"{what}: bert keeps, of its rate alone", middle[3], least=0.92 if groups else None)
    for what, beside_bert in (("of two tenon bench, no server", True), ("of tenon bench beside a loop without memory", False)):
        report.add(f"the same p99 {what}", quantile([in_process_tail(1.5, beside_bert) for _ in range(5)], 0.5))
    report.add("the same p99 of a loop without memory beside another", quantile([bare_tail(2) for _ in range(5)], 0.5))


def fractions(report, seconds):
    """The same two models where both have a part of both cores: a quarter and three quarters, by cgroups where they may be written."""
    rec, bert = infer_request("rec", problems.inputs_of("rec", 1)), infer_request("bert", problems.inputs_of("bert_base", 1))
    with tempfile.TemporaryDirectory() as folder:
        folder_of({"rec": ("rec", "threads: 1\ngroup: part0\n"), "bert": ("bert_base", "threads: 1\ninstances: 2\ngroup: part1\n")}, folder)
        with serve("--models", folder, "--model-control", "explicit") as server:
            split = [paths.TENON, "device", "split", "--layout", "1/4+3/4", "--server", f"http://{server.http}"]
            subprocess.run(split, check=True, capture_output=True)
            for name in ("rec", "bert"):
                assert server.json(f"/v2/repository/models/{name}/load", {}, timeout=120)[0] == 200
                run(closed, server.http, [rec if name == "rec" else bert], 2, 1)
            alone, beside, keeps = [], [], []
            until = time.time() + seconds
            while time.time() < until:
                alone += latencies(run(closed, server.http, [rec], 1, 3))
                bert_alone = len(run(closed, server.http, [bert], 4, 3)) / 3
                load = Load(closed, server.http, [bert], 4, 3.4)
                time.sleep(0.2)
                beside += latencies(run(closed, server.http, [rec], 1, 3))
                keeps.append(len(load.result()) / 3.4 / bert_alone)
            kept_by = {d["quota_means"] for d in server.json("/v2/devices")[1]["devices"] if d["quota"]}
    report.add(f"1/4 + 3/4, {' '.join(kept_by)}: requests to rec beside bert", len(beside))
    for q, most in ((0.5, None), (0.95, None), (0.99, 1.08)):
        report.add(f"rec p{100 * q:.0f} beside bert, times as long", quantile(beside, q) / quantile(alone, q), most=most)
    report.add("bert keeps, of its rate alone", quantile(keeps, 0.5), least=0.92)


def overload(report, seconds, factor=5, limit_ms=200):
    """Requests leave at `factor` times what the server can answer; each has `limit_ms`."""
    with serve(f"m={problems.path_of('rec')}", "--threads", 1, cores=SERVER) as server:
        inputs = problems.inputs_of("rec", 1)
        warm = run(closed, server.http, [infer_request("m", inputs)], 16, 4, cores=CLIENTS)
        capacity = len(warm) / 4
        load = Load(opened, server.http, [infer_request("m", inputs, limit_ms * 1000)], factor * capacity, seconds, cores=CLIENTS)
        time.sleep(seconds / 3)
        before = server.resident()
        rows, none_left = load.result()
        after = server.resident()
        answered, refused = latencies(rows), [r for r in rows if r[2] in (503, 429)]
        report.add("capacity", capacity, unit="1/s")
        report.add("rows of a run", server.total("nv_inference_count") / server.total("nv_inference_exec_count"))
        report.add("offered", (len(rows) + none_left) / seconds, unit="1/s")
        report.add("answered in time, of the capacity", len(answered) / seconds / capacity, least=0.8)
        report.add("p99 of those answered", 1e3 * quantile(answered, 0.99), most=2 * limit_ms, unit="ms")
        report.add("p50 of those refused", 1e3 * quantile([r[1] for r in refused], 0.5), unit="ms")
        report.add("refused without Retry-After", sum(r[3] is None for r in refused), most=0)
        report.add("time over (504), share", sum(r[2] == 504 for r in rows) / len(rows), most=0.01)
        report.add("neither answered, refused nor late", sum(r[2] not in (200, 503, 429, 504) for r in rows), most=0)
        report.add("clients that found no connection left", none_left, unit="")
        report.add("resident set, growth after a third of the time", 100 * (after / before - 1), most=5, unit="%")
        server.check_invariant()


CASES = {"overhead": (overhead, 10), "saturation": (saturation, 12), "gears": (gears, 5), "isolation": (isolation, 12), "fractions": (fractions, 40),
         "overload": (overload, 60)}
