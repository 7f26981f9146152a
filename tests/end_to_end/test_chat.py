"""tenon chat with the real binary and SmolLM2, through a pipe and through a terminal."""
import json
import os
import pty
import select
import signal
import subprocess
import time

import pytest

from support import paths

MODEL = paths.ROOT / ".cache/models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
pytestmark = pytest.mark.skipif(not MODEL.exists(), reason="scripts/fetch_models smollm2 has not run")


def chat(text, *arguments):
    return subprocess.run([str(paths.TENON), "chat", str(MODEL), "--temperature", "0", "--max-tokens", "24", *arguments], input=text, capture_output=True, text=True, timeout=300)


def test_pipe(tmp_path):
    saved = tmp_path / "chat.json"
    done = chat(f"What is the capital of France?\n/stats\nAnswer \\\nin one word.\n/save {saved}\n/nonsense\n/quit\nnever read\n")
    assert done.returncode == 0, done.stderr
    assert "Paris" in done.stdout.splitlines()[0] and "unknown command /nonsense" in done.stdout
    assert "from the cache" in done.stderr and "\x1b" not in done.stdout
    roles = [(m["role"], m["content"]) for m in json.loads(saved.read_text())]
    assert [r for r, _ in roles] == ["user", "assistant"] * 2 and roles[2][1] == "Answer \nin one word."


def test_greedy_answers_do_not_depend_on_threads_nor_on_the_run():
    for prompt in ("What is the capital of France?", "Write a story about a dragon.", "def fibonacci(n):"):
        answers = []
        for threads in ("1", "2", "2"):
            done = subprocess.run([str(paths.TENON), "generate", str(MODEL), "--prompt", prompt, "--temperature", "0", "--max-tokens", "48",
                                   "--threads", threads, "--json"], capture_output=True, text=True, timeout=300, check=True)
            answers.append(json.loads(done.stdout)["tokens"])
        assert len(answers[0]) > 3 and answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize("cache", ["f16", "bf16", "q8_0", "f32"])
def test_answers_with_every_type_of_cache(cache):
    done = chat("What is the capital of France?\nAnd of Italy?\n", "--json", "--kv-cache", cache, "--op-select-implmode", "high_precision")
    told = json.loads(done.stdout)
    assert "Paris" in told["messages"][1]["content"] and "Rome" in told["messages"][3]["content"]
    assert told["cache"] == {"type": cache, "bytes_per_token": {"f16": 23040, "bf16": 23040, "q8_0": 12240, "f32": 46080}[cache]}
    assert told["usage"]["cached_tokens"] > 20


def test_json_has_the_conversation_and_stop_strings_end_answers():
    done = chat("What is the capital of France?\n", "--json", "--stop", "Paris")
    messages = json.loads(done.stdout)["messages"]
    assert [m["role"] for m in messages] == ["user", "assistant"]
    assert messages[1]["content"] and "Paris" not in messages[1]["content"]


class Terminal:
    def __init__(self):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execv(str(paths.TENON), ["tenon", "chat", str(MODEL), "--max-tokens", "4000", "--temperature", "0", "--no-color"])
        self.read = b""

    def until(self, what, seconds=120):
        end = time.monotonic() + seconds
        while what not in self.read:
            assert time.monotonic() < end, (what, self.read)
            if select.select([self.fd], [], [], 0.2)[0]:
                self.read += os.read(self.fd, 4096)
        before, _, self.read = self.read.partition(what)
        return before

    def write(self, text):
        os.write(self.fd, text)


def test_terminal_interrupt_stops_the_answer_only():
    t = Terminal()
    try:
        t.until(b"> ")
        t.write(b"Write a very long story about a dragon.\n")
        t.until(b"dragon.")
        t.until(b" a")   # the answer has begun
        t.write(b"\x03")
        t.until(b"(stopped)")
        t.until(b"> ")
        t.write(b"half a line\x03")
        t.until(b"Ctrl-D ends)")
        t.until(b"> ")
        t.write(b"/help\n")
        t.until(b"/reset")
        t.write(b"\x04")
        assert os.WEXITSTATUS(os.waitpid(t.pid, 0)[1]) == 0
        t.pid = 0
    finally:
        if t.pid:
            os.kill(t.pid, signal.SIGKILL)
            os.waitpid(t.pid, 0)
        os.close(t.fd)
