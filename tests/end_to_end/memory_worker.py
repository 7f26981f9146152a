"""Runs a model over random shapes in a process of its own and prints how memory went. Used by test_memory.py.

usage: memory_worker.py MODEL RUNS THREADS LOW HIGH MULTIPLE [FIXED_HEIGHT]
Prints one JSON line: resident set and executable mappings at the middle and the end, and the session's own report.
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import numpy as np  # noqa: E402

from support import library  # noqa: E402


def resident_kib():
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])


def executable_mappings():
    return sum(line.split()[1].startswith("r-x") or "rwx" in line.split()[1] for line in open("/proc/self/maps"))


def main():
    model, *numbers = sys.argv[1:]
    runs, threads, low, high, multiple, *fixed = map(int, numbers)
    rng = np.random.default_rng(13)
    noise = rng.standard_normal(3 * high * high, dtype=np.float32)
    report = {}
    with library.open_model(model, cache_dir="none", threads=threads) as session:
        for run in range(runs):
            height, width = (rng.integers(low, high + 1, 2) // multiple * multiple).clip(multiple)
            if fixed:
                height = fixed[0]
            session.run({"x": noise[:3 * height * width].reshape(1, 3, height, width)})
            if run + 1 in (runs // 2, runs):
                key = "middle" if run + 1 == runs // 2 else "end"
                report[key] = {"resident_kib": resident_kib(), "executable": executable_mappings(), "session": session.memory()}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
