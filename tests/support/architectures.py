"""A tiny model of each architecture, run by the real binary, and how far it is from what `transformers` says. Models and answers are
written by scripts/check_architectures."""
import tempfile
import pathlib

import numpy as np

from support import command

TOLERANCE = 1e-3
HALF_TOLERANCE = 1e-2   # keys and values of 11 bits
EXACT = ("--kv-cache", "f32", "--op-select-implmode", "high_precision")   # prompts on weights of 16 bits are rounded to bf16 without it
PROMPT = 8         # tokens of the first sequence; the rest of it is the greedy answer
BEST = 20          # scores that `tenon generate --logprobs` tells of each step


def run(model, inputs, *flags):
    with tempfile.TemporaryDirectory() as folder:
        done, outputs = command.run_model(model, inputs, pathlib.Path(folder), *flags)
        assert done.returncode == 0, done.stderr
        return next(iter(outputs.values()))


def distance(got, want):
    assert got.shape == want.shape and np.isfinite(got).all()
    return float(np.abs(got - want).max())


def log_softmax(logits):
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def cached(model, tokens, logits, chunk):
    """The greedy answer, one step a token, after a prompt that went in in chunks: equal tokens, and the distance of their scores."""
    answer = command.tenon_json("generate", model, "--prompt-tokens", ",".join(map(str, tokens[:PROMPT])), "--max-tokens", len(tokens) - PROMPT,
                                "--temperature", 0, "--chunk", chunk, "--logprobs", BEST, *EXACT)
    assert answer["tokens"] == tokens[PROMPT:].tolist()
    worst = 0
    for row, step in zip(log_softmax(logits.astype(np.float64))[PROMPT - 1:], answer["logprobs"]):
        best = {entry["id"]: entry["logprob"] for entry in step["top"]}
        assert len(best) == BEST
        worst = max(worst, *(abs(logprob - row[token]) for token, logprob in best.items()))
    return worst


def decoder(folder, name, model=None):
    """Distances from `transformers`, by way of running; of the GGUF file, or of another model that holds the same."""
    model = model or folder / f"{name}.gguf"
    with np.load(folder / f"{name}.npz") as golden:
        tokens, logits = golden["tokens"], golden["logits"]
    return {
        "fused": distance(run(model, {"tokens": tokens[0]}, *EXACT), logits[0]),
        "plain": distance(run(model, {"tokens": tokens[0]}, "--opt-level", 0, *EXACT), logits[0]),
        "batch": distance(run(model, {"tokens": tokens}, *EXACT), logits),
        "cached": cached(model, tokens[0], logits[0], 512),
        "chunked": cached(model, tokens[0], logits[0], 3),
    }


def decoder_of_halves(folder, name):
    """The same with keys and values of f16, as they are unless one asks."""
    with np.load(folder / f"{name}.npz") as golden:
        return {"f16": distance(run(folder / f"{name}.gguf", {"tokens": golden["tokens"]}), golden["logits"])}


def encoder(folder, name):
    with np.load(folder / f"{name}.npz") as golden:
        tokens, states = golden["tokens"], golden["states"]
    return {
        "fused": distance(run(folder / name, {"input_ids": tokens[:1]}), states[:1]),
        "plain": distance(run(folder / name, {"input_ids": tokens[:1]}, "--opt-level", 0), states[:1]),
        "batch": distance(run(folder / name, {"input_ids": tokens}), states),
    }
