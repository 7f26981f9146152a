"""Language models from GGUF: scores as plain numpy computes them, with and without a cache; damaged files end with an error."""
import json
import subprocess

import numpy as np
import pytest

from support import paths
from support.gguf_file import TinyLlama


def tenon(*args, ok=True):
    done = subprocess.run([paths.TENON, *map(str, args)], capture_output=True, text=True)
    assert not ok or done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module", params=[False, True], ids=["f32", "q8_0"])
def model(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    return path, TinyLlama(path, request.param)


def run(path, tokens, tmp_path, *flags):
    np.save(tmp_path / "tokens.npy", tokens)
    tenon("run", path, "--input", f"tokens={tmp_path}/tokens.npy", "--output", tmp_path / "out", *flags)
    return np.load(tmp_path / "out" / "logits.npy")


@pytest.mark.parametrize("flags", [(), ("--opt-level", "0")], ids=["fused", "plain"])
def test_scores_are_those_of_the_model(model, tmp_path, flags):
    path, reference = model
    tokens = np.arange(7, dtype=np.int64) * 13 % 100
    # Keys and values pass through f16, with a cache or without.
    np.testing.assert_allclose(run(path, tokens, tmp_path, *flags), reference.logits(tokens), atol=2e-3)
    batch = run(path, np.stack([tokens, tokens[::-1]]).astype(np.int32), tmp_path, *flags)
    np.testing.assert_allclose(batch[1], reference.logits(tokens[::-1]), atol=0.02)


def test_a_long_prompt(model, tmp_path):
    path, reference = model
    tokens = np.arange(150, dtype=np.int64) * 7 % 100
    want = reference.logits(tokens)
    got = run(path, tokens, tmp_path)
    assert np.abs(got - want).max() < 0.03 * np.abs(want).max()


def test_greedy_answers_with_a_cache(model):
    path, reference = model
    prompt = [5, 17, 42, 99]
    answers = []
    for threads in (1, 2):
        done = tenon("generate", path, "--prompt-tokens", ",".join(map(str, prompt)), "--max-tokens", 20, "--temperature", 0,
                     "--threads", threads, "--json")
        answers.append(json.loads(done.stdout)["tokens"])
    assert answers[0] == answers[1]
    tokens = list(prompt)
    for token in answers[0]:
        scores = reference.logits(np.array(tokens))[-1]
        assert scores.max() - scores[token] < 2e-3   # the best, but for ties within rounding
        tokens.append(token)


def test_what_is_wrong_is_said(model, tmp_path):
    path, _ = model
    data = path.read_bytes()
    damaged = tmp_path / "damaged.gguf"
    for cut in (10, 200, 1500, len(data) - 100):
        damaged.write_bytes(data[:cut])
        assert tenon("inspect", damaged, ok=False).returncode in (3, 4)
    damaged.write_bytes(data.replace(b"general.architecture" + (8).to_bytes(4, "little") + (5).to_bytes(8, "little") + b"llama",
                                     b"general.architecture" + (8).to_bytes(4, "little") + (5).to_bytes(8, "little") + b"other"))
    assert tenon("inspect", damaged, ok=False).returncode == 4
    assert tenon("generate", path, "--prompt-tokens", "100", ok=False).returncode == 3
    assert tenon("generate", path, ok=False).returncode != 0
