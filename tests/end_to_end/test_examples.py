"""The programs of examples/, built with everything else, on real models."""
import subprocess
import wave

import numpy as np
from magika import Magika

from conformance.test_silero import recording
from support import models, paths

BIN = paths.BUILD / "bin"


def run(program, *arguments):
    return subprocess.run([str(BIN / program), *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)


def test_ocr_line_reads_the_picture():
    done = run("ocr_line", paths.model("ppocr/ch_PP-OCRv4_rec_infer.onnx"), paths.ROOT / "examples/data/line.png")
    assert (done.returncode, done.stdout) == (0, "Tenon 2026 cuts to fit\n"), done.stderr


def speech(path, threshold=(0.5, 0.35)):
    """What examples/vad.cc prints, by ONNX Runtime: windows of 512 behind 64 samples, state carried."""
    with wave.open(str(path)) as file:
        sound = np.frombuffer(file.readframes(file.getnframes()), np.int16) / np.float32(32768)
    session = models.reference_session(paths.model("silero/silero_vad.onnx"))
    state, context, begin, lines = np.zeros((2, 1, 128), np.float32), np.zeros(64, np.float32), None, []
    for at in range(0, len(sound), 512):
        window = np.concatenate([context, np.pad(sound[at:at + 512], (0, max(0, at + 512 - len(sound))))]).astype(np.float32)
        probability, state = session.run(None, {"input": window[None], "state": state, "sr": np.array(16000, np.int64)})
        context, seconds = window[-64:], at / 16000
        if begin is None and probability[0, 0] >= threshold[0]:
            begin = seconds
        if begin is not None and probability[0, 0] < threshold[1]:
            lines.append(f"speech {begin:.2f} s to {seconds:.2f} s")
            begin = None
    if begin is not None:
        lines.append(f"speech {begin:.2f} s to {len(sound) / 16000:.2f} s")
    return lines


def test_vad_finds_speech(tmp_path):
    path = tmp_path / "speech.wav"
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 16000, 0, "NONE", ""))
        file.writeframes((recording(16000, 6) * 32767).astype(np.int16).tobytes())
    want = speech(path)
    assert want, "the recording has to hold what the model takes for speech"
    done = run("vad", paths.model("silero/silero_vad.onnx"), path)
    assert (done.returncode, done.stdout.splitlines()) == (0, want), done.stderr


def test_file_type_knows_files():
    files = [paths.ROOT / name for name in ("CMakeLists.txt", "README.md", "LICENSE", "scripts/test", "examples/data/line.png",
                                            "tests/conftest.py", "src/base/dim.cc", ".cache/models/magika/config/content_types_kb.min.json")]
    done = run("file_type", paths.model("magika/models/standard_v3_3/model.onnx").parent, *files)
    assert done.returncode == 0, done.stderr
    labels = [line.rsplit(": ", 1)[1].split(" ")[0] for line in done.stdout.splitlines()]
    assert labels == [str(result.dl.label) for result in Magika().identify_paths(files)]


def test_examples_say_what_is_wrong(tmp_path):
    (tmp_path / "cut.png").write_bytes((paths.ROOT / "examples/data/line.png").read_bytes()[:100])
    for arguments, code in (((tmp_path / "absent.onnx", tmp_path / "absent.png"), 3), ((), 2),
                            ((paths.model("ppocr/ch_PP-OCRv4_rec_infer.onnx"), tmp_path / "cut.png"), 3)):
        done = run("ocr_line", *arguments)
        assert done.returncode == code and len(done.stderr.splitlines()) == 1
