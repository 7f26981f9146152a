"""Silero voice activity over a whole recording: state carried from step to step, each variant, 16 and 8 kHz."""
import numpy as np
import pytest

from support import compare, library, models, paths


def recording(rate, seconds=3):
    """Bursts of a voiced sound between pauses, with noise; f32 in [-1, 1]."""
    rng = np.random.default_rng(11)
    time = np.arange(rate * seconds) / rate
    pitch = 120 + 20 * np.sin(2 * np.pi * 3 * time)
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    voice = sum(np.sin(k * phase) / k for k in range(1, 20))
    bursts = (np.sin(2 * np.pi * 0.8 * time) > 0).astype(np.float64)
    return (0.25 * voice * bursts + 0.01 * rng.standard_normal(time.size)).astype(np.float32)


def windows(sound, rate):
    """[steps, context + window]: each window with the end of the one before."""
    window, context = (512, 64) if rate == 16000 else (256, 32)
    steps = len(sound) // window
    padded = np.concatenate([np.zeros(context, np.float32), sound[:steps * window]])
    return np.stack([padded[i * window:i * window + context + window] for i in range(steps)])


VARIANTS = [("silero_vad", 16000), ("silero_vad", 8000), ("silero_vad_16k_op15", 16000), ("silero_vad_half", 16000),
            ("silero_vad_op18_ifless", 16000), ("silero_vad_op18_ifless", 8000), ("silero_vad_openvino_16k", 16000)]


@pytest.mark.parametrize("stem,rate", VARIANTS)
def test_state_carried(stem, rate):
    path = paths.model(f"silero/{stem}.onnx")
    oracle = models.reference_session(path)
    rate_input = {"sr": np.array(rate, np.int64)} if any(i.name == "sr" for i in oracle.get_inputs()) else {}
    ours = theirs = np.zeros((2, 1, 128), np.float32)
    with library.open_model(path, cache_dir="none") as session:
        for step, window in enumerate(windows(recording(rate), rate)):
            got = session.run_named({"input": window[None], "state": ours, **rate_input})
            want = oracle.run(["output", "stateN"], {"input": window[None], "state": theirs, **rate_input})
            compare.assert_equal(got["output"], want[0], f"{stem} at {rate} Hz, step {step}, probability")
            compare.assert_equal(got["stateN"], want[1], f"{stem} at {rate} Hz, step {step}, state")
            ours, theirs = got["stateN"], want[1]


def test_sequence_variant():
    path = paths.model("silero/silero_vad_16k_sequence.onnx")
    zeros = np.zeros((1, 1, 128), np.float32)
    inputs = {"input": windows(recording(16000), 16000), "h": zeros, "c": zeros}
    with library.open_model(path, cache_dir="none") as session:
        got = session.run_named(inputs)
    for name, want in models.reference(path, inputs).items():
        compare.assert_equal(got[name], want, name)


def test_library_carries_state():
    """The session carries state itself when told which output feeds which input."""
    path = paths.model("silero/silero_vad.onnx")
    rate = {"sr": np.array(16000, np.int64)}
    state = np.zeros((2, 1, 128), np.float32)
    with library.open_model(path, cache_dir="none") as session, library.open_model(path, cache_dir="none") as carrying:
        carrying.carry_state("stateN", "state")
        for step, window in enumerate(windows(recording(16000, 1), 16000)):
            first = {"state": state} if step == 0 else {}
            by_hand = session.run_named({"input": window[None], "state": state, **rate})
            carried = carrying.run_named({"input": window[None], **rate, **first})
            np.testing.assert_array_equal(carried["output"], by_hand["output"])
            state = by_hand["stateN"]
