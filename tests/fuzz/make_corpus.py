"""Small valid ONNX files for the fuzzer to start from: node cases of the onnx package, one in so many, and random graphs.

usage: make_corpus.py FOLDER"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from conformance import onnx_backend  # noqa: E402
from graphs import generator, templates  # noqa: E402

MAX_BYTES = 4096


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for index, (name, case) in enumerate(sorted(onnx_backend.collect().items())):
        data = case.model.SerializeToString()
        if index % 4 == 0 and len(data) <= MAX_BYTES:
            (folder / f"{name}.onnx").write_bytes(data)
    for seed in range(150):
        data = generator.generate(seed, templates.ALL, steps=4)[0].SerializeToString()
        if len(data) <= MAX_BYTES:
            (folder / f"random{seed}.onnx").write_bytes(data)


if __name__ == "__main__":
    main()
