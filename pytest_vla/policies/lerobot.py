"""``--vla-model=lerobot:WHERE``: any lerobot policy, in process, with its own pre- and postprocessors."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pytest_vla.errors import VlaError
from pytest_vla.policies.devices import AUTO, first_there_is
from pytest_vla.policies.lerobot_inputs import BASE, read_inputs
from pytest_vla.util.documents import read_json
from pytest_vla.util.text import counted, printable, quoted
from pytest_vla.util.warnings import describe

if TYPE_CHECKING:
    from pytest_vla.policies.lerobot_policy import LerobotPolicy


_HUB_ID = re.compile(r"(?P<id>[\w-][\w.-]*/[\w-][\w.-]*)(@(?P<revision>[\w./-]+))?")
_BLOB = re.compile("[0-9a-f]{64}")
_CONFIG, _WEIGHTS = "config.json", "model.safetensors"
_ADAPTER, _ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_PROCESSORS = ("policy_preprocessor.json", "policy_postprocessor.json")
# lerobot's transformers run Python code from what these fields name: hub repositories and folders. By default:
_CODE_FROM = (
    *("action_tokenizer_name", "text_tokenizer_name", "paligemma_tokenizer_name", "action_tokenizer_path"),
    *("tokenizer_assets_repo", "vision_encoder_name", "attn_implementation", "_attn_implementation"),
)
_TRUSTED = (
    *("physical-intelligence/fast", "lerobot/fast-action-tokenizer", "google/paligemma-3b-pt-224"),
    *("lerobot/eagle2hg-processor-groot-n1p5", "eager", "sdpa", "flash_attention_2", None),
)
# What a processor's normalisation must know, and by its mode, which statistics of it.
_NORMALISED = {
    (_PROCESSORS[0], "normalizer_processor"): "STATE",
    (_PROCESSORS[1], "unnormalizer_processor"): "ACTION",
}
_STATISTICS = {
    "MEAN_STD": ("mean", "std"),
    "MIN_MAX": ("min", "max"),
    "QUANTILES": ("q01", "q99"),
    "QUANTILE10": ("q10", "q90"),
}
_MOST_HEADER = 10_000_000
# Where lerobot-train puts a policy below its output folder.
_BELOW = (".", "pretrained_model", "checkpoints/last/pretrained_model")


def load(
    where: str,
    device: str = AUTO,
    *,
    folder: Path = Path(),
    replan: int | None = None,
    cameras: Mapping[str, str] | None = None,
    base: str | None = None,
) -> "LerobotPolicy":
    """Load a policy, and find out by trial questions whether it draws, whether it batches, and its action shape.

    Args:
        where: a folder that ``save_pretrained`` or lerobot-train wrote, or a model on the hub, ``OWNER/NAME``
            or ``OWNER/NAME@REVISION``.
        device: ``auto`` (the first available of cuda, mps and cpu) or a torch device such as ``cuda:1``.
        folder: the folder that a relative path starts from.
        replan: the default number of steps of a chunk to execute, or None for the config's ``n_action_steps``.
        cameras: our picture by the name of the policy's, as for `read_inputs`.
        base: of an adapter (LoRA), the policy that it was trained on, written like `where`; None for the folder that
            the adapter names.

    Raises:
        VlaError: lerobot is missing, or peft for an adapter; the policy does not exist or cannot be downloaded; it was
            saved without processors, its files are invalid or name code to run; or it does not fit: different cameras,
            state or actions, or episode state that cannot be separated.
    """
    option = f"--vla-model=lerobot:{where}"
    torch = _import(option)
    device = _choose_device(option, device, torch)
    policy_folder = _find(option, where, folder)
    saved = _read_files(option, policy_folder)
    adapter = _read_adapter(option, policy_folder, folder, base)

    from lerobot.configs.policies import PreTrainedConfig
    from lerobot.policies.factory import get_policy_class, make_pre_post_processors

    config = _guarded(
        lambda: PreTrainedConfig.from_pretrained(policy_folder),
        f"{option}: lerobot {_version()} cannot read {policy_folder / _CONFIG}; was it saved by another version?",
    )
    config.device = device
    if hasattr(config, "pretrained_backbone_weights"):
        # They would be downloaded, and then replaced by the policy's own weights.
        config.pretrained_backbone_weights = None
    inputs = _guarded(lambda: read_inputs(config, _renames(saved[_PROCESSORS[0]]), cameras), option)
    needs = _also_needs(config, saved)
    model = _guarded(
        lambda: get_policy_class(config.type).from_pretrained(
            policy_folder if adapter is None else adapter.base, config=config
        ),
        f"{option}: {config.type} could not be loaded{needs}",
    )
    if adapter is not None:
        _guarded(lambda: adapter.put_into(model), f"{option}: the adapter in {policy_folder}")
    before, after = _guarded(
        lambda: make_pre_post_processors(
            config,
            pretrained_path=str(policy_folder),
            preprocessor_overrides=_overrides(saved[_PROCESSORS[0]], device),
            postprocessor_overrides=_overrides(saved[_PROCESSORS[1]], "cpu"),
        ),
        f"{option}: its processors could not be loaded{needs}",
    )

    from pytest_vla.policies.lerobot_policy import make_policy

    return cast(
        "LerobotPolicy",
        _guarded(
            lambda: make_policy(model.to(device).eval(), before, after, inputs, device, replan),
            f"{option}: {config.type} on {device}",
        ),
    )


def of_policy(policy: Any, preprocessor: Any, postprocessor: Any, *, replan: int | None = None) -> "LerobotPolicy":
    """Wrap a lerobot policy in memory, as a training loop has it, after the trial questions of `load`.

    The weights are not copied: the result may be kept while the training continues, and answers with the current
    weights.

    Args:
        policy: lerobot's ``PreTrainedPolicy`` in evaluation mode, unwrapped from accelerate or peft.
        preprocessor: its preprocessor from ``make_pre_post_processors``.
        postprocessor: its postprocessor from ``make_pre_post_processors``.
        replan: the default number of steps of a chunk to execute, or None for the config's ``n_action_steps``.

    Raises:
        VlaError: the policy is in training mode, is not a lerobot policy, or does not fit, as for `load`.
    """
    what = f"of_policy: {type(policy).__name__}"
    if not hasattr(getattr(policy, "config", None), "input_features") or not hasattr(policy, "select_action"):
        raise VlaError(
            f"{what} is not a lerobot policy. If it is wrapped, unwrap it first: accelerator.unwrap_model(policy)"
        )
    if policy.training:
        raise VlaError(f"{what} is in training mode, so its answers are random. Call policy.eval() first.")
    renames: dict[str, str] = {}
    for step in getattr(preprocessor, "steps", ()):
        renames.update(getattr(step, "rename_map", None) or {})
    device = str(next(policy.parameters()).device)

    from pytest_vla.policies.lerobot_policy import make_policy

    inputs = _guarded(lambda: read_inputs(policy.config, renames), what)
    asked = (policy, preprocessor, postprocessor, inputs, device, replan)
    return cast("LerobotPolicy", _guarded(lambda: make_policy(*asked), f"{what} on {device}"))


def check(where: str, folder: Path = Path(), base: str | None = None) -> None:
    """Check early that a policy can be loaded, without importing torch or contacting the hub; hub models pass.

    Args:
        where, base: as for `load`.
        folder: the folder that a relative path starts from.

    Raises:
        VlaError: lerobot, or for an adapter peft, is not installed; the folder does not exist, it does not hold a
            policy, or its files are invalid or name code to run.
    """
    option = f"--vla-model=lerobot:{where}"
    if find_spec("lerobot") is None:
        raise VlaError(_not_installed(option, "not installed"))
    place = _find_here(option, where, folder)
    if place is not None:
        _read_files(option, place)
        _read_adapter(option, place, folder, base, is_early=True)


def digest(where: str, folder: Path = Path(), base: str | None = None) -> str | None:
    """Compute the sha256 (hex) over a policy's config, processors and weights, or None if not on this machine.

    Args:
        where, base: as for `load`; nothing is downloaded.
        folder: the folder that a relative path starts from.
    """
    place = find_here(where, folder)
    if place is None:
        return None
    content = hashlib.sha256()
    for file in sorted(place.glob("*")):
        if file.suffix in (".json", ".safetensors") and file.is_file():
            content.update(f"{file.name} {_file_digest(file)}\n".encode())
    if _is_adapter(place):
        with suppress(VlaError):
            place = _base_of("", place, folder, base, is_early=True) or place
            content.update(f"base {_file_digest(place / _WEIGHTS)}\n".encode())
    return content.hexdigest()


def find_here(where: str, folder: Path = Path()) -> Path | None:
    """Return the folder of a policy, or None if it would have to be downloaded; arguments as for `load`."""
    # It was not downloaded yet, there is no huggingface_hub, or the text is too long for a path.
    with suppress(Exception):
        return _local(where, folder) or _fetch(where, local_files_only=True)
    return None


def _file_digest(file: Path) -> str:
    # The hub's cache names large files by their digest, as a link's target: gigabytes need not be read.
    if file.is_symlink() and _BLOB.fullmatch(blob := file.resolve().name):
        return blob
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _import(option: str) -> Any:
    try:
        import lerobot.policies.factory  # noqa: F401
        import torch
        from lerobot.utils.import_utils import register_third_party_plugins
    except ImportError as error:
        raise VlaError(_not_installed(option, str(error))) from error
    except Exception as error:
        # A torchvision of another torch raises RuntimeError, for instance.
        raise VlaError(f"{option}: importing lerobot {_version()} raised {describe(error)}") from error
    register_third_party_plugins()
    return torch


def _not_installed(option: str, reason: str) -> str:
    return (
        f"{option} needs the package lerobot ({reason}): pip install 'pytest-vla[lerobot]', and lerobot's own extra "
        "for this type of policy, such as 'lerobot[smolvla]'"
    )


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("lerobot")
    except PackageNotFoundError:
        return "of unknown version"


def _choose_device(option: str, device: str, torch: Any) -> str:
    if device == AUTO:
        return first_there_is(torch)
    try:
        torch.zeros(1, device=device)
    except Exception as error:
        text = str(error).partition("\n")[0]
        raise VlaError(
            f"{option}: device {device!r} is not available ({text}); auto selects an available one"
        ) from error
    return device


def _find(option: str, where: str, folder: Path) -> Path:
    """Return the folder of a policy, after downloading it if necessary."""
    place = _find_here(option, where, folder)
    if place is not None:
        return place
    try:
        return _fetch(where, local_files_only=False)
    except Exception as error:
        with suppress(Exception):
            # Some versions of the client ask the network even for a commit that is in the cache.
            place = _fetch(where, local_files_only=True)
            if (place / _WEIGHTS).is_file():
                return place
        name = where.partition("@")[0]
        raise VlaError(
            f"{option}: there is no folder {_path(where, folder)}, and https://huggingface.co/{name} "
            f"({', '.join((_CONFIG, _WEIGHTS, *_PROCESSORS))}) could not be downloaded: {_short(error)}. Without a "
            f"network, run `hf download {name} --local-dir DIR` on a machine that has one, then use "
            "--vla-model=lerobot:DIR"
        ) from error


def _find_here(option: str, where: str, folder: Path) -> Path | None:
    """Return the folder of a policy on this machine, or None if it may be a hub model. Raises VlaError."""
    place, path = _local(where, folder), _path(where, folder)
    if place is not None:
        return place
    if path.exists():
        raise VlaError(
            f"{option}: {path} has no {_CONFIG}; expected the folder that save_pretrained wrote (lerobot-train: "
            "OUTPUT/checkpoints/last/pretrained_model)"
        )
    if not _HUB_ID.fullmatch(where):
        raise VlaError(f"{option}: there is no folder {path}; expected a folder, or OWNER/NAME[@REVISION] on the hub")
    return None


def _path(where: str, folder: Path) -> Path:
    return (folder / Path(where).expanduser()).resolve()


def _local(where: str, folder: Path) -> Path | None:
    path = _path(where, folder)
    return next((path / below for below in _BELOW if (path / below / _CONFIG).is_file()), None)


def _fetch(where: str, *, local_files_only: bool) -> Path:
    from huggingface_hub import snapshot_download

    name, _, revision = where.partition("@")
    patterns = ["*.json", "*.safetensors"]
    # No subfolders: checkpoints of a training run lie there.
    return Path(
        snapshot_download(
            name,
            revision=revision or None,
            allow_patterns=patterns,
            ignore_patterns=["*/*"],
            local_files_only=local_files_only,
        )
    )


def _read_files(option: str, place: Path) -> dict[str, dict[str, Any]]:
    """Return the tables of a policy's JSON files by their names, before lerobot reads them. Raises VlaError.

    lerobot imports and calls what a step's ``class`` names, so steps must be registered ones, which lerobot or a
    package that the user installed provides.
    """
    weights = _ADAPTER_WEIGHTS if _is_adapter(place) else _WEIGHTS
    missing = [name for name in (weights, *_PROCESSORS) if not (place / name).is_file()]
    if weights in missing:
        raise VlaError(f"{option}: {place} has no {weights}; expected a folder that save_pretrained wrote")
    if missing:
        raise VlaError(
            f"{option}: {place} has no {' and no '.join(missing)}, so its normalisation is unknown. Policies saved "
            "before lerobot 0.4 have it in their weights: python -m lerobot.processor.migrate_policy_normalization "
            "--pretrained-path DIR writes a folder with these files"
        )
    tables = {}
    for name in (_CONFIG, *_PROCESSORS):
        file = place / name
        tables[name] = table = _saved_table(option, file)
        for field, value in _fields(table):
            if field in _CODE_FROM and value not in _TRUSTED:
                raise VlaError(
                    f"{option}: {file} has {field} {quoted(value, 100)}: lerobot would run Python code from "
                    f"there. Expected one of {', '.join(filter(None, _TRUSTED))}"
                )
    for name in _PROCESSORS:
        steps = tables[name].get("steps")
        if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
            raise VlaError(f"{option}: {place / name} has no list of steps; expected a processor of save_pretrained")
        for number, step in enumerate(steps):
            if not isinstance(step.get("registry_name"), str) or not isinstance(step.get("config", {}), dict):
                shown = quoted(step.get("class", step), 100)
                raise VlaError(
                    f"{option}: {place / name}: step {number} is {shown}, expected a registry_name and a table config. "
                    "A file's class is not imported: register the step (ProcessorStepRegistry.register) in a package "
                    "that lerobot loads as a plugin, and save the policy again"
                )
            state = step.get("state_file", "")
            if not isinstance(state, str) or "/" in state or "\\" in state:
                shown = quoted(state, 100)
                raise VlaError(
                    f"{option}: {place / name}: step {number} has state_file {shown}, expected a file beside it"
                )
            _check_statistics(option, place, name, step)
    return tables


# Adapters (LoRA): small weights beside those of a base policy.

_LORA = {
    "r": int,
    "lora_alpha": int | float,
    "lora_dropout": int | float,
    "target_modules": str | list,
    "exclude_modules": str | list,
    "fan_in_fan_out": bool,
    "bias": str,
    "use_rslora": bool,
    "use_dora": bool,
    "lora_bias": bool,
    "modules_to_save": list,
    "layers_to_transform": int | list,
    "layers_pattern": str | list,
    "rank_pattern": dict,
    "alpha_pattern": dict,
}
"""The fields of an adapter's file that are used, with their types: numbers and the names of modules."""

_OF_TRAINING = frozenset(
    (
        *("peft_type", "task_type", "base_model_name_or_path", "revision", "inference_mode", "auto_mapping"),
        *("init_lora_weights", "loftq_config", "eva_config", "corda_config", "runtime_config", "qalora_group_size"),
        # The module that `megatron_config`, which is refused, would have imported.
        *("megatron_core", "peft_version"),
    )
)
"""Fields that decide nothing about answers, since all weights are replaced by the adapter's."""


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter of a policy.

    Attributes:
        base: the folder with the weights that it was trained on.
        weights: its own file, safetensors.
        settings: the arguments of peft's ``LoraConfig``.
    """

    base: Path
    weights: Path
    settings: Mapping[str, Any]

    def put_into(self, model: Any) -> None:
        """Add the adapter's layers and weights to a policy that has the base's. Raises VlaError if they do not fit."""
        from peft import LoraConfig, get_peft_model, set_peft_model_state_dict
        from safetensors.torch import load_file

        wrapped = get_peft_model(model, LoraConfig(**self.settings))
        result = set_peft_model_state_dict(wrapped, load_file(self.weights))
        own = {name for name in wrapped.state_dict() if "lora_" in name or "modules_to_save" in name}
        lacking = sorted(own & set(result.missing_keys))
        if wrong := [*lacking, *result.unexpected_keys]:
            raise VlaError(
                f"{self.weights.name} and {_ADAPTER} do not fit the policy: {counted(len(wrong), 'weight')} of one are "
                f"not in the other, such as {printable(wrong[0])[:200]}. Was it trained on another base?"
            )


def _is_adapter(place: Path) -> bool:
    return (place / _ADAPTER).is_file()


def _read_adapter(
    option: str, place: Path, folder: Path, base: str | None, *, is_early: bool = False
) -> Adapter | None:
    """Return the adapter in a folder, or None if it holds a whole policy. Nothing that its file names is imported.

    Args:
        option, place, folder: for the message; the adapter's folder; the folder that a typed base starts from.
        base: as typed.
        is_early: whether a base of the hub is not yet downloaded.

    Raises:
        VlaError: peft is missing, the file is invalid, or it has no base on this machine.
    """
    if not _is_adapter(place):
        if base is not None:
            raise VlaError(f"{option}: {BASE}={base} is for an adapter, and {place} has no {_ADAPTER}: leave it out")
        return None
    if find_spec("peft") is None:
        raise VlaError(f"{option} is an adapter, which needs the package peft: pip install peft")
    file = place / _ADAPTER
    table = _saved_table(option, file)
    if table.get("peft_type") != "LORA":
        shown = quoted(table.get("peft_type"))
        raise VlaError(
            f"{option}: {file}: peft_type is {shown}, expected 'LORA'. Merge the adapter into its base "
            "(PEFT's merge_and_unload), and save the policy again"
        )
    settings = {}
    for name, value in table.items():
        if name in _OF_TRAINING or value is None or value is False or value in ({}, []):
            continue
        if name not in _LORA:
            raise VlaError(
                f"{option}: {file}: {printable(name)[:60]} is {quoted(value, 100)}, which is not supported. "
                "Merge the adapter into its base (PEFT's merge_and_unload), and save the policy again"
            )
        if not isinstance(value, _LORA[name]):
            raise VlaError(f"{option}: {file}: {name} is {quoted(value, 100)}. Save the adapter again")
        settings[name] = value
    found = _base_of(option, place, folder, base, is_early=is_early)
    return Adapter(found or place, place / _ADAPTER_WEIGHTS, settings)


def _saved_table(option: str, file: Path) -> dict[str, Any]:
    try:
        table = read_json(file)
    except (OSError, ValueError) as error:
        raise VlaError(f"{option}: {file} cannot be read: {printable(str(error))[:200]}. Save it again") from error
    if not isinstance(table, dict):
        raise VlaError(f"{option}: {file} is a {type(table).__name__}, expected a table of save_pretrained")
    return table


def _base_of(option: str, place: Path, folder: Path, base: str | None, *, is_early: bool) -> Path | None:
    """Return the folder of an adapter's base: the typed one, or the local folder that the adapter names.

    None if it is still to be downloaded. Raises VlaError.
    """
    if base is None:
        named = _saved_table(option, place / _ADAPTER).get("base_model_name_or_path")
        local = _local(named, place) if isinstance(named, str) and named else None
        if local is None or not (local / _WEIGHTS).is_file():
            shown = printable(str(named))[:200]
            raise VlaError(
                f"{option}: the adapter's base is {shown}, and there is no such folder with {_WEIGHTS} here. Give it: "
                f"--vla-model='lerobot:PATH?{BASE}=WHERE', a folder or a model on the hub"
            )
        return local
    found = find_here(base, folder) if is_early else _find(option, base, folder)
    if found is not None and not (found / _WEIGHTS).is_file():
        raise VlaError(f"{option}: {BASE}={base}: {found} has no {_WEIGHTS}; expected a whole policy's folder")
    return found


def _check_statistics(option: str, place: Path, name: str, step: dict[str, Any]) -> None:
    """Check that a normalisation has the statistics of state or action: lerobot passes a feature without unchanged."""
    if (wanted := _NORMALISED.get((name, step["registry_name"]))) is None:
        return
    config = step.get("config", {})
    features, modes = config.get("features"), config.get("norm_map")
    if not isinstance(features, dict) or not isinstance(modes, dict):
        return
    only = config.get("normalize_observation_keys")
    file = place / (step.get("state_file") or name)
    found = _tensor_names(option, file) if step.get("state_file") else set()
    for feature, table in features.items():
        kind = table.get("type") if isinstance(table, dict) else None
        if isinstance(only, list) and kind == "STATE" and feature not in only:
            continue
        if kind == wanted and (keys := _STATISTICS.get(str(modes.get(kind)))):
            lacking = [key for key in keys if f"{feature}.{key}" not in found]
            if lacking:
                raise VlaError(
                    f"{option}: {file} has no {' and no '.join(lacking)} of {printable(feature)[:100]}, which "
                    f"{step['registry_name']} of {name} normalises by {modes[kind]}: it would be passed unchanged. "
                    "Save the policy again with its data set's statistics (make_pre_post_processors with "
                    "dataset_stats), or set the mode to IDENTITY if it was trained without"
                )


def _tensor_names(option: str, file: Path) -> set[str]:
    """Return the names of a safetensors file's tensors, from its header alone. Raises VlaError."""
    try:
        with file.open("rb") as opened:
            length = int.from_bytes(opened.read(8), "little")
            if length > _MOST_HEADER:
                raise ValueError(f"a header of {length} bytes")
            return set(json.loads(opened.read(length)))
    except (OSError, ValueError, RecursionError, TypeError) as error:
        raise VlaError(f"{option}: {file} cannot be read: {printable(str(error))[:200]}. Save it again") from error


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the fields of nested tables; the depth is bounded by `read_json`."""
    for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(inner, dict | list):
            yield from _fields(inner)
        elif isinstance(name, str):
            yield name, inner


def _renames(saved: dict[str, Any]) -> dict[str, str]:
    renames: dict[str, str] = {}
    for step in saved["steps"]:
        if step.get("registry_name") == "rename_observations_processor":
            renames.update((step.get("config") or {}).get("rename_map") or {})
    return renames


def _overrides(saved: dict[str, Any], device: str) -> dict[str, dict[str, str]]:
    name = "device_processor"
    return {name: {"device": device}} if any(step.get("registry_name") == name for step in saved["steps"]) else {}


def _also_needs(config: Any, saved: dict[str, Any]) -> str:
    """Return the tokenizers and base model configs that a policy also reads, as the end of a sentence."""
    names = [getattr(config, "vlm_model_name", None), getattr(config, "tokenizer_path", None)]
    names += [(step.get("config") or {}).get("tokenizer_name") for step in saved[_PROCESSORS[0]]["steps"]]
    found = sorted({name for name in names if isinstance(name, str) and name})
    if not found:
        return ""
    return (
        f" (it also reads {', '.join(found)}, a folder or from the hub. Without a network, have it in the hub's cache, "
        f"`hf download {found[0]}`, or name a folder in {_CONFIG} and {_PROCESSORS[0]})"
    )


def _guarded(call: Callable[[], Any], trouble: str) -> Any:
    try:
        return call()
    except VlaError as error:
        raise VlaError(f"{trouble}: {error}") from error
    except (Exception, SystemExit) as error:
        raise VlaError(f"{trouble}: {_short(error)}") from error


def _short(error: BaseException) -> str:
    text = describe(error)
    return text if len(text) < 600 else f"{text[:600]} ..."
