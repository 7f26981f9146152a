#!/usr/bin/env python3
"""Writes what the tests of block formats read, with the `gguf` package: src/tensor/blocks/iq_grids.inc (tables of the iq formats)
and src/tensor/testdata/blocks.bin (random blocks of every format and what they unpack to).

usage: scripts/make_block_goldens.py      (needs numpy and gguf)
"""
import pathlib
import struct

import gguf
import numpy as np
from gguf import quants

ROOT = pathlib.Path(__file__).resolve().parent.parent / "src" / "tensor"
GRIDS = {"kIq1": quants.IQ1_S, "kIq2Xxs": quants.IQ2_XXS, "kIq2Xs": quants.IQ2_XS, "kIq2S": quants.IQ2_S, "kIq3Xxs": quants.IQ3_XXS,
         "kIq3S": quants.IQ3_S}
FORMATS = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ2_XXS", "IQ2_XS",
           "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS", "IQ1_M", "TQ1_0", "TQ2_0", "MXFP4"]
# Where the f16 numbers of a block lie, so that random bytes do not make infinities of them.
HALVES = {"F16": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ2_XXS": [0], "IQ2_XS": [0], "IQ3_XXS": [0], "IQ1_S": [0], "IQ4_NL": [0],
          "IQ3_S": [0], "IQ2_S": [0], "IQ4_XS": [0], "TQ1_0": [52], "TQ2_0": [64]}


def grids():
    lines = ["// Made by scripts/make_block_goldens.py. clang-format off"]
    for name, cls in GRIDS.items():
        words = np.frombuffer(bytes.fromhex(b"".join(cls.grid_hex.split()).decode()), dtype="<u2")
        lines.append(f"constexpr uint16_t {name}[{len(words)}] = {{")
        for i in range(0, len(words), 16):
            lines.append("    " + ", ".join(f"0x{w:04x}" for w in words[i:i + 16]) + ",")
        lines.append("};")
    lines.append("// clang-format on")
    (ROOT / "blocks" / "iq_grids.inc").write_text("\n".join(lines) + "\n")


def goldens():
    rng = np.random.default_rng(7)
    out = bytearray()
    for name in FORMATS:
        kind = gguf.GGMLQuantizationType[name]
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        count = 3 if elements > 1 else 64
        blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
        for at in HALVES.get(name, []):
            blocks[:, at:at + 2] = (rng.standard_normal((count, 1)) * 0.1).astype(np.float16).view(np.uint8)
        if name in ("F32", "BF16"):
            values = rng.standard_normal((count, 1)).astype(np.float32).view(np.uint8)
            blocks = values if name == "F32" else np.ascontiguousarray(values[:, 2:])
        if name == "IQ1_M":  # keep the scattered scale finite: clear the top exponent bit
            blocks[:, 55] &= 0x3F
        if name == "MXFP4":
            blocks[:, 0] = [0, 1, 130]
        values = quants.dequantize(blocks, kind).astype(np.float32).reshape(-1)
        out += struct.pack("<16sII", name.lower().encode(), len(blocks.reshape(-1)), len(values))
        out += blocks.tobytes() + values.tobytes()
    (ROOT / "testdata").mkdir(exist_ok=True)
    (ROOT / "testdata" / "blocks.bin").write_bytes(out)


for cls in GRIDS.values():
    cls.init_grid()
grids()
goldens()
