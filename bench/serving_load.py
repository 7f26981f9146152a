"""Clients for bench/serving: HTTP over loopback from one thread and one loop, in a process of their own so that they can be kept on
cores of their own. A load is closed (each client waits for its answer and asks again) or open (requests leave at a rate whatever comes)."""
import contextlib
import json
import multiprocessing
import os
import selectors
import socket
import time

import numpy as np

NAMES = {"float32": "FP32", "int32": "INT32", "int64": "INT64"}


def http_request(path, body=b"", headers=None, method="POST"):
    lines = [f"{method} {path} HTTP/1.1", "Host: tenon", f"Content-Length: {len(body)}"] + [f"{k}: {v}" for k, v in (headers or {}).items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def infer_request(model, inputs, timeout_us=0):
    """A KServe request with binary tensors, and answers wanted as binary."""
    described = [{"name": name, "shape": list(x.shape), "datatype": NAMES[x.dtype.name], "parameters": {"binary_data_size": x.nbytes}}
                 for name, x in inputs.items()]
    parameters = {"binary_data_output": True, **({"timeout": timeout_us} if timeout_us else {})}
    header = json.dumps({"inputs": described, "parameters": parameters}).encode()
    body = header + b"".join(np.ascontiguousarray(x).tobytes() for x in inputs.values())
    return http_request(f"/v2/models/{model}/infer", body, {"Inference-Header-Content-Length": len(header)})


def connect(address):
    host, port = address.rsplit(":", 1)
    s = socket.create_connection((host, int(port)), timeout=60)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


class Answer:
    """Reads one answer from pieces: `status` when it is whole. A retry hint is kept; the rest is thrown away."""

    def __init__(self):
        self.head, self.left, self.status, self.retry_after, self.close = b"", None, None, None, False

    def take(self, piece):
        if self.left is None:
            self.head += bytes(piece)
            end = self.head.find(b"\r\n\r\n")
            if end < 0:
                return False
            fields = dict(line.lower().split(b":", 1) for line in self.head[:end].split(b"\r\n")[1:])
            self.status = int(self.head[9:12])
            self.retry_after = fields.get(b"retry-after")
            self.close = fields.get(b"connection", b"").strip() == b"close"
            self.left = int(fields.get(b"content-length", 0)) - (len(self.head) - end - 4)
        else:
            self.left -= len(piece)
        return self.left <= 0


class Client:
    """One connection with at most one request on its way."""

    def __init__(self, address, loop):
        self.address, self.loop, self.socket, self.answer = address, loop, None, None
        self.buffer = memoryview(bytearray(1 << 18))

    def send(self, message):
        if self.socket is None:
            self.socket = connect(self.address)
            self.socket.setblocking(False)
            self.loop.register(self.socket, selectors.EVENT_READ, self)
        self.answer, self.began, self.rest = Answer(), time.perf_counter(), memoryview(message)
        self.push()

    def push(self):
        try:
            self.rest = self.rest[self.socket.send(self.rest):]
        except BlockingIOError:
            pass
        self.loop.modify(self.socket, selectors.EVENT_READ | (selectors.EVENT_WRITE if self.rest else 0), self)

    def on(self, events):
        """A row (end, seconds, status, retry_after) when the answer is whole. Status 0: the connection broke; -1: within the answer."""
        if self.answer is None:   # the server ends an idle connection
            return self.drop()
        try:
            if events & selectors.EVENT_WRITE:
                self.push()
            if not events & selectors.EVENT_READ:
                return None
            count = self.socket.recv_into(self.buffer)
            if count and not self.answer.take(self.buffer[:count]):
                return None
        except BlockingIOError:
            return None
        except OSError:
            count = 0
        now = time.perf_counter()
        answer, self.answer = self.answer, None
        status = answer.status if count else -1 if answer.head else 0
        if not count or answer.close:
            self.drop()
        return now, now - self.began, status, answer.retry_after

    def drop(self):
        if self.socket is not None:
            self.loop.unregister(self.socket)
            self.socket.close()
            self.socket = None


def closed(address, messages, clients, seconds):
    """Rows of Client.on. `messages`: taken in turn."""
    rows, end, count = [], time.perf_counter() + seconds, 0
    with selectors.DefaultSelector() as loop:
        everyone = [Client(address, loop) for _ in range(clients)]
        for client in everyone:
            client.send(messages[count % len(messages)])
            count += 1
        busy = clients
        while busy:
            for key, events in loop.select():
                row = key.data.on(events)
                if row is None:
                    continue
                rows.append(row)
                busy -= 1
                if row[0] < end:
                    again(key.data, messages[count % len(messages)], end)
                    count += 1
                    busy += 1
        for client in everyone:
            client.drop()
    return rows


def again(client, message, end):
    """A front that is away for a moment is asked until it is back."""
    while True:
        try:
            return client.send(message)
        except OSError:
            client.drop()
            if time.perf_counter() > end + 10:
                raise
            time.sleep(0.01)


def opened(address, messages, rate, seconds, most=2000):
    """Rows as above for requests that leave at `rate` a second, on as many connections as that takes; and how many found none left."""
    rows, idle, none_left, sent, busy = [], [], 0, 0, 0
    start = time.perf_counter()
    with selectors.DefaultSelector() as loop:
        everyone = []
        while True:
            now = time.perf_counter()
            while start + sent / rate <= now < start + seconds:
                if not idle and len(everyone) < most:
                    idle.append(Client(address, loop))
                    everyone.append(idle[-1])
                if idle:
                    idle[-1].send(messages[sent % len(messages)])
                    idle.pop()
                    busy += 1
                else:
                    none_left += 1
                sent += 1
            if now >= start + seconds and not busy:
                break
            for key, events in loop.select(max(0, min(0.1, start + sent / rate - now))):
                row = key.data.on(events)
                if row is not None:
                    rows.append(row)
                    idle.append(key.data)
                    busy -= 1
        for client in everyone:
            client.drop()
    return rows, none_left


class OtherProcesses:
    """Within it: `share` of the machine's time that went neither to process `pid` nor to this one's finished children."""

    def __init__(self, pid):
        self.pid = pid

    @staticmethod
    def ticks(pid, own):
        with open(f"/proc/{pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return sum(map(int, fields[11:15] if own else fields[11:13]))

    def read(self):
        with open("/proc/stat") as f:
            busy = list(map(int, f.readline().split()[1:9]))
        idle = busy[3] + busy[4]
        return sum(busy), sum(busy) - idle - self.ticks(self.pid, False) - self.ticks("self", True)

    def __enter__(self):
        self.before = self.read()
        return self

    def __exit__(self, *_):
        whole, others = (after - before for after, before in zip(self.read(), self.before))
        self.share = others / max(1, whole)


class Load:
    """A load in a process of its own on `cores`; `result()` waits for its rows."""

    def __init__(self, function, *arguments, cores=None):
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=self.work, args=(theirs, function, arguments, cores))
        self.process.start()
        theirs.close()

    @staticmethod
    def work(pipe, function, arguments, cores):
        if cores:
            os.sched_setaffinity(0, cores)
        pipe.send(function(*arguments))

    def result(self):
        value = self.pipe.recv()
        self.process.join()
        return value


def run(function, *arguments, cores=None):
    return Load(function, *arguments, cores=cores).result()


def quantile(values, q):
    """By rank: a latency that was measured."""
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))] if values else float("nan")


def latencies(rows, status=200):
    return [row[1] for row in rows if row[2] == status]


@contextlib.contextmanager
def stopped(process):
    """While something else is timed this one has no thread that runs."""
    import signal
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)
