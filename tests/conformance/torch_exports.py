#!/usr/bin/env python3
"""Architectures of torchvision and transformers with random weights, exported by both exporters of PyTorch and run on two shapes by
Tenon and ONNX Runtime. Needs the benchmark environment (torch is large, so this is not among scripts/test):

    .venv-bench/bin/python tests/conformance/torch_exports.py [NAME...] [--exporter dynamo,torchscript]

Prints a row for each export; exit code 1 when one differs that the list of refusals below does not explain."""
import argparse
import logging
import os
import pathlib
import sys
import tempfile
import time
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
warnings.simplefilter("ignore")
logging.disable(logging.WARNING)
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
import torch  # noqa: E402
import torchvision  # noqa: E402
import transformers  # noqa: E402

from support import compare, library  # noqa: E402

SEED = 5
# (name, exporter): why no comparison is possible.
REFUSED = {}


class Wrapped(torch.nn.Module):
    """A model whose forward takes tensors by position and returns a flat tuple of tensors."""

    def __init__(self, model, call):
        super().__init__()
        self.model, self.call = model, call

    def forward(self, *inputs):
        return self.call(self.model, *inputs)


def picture(size, batches=(1, 3), channels=3):
    def make(k):
        return (torch.rand(batches[k], channels, size, size, generator=torch.Generator().manual_seed(k)),)
    return make, ["image"], [{0: "batch"}]


def still_picture(size):
    """Detection nets: batch of one."""
    def make(k):
        return (torch.rand(1, 3, size, size, generator=torch.Generator().manual_seed(k)),)
    return make, ["image"], [{}]


def sentence(vocabulary, lengths=(9, 17), batches=(1, 2), mask=True):
    def make(k):
        ids = torch.randint(3, vocabulary, (batches[k], lengths[k]), generator=torch.Generator().manual_seed(k))
        attention = torch.ones_like(ids)
        attention[-1, lengths[k] - 2:] = 0
        return (ids, attention) if mask else (ids,)
    axes = {0: "batch", 1: "length"}
    return make, ["input_ids", "attention_mask"][:2 if mask else 1], [axes, axes][:2 if mask else 1]


def vision(name, size=64, **options):
    def make():
        model = getattr(torchvision.models, name)(weights=None, **options)
        model.train()
        if any(isinstance(m, torch.nn.BatchNorm2d) for m in model.modules()):
            with torch.no_grad():   # statistics that fit the weights: activations stay in a natural range
                for _ in range(6):
                    model(torch.rand(4, 3, max(size, 96), max(size, 96)))
        return model.eval()
    return make, picture(size)


def first(model, *inputs):
    out = model(*inputs)
    return out["out"] if isinstance(out, dict) else out


def detection(name, size, **options):
    def make():
        module = torchvision.models.detection
        model = getattr(module, name)(weights=None, weights_backbone=None, num_classes=5, min_size=size, max_size=size, **options) if "ssd" not in name \
            else getattr(module, name)(weights=None, weights_backbone=None, num_classes=5)

        # Scores of untrained heads are all equal, and which of equals comes first is nobody's fault.
        model.backbone.train()
        with torch.no_grad():
            for _ in range(6):
                model.backbone(torch.rand(2, 3, size, size))
            for name_of, parameter in model.named_parameters():
                if "backbone" not in name_of and parameter.dim() > 1:
                    parameter.normal_(std=1.5 * parameter[0].numel() ** -0.5)

        def call(m, image):
            found = m([image[0]])[0]
            return found["boxes"], found["scores"], found["labels"]
        return Wrapped(model, call).eval()
    return make, still_picture(size)


def segmentation(name, size=96):
    def make():
        return Wrapped(getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None, num_classes=4), first).eval()
    return make, picture(size, batches=(1, 2))


def encoder(config):
    def make():
        model = transformers.AutoModel.from_config(config)
        return Wrapped(model, lambda m, ids, mask: m(input_ids=ids, attention_mask=mask, return_dict=True)[0]).eval()
    return make, sentence(config.vocab_size)


class Recurrent(torch.nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.layers = getattr(torch.nn, kind)(12, 20, num_layers=2, bidirectional=True, batch_first=True)
        self.head = torch.nn.Linear(40, 7)

    def forward(self, x):
        y, _ = self.layers(x)
        return torch.log_softmax(self.head(y), -1)


def recurrent(kind):
    def example(k):
        return (torch.randn((2, 3)[k], (11, 6)[k], 12, generator=torch.Generator().manual_seed(k)),)
    # The exporter writes the state of the example's batch into the file.
    return lambda: Recurrent(kind).eval(), (lambda k: (example(k)[0][:2],), ["x"], [{1: "time"}])


def t5():
    config = transformers.T5Config(vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)

    def make():
        model = transformers.T5Model(config)
        return Wrapped(model, lambda m, a, b: m(input_ids=a, decoder_input_ids=b, use_cache=False, return_dict=True)[0]).eval()

    def example(k):
        g = torch.Generator().manual_seed(k)
        return torch.randint(3, 99, ((1, 2)[k], (8, 13)[k]), generator=g), torch.randint(3, 99, ((1, 2)[k], (4, 6)[k]), generator=g)
    return make, (example, ["input_ids", "decoder_input_ids"], [{0: "batch", 1: "length"}, {0: "batch", 1: "decoded"}])


def gpt2_with_cache():
    config = transformers.GPT2Config(vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64)

    def call(m, ids, *past):
        cache = transformers.DynamicCache(config=config) if "config" in transformers.DynamicCache.__init__.__code__.co_varnames else transformers.DynamicCache()
        for layer in range(2):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        out = m(input_ids=ids, past_key_values=cache, use_cache=True, return_dict=True)
        new = out.past_key_values
        flat = [t for layer in new.layers for t in (layer.keys, layer.values)]
        return (out.logits, *flat)

    def example(k):
        g = torch.Generator().manual_seed(k)
        batch, length, past = (1, 2)[k], (1, 3)[k], (5, 9)[k]
        return (torch.randint(3, 99, (batch, length), generator=g), *[torch.randn(batch, 4, past, 8, generator=g) for _ in range(4)])
    axes = [{0: "batch", 1: "length"}] + [{0: "batch", 2: "past"}] * 4
    return lambda: Wrapped(transformers.GPT2LMHeadModel(config), call).eval(), (example, ["input_ids", "k0", "v0", "k1", "v1"], axes)


def causal(config):
    def make():
        model = transformers.AutoModelForCausalLM.from_config(config)
        return Wrapped(model, lambda m, ids: m(input_ids=ids, use_cache=False, return_dict=True).logits).eval()
    return make, sentence(config.vocab_size, mask=False)


def clip():
    text = dict(vocab_size=99, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=32,
                eos_token_id=98, bos_token_id=97, pad_token_id=1)
    image = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=32, patch_size=8)
    config = transformers.CLIPConfig(text_config=text, vision_config=image, projection_dim=16)

    def make():
        model = transformers.CLIPModel(config)
        return Wrapped(model, lambda m, ids, pixels: m(input_ids=ids, pixel_values=pixels, return_dict=True).logits_per_image).eval()

    def example(k):
        g = torch.Generator().manual_seed(k)
        ids = torch.randint(3, 90, ((2, 3)[k], 7), generator=g)
        ids[:, -1] = 98
        return ids, torch.rand((2, 1)[k], 3, 32, 32, generator=g)
    return make, (example, ["input_ids", "pixel_values"], [{0: "texts"}, {0: "images"}])


def whisper():
    config = transformers.WhisperConfig(vocab_size=99, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                                        decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, num_mel_bins=16, max_source_positions=50,
                                        max_target_positions=32, pad_token_id=1, bos_token_id=2, eos_token_id=2, decoder_start_token_id=3)

    def make():
        model = transformers.WhisperModel(config)
        return Wrapped(model, lambda m, f, ids: m(input_features=f, decoder_input_ids=ids, use_cache=False, return_dict=True)[0]).eval()

    def example(k):
        g = torch.Generator().manual_seed(k)
        return torch.randn((1, 2)[k], 16, 100, generator=g), torch.randint(4, 99, ((1, 2)[k], (5, 9)[k]), generator=g)
    return make, (example, ["features", "decoder_input_ids"], [{0: "batch"}, {0: "batch", 1: "decoded"}])


def wav2vec():
    config = transformers.Wav2Vec2Config(vocab_size=20, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                                         conv_dim=(16, 16), conv_stride=(5, 2), conv_kernel=(10, 3), num_feat_extract_layers=2,
                                         num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2, do_stable_layer_norm=False)

    def make():
        return Wrapped(transformers.Wav2Vec2Model(config), lambda m, x: m(x, return_dict=True)[0]).eval()
    return make, (lambda k: (torch.randn((1, 2)[k], (800, 1200)[k], generator=torch.Generator().manual_seed(k)),), ["wave"], [{0: "batch", 1: "samples"}])


def segformer():
    config = transformers.SegformerConfig(num_encoder_blocks=2, depths=[1, 1], sr_ratios=[4, 2], hidden_sizes=[16, 32], patch_sizes=[7, 3],
                                          strides=[4, 2], num_attention_heads=[1, 2], mlp_ratios=[2, 2], decoder_hidden_size=32, num_labels=4)

    def make():
        return Wrapped(transformers.SegformerForSemanticSegmentation(config), lambda m, x: m(x, return_dict=True).logits).eval()
    return make, picture(64, batches=(1, 2))


SMALL = dict(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, max_position_embeddings=64)
ARCHITECTURES = {
    "resnet18": vision("resnet18"), "mobilenet_v3_small": vision("mobilenet_v3_small"), "efficientnet_b0": vision("efficientnet_b0"),
    "densenet121": vision("densenet121"), "shufflenet_v2_x0_5": vision("shufflenet_v2_x0_5"), "squeezenet1_1": vision("squeezenet1_1"),
    "regnet_y_400mf": vision("regnet_y_400mf"), "convnext_tiny": vision("convnext_tiny"), "swin_t": vision("swin_t", 64),
    "vit_b_32": vision("vit_b_32", 64, image_size=64),
    "fasterrcnn": detection("fasterrcnn_mobilenet_v3_large_320_fpn", 160), "retinanet": detection("retinanet_resnet50_fpn", 128),
    "ssdlite": detection("ssdlite320_mobilenet_v3_large", 320),
    "deeplabv3": segmentation("deeplabv3_mobilenet_v3_large"), "lraspp": segmentation("lraspp_mobilenet_v3_large"),
    "lstm": recurrent("LSTM"), "gru": recurrent("GRU"),
    "bert": encoder(transformers.BertConfig(**SMALL)), "distilbert": encoder(transformers.DistilBertConfig(vocab_size=99, dim=32, hidden_dim=64, n_layers=2, n_heads=4)),
    "roberta": encoder(transformers.RobertaConfig(**SMALL, pad_token_id=1)), "albert": encoder(transformers.AlbertConfig(**SMALL, embedding_size=16)),
    "deberta_v2": encoder(transformers.DebertaV2Config(**SMALL, relative_attention=True, pos_att_type=["p2c", "c2p"])),
    "t5": t5(), "gpt2_cache": gpt2_with_cache(), "clip": clip(), "whisper": whisper(), "wav2vec2": wav2vec(), "segformer": segformer(),
    "llama": causal(transformers.LlamaConfig(**SMALL, num_key_value_heads=2)), "qwen2": causal(transformers.Qwen2Config(**SMALL, num_key_value_heads=2)),
}


def export(name, exporter, path):
    torch.manual_seed(SEED)
    make, (example, names, axes) = ARCHITECTURES[name]
    model, inputs = make(), example(1)
    with torch.no_grad():
        if exporter == "dynamo":
            dims = {d: torch.export.Dim.DYNAMIC for a in axes for d in a.values()}
            shapes = tuple({i: dims[d] for i, d in a.items()} for a in axes)
            # Wrapped.forward takes them as *inputs.
            shapes = (shapes,) if isinstance(model, Wrapped) else shapes
            torch.onnx.export(model, inputs, path, dynamo=True, dynamic_shapes=shapes, input_names=names, external_data=False, verbose=False)
        else:
            torch.onnx.export(model, inputs, path, dynamo=False, opset_version=17, input_names=names, dynamic_axes=dict(zip(names, axes)))
    return example, names


# Detections come sorted by score; where two scores differ by rounding only, their order is either (ONNX Runtime's own levels differ so).
UNORDERED = {"fasterrcnn", "retinanet", "ssdlite"}


def same_rows(got, want):
    """None when the rows of the columns `got` are those of `want`, in whatever order."""
    got, want = (np.concatenate([a.reshape(len(a), -1).astype(np.float64) for a in columns], 1) for columns in (got, want))
    if got.shape != want.shape:
        return f"wrong shape: {got.shape} for {want.shape}"
    left = list(range(len(want)))
    for row in got:
        close = [i for i in left if np.allclose(row, want[i], rtol=compare.RTOL, atol=1e-2)]
        if not close:
            return f"no such detection: {row}"
        left.remove(min(close, key=lambda i: np.abs(row - want[i]).max()))
    return None


def compare_runs(path, example, unordered=False):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    peer = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [i.name for i in peer.get_inputs()]
    with library.open_model(path, cache_dir="none", threads=2) as session:
        for k in (0, 1):
            feed = dict(zip(names, [t.numpy() for t in example(k)]))
            wanted = peer.run(None, feed)
            if unordered:
                reason = same_rows(session.run(feed), wanted)
                if reason:
                    return f"shape {k}: {reason}"
                continue
            for output, got, want in zip(peer.get_outputs(), session.run(feed), wanted):
                # Logits of random nets are large: what counts is relative to the largest.
                scale = float(np.abs(want).max()) if want.size and want.dtype.kind == "f" else 1.0
                reason = compare.difference(got, want, compare.RTOL, compare.ATOL * max(1.0, scale))
                if reason:
                    return f"shape {k}, {output.name}: {reason}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=", ".join(ARCHITECTURES))
    parser.add_argument("--exporter", default="torchscript,dynamo")
    arguments = parser.parse_args()
    bad = 0
    for name in arguments.names or ARCHITECTURES:
        for exporter in arguments.exporter.split(","):
            start = time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "model.onnx"
                stdout, sys.stdout = sys.stdout, open(os.devnull, "w")
                try:
                    example, _ = export(name, exporter, path)
                    result = None
                except Exception as error:
                    result = f"not exported: {type(error).__name__}: {str(error).splitlines()[0][:70] if str(error) else ''}"
                finally:
                    sys.stdout = stdout
                if result is None:
                    try:
                        result = compare_runs(path, example, name in UNORDERED) or "equal"
                    except library.TenonError as error:
                        result = f"code {error.code}: {error.message[:200]}"
                    except Exception as error:
                        result = f"not run by ONNX Runtime: {str(error).splitlines()[0][:120]}"
            expected = REFUSED.get((name, exporter))
            good = result == "equal" or expected is not None or result.startswith("not ")
            bad += not good
            print(f"{name:20} {exporter:12} {time.monotonic() - start:6.1f} s  {result}{'  (' + expected + ')' if expected else ''}", flush=True)
    print(f"{bad} differ")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
