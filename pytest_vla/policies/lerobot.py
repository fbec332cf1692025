"""``--vla-model=lerobot:WHERE``: any lerobot policy, in process, with its own pre- and postprocessors."""

import copy
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from pytest_vla.errors import VlaError
from pytest_vla.policies import fit
from pytest_vla.policies.base import Answer, Episode, Observation, as_observations
from pytest_vla.policies.devices import AUTO, first_there_is
from pytest_vla.policies.fit import ACTION_SIZE, STATE_SIZE, Traits
from pytest_vla.policies.view import resize_with_padding
from pytest_vla.util.warnings import describe

if TYPE_CHECKING:
    pass


# The inputs of a lerobot policy, read from its config: which of our cameras is which of its pictures.

STATE = "observation.state"
ACTION = "action"

_SCENE, _WRIST = "agentview_image", "robot0_eye_in_hand_image"
_WRIST_NAMES = re.compile(r"wrist|hand|gripper|^image_?2$|^camera_?2$")
_SCENE_NAMES = re.compile(r"agentview|^image_?1?$|^camera_?1$|front|base|top|exterior|third|main|static")
# Config attributes of classes that resize pictures themselves; lerobot-eval relies on that, too.
_RESIZES_ITSELF = ("resize_imgs_with_padding", "image_resolution", "resize_shape")


@dataclass(frozen=True)
class Inputs:
    """The inputs of a policy's preprocessor.

    Attributes:
        pictures: for each key of the preprocessor, the name of our picture.
        sizes: height and width in pixels for the keys whose pictures have to be resized.
        state: the key for the state (8,), or None if the policy takes no state.
    """

    pictures: Mapping[str, str]
    sizes: Mapping[str, tuple[int, int]]
    state: str | None

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of our observations that are needed."""
        return (*dict.fromkeys(self.pictures.values()), *(["state"] if self.state else []))


def read_inputs(config: Any, renames: Mapping[str, str]) -> Inputs:
    """Return the inputs of a policy with this config.

    Args:
        config: lerobot's ``PreTrainedConfig``.
        renames: the renaming in the policy's preprocessor, from the key that it takes to the key of the config.

    Raises:
        VlaError: the policy needs more cameras than there are, a different state or other observations, or has
            different actions.
    """
    _check_actions(config)
    taken = {new: old for old, new in renames.items()}
    pictures: dict[str, str] = {}
    for key, picture in _assign(list(config.image_features), config).items():
        pictures[taken.get(key, key)] = picture
    state = None
    for key, feature in config.input_features.items():
        if key in config.image_features:
            continue
        if key != STATE:
            raise _unfit(fit.OBSERVATION, f"the policy needs {key!r}, but suites have only pictures and {STATE!r}")
        if tuple(feature.shape) != (STATE_SIZE,):
            raise _unfit(
                fit.STATE,
                f"the policy needs a state {tuple(feature.shape)}, but suites have ({STATE_SIZE},): position, "
                "axis-angle, two fingers",
                "take a checkpoint that was trained on LIBERO",
            )
        state = taken.get(key, key)
    sizes = {}
    if not any(getattr(config, name, None) for name in _RESIZES_ITSELF):
        shapes = {taken.get(key, key): tuple(feature.shape) for key, feature in config.image_features.items()}
        sizes = {key: _height_and_width(shapes[key]) for key in pictures}
    return Inputs(pictures, sizes, state)


def _check_actions(config: Any) -> None:
    mode = getattr(config, "action_mode", None)
    if isinstance(mode, str) and "ee6d" in mode:
        raise _unfit(
            fit.ACTION_CONVENTION,
            f"the policy's actions are absolute poses (action_mode {mode!r}), but suites take relative ones",
            "lerobot-eval runs such a checkpoint with --env.control_mode=absolute; pytest-vla does not support it yet",
        )
    feature = (config.output_features or {}).get(ACTION)
    if feature is None or tuple(feature.shape) != (ACTION_SIZE,):
        shape = "none" if feature is None else tuple(feature.shape)
        raise _unfit(
            fit.ACTION_DIMENSION,
            f"the policy's actions have shape {shape}, but suites take ({ACTION_SIZE},)",
            "take a checkpoint that was trained on LIBERO",
        )


def _assign(keys: list[str], config: Any) -> dict[str, str]:
    """Return our picture for each key: by name, then by order.

    Keys of empty cameras get none: the class fills them itself.
    """
    assigned: dict[str, str] = {}
    for wanted, names in ((_SCENE, _SCENE_NAMES), (_WRIST, _WRIST_NAMES)):
        for key in keys:
            name = key.rpartition(".")[2].lower()
            is_wrist = bool(_WRIST_NAMES.search(name))
            if names.search(name) and is_wrist == (wanted is _WRIST) and "empty" not in name:
                assigned[key] = wanted
                break
    left = [picture for picture in (_SCENE, _WRIST) if picture not in assigned.values()]
    rest = [key for key in keys if key not in assigned and "empty" not in key.rpartition(".")[2].lower()]
    while rest and left:
        assigned[rest.pop(0)] = left.pop(0)
    named_empty = sum("empty" in key.rpartition(".")[2].lower() for key in keys)
    if len(rest) > max(int(getattr(config, "empty_cameras", 0) or 0) - named_empty, 0):
        raise _unfit(
            fit.OBSERVATION,
            f"the policy needs {len(keys) - named_empty} cameras ({', '.join(keys)}), but suites have two "
            f"({_SCENE}, {_WRIST}): there is no picture for {', '.join(rest)}",
            "if it was trained without that picture, set empty_cameras in its config.json",
        )
    return {key: assigned[key] for key in keys if key in assigned}


def _height_and_width(shape: tuple[int, ...]) -> tuple[int, int]:
    if len(shape) != 3:
        raise _unfit(
            fit.PICTURE_SIZE,
            f"the policy needs pictures of shape {shape}, but a suite's are (3, height, width)",
            "check input_features in its config.json",
        )
    # Some datasets were recorded with channels last.
    height, width = shape[1:] if shape[0] == 3 else shape[:2]
    return height, width


def _unfit(code: fit.FitCode, said: str, mend: str | None = None) -> VlaError:
    return VlaError(str(code.found(said, mend=mend)))


_HUB_ID = re.compile(r"(?P<id>[\w-][\w.-]*/[\w-][\w.-]*)(@(?P<revision>[\w./-]+))?")
_BLOB = re.compile("[0-9a-f]{64}")
_CONFIG, _WEIGHTS = "config.json", "model.safetensors"
_PROCESSORS = ("policy_preprocessor.json", "policy_postprocessor.json")
# Where lerobot-train puts a policy below its output folder.
_BELOW = (".", "pretrained_model", "checkpoints/last/pretrained_model")


def load(where: str, device: str = AUTO, *, folder: Path = Path(), replan: int | None = None) -> "LerobotPolicy":
    """Load a policy, and find out by trial questions whether it draws, whether it batches, and its action shape.

    Args:
        where: a folder that ``save_pretrained`` or lerobot-train wrote, or a model on the hub, ``OWNER/NAME``
            or ``OWNER/NAME@REVISION``.
        device: ``auto`` (the first available of cuda, mps and cpu) or a torch device such as ``cuda:1``.
        folder: the folder that a relative path starts from.
        replan: the default number of steps of a chunk to execute, or None for the config's ``n_action_steps``.

    Raises:
        VlaError: lerobot is missing, the policy does not exist or cannot be downloaded, it was saved without
            processors, or it does not fit: different cameras, state or actions, or episode state that cannot be
            separated.
    """
    option = f"--vla-model=lerobot:{where}"
    torch = _import(option)
    device = _choose_device(option, device, torch)
    policy_folder = _find(option, where, folder)
    _check_files(option, policy_folder)

    from lerobot.configs.policies import PreTrainedConfig
    from lerobot.policies.factory import get_policy_class, make_pre_post_processors

    config = _guarded(
        lambda: PreTrainedConfig.from_pretrained(policy_folder),
        f"{option}: lerobot {_version()} cannot read {policy_folder / _CONFIG}; was it saved by another version?",
    )
    if getattr(config, "use_peft", False):
        raise VlaError(
            f"{option}: this is an adapter (use_peft). Merge it into its base model first (PEFT's merge_and_unload)."
        )
    config.device = device
    if hasattr(config, "pretrained_backbone_weights"):
        # They would be downloaded, and then replaced by the policy's own weights.
        config.pretrained_backbone_weights = None
    saved = {name: json.loads((policy_folder / name).read_text()) for name in _PROCESSORS}
    inputs = _guarded(lambda: read_inputs(config, _renames(saved[_PROCESSORS[0]])), option)
    needs = _also_needs(config, saved)
    model = _guarded(
        lambda: get_policy_class(config.type).from_pretrained(policy_folder, config=config),
        f"{option}: {config.type} could not be loaded{needs}",
    )
    before, after = _guarded(
        lambda: make_pre_post_processors(
            config,
            pretrained_path=str(policy_folder),
            preprocessor_overrides=_overrides(saved[_PROCESSORS[0]], device),
            postprocessor_overrides=_overrides(saved[_PROCESSORS[1]], "cpu"),
        ),
        f"{option}: its processors could not be loaded{needs}",
    )

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

    inputs = _guarded(lambda: read_inputs(policy.config, renames), what)
    asked = (policy, preprocessor, postprocessor, inputs, device, replan)
    return cast("LerobotPolicy", _guarded(lambda: make_policy(*asked), f"{what} on {device}"))


def check(where: str, folder: Path = Path()) -> None:
    """Check early that a policy can be loaded, without importing torch or contacting the hub; hub models pass.

    Args:
        where: as for `load`.
        folder: the folder that a relative path starts from.

    Raises:
        VlaError: lerobot is not installed, the folder does not exist, or it does not hold a policy.
    """
    option = f"--vla-model=lerobot:{where}"
    if find_spec("lerobot") is None:
        raise VlaError(_not_installed(option, "not installed"))
    place = _find_here(option, where, folder)
    if place is not None:
        _check_files(option, place)


def digest(where: str, folder: Path = Path()) -> str | None:
    """Compute the sha256 (hex) over a policy's config, processors and weights, or None if not on this machine.

    Args:
        where: as for `load`; nothing is downloaded.
        folder: the folder that a relative path starts from.
    """
    place = _local(where, folder)
    if place is None:
        try:
            place = _fetch(where, local_files_only=True)
        except Exception:
            # Not downloaded yet, or no huggingface_hub.
            return None
    content = hashlib.sha256()
    for file in sorted(place.glob("*")):
        if file.suffix in (".json", ".safetensors") and file.is_file():
            content.update(f"{file.name} {_file_digest(file)}\n".encode())
    return content.hexdigest()


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


def _check_files(option: str, place: Path) -> None:
    missing = [name for name in (_WEIGHTS, *_PROCESSORS) if not (place / name).is_file()]
    if _WEIGHTS in missing:
        raise VlaError(f"{option}: {place} has no {_WEIGHTS}; expected a folder that save_pretrained wrote")
    if missing:
        raise VlaError(
            f"{option}: {place} has no {' and no '.join(missing)}, so its normalisation is unknown. Policies saved "
            "before lerobot 0.4 have it in their weights: python -m lerobot.processor.migrate_policy_normalization "
            "--pretrained-path DIR writes a folder with these files"
        )


def _steps(saved: Any) -> list[dict[str, Any]]:
    steps = saved.get("steps", []) if isinstance(saved, dict) else []
    return [step for step in steps if isinstance(step, dict)]


def _renames(saved: Any) -> dict[str, str]:
    renames: dict[str, str] = {}
    for step in _steps(saved):
        if step.get("registry_name") == "rename_observations_processor":
            renames.update((step.get("config") or {}).get("rename_map") or {})
    return renames


def _overrides(saved: Any, device: str) -> dict[str, dict[str, str]]:
    name = "device_processor"
    return {name: {"device": device}} if any(step.get("registry_name") == name for step in _steps(saved)) else {}


def _also_needs(config: Any, saved: dict[str, Any]) -> str:
    """Return the tokenizers and base model configs that a policy also reads, as the end of a sentence."""
    names = [getattr(config, "vlm_model_name", None), getattr(config, "tokenizer_path", None)]
    names += [(step.get("config") or {}).get("tokenizer_name") for step in _steps(saved[_PROCESSORS[0]])]
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


# A loaded lerobot policy as a `BatchPolicy`: batched if batches change no answer, otherwise one question at a time.

MOST = 1024
"""The most questions in a batch; the user's limit is ``--vla-max-batch``."""

# How far apart two answers to one question may be: asked alone twice, and asked alone and in a batch. A policy whose
# answers are further apart is asked one at a time.
_AGAIN, _IN_BATCH = 1e-5, 5e-2
_TRIAL_INSTRUCTION = "put the bowl on the plate"
_TRIAL_SIZE = 256

Processor = Callable[[Any], Any]


@dataclass
class LerobotSession:
    """The state of one episode.

    Attributes:
        instruction: the instruction for the robot.
        rng: the episode's generator; reseeded before every question.
        samples: the number of further draws of each chunk that are requested.
        memory: the attributes in which lerobot's class stores the state of an episode; empty if it stores none.
    """

    instruction: str
    rng: np.random.Generator
    samples: int = 0
    memory: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Manner:
    """The way in which a policy is called.

    Attributes:
        chunks: whether ``predict_action_chunk`` is called; otherwise ``select_action``, one action per control
            step.
        noise: the shape of the noise for an answer, which is drawn from the episode's generator and passed to
            the policy, or None if the policy takes no noise.
        apart: whether it draws from torch's global generator or remembers earlier questions: before each
            question that generator is then seeded from the episode's, and the state that the class keeps is
            swapped for the episode's.
        batches: whether an answer in a batch equals the answer to the question alone.
    """

    chunks: bool
    noise: tuple[int, int] | None = None
    apart: bool = False
    batches: bool = False


class LerobotPolicy:
    """A lerobot policy whose weights all episodes share.

    Attributes:
        max_batch: the most questions in one batch; 1 for a class that draws its noise itself or keeps a history
            of the episode.
        reads: the observations that are needed.
        replan: the number of steps of a chunk that are executed, unless ``--vla-replan`` overrides it.
        manner: the way in which it is called.
        device: the device of its weights.
    """

    max_batch: int
    reads: Sequence[str]
    replan: int | None
    manner: Manner

    def __init__(
        self, model: Any, before: Processor, after: Processor, inputs: Inputs, device: str, manner: Manner
    ) -> None:
        """Hold the parts of a policy; `make_policy` finds the manner and calls this."""
        self._model, self._before, self._after = model, before, after
        self._inputs, self.device = inputs, torch.device(device)
        self.manner = manner
        self.max_batch = MOST if manner.batches else 1
        self.reads = inputs.reads
        self.replan = _own_replan(model.config) if manner.chunks else 1
        self._fresh: dict[str, Any] = {}
        if manner.apart:
            model.reset()
            self._fresh = _plain_attributes(model)

    @property
    def traits(self) -> Traits:
        """The traits that the config states; `read_inputs` has already refused policies that do not fit."""
        return Traits(
            action_size=self._model.config.output_features[ACTION].shape[0],
            reads=tuple(self.reads),
            state_size=None if self._inputs.state is None else STATE_SIZE,
            draws=True if self.manner.noise is not None else None,
        )

    @property
    def weights(self) -> dict[str, Any]:
        """All arrays that an answer depends on, by name: the weights and the normalisation of the processors."""
        found = {f"model.{name}": value for name, value in self._model.state_dict().items()}
        for which, pipeline in (("before", self._before), ("after", self._after)):
            for number, step in enumerate(getattr(pipeline, "steps", ())):
                state = step.state_dict() if hasattr(step, "state_dict") else {}
                found |= {f"{which}.{number}.{name}": value for name, value in state.items()}
        return found

    def begin(self, episode: Episode) -> LerobotSession:
        """Begin a session with an empty memory."""
        # Weights that a memory points to are shared, not copied.
        shared = {id(part): part for part in (*self._model.modules(), *self._model.parameters())}
        # A policy that draws its noise itself, or draws none, cannot be asked for further draws.
        samples = episode.wishes.samples if self.manner.noise is not None else 0
        return LerobotSession(episode.instruction, episode.rng, samples, copy.deepcopy(self._fresh, shared))

    def act(
        self, sessions: Sequence[LerobotSession], observations: Sequence[Observation]
    ) -> list[NDArray[np.float64] | Answer]:
        """Return the chunks (k, 7) after the policy's own postprocessor, with samples for sessions that request some.

        Samples are computed after the chunks, from noise that is drawn after theirs: the executed actions are bit for
        bit the same with and without samples.
        """
        if self.manner.apart:
            (session,) = sessions
            return [*self._ask_apart(session, observations)]
        chunks = self._predict(sessions, observations)
        if not any(session.samples for session in sessions):
            return [*chunks]
        samples = self._samples(sessions, observations)
        return [Answer(chunk, some) if some is not None else chunk for chunk, some in zip(chunks, samples, strict=True)]

    def _samples(
        self, sessions: Sequence[LerobotSession], observations: Sequence[Observation]
    ) -> list[NDArray[np.float64] | None]:
        """Return samples (n, k, 7) for each session, or None for a session that requests none.

        An observation is repeated in a question once per sample. A question has at most as many copies as samples or
        sessions, whichever is more: the device is known to hold that many.
        """
        repeated = [number for number, session in enumerate(sessions) for _ in range(session.samples)]
        most = max(len(sessions), *(session.samples for session in sessions)) if self.manner.batches else 1
        drawn: list[NDArray[np.float64]] = []
        for first in range(0, len(repeated), most):
            some = repeated[first : first + most]
            drawn += self._predict([sessions[number] for number in some], [observations[number] for number in some])
        rest = iter(drawn)
        return [
            np.stack([next(rest) for _ in range(session.samples)]) if session.samples else None for session in sessions
        ]

    def _predict(
        self, sessions: Sequence[LerobotSession], observations: Sequence[Observation]
    ) -> list[NDArray[np.float64]]:
        """Return the chunks of one question; a session that occurs in it several times has new noise each time."""
        batch = self._before(self._batch(sessions, observations))
        options = {}
        if self.manner.noise is not None:
            drawn = [session.rng.standard_normal(self.manner.noise, dtype=np.float32) for session in sessions]
            options["noise"] = torch.from_numpy(np.stack(drawn)).to(self.device)
        with torch.no_grad():
            return self._finish(self._model.predict_action_chunk(batch, **options))

    def _ask_apart(self, session: LerobotSession, observations: Sequence[Observation]) -> list[NDArray[np.float64]]:
        batch = self._before(self._batch([session], observations))
        before = {name: vars(self._model)[name] for name in session.memory}
        vars(self._model).update(session.memory)
        try:
            # The generator is restored: in the user's own process other code draws from it too.
            with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []), torch.no_grad():
                torch.manual_seed(int(session.rng.integers(2**63)))
                if self.manner.chunks:
                    chunk = self._model.predict_action_chunk(batch)
                else:
                    chunk = self._model.select_action(batch)[:, None]
            session.memory = {name: vars(self._model)[name] for name in session.memory}
        finally:
            # The model's own attributes are restored, so that its digest is unchanged.
            vars(self._model).update(before)
        return self._finish(chunk)

    def _batch(self, sessions: Sequence[LerobotSession], observations: Sequence[Observation]) -> dict[str, Any]:
        """Return the preprocessor's input: pictures (B, 3, H, W) float32 in [0, 1], state (B, 8), instructions."""
        batch: dict[str, Any] = {"task": [session.instruction for session in sessions]}
        together = as_observations(observations)
        for key, name in self._inputs.pictures.items():
            if key in self._inputs.sizes:
                size = self._inputs.sizes[key]
                pictures = np.stack([resize_with_padding(observation[name], *size) for observation in observations])
            else:
                pictures = together.stacked(name)
            # Sent to the device as bytes, which is a quarter of the transfer.
            batch[key] = torch.from_numpy(pictures).to(self.device).permute(0, 3, 1, 2).float() / 255
        if self._inputs.state is not None:
            states = together.stacked("state").astype(np.float32)
            batch[self._inputs.state] = torch.from_numpy(states).to(self.device)
        return batch

    def _finish(self, chunk: Any) -> list[NDArray[np.float64]]:
        # Once over to the CPU, then step by step, (B, 7) each: some postprocessors take no chunks.
        chunk = chunk.cpu()
        actions = torch.stack([self._after(chunk[:, step]) for step in range(chunk.shape[1])], dim=1)
        return list(actions.float().numpy().astype(np.float64))


def make_policy(
    model: Any, before: Processor, after: Processor, inputs: Inputs, device: str, replan: int | None = None
) -> LerobotPolicy:
    """Return a policy with the best manner that it supports, as a few trial questions show.

    Args:
        model: lerobot's ``PreTrainedPolicy`` on its device.
        before: its preprocessor.
        after: its postprocessor.
        inputs: its inputs.
        device: torch's name of the device.
        replan: overrides the config's ``n_action_steps``.

    Raises:
        VlaError: it does not answer, its actions are not (k, 7), or it keeps state of an episode that cannot be
            taken out.
    """

    def policy_of(manner: Manner) -> LerobotPolicy:
        return LerobotPolicy(model, before, after, inputs, device, manner)

    # The draws of trials do not affect other code.
    with torch.random.fork_rng(devices=[torch.device(device)] if device.startswith("cuda") else []):
        policy = policy_of(_find_manner(policy_of, model.config))
    if replan is not None and policy.manner.chunks:
        policy.replan = replan
    return policy


def _find_manner(policy_of: Callable[[Manner], LerobotPolicy], config: Any) -> Manner:
    steps = Manner(chunks=False, apart=True)
    # A history needs every control step, and chunks are asked for less often.
    if (getattr(config, "n_obs_steps", 1) or 1) > 1 or getattr(config, "temporal_ensemble_coeff", None) is not None:
        return _kept_apart(policy_of, steps)
    manners = [Manner(chunks=True)]
    length, width = getattr(config, "chunk_size", None), getattr(config, "max_action_dim", None)
    if isinstance(length, int) and isinstance(width, int):
        manners.insert(0, Manner(chunks=True, noise=(length, width)))
    trouble: Exception | None = None
    for manner in manners:
        try:
            found = _repeats(policy_of, manner)
            trouble = None
        except VlaError:
            raise
        except Exception as error:
            trouble = error
            continue
        if found is not None:
            return found
    if trouble is None:
        return _kept_apart(policy_of, Manner(chunks=True, apart=True))
    try:
        # Some classes give chunks to their own select_action only, or none.
        return _kept_apart(policy_of, steps)
    except VlaError:
        raise
    except Exception:
        raise VlaError(f"the policy failed on a trial question: {describe(trouble)}") from trouble


def _repeats(policy_of: Callable[[Manner], LerobotPolicy], manner: Manner) -> Manner | None:
    """Return the manner, with its `batches`, if an answer depends on its question alone, else None."""
    policy = policy_of(manner)
    one, other = (_Trial(policy, seed) for seed in (0, 1))
    alone = one.ask()
    other.ask()
    if not np.allclose(alone, one.ask(), rtol=_AGAIN, atol=_AGAIN):
        return None
    try:
        sessions = [one.prepared(), other.prepared()]
        together, _ = map(np.asarray, policy.act(sessions, [one.observation, other.observation]))
    except Exception:
        # A class that takes one question at a time.
        return manner
    return replace(manner, batches=bool(np.allclose(alone, together, rtol=_IN_BATCH, atol=_IN_BATCH)))


def _kept_apart(policy_of: Callable[[Manner], LerobotPolicy], manner: Manner) -> Manner:
    """Return the manner if another episode in between does not change an episode's answers. Raises VlaError."""
    policy = policy_of(manner)
    alone = _Trial(policy, 0)
    expected = [alone.ask(), alone.ask()]
    one, other = _Trial(policy, 0), _Trial(policy, 1)
    for answer in expected:
        if not np.allclose(answer, one.ask(), rtol=_IN_BATCH, atol=_IN_BATCH):
            raise VlaError(
                "the policy keeps episode state that cannot be separated, so one episode would change the next"
            )
        other.ask()
    return manner


class _Trial:
    """An episode that repeats one trial question, which a seed determines."""

    def __init__(self, policy: LerobotPolicy, seed: int) -> None:
        drawn = np.random.default_rng(seed)
        self.observation = {
            name: drawn.normal(0, 0.1, STATE_SIZE)
            if name == "state"
            else drawn.integers(0, 256, (_TRIAL_SIZE, _TRIAL_SIZE, 3), dtype=np.uint8)
            for name in policy.reads
        }
        self._policy, self._seed = policy, seed
        episode = Episode("trial", "trial", "trial", _TRIAL_INSTRUCTION, seed, np.random.default_rng(seed))
        self._session = policy.begin(episode)

    def prepared(self) -> LerobotSession:
        """Return the session with its generator reseeded, as before every question."""
        self._session.rng = np.random.default_rng(self._seed)
        return self._session

    def ask(self) -> NDArray[np.float64]:
        """Return the answer. Raises VlaError if it is not actions (k, 7), or any error of the policy."""
        (given,) = self._policy.act([self.prepared()], [self.observation])
        answer = np.asarray(given)
        if answer.ndim != 2 or answer.shape[1] != ACTION_SIZE or not len(answer):
            raise VlaError(f"the policy's actions are {answer.shape[1:]}, expected ({ACTION_SIZE},)")
        return answer


def _own_replan(config: Any) -> int | None:
    steps = getattr(config, "n_action_steps", None)
    return steps if isinstance(steps, int) and steps > 0 else None


def _plain_attributes(model: Any) -> dict[str, Any]:
    """Return the attributes in which a class may remember an episode: neither torch's own nor the config."""
    names = set(vars(model)) - set(vars(torch.nn.Module())) - {"config"}
    return {name: vars(model)[name] for name in sorted(names)}
