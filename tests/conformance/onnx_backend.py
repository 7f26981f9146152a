#!/usr/bin/env python3
"""Runs the node tests of the installed `onnx` package through Tenon's library and command line.

A case passes when every output has the expected shape and type, and values within the case's own tolerances. Cases that fail are
listed in expected_failures.txt, "<way> <case> <reason>" a row; the list only shrinks.

usage: .venv-test/bin/python tests/conformance/onnx_backend.py [--via library,cli] [--filter TEXT] [--show REASON] [--update]
  --update rewrites the list from this run (the diff is then reviewed: it must shrink, or grow by cases that a newer onnx brought)
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import signal
import sys
import tempfile
import time
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import numpy as np  # noqa: E402
import onnx  # noqa: E402
from onnx import numpy_helper  # noqa: E402

from support import command, compare  # noqa: E402

EXPECTED_FAILURES = pathlib.Path(__file__).with_name("expected_failures.txt")
WAYS = ("library", "cli")
GATE = 1000               # of 1,884; each way
CASE_TIMEOUT_S = 60
PASS = "pass"
INEXPRESSIBLE = "no .npy form"   # sequences and optionals have no file form; not a failure


def collect():
    """All node cases, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases
        cases = collect_testcases(None)
    return {case.name: case for case in sorted(cases, key=lambda c: c.name)}


def to_array(value):
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, (list, tuple)):
        return [to_array(v) for v in value]
    return value if value is None else np.asarray(value)


def judge(case, outputs, want):
    if len(outputs) != len(want):
        return f"wrong shape: {len(outputs)} outputs, not {len(want)}"
    for value, got, expected in zip(case.model.graph.output, outputs, want):
        kind = value.type
        if kind.HasField("optional_type") and kind.optional_type.elem_type.HasField("tensor_type") and isinstance(got, list):
            got = got[0] if got else None   # the library gives an optional as a sequence of at most one
        reason = compare.difference(got, to_array(expected), case.rtol, case.atol)
        if reason:
            return reason
    return PASS


def refusal(case, code, message):
    """The reason for a refused model. An unsupported one must name a node or its operator."""
    if code == 4:
        nodes = [n for n in case.model.graph.node] + [n for f in case.model.functions for n in f.node]
        named = [n.op_type for n in nodes if n.op_type in message or (n.name and n.name in message)]
        return f"unsupported: {named[0]}" if named else f"unsupported, node not named: {message[:120]}"
    kind = {3: "rejected", 2: "refused as wrong use", 1: "internal error", 6: "resource limit"}.get(code, f"exit {code}")
    return f"{kind}: {message[:160]}"


def run_library(case, path):
    from support import library  # loads the shared library: only ever in a forked child
    try:
        with library.open_model(path, cache_dir="none") as session:
            for inputs, want in case.data_sets:
                names = [value.name for value in case.model.graph.input]
                given = {name: to_array(value) for name, value in zip(names, inputs)}
                reason = judge(case, session.run(given), want)
                if reason != PASS:
                    return reason
    except library.TenonError as error:
        return refusal(case, error.code, error.message)
    return PASS


def has_npy_form(value):
    value = to_array(value)
    return isinstance(value, np.ndarray)


def run_cli(case, path):
    for index, (inputs, want) in enumerate(case.data_sets):
        if not all(map(has_npy_form, [*inputs, *want])):
            return INEXPRESSIBLE
        names = [value.name for value in case.model.graph.input]
        given = {name: to_array(value) for name, value in zip(names, inputs)}
        done, outputs = command.run_model(path, given, path.parent / f"set_{index}", "--cache-dir", "none", "--threads", "1",
                                           timeout=CASE_TIMEOUT_S)
        if done.returncode < 0 or done.returncode >= 128:
            return f"crash: exit {done.returncode}"
        if done.returncode:
            return refusal(case, done.returncode, message_of(done))
        reason = judge(case, [outputs[value.name] for value in case.model.graph.output], want)
        if reason != PASS:
            return reason
    return PASS


def message_of(done):
    try:
        return json.loads(done.stdout)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        return done.stderr.strip()


def guarded(run, case, path):
    try:
        return run(case, path)
    except Exception as error:  # a defect of the test or of the binding is a failure of the case, not of the whole run
        return f"test broke: {type(error).__name__}: {error}"[:200]


def child(cases, names, folder, write_end):
    """Runs cases in order, telling the parent before and after each one; a crash takes only this process."""
    with os.fdopen(write_end, "w", buffering=1) as out:
        for name in names:
            print(json.dumps([name, None]), file=out)
            signal.alarm(CASE_TIMEOUT_S)
            reason = guarded(run_library, cases[name], folder / name / "model.onnx")
            signal.alarm(0)
            print(json.dumps([name, reason]), file=out)


def run_forked(cases, names, folder):
    """Results of `names` through the library. Children are forked; one that dies is followed by another for the rest.

    This process must not have run the library itself: a forked child has none of its parent's threads.
    """
    results, left = {}, list(names)
    while left:
        read_end, write_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read_end)
            try:
                child(cases, left, folder, write_end)
            finally:
                os._exit(0)
        os.close(write_end)
        running = None
        with os.fdopen(read_end) as lines:
            for line in lines:
                name, reason = json.loads(line)
                running = name if reason is None else None
                if reason is not None:
                    results[name] = reason
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if running is not None:
            results[running] = "timeout" if status == -signal.SIGALRM else f"crash: exit {status}"
        elif len(results) < len(names) and status:
            raise RuntimeError(f"the child that runs node cases ended with {status}")
        left = [name for name in left if name not in results]
    return results


def run_all(ways=WAYS, cases=None):
    """{way: {case: reason}}."""
    cases = cases or collect()
    results = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for name, case in cases.items():
            (folder / name).mkdir()
            (folder / name / "model.onnx").write_bytes(case.model.SerializeToString())
        if "library" in ways:
            results["library"] = run_forked(cases, list(cases), folder)
        if "cli" in ways:
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                reasons = pool.map(lambda name: guarded(run_cli, cases[name], folder / name / "model.onnx"), cases)
                results["cli"] = dict(zip(cases, reasons))
    return results


def expected_failures():
    """{(way, case): reason}."""
    rows = {}
    for line in EXPECTED_FAILURES.read_text().splitlines() if EXPECTED_FAILURES.exists() else []:
        if line and not line.startswith("#"):
            ways, case, reason = line.split(maxsplit=2)
            for way in ways.split(","):
                rows[way, case] = reason
    return rows


def write_expected(results):
    """Only the kind of reason goes into the list, so that it does not change with rounding."""
    reasons = collections.defaultdict(dict)
    for way, of_case in results.items():
        for case, reason in of_case.items():
            if reason not in (PASS, INEXPRESSIBLE):
                reasons[case][way] = kind_of(reason)
    lines = ["# Node cases of onnx that fail, by way (scripts in this folder); the list only shrinks.\n"]
    for case, by_way in sorted(reasons.items()):
        for reason in sorted(set(by_way.values())):
            lines.append(f"{','.join(w for w in WAYS if by_way.get(w) == reason)} {case} {reason}\n")
    EXPECTED_FAILURES.write_text("".join(lines))


def kind_of(reason):
    return reason if reason.startswith("unsupported: ") else re.split(r"[:,]", reason)[0]


def print_summary(results, seconds):
    for way, of_case in results.items():
        counts = collections.Counter(kind_of(reason) for reason in of_case.values())
        print(f"\n{way}: {counts[PASS]} of {len(of_case)} node cases pass ({seconds:.0f} s for all ways)")
        for kind, count in counts.most_common():
            print(f"  {count:5} {kind}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--via", default=",".join(WAYS))
    parser.add_argument("--filter", default="")
    parser.add_argument("--show", help="list the cases whose reason contains this text")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--json", help="write {way: {case: reason}} to this file")
    arguments = parser.parse_args()
    start = time.monotonic()
    cases = {name: case for name, case in collect().items() if arguments.filter in name}
    results = run_all(arguments.via.split(","), cases)
    print_summary(results, time.monotonic() - start)
    if arguments.show is not None:
        for way, of_case in results.items():
            print("".join(f"{way} {c}: {r}\n" for c, r in of_case.items() if arguments.show in r and r != PASS), end="")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(results))
    if arguments.update:
        assert not arguments.filter and set(results) == set(WAYS), "--update needs all cases through all ways"
        write_expected(results)


if __name__ == "__main__":
    main()
