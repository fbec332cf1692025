"""lerobot's own SmolVLA, pi0 and pi0.5 with random weights: configurations and tokenizers made by hand, no download."""

import importlib
import json
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

KINDS = ("smolvla", "pi0", "pi05")
SIZES = ("real", "tiny")
_SPECIAL = ("<pad>", "<s>", "</s>", "<unk>", "<image>", "<fake_token_around_image>", "<global-img>", "\n")


def make(kind: str, size: str, device: str, compiled: str) -> tuple[Any, str]:
    """A policy of lerobot as pytest-vla asks it, and what it is, in words.

    Args:
        kind: one of `KINDS`.
        size: ``real``: that of the published checkpoint; ``tiny``: for tests on a processor, SmolVLA only.
        device: torch's name; empty: cuda where there is one.
        compiled: as `device_networks.faster` takes it, applied to the class's ``sample_actions``.

    Raises:
        ImportError: lerobot is not installed.
        ValueError: no such policy; or lerobot refuses, such as pi0 beside another transformers than it wants.
    """
    import torch

    from tests.support.lerobot_models import mend_torchvision

    mend_torchvision()
    from device_networks import faster, parameters

    from pytest_vla.policies.lerobot_inputs import read_inputs
    from pytest_vla.policies.lerobot_policy import make_policy

    if kind not in KINDS or size not in SIZES or (size == "tiny" and kind != "smolvla"):
        raise ValueError(f"kind={kind}, size={size}: expected {' or '.join(KINDS)}, real, or smolvla tiny")
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder, torch.device(device):
        # Made where it stays: thousands of millions of random numbers take a processor minutes.
        config, model, before, after = (_smolvla if kind == "smolvla" else _pi)(Path(folder), kind, device, size)
    model = model.eval().requires_grad_(False).to(device)
    if kind == "smolvla":
        # As its checkpoint is loaded: the transformers in bfloat16, and what projects into and out of them in float32.
        model.model.vlm_with_expert.to(torch.bfloat16)
    # The class asks for gradients to be off; inference mode spares torch its book-keeping too.
    ask = torch.inference_mode()(model.model.sample_actions)
    model.model.sample_actions = _batched(ask, compiled, faster)
    policy = make_policy(model, before, after, read_inputs(config, {}), device, replan=10)
    told = f"lerobot's {kind}, {size}, {parameters(model):.2f} B, bfloat16, {device}, compiled: {compiled}"
    return policy, f"{told}; asked {policy.manner}"


def _batched(ask: Any, compiled: str, faster: Any) -> Any:
    """``sample_actions`` compiled; for captured graphs its lists of pictures and masks become tensors of their own."""
    if compiled != "graphs":
        return faster(ask, compiled, 32)
    graphs: dict[int, Any] = {}

    def asked(pictures: Any, masks: Any, *others: Any, **named: Any) -> Any:
        count = len(pictures)
        names = list(named)

        def flat(*tensors: Any) -> Any:
            rest = tensors[2 * count :]
            positional, keywords = rest[: len(others)], rest[len(others) :]
            given = dict(zip(names, keywords, strict=True))
            return ask([*tensors[:count]], [*tensors[count : 2 * count]], *positional, **given)

        if count not in graphs:
            graphs[count] = faster(flat, "graphs", 32)
        return graphs[count](*pictures, *masks, *others, *named.values())

    return asked


def _features(side: int) -> dict[str, Any]:
    from lerobot.configs.types import FeatureType, PolicyFeature

    pictures = {
        f"observation.images.{name}": PolicyFeature(FeatureType.VISUAL, (3, side, side)) for name in ("image", "image2")
    }
    return {
        "input_features": {**pictures, "observation.state": PolicyFeature(FeatureType.STATE, (8,))},
        "output_features": {"action": PolicyFeature(FeatureType.ACTION, (7,))},
        "chunk_size": 50,
        "n_action_steps": 10,
    }


def _statistics() -> dict[str, dict[str, Any]]:
    import torch

    def of(size: int) -> dict[str, Any]:
        low, high = -torch.ones(size), torch.ones(size)
        return {"mean": low * 0, "std": high, "min": low, "max": high, "q01": low, "q99": high}

    return {"observation.state": of(8), "action": of(7)}


def _tokenizer() -> Any:
    """Words are unknown to it, all but the special ones: their number is what counts."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(_SPECIAL)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "removed")
    further = {
        "image_token": "<image>", "fake_image_token": "<fake_token_around_image>",
        "global_image_token": "<global-img>", "end_of_utterance_token": "</s>",
    }  # fmt: skip
    named = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **named, extra_special_tokens=further)


def _smolvla(folder: Path, kind: str, device: str, size: str) -> tuple[Any, Any, Any, Any]:
    from lerobot.policies.smolvla.configuration_smolvla import SmolVLAConfig
    from lerobot.policies.smolvla.modeling_smolvla import SmolVLAPolicy
    from lerobot.policies.smolvla.processor_smolvla import make_smolvla_pre_post_processors
    from transformers import SmolVLMConfig

    real = size == "real"
    side = 512 if real else 64
    text = {
        "model_type": "llama", "hidden_size": 960 if real else 64, "intermediate_size": 2560 if real else 128,
        "num_hidden_layers": 32 if real else 2, "num_attention_heads": 15 if real else 4,
        "num_key_value_heads": 5 if real else 2, "head_dim": 64 if real else 16,
        "vocab_size": 49280 if real else 128, "pad_token_id": 0, "max_position_embeddings": 8192,
    }  # fmt: skip
    vision = {
        "hidden_size": 768 if real else 48, "intermediate_size": 3072 if real else 96,
        "num_hidden_layers": 12 if real else 2, "num_attention_heads": 12 if real else 4,
        "image_size": side, "patch_size": 16,
    }  # fmt: skip
    image = _SPECIAL.index("<image>")
    SmolVLMConfig(
        text_config=text, vision_config=vision, scale_factor=4 if real else 2, image_token_id=image, pad_token_id=0
    ).save_pretrained(folder)
    _tokenizer().save_pretrained(folder)
    edge = {"longest_edge": side}
    processor = {"image_processor_type": "SmolVLMImageProcessor", "processor_class": "SmolVLMProcessor"}
    (folder / "preprocessor_config.json").write_text(json.dumps({**processor, "size": edge, "max_image_size": edge}))
    config = SmolVLAConfig(
        vlm_model_name=str(folder),
        load_vlm_weights=False,
        device=device,
        resize_imgs_with_padding=(side, side),
        num_vlm_layers=16 if real else 2,
        # The published one's: every instruction is as long.
        pad_language_to="max_length",
        **_features(256) | ({} if real else {"chunk_size": 12, "num_steps": 4}),
    )
    return config, SmolVLAPolicy(config), *make_smolvla_pre_post_processors(config, _statistics())


def _pi(folder: Path, kind: str, device: str, size: str) -> tuple[Any, Any, Any, Any]:
    from lerobot.processor import tokenizer_processor
    from transformers.models import siglip

    if find_spec(f"{siglip.__name__}.check") is None:
        # Its class says so too, after it has made all weights.
        raise ValueError(f"lerobot's {kind} wants lerobot's own branch of transformers: pip install 'lerobot[pi]'")
    module = f"lerobot.policies.{kind}"
    name = {"pi0": "PI0", "pi05": "PI05"}[kind]
    configuration = importlib.import_module(f"{module}.configuration_{kind}")
    config = getattr(configuration, f"{name}Config")(device=device, dtype="bfloat16", **_features(224))
    model = getattr(importlib.import_module(f"{module}.modeling_{kind}"), f"{name}Policy")(config)
    processors = getattr(importlib.import_module(f"{module}.processor_{kind}"), f"make_{kind}_pre_post_processors")

    class Local:
        """In the place of transformers' AutoTokenizer, which would ask the network for PaliGemma's."""

        @staticmethod
        def from_pretrained(name: str) -> Any:
            return _tokenizer()

    before, tokenizer_processor.AutoTokenizer = tokenizer_processor.AutoTokenizer, Local
    try:
        return config, model, *processors(config, _statistics())
    finally:
        tokenizer_processor.AutoTokenizer = before
