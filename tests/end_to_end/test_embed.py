"""tenon embed on a small random BERT folder, against the same encoder in NumPy."""
import json
import math
import struct

import numpy as np
import pytest

from support.command import error_line, tenon, tenon_json

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "hello", "world", "a", "b", "c", "##d", "!"]
CONFIG = {"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24, "max_position_embeddings": 20,
          "type_vocab_size": 2, "vocab_size": len(WORDS), "hidden_act": "gelu", "layer_norm_eps": 1e-12}
TEXTS = ["hello", "hello world!", "a b c ad", "", "b b b b b b b b b b b", "hello", "world a"]


def save_safetensors(path, tensors):
    header, data = {}, b""
    for name, value in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [len(data), len(data) + value.nbytes]}
        data += value.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def random_weights():
    rng = np.random.default_rng(3)
    h, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]
    shapes = {"embeddings.word_embeddings.weight": (len(WORDS), h), "embeddings.position_embeddings.weight": (20, h), "embeddings.token_type_embeddings.weight": (2, h)}
    norms = ["embeddings.LayerNorm"]
    for i in range(CONFIG["num_hidden_layers"]):
        layer = f"encoder.layer.{i}."
        linears = {f"attention.self.{n}": (h, h) for n in ("query", "key", "value")} | {"attention.output.dense": (h, h), "intermediate.dense": (inner, h), "output.dense": (h, inner)}
        for name, shape in linears.items():
            shapes[layer + name + ".weight"], shapes[layer + name + ".bias"] = shape, shape[:1]
        norms += [layer + "attention.output.LayerNorm", layer + "output.LayerNorm"]
    weights = {n: rng.normal(0, 0.4, s).astype(np.float32) for n, s in shapes.items()}
    for n in norms:
        weights[n + ".weight"], weights[n + ".bias"] = rng.normal(1, 0.1, h).astype(np.float32), rng.normal(0, 0.1, h).astype(np.float32)
    return weights


def encode(w, ids):
    erf = np.vectorize(math.erf)
    w = {k: v.astype(np.float64) for k, v in w.items()}

    def linear(x, name):
        return x @ w[name + ".weight"].T + w[name + ".bias"]

    def norm(x, name):
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12) * w[name + ".weight"] + w[name + ".bias"]

    x = norm(w["embeddings.word_embeddings.weight"][ids] + w["embeddings.position_embeddings.weight"][: len(ids)] + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for i in range(CONFIG["num_hidden_layers"]):
        p = f"encoder.layer.{i}."
        q, k, v = (linear(x, p + "attention.self." + n).reshape(len(ids), 4, 4).transpose(1, 0, 2) for n in ("query", "key", "value"))
        s = np.exp(q @ k.transpose(0, 2, 1) / 2)
        x = norm(x + linear((s / s.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(len(ids), 16), p + "attention.output.dense"), p + "attention.output.LayerNorm")
        h = linear(x, p + "intermediate.dense")
        x = norm(x + linear(h * 0.5 * (1 + erf(h / math.sqrt(2))), p + "output.dense"), p + "output.LayerNorm")
    return x


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("bert")
    save_safetensors(path / "model.safetensors", random_weights())
    (path / "config.json").write_text(json.dumps(CONFIG))
    tokenizer = {"added_tokens": [{"id": i, "content": w, "special": True, "normalized": False} for i, w in enumerate(WORDS[:4])], "normalizer": {"type": "BertNormalizer"},
                 "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}, "decoder": {"type": "WordPiece", "prefix": "##"},
                 "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "vocab": {w: i for i, w in enumerate(WORDS)}}}
    (path / "tokenizer.json").write_text(json.dumps(tokenizer))
    (path / "modules.json").write_text(json.dumps([{"path": "", "type": "sentence_transformers.models.Transformer"}, {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
                                                   {"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}]))
    (path / "1_Pooling").mkdir()
    (path / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}))
    (path / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 14}))
    return path


def test_V18_embeddings_as_sentence_transformers(folder, tmp_path):
    (tmp_path / "texts.txt").write_text("".join(t + "\n" for t in TEXTS))
    done = tenon_json("embed", folder, "--lines", tmp_path / "texts.txt", "--output", tmp_path / "v.npy")
    assert (done["pooling"], done["normalize"], done["max_tokens"]) == ("mean", True, 14)
    ids = tenon_json("tokenize", folder, "--lines", tmp_path / "texts.txt")["ids"]
    assert ids[2] == [2, 6, 7, 8, 6, 9, 3]
    weights = random_weights()
    for row, got in zip(ids, np.load(tmp_path / "v.npy")):
        mean = encode(weights, row).mean(0)
        np.testing.assert_allclose(got, mean / np.linalg.norm(mean), atol=2e-6)
    raw = tenon_json("embed", folder, "--text", TEXTS[1], "--pooling", "cls", "--normalize", "no")["embeddings"][0]
    np.testing.assert_allclose(raw, encode(weights, ids[1])[0], atol=1e-5)


@pytest.fixture
def prompting(folder, tmp_path):
    for path in folder.iterdir():
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps({"prompts": {"query": "a b ", "passage": ""}, "default_prompt_name": "query"}))
    return tmp_path


def test_V18_the_prompt_is_the_models_own(prompting, folder):
    with_prompt = tenon_json("embed", folder, "--text", "a b hello")["embeddings"]
    without = tenon_json("embed", folder, "--text", "hello")["embeddings"]
    done = tenon_json("embed", prompting, "--text", "hello")
    assert done["prefix"] == "a b " and done["embeddings"] == with_prompt
    assert tenon_json("embed", prompting, "--text", "hello", "--prompt-name", "passage")["embeddings"] == without
    assert tenon_json("embed", prompting, "--text", "hello", "--prefix", "")["embeddings"] == without
    done = tenon("embed", prompting, "--text", "hello", "--prompt-name", "other")
    assert done.returncode == 2 and "'other'" in error_line(done)
    (prompting / "config_sentence_transformers.json").write_text(json.dumps({"prompts": {}, "default_prompt_name": "query"}))
    assert tenon("embed", prompting, "--text", "hello").returncode == 3


@pytest.mark.parametrize("word, pooling", [("cls", "cls"), ("lasttoken", "last"), ("weightedmean", None)])
def test_V18_pooling_in_one_word(folder, tmp_path, word, pooling):
    for path in folder.iterdir():
        if path.name != "1_Pooling":
            (tmp_path / path.name).symlink_to(path)
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling/config.json").write_text(json.dumps({"embedding_dimension": 16, "pooling_mode": word, "include_prompt": True}))
    if pooling is None:
        assert tenon("embed", tmp_path, "--text", "a").returncode == 4
    else:
        assert tenon_json("embed", tmp_path, "--text", "a b")["pooling"] == pooling


def test_V18_too_long_names_both_numbers(folder):
    done = tenon("embed", folder, "--text", "a " * 20)
    assert done.returncode == 3 and "22 tokens" in error_line(done) and "14" in error_line(done)
    assert tenon("embed", folder, "--text", "a " * 20, "--truncate").returncode == 0


def test_N22_neighbours_change_nothing(folder, tmp_path):
    (tmp_path / "texts.txt").write_text("".join(t + "\n" for t in TEXTS))
    together = np.array(tenon_json("embed", folder, "--lines", tmp_path / "texts.txt")["embeddings"])
    for text, vector in zip(TEXTS, together):
        alone = tenon_json("embed", folder, "--text", text)["embeddings"][0]
        np.testing.assert_allclose(alone, vector, atol=1e-6)


@pytest.mark.parametrize("change, code", [({"hidden_act": "no"}, 4), ({"model_type": "gpt2"}, 4), ({"hidden_size": 15}, 3), ({"hidden_size": -1}, 3), ({"num_hidden_layers": 3}, 3),
                                          ({"vocab_size": 12}, 3), ({"num_attention_heads": "4"}, 3)])
def test_contradictory_folders_are_refused(folder, change, code, tmp_path):
    for name in ("model.safetensors", "tokenizer.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | change))
    done = tenon("embed", tmp_path, "--text", "a")
    assert done.returncode == code, done.stderr
    error_line(done)
