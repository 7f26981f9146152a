#!/usr/bin/env python3
"""Accuracy-controlled quantisation side by side: `tenon quantize --max-drop` and OpenVINO with NNCF's
`quantize_with_accuracy_control`, on the same model, samples, metric and allowed drop.

Both get the deciding half of the samples, for calibration and for their choice; both results are judged on the other half, and
their latencies are measured in turn. Everything runs on one core, tuning too. Needs `nncf` and `openvino` (an environment of its own is
best: python3 -m venv .venv-nncf && .venv-nncf/bin/pip install nncf openvino onnx).

  python bench/quantize_nncf.py efficientnet --max-drop 0.005
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import guard_data
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
TENON = pathlib.Path(os.environ.get("TENON_BUILD", ROOT / "build/release")) / "bin/tenon"


def load(folder):
    """Samples as dictionaries of arrays with a batch axis of one, and labels (None without)."""
    samples = []
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as z:
            arrays = {k: z[k] for k in z.files}
        labels = arrays.pop("labels", None)
        arrays.pop("group", None)
        rows = len(next(iter(arrays.values())))
        samples += [({k: v[i:i + 1] for k, v in arrays.items()}, None if labels is None else labels[i]) for i in range(rows)]
    return samples


def write(folder, samples):
    """A file a sample, in order."""
    folder.mkdir(parents=True)
    for i, (x, label) in enumerate(samples):
        np.savez(folder / f"{i:05}.npz", **x, **({} if label is None else {"labels": np.array([label])}))


def agreement(outputs, wanted):
    return float(np.mean([np.argmax(o, -1).ravel()[0] == w for o, w in zip(outputs, wanted)]))


def cosine(outputs, wanted):
    return float(np.mean([np.sum(o * w) / (np.linalg.norm(o) * np.linalg.norm(w)) for o, w in zip(outputs, wanted)]))


class OpenVino:
    def __init__(self, model, threads):
        import openvino as ov
        config = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
        self.request = ov.Core().compile_model(model, "CPU", config).create_infer_request()

    def answer(self, x):
        self.request.infer(x, share_inputs=True)
        return self.request.get_output_tensor(0).data.copy()

    def bound(self, x):
        """What runs on x, and nothing else."""
        import openvino as ov
        for name, value in x.items():
            self.request.set_tensor(name, ov.Tensor(value, shared_memory=True))
        return self.request.infer


class Tenon:
    """Through the C interface of libtenon, as other programs use it."""

    def __init__(self, artifact, threads):
        sys.path.insert(0, str(ROOT / "tests"))
        from support import library
        self.session = library.open_model(artifact, cache_dir="none", threads=threads)

    def answer(self, x):
        return next(iter(self.session.run_named(x).values()))

    def bound(self, x):
        return self.session.bind(x).run


def nncf_quantize(model, deciding, score, max_drop, seconds):
    import nncf
    import openvino as ov

    def validate(compiled, data):
        outputs = [compiled(x)[0] for x, _ in data]
        return score(outputs, [w for _, w in data]), None

    began = time.perf_counter()
    data = nncf.Dataset(deciding, lambda item: item[0])
    quantized = nncf.quantize_with_accuracy_control(
        ov.Core().read_model(model), calibration_dataset=data, validation_dataset=nncf.Dataset(deciding),
        validation_fn=lambda compiled, items: validate(compiled, list(items)), max_drop=max_drop, drop_type=nncf.DropType.RELATIVE)
    seconds["nncf"] = time.perf_counter() - began
    return quantized


def tenon_quantize(model, folder, metric, max_drop, out, seconds, extra):
    began = time.perf_counter()
    done = subprocess.run([TENON, "quantize", model, "-o", out, "--data", folder, "--max-drop", str(max_drop), "--threads", "1", "--json",
                           "--metric", metric, *extra], capture_output=True, text=True)
    seconds["tenon"] = time.perf_counter() - began
    if done.returncode not in (0, 5):
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def interleaved(peers, inputs, rounds):
    """Median time of each, in turn, in microseconds."""
    times = {name: [] for name in peers}
    for i in range(rounds):
        for name, peer in peers.items():
            run = peer.bound(inputs[i % len(inputs)])
            run()
            began = time.perf_counter_ns()
            run()
            times[name].append((time.perf_counter_ns() - began) / 1e3)
    return {name: float(np.median(t)) for name, t in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=guard_data.SETS)
    parser.add_argument("--max-drop", type=float, default=0.005)
    parser.add_argument("--samples", type=int, help="fewer than the set has")
    parser.add_argument("--data", type=pathlib.Path, help="a folder that guard_data.py made; made anew when not given")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--tenon", nargs=argparse.REMAINDER, default=[], help="further options of tenon quantize (last)")
    args = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    model, make, count = guard_data.SETS[args.name]
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        if args.data is None:
            args.data = work / "all"
            args.data.mkdir()
            make(args.data, args.samples or count)
        samples = load(args.data)[:args.samples]
        order = np.random.default_rng(1).permutation(len(samples))
        deciding, held_out = ([samples[i] for i in part] for part in np.array_split(order, 2))
        exact = OpenVino(str(model), 1)
        has_labels = samples[0][1] is not None
        score, metric = (cosine, "cosine") if args.name == "minilm" else (agreement, "top1" if has_labels else "token-agreement")

        def judged(part):
            """Samples with what is wanted of them: the label, or what the f32 model says."""
            if has_labels:
                return part
            outputs = [exact.answer(x) for x, _ in part]
            return [(x, o if score is cosine else int(np.argmax(o, -1).ravel()[0])) for (x, _), o in zip(part, outputs)]

        write(work / "deciding", deciding)
        seconds = {}
        report = tenon_quantize(model, work / "deciding", metric, args.max_drop, work / "model.tenon", seconds, args.tenon)
        quantized = nncf_quantize(str(model), judged(deciding), score, args.max_drop, seconds)
        peers = {"tenon": Tenon(work / "model.tenon", 1), "nncf": OpenVino(quantized, 1), "f32 (OpenVINO)": exact}
        wanted = judged(held_out)
        reference = score([exact.answer(x) for x, _ in wanted], [w for _, w in wanted])
        times = interleaved(peers, [x for x, _ in wanted[:20]], args.rounds)
        print(f"{args.name}, {metric}, allowed drop {args.max_drop:.2%}, {len(deciding)} samples decide, {len(held_out)} judge")
        print(f"{'':16}{'tuning s':>10}{'drop':>10}{'latency us':>12}")
        for peer, session in peers.items():
            value = score([session.answer(x) for x, _ in wanted], [w for _, w in wanted])
            tuning = f"{seconds[peer]:.1f}" if peer in seconds else "-"
            print(f"{peer:16}{tuning:>10}{(reference - value) / reference:>10.3%}{times[peer]:>12.1f}")
        kept = sum(o["precision"] == "float32" for o in report.get("ops", []))
        print(f"tenon kept {kept} of {len(report.get('ops', []))} operators in f32")


if __name__ == "__main__":
    main()
