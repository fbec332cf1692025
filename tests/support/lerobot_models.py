"""Small randomly initialised policies from lerobot's own classes, saved as lerobot saves them, without a network."""

import inspect
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

INSTRUCTIONS = ("turn on the stove", "put the bowl on the plate", "open the drawer", "push the plate to the stove")
PICTURE = 64
_SPECIAL = (
    "<pad>", "<s>", "</s>", "<unk>", "<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>",
)  # fmt: skip


def define_operators() -> Any:
    """The operators that a CUDA build of torchvision looks for beside a CPU torch: keep what this returns."""
    import torch

    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


# A library that is collected takes its operators with it.
_KEPT: list[Any] = []


def mend_torchvision() -> None:
    """Makes a CUDA build of torchvision importable beside a CPU torch."""
    try:
        import torchvision
    except RuntimeError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        _KEPT.append(define_operators())
        import torchvision  # noqa: F401


_SITE = f"""import sys
from typing import Any


{inspect.getsource(define_operators)}

class Mend:
    def find_spec(self, name, path=None, target=None):
        if name == "torchvision":
            sys.meta_path.remove(self)
            Mend.kept = define_operators()
        return None


sys.meta_path.insert(0, Mend())
"""


def mend_torchvision_of_processes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for every process that a test starts from now on, where this one had to be mended.

    Args:
        folder: a new one, for a module that Python loads when it starts.
        monkeypatch: puts it on their path.
    """
    mend_torchvision()
    if _KEPT:
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(_SITE)
        monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)


def save_smolvla(folder: Path, *, seed: int = 0, renames: dict[str, str] | None = None, **changes: Any) -> Path:
    """A SmolVLA of 0.6 million parameters, with its processors, in a new folder."""
    import torch
    from lerobot.configs.types import FeatureType, PolicyFeature
    from lerobot.policies.smolvla.configuration_smolvla import SmolVLAConfig
    from lerobot.policies.smolvla.modeling_smolvla import SmolVLAPolicy
    from lerobot.policies.smolvla.processor_smolvla import make_smolvla_pre_post_processors

    base = _save_vlm(folder / "vlm")
    pictures = changes.pop("pictures", {"observation.images.image": None, "observation.images.image2": None})
    config = SmolVLAConfig(
        **{
            "vlm_model_name": str(base),
            "load_vlm_weights": False,
            "device": "cpu",
            "chunk_size": 12,
            "n_action_steps": 5,
            "num_steps": 4,
            "num_vlm_layers": 2,
            "resize_imgs_with_padding": (PICTURE, PICTURE),
            "tokenizer_max_length": 16,
            "input_features": {
                **{name: PolicyFeature(FeatureType.VISUAL, (3, PICTURE, PICTURE)) for name in pictures},
                "observation.state": PolicyFeature(FeatureType.STATE, (8,)),
            },
            "output_features": {"action": PolicyFeature(FeatureType.ACTION, (7,))},
            **changes,
        }
    )
    torch.manual_seed(seed)
    policy = SmolVLAPolicy(config)
    before, after = make_smolvla_pre_post_processors(config, dataset_stats())
    for step in before.steps:
        if renames and hasattr(step, "rename_map"):
            step.rename_map = renames
    return save(folder / "policy", policy, before, after)


def save_act(folder: Path, *, seed: int = 0, **changes: Any) -> Path:
    """A small ACT, which draws nothing, with its processors, in a new folder."""
    import torch
    from lerobot.configs.types import FeatureType, PolicyFeature
    from lerobot.policies.act.configuration_act import ACTConfig
    from lerobot.policies.act.modeling_act import ACTPolicy
    from lerobot.policies.act.processor_act import make_act_pre_post_processors

    config = ACTConfig(
        **{
            "device": "cpu",
            "pretrained_backbone_weights": None,
            "dim_model": 32,
            "n_heads": 2,
            "dim_feedforward": 32,
            "n_encoder_layers": 1,
            "n_vae_encoder_layers": 1,
            "latent_dim": 8,
            "chunk_size": 6,
            "n_action_steps": 6,
            "input_features": {
                "observation.images.front": PolicyFeature(FeatureType.VISUAL, (3, PICTURE, PICTURE)),
                "observation.images.wrist": PolicyFeature(FeatureType.VISUAL, (3, PICTURE, PICTURE)),
                "observation.state": PolicyFeature(FeatureType.STATE, (8,)),
            },
            "output_features": {"action": PolicyFeature(FeatureType.ACTION, (7,))},
            **changes,
        }
    )
    torch.manual_seed(seed)
    policy = ACTPolicy(config)
    sizes = (config.robot_state_feature.shape[0], config.action_feature.shape[0])
    stats = dataset_stats(*sizes) | {name: _picture_stats() for name in config.image_features}
    return save(folder / "policy", policy, *make_act_pre_post_processors(config, stats))


def save_diffusion(folder: Path, *, seed: int = 0) -> Path:
    """A small diffusion policy, which looks at two steps and draws noise itself, in a new folder."""
    import torch
    from lerobot.configs.types import FeatureType, PolicyFeature
    from lerobot.policies.diffusion.configuration_diffusion import DiffusionConfig
    from lerobot.policies.diffusion.modeling_diffusion import DiffusionPolicy
    from lerobot.policies.diffusion.processor_diffusion import make_diffusion_pre_post_processors

    config = DiffusionConfig(
        device="cpu",
        n_obs_steps=2,
        horizon=8,
        n_action_steps=4,
        crop_shape=(56, 56),
        pretrained_backbone_weights=None,
        use_group_norm=True,
        spatial_softmax_num_keypoints=4,
        down_dims=(16, 32),
        diffusion_step_embed_dim=16,
        n_groups=4,
        num_train_timesteps=4,
        input_features={
            "observation.images.image": PolicyFeature(FeatureType.VISUAL, (3, PICTURE, PICTURE)),
            "observation.state": PolicyFeature(FeatureType.STATE, (8,)),
        },
        output_features={"action": PolicyFeature(FeatureType.ACTION, (7,))},
    )
    torch.manual_seed(seed)
    policy = DiffusionPolicy(config)
    stats = dataset_stats() | {name: _picture_stats() for name in config.image_features}
    return save(folder / "policy", policy, *make_diffusion_pre_post_processors(config, stats))


def save_xvla(folder: Path, *, seed: int = 0, at_eval: bool = True) -> Path:
    """A small X-VLA, with the processors of `lerobot/xvla-libero` or those that lerobot makes for training.

    Args:
        folder: a new one.
        seed: of its weights.
        at_eval: whether pictures are left to lerobot-eval's processors.
    """
    import torch
    from lerobot.configs.types import FeatureType, PolicyFeature
    from lerobot.policies.xvla.configuration_xvla import XVLAConfig
    from lerobot.policies.xvla.modeling_xvla import XVLAPolicy
    from lerobot.policies.xvla.processor_xvla import make_xvla_pre_post_processors

    small = {"d_model": 32, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "vocab_size": 64, "dropout": 0.0}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    vision = {"dim_embed": [16] * 4, "num_heads": [2] * 4, "num_groups": [2] * 4, "depths": [1] * 4, "window_size": 4}
    config = XVLAConfig(
        device="cpu",
        chunk_size=6,
        n_action_steps=4,
        florence_config={
            "vision_config": {**vision, "projection_dim": 32, "model_type": "davit", "drop_path_rate": 0.0},
            "text_config": {**small, **heads, "max_position_embeddings": 128},
            "vocab_size": 64,
            "projection_dim": 32,
        },
        tokenizer_name=str(_save_tokenizer(folder / "words")),
        tokenizer_max_length=16,
        hidden_size=32,
        depth=1,
        num_heads=2,
        len_soft_prompts=4,
        dim_time=8,
        max_len_seq=256,
        num_denoising_steps=3,
        max_state_dim=20,
        resize_imgs_with_padding=(PICTURE, PICTURE),
        input_features={
            "observation.images.image": PolicyFeature(FeatureType.VISUAL, (3, PICTURE, PICTURE)),
            "observation.images.image2": PolicyFeature(FeatureType.VISUAL, (3, PICTURE, PICTURE)),
            "observation.state": PolicyFeature(FeatureType.STATE, (8,)),
        },
        output_features={"action": PolicyFeature(FeatureType.ACTION, (20,))},
    )
    torch.manual_seed(seed)
    policy = XVLAPolicy(config)
    for parameter in policy.parameters():
        # Some are left uninitialised.
        torch.nn.init.normal_(parameter, 0.0, 0.3)
    before, after = make_xvla_pre_post_processors(config)
    if at_eval:
        before.steps = [step for step in before.steps if not type(step).__name__.startswith("XVLA")]
    return save(folder / "policy", policy, before, after)


def save_lora(folder: Path, base: Path, *, seed: int = 0, **changes: Any) -> Path:
    """A LoRA adapter of a saved policy as lerobot-train saves it: adapter, config and processors in a new folder."""
    import shutil

    import torch
    from lerobot.configs.policies import PreTrainedConfig
    from lerobot.policies.factory import get_policy_class
    from peft import LoraConfig, get_peft_model

    config = PreTrainedConfig.from_pretrained(base)
    policy = get_policy_class(config.type).from_pretrained(base, config=config)
    policy.name_or_path = str(base)
    torch.manual_seed(seed)
    settings = {"r": 4, "target_modules": r".*(q_proj|v_proj)", "init_lora_weights": False, **changes}
    wrapped = get_peft_model(policy, LoraConfig(**settings))
    wrapped.save_pretrained(folder)
    config.use_peft = True
    config.save_pretrained(folder)
    for file in base.glob("policy_*"):
        shutil.copy(file, folder)
    return folder


def dataset_stats(state: int = 8, action: int = 7) -> dict[str, dict[str, Any]]:
    """Statistics of a data set that make normalisation show: no mean is 0, no deviation 1."""
    import torch

    def stats(size: int, scale: float) -> dict[str, Any]:
        mean = torch.linspace(-1, 1, size) * scale
        deviation = torch.linspace(0.5, 2, size) * scale
        return {"mean": mean, "std": deviation, "min": mean - 3 * deviation, "max": mean + 3 * deviation}

    return {"observation.state": stats(state, 0.7), "action": stats(action, 0.3)}


def save(folder: Path, policy: Any, before: Any, after: Any) -> Path:
    """Writes what ``save_pretrained`` of a policy and of its processors writes."""
    policy.save_pretrained(folder)
    before.save_pretrained(folder)
    after.save_pretrained(folder)
    return folder


def _picture_stats() -> dict[str, Any]:
    import torch

    mean, deviation = torch.full((3, 1, 1), 0.45), torch.full((3, 1, 1), 0.25)
    return {"mean": mean, "std": deviation, "min": torch.zeros(3, 1, 1), "max": torch.ones(3, 1, 1)}


def _save_vlm(folder: Path) -> Path:
    """Config, processor and tokenizer of a tiny SmolVLM: all that SmolVLA reads where it loads no weights of it."""
    from transformers import SmolVLMConfig

    _save_tokenizer(folder)
    text = {
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "vocab_size": 128,
        "pad_token_id": 0,
        "max_position_embeddings": 512,
    }
    vision = {
        "hidden_size": 48,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "image_size": PICTURE,
        "patch_size": 16,
    }
    SmolVLMConfig(
        text_config=text,
        vision_config=vision,
        scale_factor=2,
        image_token_id=_SPECIAL.index("<image>"),
        pad_token_id=0,
    ).save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(
        json.dumps(
            {
                "image_processor_type": "SmolVLMImageProcessor",
                "processor_class": "SmolVLMProcessor",
                "size": {"longest_edge": PICTURE},
                "max_image_size": {"longest_edge": PICTURE},
            }
        )
    )
    return folder


def _save_tokenizer(folder: Path) -> Path:
    """A tokenizer of the words of `INSTRUCTIONS`, in a new folder."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    folder.mkdir(parents=True)
    words = sorted({word for text in INSTRUCTIONS for word in text.split()})
    vocabulary = {word: number for number, word in enumerate([*_SPECIAL, *words, "\n"])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "removed")
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        extra_special_tokens={
            "image_token": "<image>",
            "fake_image_token": "<fake_token_around_image>",
            "global_image_token": "<global-img>",
            "end_of_utterance_token": "<end_of_utterance>",
        },
    ).save_pretrained(folder)
    return folder


def observation(seed: int, size: int = PICTURE) -> dict[str, Any]:
    """What a suite's policy view gives: pictures (size, size, 3) uint8 and a state (8,)."""
    drawn = np.random.default_rng(seed)
    return {
        "agentview_image": drawn.integers(0, 256, (size, size, 3), dtype=np.uint8),
        "robot0_eye_in_hand_image": drawn.integers(0, 256, (size, size, 3), dtype=np.uint8),
        "state": drawn.normal(0, 0.5, 8),
        "robot0_eef_pos": drawn.normal(0, 0.5, 3),
        "controller_mat": np.linalg.qr(drawn.normal(0, 1, (3, 3)))[0],
    }
