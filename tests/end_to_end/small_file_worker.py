"""Opens and runs damaged copies of one small ONNX file, one after another, in a process of its own. Used by test_small_files.py.

usage: small_file_worker.py MODEL STRIDE START
Every STRIDE-th copy of: the file cut at each byte; each byte inverted; each byte with one bit changed. Prints "try N" before each and
"bad N: what" when one ends otherwise than well or with code 3, 4 or 6; "peak KIB" at the end.
"""
import pathlib
import resource
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import numpy as np  # noqa: E402

from support import library  # noqa: E402

ALLOWED = (3, 4, 6)   # bad input, unsupported, resource limit
MEMORY_LIMIT = 256 << 20
ADDRESS_SPACE = 8 << 30
MAX_INPUT = 1 << 16


def variants(data):
    for length in range(len(data)):
        yield data[:length]
    for mask in (lambda i: 0xFF, lambda i: 1 << (i * 7 % 8)):
        for i in range(len(data)):
            damaged = bytearray(data)
            damaged[i] ^= mask(i)
            yield bytes(damaged)


def inputs_of(session):
    """Zeros of the declared shapes, symbols as 2; None when a shape is larger than a test can feed."""
    feed = {}
    for info in session.inputs:
        shape = [int(d) if d.lstrip("-").isdigit() else 2 for d in info["dims"] or []]
        count = 1
        for d in shape:
            count *= max(d, 0)
        if count > MAX_INPUT or len(shape) > 32:
            return None
        dtype = info["dtype"]
        value = np.full(shape, "", object) if dtype == library.STRING else np.zeros(shape, library.NUMPY[dtype])
        feed[info["name"]] = [value] if info["is_sequence"] else value
    return feed


def verdict(path):
    try:
        with library.open_model(path, cache_dir="none", threads=1, memory_limit=MEMORY_LIMIT) as session:
            feed = inputs_of(session)
            if feed is not None:
                session.run_named(feed)
    except library.TenonError as error:
        return None if error.code in ALLOWED and error.message else f"code {error.code}: {error.message}"
    except UnicodeDecodeError as error:
        return f"a name that is not text: {error}"
    return None


def main():
    model, stride, start = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = pathlib.Path(folder) / "damaged.onnx"
        for number, data in enumerate(variants(model.read_bytes())):
            if number < start or number % stride:
                continue
            print(f"try {number}", flush=True)
            path.write_bytes(data)
            problem = verdict(path)
            if problem:
                print(f"bad {number}: {problem}", flush=True)
    # Of this program alone: getrusage counts what the process held before it became this one.
    status = pathlib.Path("/proc/self/status").read_text()
    print("peak", next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")))


if __name__ == "__main__":
    main()
