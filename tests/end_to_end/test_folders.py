"""Hugging Face folders of decoders: weights in parts, and what generation_config.json says of answers."""
import json
import shutil

import numpy as np
import pytest

from support import architectures, command, paths

GOLDENS = paths.ROOT / "tests" / "conformance" / "architectures"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(GOLDENS / "decoders" / "llama", tmp_path / "llama")


def read_safetensors(path):
    """name -> (dtype, shape, bytes)"""
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header, data = json.loads(raw[8:8 + size]), raw[8 + size:]
    header.pop("__metadata__", None)
    return {name: (t["dtype"], t["shape"], data[slice(*t["data_offsets"])]) for name, t in header.items()}


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def split(folder, parts):
    """The weights in so many files and an index; returns what the index maps."""
    tensors = read_safetensors(folder / WEIGHTS)
    files = {}
    for i in range(parts):
        name = f"model-{i + 1:05}-of-{parts:05}.safetensors"
        part = dict(list(tensors.items())[i::parts])
        write_safetensors(folder / name, part)
        files |= dict.fromkeys(part, name)
    (folder / WEIGHTS).unlink()
    write_index(folder, files)
    return files


def write_index(folder, files):
    (folder / INDEX).write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": files}))


def refused(folder, *words):
    done = command.tenon("inspect", folder)
    assert done.returncode == 3
    line = command.error_line(done)
    assert all(word in line for word in words), line


@pytest.mark.parametrize("parts", [1, 3])
def test_weights_in_parts(folder, parts):
    split(folder, parts)
    for way, error in architectures.decoder(GOLDENS, "llama", folder).items():
        assert error < architectures.TOLERANCE, way


@pytest.mark.parametrize("name", ["../model.safetensors", "/etc/passwd", "/etc/model.safetensors", "sub/model.safetensors", "model.bin", "", 7, None, ["model.safetensors"]])
def test_an_index_names_files_of_the_folder_alone(folder, name):
    files = split(folder, 2)
    write_index(folder, files | {"lm_head.weight": name})
    refused(folder, "lm_head.weight", INDEX)


@pytest.mark.parametrize("text", ["", "[]", "7", "{", "{}", '{"weight_map": []}', '{"weight_map": 3}', '{"weight_map": {}}'])
def test_an_index_that_is_none(folder, text):
    split(folder, 2)
    (folder / INDEX).write_text(text)
    refused(folder)


def test_a_part_that_is_missing_or_cut(folder):
    files = split(folder, 2)
    part = folder / sorted(set(files.values()))[1]
    whole = part.read_bytes()
    for size in (0, 7, 40, len(whole) - 1):
        part.write_bytes(whole[:size])
        refused(folder)
    part.unlink()
    refused(folder, part.name)
    write_index(folder, {tensor: name for tensor, name in files.items() if name != part.name})   # its tensors are nowhere
    refused(folder)


def add_tokenizer(folder, vocabulary=48):
    words = {chr(33 + i): i for i in range(vocabulary)}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {"type": "BPE", "dropout": None, "unk_token": None, "vocab": words, "merges": []}
    (folder / "tokenizer.json").write_text(json.dumps({"version": "1.0", "added_tokens": [], "pre_tokenizer": level, "decoder": level, "model": model}))


def answer(model, *flags):
    tokens = np.load(GOLDENS / "llama.npz")["tokens"][0][:architectures.PROMPT]
    return command.tenon_json("generate", model, "--prompt-tokens", ",".join(map(str, tokens)), "--max-tokens", 40, *flags)


@pytest.mark.parametrize("compiled", [False, True], ids=["folder", "artifact"])
def test_tokens_that_end_an_answer(folder, tmp_path, compiled):
    add_tokenizer(folder)

    def generate(ends):
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}))
        if not compiled:
            return answer(folder, "--temperature", 0, *architectures.EXACT)
        done = command.tenon("compile", folder, "-o", tmp_path / "m.tenon", *architectures.EXACT)
        assert done.returncode == 0, done.stderr
        return answer(tmp_path / "m.tenon", "--temperature", 0)

    whole = generate([])
    tokens = whole["tokens"]
    assert len(tokens) == 40 and whole["finish_reason"] == "length"
    first = {token: tokens.index(token) for token in tokens}
    one, other = sorted(first, key=first.get)[3:5]
    for ends, last in ((one, one), ([one], one), ([other, one], one), ([10**9, -1, "x", None, other], other)):
        got = generate(ends)
        assert got["finish_reason"] == "stop" and got["tokens"] == tokens[:first[last]], ends


# What the file says, and flags that say the same.
SETTINGS = [({"temperature": 1.7, "top_k": 9, "top_p": 0.8}, {"--temperature": 1.7, "--top-k": 9, "--top-p": 0.8}),
            ({"do_sample": True, "temperature": 2, "top_k": 0, "min_p": 0.01, "typical_p": 0.9}, {"--temperature": 2, "--top-k": 0, "--min-p": 0.01, "--typical-p": 0.9}),
            ({"do_sample": False, "temperature": 0.6, "repetition_penalty": 1.5}, {"--temperature": 0, "--repetition-penalty": 1.5}),
            ({"temperature": None, "top_k": 1, "max_length": 20, "transformers_version": "4"}, {"--top-k": 1}),
            ({}, {})]


@pytest.mark.parametrize("says, flags", SETTINGS, ids=range(len(SETTINGS)))
def test_how_the_folder_samples(folder, tmp_path, says, flags):
    def sampled(model, flags, *more):
        return answer(model, "--seed", 5, *(word for flag in flags.items() for word in flag), *more)["tokens"]

    hot = {"--temperature": 1.1, "--top-p": 0.9}
    want, overridden = sampled(folder, flags, *architectures.EXACT), sampled(folder, flags | hot, *architectures.EXACT)
    (folder / "generation_config.json").write_text(json.dumps(says))
    assert sampled(folder, {}, *architectures.EXACT) == want
    assert sampled(folder, hot, *architectures.EXACT) == overridden
    assert command.tenon("compile", folder, "-o", tmp_path / "m.tenon", *architectures.EXACT).returncode == 0
    assert sampled(tmp_path / "m.tenon", {}) == want


def test_settings_make_a_difference(folder):
    plain = answer(folder, "--seed", 5)["tokens"]
    for says, _ in SETTINGS[:4]:
        (folder / "generation_config.json").write_text(json.dumps(says))
        assert answer(folder, "--seed", 5)["tokens"] != plain, says


@pytest.mark.parametrize("says", ["[]", "{", "7", '{"temperature": "hot"}', '{"temperature": -1}', '{"temperature": 1e300}', '{"top_k": 1.5}', '{"top_k": -1}', '{"top_k": 99999999999999}',
                                  '{"top_p": 0}', '{"top_p": 1.5}', '{"min_p": [0.1]}', '{"repetition_penalty": 0}', '{"typical_p": {}}'])
def test_settings_that_are_none(folder, says):
    (folder / "generation_config.json").write_text(says)
    done = command.tenon("generate", folder, "--prompt-tokens", "1,2", "--max-tokens", 2)
    assert done.returncode == 3
    command.error_line(done)


def test_an_artifact_tells_which_folder_it_was_made_of(folder, tmp_path):
    def digest():
        done = command.tenon("compile", folder, "-o", tmp_path / "m.tenon")
        assert done.returncode == 0, done.stderr
        return command.tenon_json("inspect", tmp_path / "m.tenon")["provenance"]["source_digest"]

    first = digest()
    assert digest() == first
    (folder / "generation_config.json").write_text("{}")
    second = digest()
    assert second != first
    (folder / "generation_config.json").rename(folder / "other.json")
    assert digest() not in (first, second)
