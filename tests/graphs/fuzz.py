"""Many random graphs against ONNX Runtime: `python -m graphs.fuzz --count 100000 --jobs 2` from the folder tests/.

Each batch runs in a process of its own on one instruction set, so that a crash costs one batch and names its graph. Failures are
cut down and saved; the exit code is 1 when there is any."""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import time

ISAS = ("baseline", "avx2", "avx512")
BATCH = 250


def batch(first, count, isa, out):
    """In the process of a batch: one JSON line a failure on stdout; the seed at work in a file."""
    from graphs import check, generator, templates
    peer, done = collections.Counter(), 0
    for seed in range(first, first + count):
        pathlib.Path(out, f"seed-{first}-{isa}").write_text(str(seed))
        model, inputs, _ = generator.generate(seed, templates.ALL)
        try:
            reason = check.check(model, inputs, isa=isa)
        except check.PeerRefuses as e:
            peer[str(e)[:160]] += 1
            continue
        done += 1
        if reason is None:
            continue

        def fails(m, feed):
            return check.check(m, feed, isa=isa) is not None

        model, inputs = check.shrink(model, inputs, fails)
        reason = check.check(model, inputs, isa=isa)
        check.save(pathlib.Path(out), f"seed{seed}_{isa}", model, inputs, reason)
        ops = [n.op_type for n in model.graph.node]
        print(json.dumps({"seed": seed, "isa": isa, "reason": reason, "ops": ops}), flush=True)
    pathlib.Path(out, f"seed-{first}-{isa}").unlink()
    print(json.dumps({"done": done, "peer": peer}), flush=True)


def run_batch(first, count, isa, out):
    command = [sys.executable, "-m", "graphs.fuzz", "--worker", "--first", str(first), "--count", str(count), "--isa", isa, "--out", out]
    tests = str(pathlib.Path(__file__).resolve().parent.parent)
    env = {**os.environ, "PYTHONPATH": tests}
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=900, env=env)
        code, text, error = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as e:
        code, text, error = "no end", (e.stdout or b"").decode(), ""
    rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    if code != 0:
        seed = pathlib.Path(out, f"seed-{first}-{isa}")
        rows.append({"seed": int(seed.read_text()) if seed.exists() else first, "isa": isa, "reason": f"crash: {code} {error[-300:]}", "ops": []})
    return rows


def fuzz(first, count, jobs, out, isas=ISAS, report=print):
    """(graphs that ran, failures, what the peer refused)"""
    pathlib.Path(out).mkdir(parents=True, exist_ok=True)
    starts = range(first, first + count, BATCH)
    ran, failures, peer, start = 0, [], collections.Counter(), time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(run_batch, s, min(BATCH, first + count - s), isas[i % len(isas)], out) for i, s in enumerate(starts)]
        for n, future in enumerate(concurrent.futures.as_completed(futures), 1):
            for row in future.result():
                if "done" in row:
                    ran += row["done"]
                    peer.update(row["peer"])
                else:
                    failures.append(row)
                    report(f"seed {row['seed']} {row['isa']}: {row['reason']} {row['ops']}")
            if n % 20 == 0:
                report(f"{ran} graphs, {len(failures)} failures, {sum(peer.values())} refused by the peer, {time.monotonic() - start:.0f} s")
    return ran, failures, peer


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--isa", default=",".join(ISAS), help="instruction sets, taken in turn (default: %(default)s)")
    parser.add_argument("--out", default="../build/graphs", help="where reproducers go (default: %(default)s)")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        batch(args.first, args.count, args.isa, args.out)
        return 0
    ran, failures, peer = fuzz(args.first, args.count, args.jobs, args.out, args.isa.split(","), lambda line: print(line, flush=True))
    for reason, count in peer.most_common():
        print(f"peer refused {count}: {reason}")
    print(f"{ran} graphs ran, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
