"""Runs the real binary."""
import json
import os
import subprocess

import ml_dtypes
import numpy as np

from support import paths


def tenon(*arguments, timeout=120, env=None, **options):
    """Runs `tenon ARGUMENTS` with no standard input; text of stdout and stderr in the result."""
    return subprocess.run([str(paths.TENON), *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=timeout, env={**os.environ, **(env or {})}, **options)


def tenon_json(*arguments, **options):
    """The one JSON document that `tenon ARGUMENTS --json` prints; the command must succeed."""
    done = tenon(*arguments, "--json", **options)
    assert done.returncode == 0, f"tenon {' '.join(map(str, arguments))}: exit {done.returncode}: {done.stdout}{done.stderr}"
    return json.loads(done.stdout)


def skip_unless_cpu_has(isa):
    import pytest
    done = tenon("version", env={"TENON_ISA": isa})
    if done.returncode == 4:
        pytest.skip(f"this CPU lacks {isa}")
    assert done.returncode == 0, done.stderr


def save_npy(path, value):
    """Types that numpy has no name for become '|V1' and '<V2', strings '<U': as numpy itself writes them."""
    value = np.asarray(value)
    np.save(path, value.astype(str) if value.dtype == object else value)


def load_npy(path, dtype):
    """The array of a file that `tenon run` wrote for an output of this type."""
    value = np.load(path)
    if dtype == "string":
        return value.astype(object)
    if not hasattr(ml_dtypes, dtype):
        return value
    kind = np.dtype(getattr(ml_dtypes, dtype))
    return value.view(kind) if value.dtype.kind == "V" else value.astype(kind)


def run_model(model, inputs, folder, *arguments, **options):
    """Runs a model through files: (completed process, {output name: array}); the process may have failed."""
    folder.mkdir(parents=True, exist_ok=True)
    flags = []
    for index, (name, value) in enumerate(inputs.items()):
        path = folder / f"input_{index}.npy"
        save_npy(path, value)
        flags += ["--input", f"{name}={path}"]
    done = tenon("run", model, *flags, "--output", folder / "out", "--json", *arguments, **options)
    if done.returncode:
        return done, {}
    report = json.loads(done.stdout)
    return done, {row["name"]: load_npy(row["file"], row["dtype"]) for row in report["outputs"]}


def error_line(done):
    """The one-line message of a failed command."""
    lines = [line for line in done.stderr.splitlines() if line.startswith("tenon: ")]
    assert len(lines) == 1, f"expected one 'tenon: ...' line on stderr, got: {done.stderr!r}"
    return lines[0]
