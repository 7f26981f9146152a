"""Opens damaged copies of an artifact, one after another, in a process of its own. Used by test_damage.py.

usage: damage_worker.py ARTIFACT INPUTS.npz RIGHT.npz cuts STEP START|flips COUNT SEED START
Prints "try N" before each copy and "bad N: what" when one is neither refused with code 3 nor answers right.
"""
import pathlib
import random
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import numpy as np  # noqa: E402

from support import compare, library  # noqa: E402


def variants(data, mode, numbers):
    """(number, damaged bytes)."""
    if mode == "cuts":
        step, start = numbers
        for number, length in enumerate(range(0, len(data), step)):
            if number >= start:
                yield number, data[:length]
        return
    count, seed, start = numbers
    rng = random.Random(seed)
    for number in range(count):
        position, bit = rng.randrange(len(data)), rng.randrange(8)
        if number >= start:
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            yield number, damaged


def verdict(path, inputs, right):
    """None when the copy is refused as bad input or answers right."""
    try:
        with library.open_model(path, cache_dir="none", threads=1) as session:
            got = session.run_named(inputs)
    except library.TenonError as error:
        return None if error.code == 3 and error.message else f"code {error.code}: {error.message}"
    for name in right:
        reason = compare.difference(got.get(name), right[name], 1e-6, 1e-6)
        if reason:
            return f"accepted, and {name}: {reason}"
    return None


def main():
    artifact, inputs, right, mode, *numbers = sys.argv[1:]
    inputs, right = dict(np.load(inputs)), dict(np.load(right))
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = pathlib.Path(folder) / "damaged.tenon"
        for number, data in variants(pathlib.Path(artifact).read_bytes(), mode, list(map(int, numbers))):
            print(f"try {number}", flush=True)
            path.write_bytes(data)
            problem = verdict(path, inputs, right)
            if problem:
                print(f"bad {number}: {problem}", flush=True)


if __name__ == "__main__":
    main()
