"""Architectures of language models and encoders against `transformers`: tiny random models and its answers, written by scripts/check_architectures."""
import json
import shutil

import pytest

from support import architectures, paths

FOLDER = paths.ROOT / "tests" / "conformance" / "architectures"
DECODERS = sorted(path.stem for path in FOLDER.glob("*.gguf"))
ENCODERS = sorted(path.name for path in FOLDER.iterdir() if path.is_dir() and path.name != "decoders")


@pytest.mark.parametrize("name", DECODERS)
def test_decoder(name):
    for way, error in architectures.decoder(FOLDER, name).items():
        assert error < architectures.TOLERANCE, way
    assert architectures.decoder_of_halves(FOLDER, name)["f16"] < architectures.HALF_TOLERANCE


@pytest.mark.parametrize("name", DECODERS)
def test_decoder_in_a_folder(name):
    for way, error in architectures.decoder(FOLDER, name, FOLDER / "decoders" / name).items():
        assert error < architectures.TOLERANCE, way


@pytest.mark.parametrize("name", ENCODERS)
def test_encoder(name):
    for way, error in architectures.encoder(FOLDER, name).items():
        assert error < architectures.TOLERANCE, way


def test_encoder_with_the_older_words_of_its_configuration(tmp_path):
    shutil.copytree(FOLDER / "nomic_bert", tmp_path / "nomic_bert")
    shutil.copy(FOLDER / "nomic_bert.npz", tmp_path)
    path = tmp_path / "nomic_bert" / "config.json"
    config = json.loads(path.read_text())
    for old, new in {"n_embd": "hidden_size", "n_layer": "num_hidden_layers", "n_head": "num_attention_heads", "n_inner": "intermediate_size",
                     "n_positions": "max_position_embeddings", "layer_norm_epsilon": "layer_norm_eps", "activation_function": "hidden_act"}.items():
        config[old] = config.pop(new)
    config |= {"activation_function": "swiglu", "rotary_emb_base": config.pop("rope_parameters")["rope_theta"], "rotary_emb_fraction": 1.0, "prenorm": False}
    path.write_text(json.dumps(config))
    assert max(architectures.encoder(tmp_path, "nomic_bert").values()) < architectures.TOLERANCE
