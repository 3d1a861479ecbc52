"""Whisper folders as transformers keeps them: the embedded weights, and weights of no sense in a multilingual shape."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from transformers import (
    GenerationConfig,
    WhisperConfig,
    WhisperFeatureExtractor,
    WhisperForConditionalGeneration,
    WhisperTokenizerFast,
)

Array = npt.NDArray[np.generic]
_TYPES = (np.float32, np.int8, np.int16, np.int32, np.float16)
_ATTENTION = {"self_attention": "self_attn", "attention": "encoder_attn"}


def embedded_for_torch(source: Path, folder: Path) -> Path:
    """The embedded CTranslate2 model's weights, written for transformers."""
    config = json.loads((source / "config.json").read_text())
    variables = _variables(source / "model.bin")
    model = WhisperForConditionalGeneration(
        WhisperConfig(
            vocab_size=len(variables["decoder/embeddings/weight"]),
            d_model=384,
            encoder_layers=4,
            decoder_layers=4,
            encoder_attention_heads=6,
            decoder_attention_heads=6,
            encoder_ffn_dim=1536,
            decoder_ffn_dim=1536,
            decoder_start_token_id=50257,
        )
    )
    weights = {name: torch.from_numpy(value.astype(np.float32)) for name, value in _renamed(variables).items()}
    missing, unknown = model.model.load_state_dict(weights, strict=False)
    assert (missing, unknown) == ([], [])
    model.generation_config = GenerationConfig(
        is_multilingual=False,
        no_timestamps_token_id=50362,
        suppress_tokens=[one for one in config["suppress_ids"] if one >= 0],
        begin_suppress_tokens=config["suppress_ids_begin"],
        max_length=448,
        **_TOKENS,
    )
    return _saved(model, source, folder)


def nonsense_for_torch(source: Path, folder: Path) -> Path:
    """A tiny multilingual model that was never trained."""
    torch.manual_seed(7)
    model = WhisperForConditionalGeneration(
        WhisperConfig(
            vocab_size=51864,
            d_model=16,
            encoder_layers=1,
            decoder_layers=1,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=32,
            decoder_ffn_dim=32,
            decoder_start_token_id=50257,
        )
    )
    model.generation_config = GenerationConfig(
        is_multilingual=True,
        lang_to_id={"<|en|>": 50258, "<|de|>": 50260},
        task_to_id={"transcribe": 50358, "translate": 50357},
        no_timestamps_token_id=50362,
        max_length=12,
        **_TOKENS,
    )
    return _saved(model, source, folder)


_TOKENS = {"decoder_start_token_id": 50257, "bos_token_id": 50256, "eos_token_id": 50256, "pad_token_id": 50256}


def _saved(model: WhisperForConditionalGeneration, source: Path, folder: Path) -> Path:
    model.save_pretrained(folder)
    WhisperTokenizerFast(tokenizer_file=str(source / "tokenizer.json")).save_pretrained(folder)
    WhisperFeatureExtractor().save_pretrained(folder)
    return folder


def _variables(path: Path) -> dict[str, Array]:
    """A CTranslate2 model file's variables, and those that are other names of them."""
    with path.open("rb") as file:

        def number(kind: str) -> int:
            return int(struct.unpack(f"<{kind}", file.read(struct.calcsize(kind)))[0])

        def text() -> str:
            return file.read(number("H")).rstrip(b"\0").decode()

        assert number("I") >= 4
        text(), number("I")
        found: dict[str, Array] = {}
        for _ in range(number("I")):
            name = text()
            shape = [number("I") for _ in range(number("B"))]
            kind = _TYPES[number("B")]
            found[name] = np.frombuffer(file.read(number("I")), kind).reshape(shape)
        return found


def _renamed(variables: dict[str, Array]) -> dict[str, Array]:
    """By the names of transformers; projections that CTranslate2 keeps together are parted."""
    named: dict[str, Array] = {}
    for name, value in variables.items():
        side, *place = name.split("/")
        if side not in ("encoder", "decoder") or place[0] in ("projection", "num_heads", "scale_embeddings"):
            continue
        prefix = f"{side}."
        if place[0].startswith("layer_") and place[0] != "layer_norm":
            prefix += f"layers.{place.pop(0).removeprefix('layer_')}."
        for new, part in _parts(place, value):
            named[prefix + new] = part
    return named


def _parts(place: list[str], value: Array) -> list[tuple[str, Array]]:
    match place:
        case ["self_attention" | "attention" as attention, linear, kind] if linear != "layer_norm":
            names = _PROJECTIONS[attention, linear]
            return [
                (f"{_ATTENTION[attention]}.{one}_proj.{kind}", part)
                for one, part in zip(names, np.split(value, len(names)), strict=True)
                if (one, kind) != ("k", "bias")
            ]
        case [*part, "layer_norm", kind]:
            norm = {"gamma": "weight", "beta": "bias"}[kind]
            return [(f"{''.join(_BEFORE_NORM[one] for one in part)}layer_norm.{norm}", value)]
        case [part, kind] if part in _PLAIN:
            return [(f"{_PLAIN[part]}.weight", value)]
        case ["ffn", linear, kind]:
            return [(f"fc{int(linear[-1]) + 1}.{kind}", value)]
        case ["conv1" | "conv2" as conv, kind]:
            return [(f"{conv}.{kind}", value)]
    return []


_PLAIN = {"embeddings": "embed_tokens", "position_encodings": "embed_positions"}
_BEFORE_NORM = {"ffn": "final_", "self_attention": "self_attn_", "attention": "encoder_attn_"}
_PROJECTIONS = {
    ("self_attention", "linear_0"): ("q", "k", "v"),
    ("self_attention", "linear_1"): ("out",),
    ("attention", "linear_0"): ("q",),
    ("attention", "linear_1"): ("k", "v"),
    ("attention", "linear_2"): ("out",),
}
