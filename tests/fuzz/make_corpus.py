"""Small valid files for a fuzzer to start from.

usage: make_corpus.py READER FOLDER      (READER: onnx, gguf, safetensors, tokenizer, template)"""
import itertools
import json
import pathlib
import struct
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

MAX_BYTES = 4096
ARCHITECTURES = ROOT / "tests" / "conformance" / "architectures"


def onnx():
    """Node cases of the onnx package, one in so many, and random graphs."""
    from conformance import onnx_backend
    from graphs import generator, templates
    for index, (name, case) in enumerate(sorted(onnx_backend.collect().items())):
        if index % 4 == 0:
            yield name, case.model.SerializeToString()
    for seed in range(150):
        yield f"random{seed}", generator.generate(seed, templates.ALL, steps=4)[0].SerializeToString()


def small_decoder(arch, joined, extra):
    """One layer of eight elements, as the format's converters name it."""
    from support import gguf_file
    width, hidden, vocabulary = 8, 8, 6
    rng = np.random.default_rng(1)
    shapes = {"token_embd.weight": (vocabulary, width), "output_norm.weight": (width,)}
    layer = {"attn_norm.weight": (width,), "attn_output.weight": (width, width), "ffn_norm.weight": (width,), "ffn_down.weight": (width, hidden)}
    layer |= {"attn_qkv.weight": (3 * width, width), "ffn_up.weight": (2 * hidden, width)} if joined else {
        **{f"attn_{n}.weight": (width, width) for n in "qkv"}, "attn_q.bias": (width,), "attn_q_norm.weight": (4,), "attn_k_norm.weight": (4,),
        "ffn_gate.weight": (hidden, width), "ffn_up.weight": (hidden, width), "post_attention_norm.weight": (width,)}
    shapes |= {f"blk.0.{n}": s for n, s in layer.items()}
    metadata = {"general.architecture": arch, f"{arch}.block_count": 1, f"{arch}.context_length": 64, f"{arch}.embedding_length": width,
                f"{arch}.attention.head_count": 2, f"{arch}.attention.layer_norm_rms_epsilon": 1e-5} | {f"{arch}.{k}": v for k, v in extra.items()}
    path = pathlib.Path(sys.argv[2]) / "making"
    gguf_file.write(path, metadata, {n: (s, 0, rng.standard_normal(s).astype(np.float32).tobytes()) for n, s in shapes.items()})
    data = path.read_bytes()
    path.unlink()
    return data


def gguf_tokenizer(model, pre):
    """Metadata alone: a vocabulary, and what a tokenizer's keys hold."""
    def text(s):
        return struct.pack("<Q", len(s.encode())) + s.encode()

    def array(kind, items):
        return struct.pack("<IIQ", 9, kind, len(items)) + b"".join(items)

    tokens = ["<unk>", "<s>", "</s>", "<0x0A>", "▁", "l", "o", "lo", "Ġ", "H", "he", "##l", "[CLS]"]
    pairs = [(text("tokenizer.ggml.model") + struct.pack("<I", 8) + text(model)), text("tokenizer.ggml.pre") + struct.pack("<I", 8) + text(pre),
             text("tokenizer.ggml.tokens") + array(8, [text(t) for t in tokens]),
             text("tokenizer.ggml.merges") + array(8, [text("l o")]),
             text("tokenizer.ggml.scores") + array(6, [struct.pack("<f", -float(i)) for i in range(len(tokens))]),
             text("tokenizer.ggml.token_type") + array(5, [struct.pack("<i", t) for t in [2, 3, 3, 6] + [1] * (len(tokens) - 4)]),
             text("tokenizer.ggml.add_bos_token") + struct.pack("<I?", 7, True),
             text("tokenizer.chat_template") + struct.pack("<I", 8) + text("{{ messages[0].content }}")]
    for key, value in {"bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0}.items():
        pairs.append(text(f"tokenizer.ggml.{key}") + struct.pack("<II", 4, value))
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + b"".join(pairs) + bytes(32)


def gguf():
    for arch, joined in itertools.product(("llama", "qwen2", "gemma2", "gemma3", "phi3", "granite"), (False, True)):
        extra = {"attention.sliding_window": 16, "rope.scaling.type": "linear", "rope.scaling.factor": 2.0, "attn_logit_softcapping": 30.0}
        yield f"{arch}-{joined}", small_decoder(arch, joined, extra)
    for model, pre in (("gpt2", "smollm"), ("gpt2", "qwen2"), ("gpt2", "llama-bpe"), ("llama", "default"), ("bert", "default"), ("t5", "default")):
        yield f"{model}-{pre}", gguf_tokenizer(model, pre)


def safetensors():
    """The encoders of the conformance tests, made smaller: the configuration, a zero byte, the tensors."""
    for path in sorted(ARCHITECTURES.glob("*/model.safetensors")):
        config = json.loads((path.parent / "config.json").read_text())
        data = path.read_bytes()
        header = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
        sizes = {32: 4, 48: 2, 96: 12, 80: 4}   # width, inner and vocabulary, three of a kind, positions
        config |= {"hidden_size": 4, "intermediate_size": 2, "vocab_size": 2, "max_position_embeddings": 4, "num_hidden_layers": 1, "head_dim": 2}
        if "layer_types" in config:
            config["layer_types"] = config["layer_types"][:1]
        entries, blob = {}, b""
        for name, entry in header.items():
            if name == "__metadata__" or any(f".{i}." in name for i in (1, 2, 3)):
                continue
            shape = [sizes.get(n, n) for n in entry["shape"]]
            if name.endswith("Wi.weight"):
                shape[0] = 4
            size = 2 * int(np.prod(shape))
            entries[name] = {"dtype": "F16", "shape": shape, "data_offsets": [len(blob), len(blob) + size]}
            blob += bytes(size)
        text = json.dumps(entries).encode()
        keep = {k: v for k, v in config.items() if v is not None}
        yield path.parent.name, json.dumps(keep).encode() + b"\0" + struct.pack("<Q", len(text)) + text + blob


def tokenizer():
    """What the `tokenizers` package writes of small ones of every kind, after a text."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    words = {"<unk>": 0, "[CLS]": 1, "[SEP]": 2, "h": 3, "e": 4, "he": 5, "##l": 6, "▁": 7, "▁h": 8, "Ġ": 9, "<0x0A>": 10, "l": 11}
    kinds = [models.BPE(words, [("h", "e")], unk_token="<unk>", byte_fallback=True, fuse_unk=True), models.BPE(words, [("h", "e")], ignore_merges=True),
             models.WordPiece(words, unk_token="<unk>"), models.Unigram([(w, -float(i)) for w, i in words.items()], unk_id=0, byte_fallback=True)]
    norms = [None, normalizers.NFKC(), normalizers.BertNormalizer(), normalizers.Sequence([normalizers.Nmt(), normalizers.Replace(" ", "▁"), normalizers.Prepend("▁"), normalizers.Lowercase()])]
    pres = [None, pre_tokenizers.ByteLevel(), pre_tokenizers.BertPreTokenizer(), pre_tokenizers.Metaspace(),
            pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.Punctuation(), pre_tokenizers.WhitespaceSplit()])]
    ends = [None, decoders.ByteLevel(), decoders.WordPiece(), decoders.Metaspace(), decoders.Sequence([decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])]
    config = json.dumps({"bos_token": "[CLS]", "eos_token": "[SEP]", "add_bos_token": True, "chat_template": "{{ bos_token }}"}).encode()
    for i, (model, norm, pre, end) in enumerate(itertools.product(kinds, norms, pres, ends)):
        if i % 7:
            continue
        t = Tokenizer(model)
        for place, step in (("normalizer", norm), ("pre_tokenizer", pre), ("decoder", end)):
            if step is not None:
                setattr(t, place, step)
        t.add_special_tokens(["[CLS]", "[SEP]"])
        t.add_tokens([AddedToken("<think>", lstrip=i % 2 == 0, rstrip=i % 3 == 0, single_word=i % 5 == 0, normalized=i % 2 == 1)])
        if i % 2:
            t.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
        yield f"kind{i}", "Hello [CLS] wörld  42 <think>\n🦙".encode() + b"\0" + t.to_str().encode() + b"\0" + config


def template():
    for row in json.loads((ROOT / "src" / "text" / "testdata" / "templates.json").read_text()):
        yield row["name"].replace("/", "_").replace(" ", "_"), row["template"].encode()


def main():
    reader, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    makers = {"onnx": onnx, "gguf": gguf, "safetensors": safetensors, "tokenizer": tokenizer, "template": template}
    for name, data in makers[reader]():
        if len(data) <= MAX_BYTES:
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
