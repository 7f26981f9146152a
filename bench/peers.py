"""One runtime in a process of its own: loads a model, answers once, and times slices of runs when told to. Started by bench/board.

usage: peers.py PEER MODEL INPUTS.npz THREADS FOLDER PRECISION     PEER is tenon, ort or ov; PRECISION f32 or bf16 (what models of
floats compute in)
Reads a line "answer NAME" (writes FOLDER/NAME.npz) or "slice SECONDS MIN_RUNS" (prints nanoseconds of each run) until its input ends.
"""
import json
import os
import pathlib
import sys
import time

import numpy as np

WARM_RUNS = 3   # of each slice: caches and clocks belonged to another process before it


class Ort:
    def __init__(self, model, inputs, threads, precision):
        import onnxruntime
        if precision != "f32":
            raise ValueError(f"no {precision} on CPUs")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        self.session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self.names = [o.name for o in self.session.get_outputs()]
        self.binding = self.session.io_binding()
        for name, value in inputs.items():
            self.binding.bind_cpu_input(name, value)
        for name in self.names:
            self.binding.bind_output(name, "cpu")

    def run(self):
        self.session.run_with_iobinding(self.binding)

    def answer(self):
        self.run()
        return dict(zip(self.names, self.binding.copy_outputs_to_cpu()))


class OpenVino:
    def __init__(self, model, inputs, threads, precision):
        import openvino
        core = openvino.Core()
        graph = core.read_model(str(model))
        graph.reshape({name: list(value.shape) for name, value in inputs.items()})   # its best state: shapes known
        compiled = core.compile_model(graph, "CPU", {
            "INFERENCE_PRECISION_HINT": precision, "NUM_STREAMS": "1", "INFERENCE_NUM_THREADS": str(threads),
            "PERFORMANCE_HINT": "LATENCY", "ENABLE_CPU_PINNING": "NO"})
        self.request = compiled.create_infer_request()
        self.inputs = {name: openvino.Tensor(value, shared_memory=True) for name, value in inputs.items()}
        for name, tensor in self.inputs.items():
            self.request.set_tensor(name, tensor)
        self.outputs = compiled.outputs

    def run(self):
        self.request.infer()

    def answer(self):
        self.run()
        return {name: self.request.get_tensor(output).data.copy() for output in self.outputs for name in output.get_names()}


class Tenon:
    def __init__(self, model, inputs, threads, precision):
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))
        from support import library
        shapes = {name: list(map(str, value.shape)) for name, value in inputs.items()}
        self.session = library.open_model(model, cache_dir="none", threads=threads, input_shapes=shapes, precision=precision)
        self.bound = self.session.bind(inputs)

    def run(self):
        self.bound.run()

    def answer(self):
        self.run()
        return self.bound.outputs()


PEERS = {"ort": Ort, "ov": OpenVino, "tenon": Tenon}


def time_slice(peer, seconds, min_runs):
    clock = time.perf_counter_ns
    for _ in range(WARM_RUNS):
        peer.run()
    times, end = [], clock() + int(seconds * 1e9)
    while len(times) < min_runs or clock() < end:
        start = clock()
        peer.run()
        times.append(clock() - start)
    return times


def main():
    kind, model, inputs, threads, folder, precision = sys.argv[1:]
    inputs = {name: np.require(value, requirements="C") for name, value in np.load(inputs).items()}   # keeps scalars scalar
    out = os.fdopen(os.dup(1), "w", buffering=1)   # libraries may print; answers go their own way
    os.dup2(2, 1)
    try:
        peer = PEERS[kind](model, inputs, int(threads), precision)
        answer = peer.answer()
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"[:300]}), file=out)
        return
    print(json.dumps({"ready": True}), file=out)
    for line in sys.stdin:
        verb, *numbers = line.split()
        if verb == "answer":
            np.savez(pathlib.Path(folder) / f"{numbers[0]}.npz", **answer)
            print(json.dumps({"written": True}), file=out)
        else:
            print(json.dumps({"ns": time_slice(peer, float(numbers[0]), int(numbers[1]))}), file=out)


if __name__ == "__main__":
    main()
