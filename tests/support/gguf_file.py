"""A minimal writer of GGUF files (version 3), and a plain llama in numpy to hold answers against."""
import struct

import numpy as np

U32, F32, BOOL, STRING, ARRAY = 4, 6, 7, 8, 9


def _text(s):
    data = s.encode()
    return struct.pack("<Q", len(data)) + data


def _value(v):
    if isinstance(v, bool):
        return struct.pack("<I?", BOOL, v)
    if isinstance(v, int):
        return struct.pack("<II", U32, v)
    if isinstance(v, float):
        return struct.pack("<If", F32, v)
    if isinstance(v, list):
        kind = struct.unpack("<I", _value(v[0])[:4])[0]
        return struct.pack("<IIQ", ARRAY, kind, len(v)) + b"".join(_value(e)[4:] for e in v)
    return struct.pack("<I", STRING) + _text(v)


def q8_0(w):
    """Rows of float32 as blocks of 32 bytes with an f16 scale each; returns bytes and the values that they stand for."""
    blocks = w.reshape(-1, 32)
    scale = (np.abs(blocks).max(1, keepdims=True) / 127).astype(np.float16)
    wide = scale.astype(np.float32)
    q = np.round(blocks / np.where(wide == 0, 1, wide)).clip(-127, 127).astype(np.int8)
    data = np.concatenate([scale.view(np.uint8), q.view(np.uint8)], axis=1)
    return data.tobytes(), (q.astype(np.float32) * wide).reshape(w.shape)


def _through_bf16(x):
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000).astype(np.uint32).view(np.float32)


def _through_q8_0(x):
    blocks = x.astype(np.float32).reshape(-1, 32)
    scale = np.abs(blocks).max(1, keepdims=True) / 127
    return (np.round(blocks / scale) * scale.astype(np.float16)).reshape(x.shape)


# What keys and values are after a cache of each type.
CACHES = {"f32": lambda x: x.astype(np.float32), "f16": lambda x: x.astype(np.float16), "bf16": _through_bf16, "q8_0": _through_q8_0}


def write(path, metadata, tensors):
    """tensors: name -> (shape outermost first, ggml type, bytes)."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        head += _text(key) + _value(value)
    data = b""
    for name, (shape, kind, raw) in tensors.items():
        head += _text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *reversed(shape))
        head += struct.pack("<IQ", kind, len(data))
        data += raw + b"\0" * (-len(raw) % 32)
    path.write_bytes(head + b"\0" * (-len(head) % 32) + data)


class TinyLlama:
    """Two layers, grouped heads, rotary embedding on neighbouring pairs, as GGUF's llama has them."""
    vocabulary, width, heads, kv_heads, hidden, layers, base, epsilon = 100, 64, 4, 2, 96, 2, 10000.0, 1e-5

    def __init__(self, path, quantized, metadata=None):
        """`metadata`: what the file holds beside the model's numbers, or in place of them."""
        rng = np.random.default_rng(3)
        self.w, tensors = {}, {}

        def add(name, shape):
            w = (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)
            if len(shape) == 1:
                w = 1 + 0.1 * w
            if quantized and len(shape) == 2:
                raw, w = q8_0(w)
                tensors[name] = (shape, 8, raw)
            else:
                tensors[name] = (shape, 0, w.tobytes())
            self.w[name] = w

        dim = self.width // self.heads
        add("token_embd.weight", (self.vocabulary, self.width))
        for i in range(self.layers):
            p = f"blk.{i}."
            add(p + "attn_norm.weight", (self.width,))
            add(p + "attn_q.weight", (self.heads * dim, self.width))
            add(p + "attn_k.weight", (self.kv_heads * dim, self.width))
            add(p + "attn_v.weight", (self.kv_heads * dim, self.width))
            add(p + "attn_output.weight", (self.width, self.heads * dim))
            add(p + "ffn_norm.weight", (self.width,))
            add(p + "ffn_gate.weight", (self.hidden, self.width))
            add(p + "ffn_up.weight", (self.hidden, self.width))
            add(p + "ffn_down.weight", (self.width, self.hidden))
        add("output_norm.weight", (self.width,))
        numbers = {"general.architecture": "llama", "llama.block_count": self.layers, "llama.context_length": 256,
                    "llama.embedding_length": self.width, "llama.feed_forward_length": self.hidden,
                    "llama.attention.head_count": self.heads, "llama.attention.head_count_kv": self.kv_heads,
                    "llama.rope.freq_base": self.base, "llama.attention.layer_norm_rms_epsilon": self.epsilon}
        write(path, numbers | (metadata or {}), tensors)

    def _norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.epsilon) * self.w[name]

    def _turn(self, x):
        n, _, dim = x.shape
        angle = np.arange(n)[:, None] * self.base ** (-np.arange(0, dim, 2) / dim)
        c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
        out = np.empty_like(x)
        out[..., 0::2] = x[..., 0::2] * c - x[..., 1::2] * s
        out[..., 1::2] = x[..., 1::2] * c + x[..., 0::2] * s
        return out

    def logits(self, tokens, cache=None):
        kept = CACHES[cache] if cache else lambda x: x
        w, n, dim = self.w, len(tokens), self.width // self.heads
        x = w["token_embd.weight"][tokens].astype(np.float64)
        for i in range(self.layers):
            p = f"blk.{i}."
            h = self._norm(x, p + "attn_norm.weight")
            q = self._turn((h @ w[p + "attn_q.weight"].T).reshape(n, self.heads, dim))
            k = kept(self._turn((h @ w[p + "attn_k.weight"].T).reshape(n, self.kv_heads, dim))).repeat(self.heads // self.kv_heads, 1)
            v = kept((h @ w[p + "attn_v.weight"].T).reshape(n, self.kv_heads, dim)).repeat(self.heads // self.kv_heads, 1)
            s = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(dim)
            s = np.where(np.tril(np.ones((n, n), bool)), s, -np.inf)
            a = np.exp(s - s.max(-1, keepdims=True))
            a = np.einsum("hij,jhd->ihd", a / a.sum(-1, keepdims=True), v).reshape(n, -1)
            x = x + a @ w[p + "attn_output.weight"].T
            h = self._norm(x, p + "ffn_norm.weight")
            g = h @ w[p + "ffn_gate.weight"].T
            x = x + (g / (1 + np.exp(-g)) * (h @ w[p + "ffn_up.weight"].T)) @ w[p + "ffn_down.weight"].T
        return self._norm(x, "output_norm.weight") @ w["token_embd.weight"].T


class WideLlama(TinyLlama):
    """With heads of 32: what blocks of a q8_0 cache need."""
    heads, kv_heads = 2, 1


CHAT_TEMPLATE = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
                 "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


class TalkingLlama(WideLlama):
    """One that has a tokenizer, a token a byte, and a chat template."""
    vocabulary = 260

    def __init__(self, path):
        printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
        alphabet = {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(sorted(set(range(256)) - set(printable)))}
        tokens = [alphabet[byte] for byte in range(256)] + ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "ab"]
        super().__init__(path, False, {
            "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.merges": ["a b"],
            "tokenizer.ggml.token_type": [1] * 256 + [3, 3, 3, 1], "tokenizer.ggml.eos_token_id": 258, "tokenizer.ggml.bos_token_id": 256, "tokenizer.ggml.add_bos_token": False,
            "tokenizer.chat_template": CHAT_TEMPLATE, "llama.context_length": 2048})
