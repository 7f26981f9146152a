"""The cases of bench/serving that ask whether nothing is lost. Each takes a Report and the seconds of one load."""
import collections
import contextlib
import pathlib
import random
import signal
import statistics
import tempfile
import threading
import time

import numpy as np
import problems
from serving_cases import CLIENTS, CORES, folder_of, identity, partitions, serve
from serving_load import Load, closed, connect, infer_request, run
from support import build_model
from support.balancers import NAMES, balancer


def failed(rows):
    return sum(row[2] != 200 for row in rows)


def growth(before, after):
    return 100 * (after / before - 1)


def drained(server, seconds=30):
    until = time.time() + seconds
    while server.total("tenon_requests_in_flight") and time.time() < until:
        time.sleep(0.02)
    return int(server.total("tenon_requests_in_flight"))


def descriptors(server):
    return len(list(pathlib.Path(f"/proc/{server.process.pid}/fd").iterdir()))


def vanish(report, _, clients=10000):
    """Clients that go away in the head, after it, in the body, and while their request runs; that one would run for ever. The heap takes
    some 50,000 of them to find its size; what it grows by after that, over as many clients again, would be a leak, so both are held."""
    with tempfile.TemporaryDirectory() as folder:
        build_model.rounds_model(pathlib.Path(folder) / "rounds.onnx")
        with serve(pathlib.Path(folder) / "rounds.onnx") as server:
            message = infer_request("rounds", {"x": np.zeros(4, np.float32), "rounds": np.array(build_model.ENDLESS)})
            head = message.index(b"\r\n\r\n") + 4
            ends = [head // 2, head, (head + len(message)) // 2, len(message)]

            def wave(count):
                for i in range(count):
                    with contextlib.suppress(OSError), connect(server.http) as s:
                        s.sendall(message[:ends[i % len(ends)]])

            wave(1000)
            drained(server)
            before, files = server.resident(), descriptors(server)
            wave(clients)
            report.add("clients", clients)
            report.add("requests still in flight", drained(server), most=0)
            report.add("requests that ended otherwise than cancelled or refused",
                       sum(server.total("tenon_requests_total", outcome=o) for o in ("ok", "internal", "bad_request")), most=0)
            report.add("of them cancelled", server.total("tenon_requests_total", outcome="cancelled"))
            time.sleep(3)
            report.add("open files, more than before", descriptors(server) - files, most=2)
            report.add("resident set, growth over them", growth(before, server.resident()), most=5, unit="%")
            wave(4 * clients)
            drained(server)
            before = server.resident()
            wave(clients)
            drained(server)
            time.sleep(3)
            report.add("over as many again, after five times as many", growth(before, server.resident()), most=5, unit="%")
            server.check_invariant()


@contextlib.contextmanager
def under_load(address, message, clients=2):
    """The rows of clients that ask until the end, as they come in."""
    rows, stop = [], threading.Event()

    def ask():
        while not stop.is_set():
            rows.extend(closed(address, [message], clients, 0.5))

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield rows
    finally:
        stop.set()
        thread.join()


def post(server, path, document, timeout=300):
    status, answer = server.json(path, document, timeout=timeout)
    assert status == 200, answer


def reload(report, _, reloads=200, loads=100):
    with tempfile.TemporaryDirectory() as folder:
        folder_of({"rec": ("rec", ""), "other": ("magika", "")}, folder)
        with serve("--models", folder, "--model-control", "explicit", "--load", "rec", "--idle-trim", "1s") as server:
            def act(model, *verbs):
                for verb in verbs:
                    post(server, f"/v2/repository/models/{model}/{verb}", {})

            for what, times, step in (("reload", reloads, lambda: act("rec", "load")),
                                      ("load and unload of another model", loads, lambda: act("other", "load", "unload"))):
                rows, sizes = [], []
                tenth = times // 10   # what malloc keeps differs by some percent from one rest to the next: medians of three
                for part in (tenth, tenth // 2, tenth // 2, times - 3 * tenth, tenth // 2, tenth // 2):
                    with under_load(server.http, infer_request("rec", problems.inputs_of("rec", 1))) as answered:
                        for _ in range(part):
                            step()
                    rows += answered
                    drained(server)
                    time.sleep(3)   # what was replaced is gone, and what ran last holds no memory to run in
                    sizes.append(server.resident())
                report.add(f"{what}, {times} times: failed of {len(rows)} requests", failed(rows), most=0)
                grown = growth(statistics.median(sizes[:3]), statistics.median(sizes[3:]))
                report.add("resident set at rest, at the end beside after a fifth", grown, most=5, unit="%")
            server.check_invariant()


def resize(report, _, times=20):
    """The cores of both partitions change while both serve."""
    messages = [infer_request(name, problems.inputs_of(problem, 1)) for name, problem in (("rec", "rec"), ("bert", "bert_base"))]
    with partitions({"rec": "left", "bert": "right"}) as server:
        post(server, "/v2/devices/right", {"cores": CORES[1:2], "exclusive": False})   # from here on they may overlap
        with under_load(server.http, messages[0]) as rec, under_load(server.http, messages[1]) as bert:
            for i in range(times):
                post(server, "/v2/devices/left", {"cores": CORES if i % 2 == 0 else CORES[:1], "exclusive": False})
                post(server, "/v2/devices/right", {"cores": CORES if i % 4 < 2 else CORES[1:2], "exclusive": False})
        report.add(f"{2 * times} changes: failed of {len(rec)} requests to rec", failed(rec), most=0)
        report.add(f"{2 * times} changes: failed of {len(bert)} requests to bert", failed(bert), most=0)
        drained(server)
        server.check_invariant()


@contextlib.contextmanager
def settled(name, servers, folder):
    """The HTTP front of a balancer that has checked its servers."""
    with balancer(name, servers, folder) as (front, _):
        time.sleep(1)
        yield front


def balancers(report, seconds):
    """BERT-base, one instance on each core. One instance alone has its core for itself; with two the clients and the balancer take
    their part of both. What two give that are asked without a balancer says how much of the difference is the machine's. Then one is
    killed under requests of 3 KB, and of 184 KB."""
    bert, rec = (infer_request(name, problems.inputs_of(problem, 1)) for name, problem in (("bert", "bert_base"), ("rec", "rec")))
    models = f"bert={problems.path_of('bert_base')}", f"rec={problems.path_of('rec')}"
    for name in NAMES:
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            one = stack.enter_context(serve(*models, "--threads", 1, cores=CORES[:1]))
            with serve(*models, "--threads", 1, cores=CORES[1:2]) as two, settled(name, (one, two), folder) as front:
                run(closed, front, [bert], 4, 1)
                behind, direct = [], []
                for _ in range(3):
                    single = len(run(closed, one.http, [bert], 4, seconds / 3, cores=CLIENTS))
                    behind.append(len(run(closed, front, [bert], 4, seconds / 3)) / single)
                    both = [Load(closed, server.http, [bert], 2, seconds / 3) for server in (one, two)]
                    direct.append(sum(len(load.result()) for load in both) / single)
                report.add(f"{name}: two instances, of one", statistics.median(behind), least=1.85)
                report.add("the same, each asked by its own clients", statistics.median(direct))
                killed_under_load(report, f"{name}, small", front, bert, two, seconds)
            with serve(*models, "--threads", 1, cores=CORES[1:2]) as two, settled(name, (one, two), folder) as front:
                killed_under_load(report, f"{name}, large", front, rec, two, seconds)


def killed_under_load(report, name, front, message, victim, seconds):
    load = Load(closed, front, [message], 8, seconds)
    time.sleep(seconds / 3)
    victim.process.send_signal(signal.SIGKILL)
    killed = time.perf_counter()
    rows = load.result()
    count = collections.Counter(row[2] for row in rows)
    report.add(f"{name} requests: cut in their answers, of {len(rows)}", count[-1])   # no balancer may ask again
    report.add(f"{name} requests: closed without an answer", count[0], most=0)
    report.add(f"{name} requests: refused", failed(rows) - count[-1] - count[0], most=0)
    report.add(f"{name} requests: last failure after that", max((row[0] - killed for row in rows if row[2] != 200), default=0), most=5, unit="s")
    report.add(f"{name} requests: longest request after that", max(row[1] for row in rows if row[0] > killed), most=5, unit="s")


class Soak:
    """Clients of one server that ask random models, with random shapes and limits, and go away at random places."""

    MODELS = ["id0", "id1", "id2", "magika", "cls", "minilm", "rounds"]

    def __init__(self, server, seconds):
        self.server, self.end = server, time.time() + seconds
        self.dice, self.lock = random.Random(0), threading.Lock()
        self.statuses, self.broken = collections.Counter(), []
        self.wrong = self.compared = self.changes = 0

    def message(self):
        name = self.dice.choice(self.MODELS)
        if name == "rounds":
            inputs = {"x": np.zeros(4, np.float32), "rounds": np.array(self.dice.choice([1, 1000, build_model.ENDLESS]))}
            return infer_request(name, inputs, self.dice.choice([1, 1000, 50000]))
        return infer_request(name, self.inputs(name))

    def inputs(self, name):
        rows = self.dice.randint(1, 6)
        if name.startswith("id"):
            return {"x": np.zeros((rows, self.dice.randint(1, 64)), np.float32)}
        if name == "minilm":
            return problems.tokens(self.dice.randint(1, 2), self.dice.randint(3, 24))
        return problems.inputs_of(name, rows)

    def ask(self):
        """Several requests on a few connections, or one that is cut off."""
        if self.dice.random() < 0.2:
            with contextlib.suppress(OSError), connect(self.server.http) as s:
                whole = self.message()
                s.sendall(whole[:self.dice.randint(1, len(whole))])
            return
        rows = closed(self.server.http, [self.message() for _ in range(8)], self.dice.randint(1, 4), 0.2)
        with self.lock:
            self.statuses.update(row[2] for row in rows)

    def compare(self):
        """Values that a model hands back as they are come back, of any shape."""
        shape = [self.dice.randint(1, 6), self.dice.randint(1, 64)]
        data = [self.dice.randint(-1000, 1000) / 8 for _ in range(shape[0] * shape[1])]
        ask = {"inputs": [{"name": "x", "shape": shape, "datatype": "FP32", "data": data}]}
        status, answer = self.server.json(f"/v2/models/id{self.dice.randint(0, 2)}/infer", ask)
        with self.lock:
            self.statuses[status] += 1
            if status == 200:
                self.compared += 1
                self.wrong += answer["outputs"][0]["shape"] != shape or answer["outputs"][0]["data"] != data

    def change(self):
        """A reload, or an unload and a load of a model that nobody else asks."""
        name = self.dice.choice([*self.MODELS, "spare"])
        for verb in ("unload", "load") if name == "spare" else ("load",):
            post(self.server, f"/v2/repository/models/{name}/{verb}", {})
        self.changes += 1

    def repeat(self, act, pause=0):
        try:
            while time.time() < self.end:
                act()
                time.sleep(pause)
        except Exception as e:   # noqa: BLE001: whatever it was, the report has it
            self.broken.append(f"{act.__name__}: {e!r}")


def soak(report, seconds):
    """Random models, shapes, cancels and reloads. Run it on a sanitizer build: TENON_BUILD=build/asan."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("id0", "id1", "id2", "spare"):
            identity(pathlib.Path(folder) / f"{name}.onnx", width="width")
        build_model.rounds_model(pathlib.Path(folder) / "rounds.onnx")
        folder_of({"magika": ("magika", "max_batch: 4\n"), "cls": ("cls", "instances: 2\n"), "minilm": ("minilm", "threads: 1\n")}, folder)
        with serve("--models", folder, "--model-control", "explicit", "--load", "*", "--max-queue", 32, "--log-file", f"{folder}/log") as server:
            clients, sizes = Soak(server, seconds), []
            acts = [(clients.ask, 0)] * 4 + [(clients.compare, 0.01), (clients.change, 0.1), (lambda: sizes.append(server.resident()), 0.5)]
            threads = [threading.Thread(target=clients.repeat, args=act) for act in acts]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            statuses = clients.statuses
            report.add("requests answered", statuses[200])
            report.add("their time over, or refused", statuses[504] + statuses[503])
            report.add("anything else", sum(n for status, n in statuses.items() if status not in (200, 503, 504)), most=0)
            report.add(f"wrong answers, of {clients.compared}", clients.wrong, most=0)
            report.add("reloads meanwhile", clients.changes)
            report.add("clients that failed" + "".join(f"; {b}" for b in clients.broken), len(clients.broken), most=0)
            report.add("requests still in flight", drained(server), most=0)
            third = len(sizes) // 3
            report.add("resident set, last third beside the middle one", growth(max(sizes[third:-third]), max(sizes[-third:])), most=5, unit="%")
            server.check_invariant()
        report.add("exit code", server.process.returncode, most=0, least=0)
        print(server.errors, end="", flush=True)   # what a sanitizer had to say


CASES = {"vanish": (vanish, 0), "reload": (reload, 0), "resize": (resize, 0), "balancers": (balancers, 9), "soak": (soak, 1800)}
