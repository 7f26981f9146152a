"""A running `tenon serve` for tests: started on free ports, ended with SIGTERM."""
import contextlib
import json
import os
import signal
import subprocess
import urllib.error
import urllib.request

from support import paths


class Served:
    def __init__(self, process, document):
        self.process = process
        self.document = document
        self.http = document["addresses"]["http"]
        self.metrics_address = document["addresses"]["metrics"]
        self.grpc = document["addresses"].get("grpc")

    def request(self, path, data=None, headers=None, method=None, timeout=30):
        """(status, headers, body) whatever the status is."""
        request = urllib.request.Request(f"http://{self.http}{path}", data=data, headers=headers or {}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, dict(answer.headers), answer.read()
        except urllib.error.HTTPError as error:
            return error.code, dict(error.headers), error.read()

    def json(self, path, document=None, **options):
        data = None if document is None else json.dumps(document).encode()
        status, _, body = self.request(path, data, {"Content-Type": "application/json"}, **options)
        return status, json.loads(body) if body else None

    def metrics(self):
        """{(name, frozenset of labels): value}"""
        with urllib.request.urlopen(f"http://{self.metrics_address}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        values = {}
        for line in text.splitlines():
            if line.startswith("#") or not line:
                continue
            left, value = line.rsplit(" ", 1)
            name, _, labels = left.partition("{")
            pairs = frozenset(tuple(p.split("=", 1)) for p in labels.rstrip("}").replace('"', "").split(",") if p)
            values[(name, pairs)] = float(value)
        return values

    def total(self, name, **labels):
        """Sum of a metric over all label sets that hold `labels`."""
        wanted = {(k, v) for k, v in labels.items()}
        return sum(v for (n, have), v in self.metrics().items() if n == name and wanted <= have)

    def check_invariant(self):
        """accepted = all outcomes + in flight, for each model."""
        values = self.metrics()
        for (name, labels), accepted in values.items():
            if name != "tenon_requests_accepted_total":
                continue
            ended = sum(v for (n, have), v in values.items() if n == "tenon_requests_total" and labels <= have)
            assert accepted == ended + values[("tenon_requests_in_flight", labels)], labels

    def resident(self):
        with open(f"/proc/{self.process.pid}/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def serve(*arguments, env=None):
    command = [str(paths.TENON), "serve", *map(str, arguments), "--json", "--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, **(env or {})})
    text = ""
    while not text.endswith("\n}\n"):   # the document that it prints when it is ready
        line = process.stdout.readline()
        if not line:
            raise AssertionError(f"tenon serve ended: {process.wait(10)}: {process.stderr.read()}")
        text += line
    served = Served(process, json.loads(text))
    try:
        yield served
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            _, served.errors = process.communicate(timeout=40)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
