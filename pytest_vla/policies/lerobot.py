"""``--vla-model=lerobot:WHERE``: any policy of lerobot, in process, with its own pre- and postprocessors."""

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


# What a lerobot policy wants to see, read from its config: which of our cameras is which of its pictures.

STATE = "observation.state"
ACTION = "action"

_SCENE, _WRIST = "agentview_image", "robot0_eye_in_hand_image"
_WRIST_NAMES = re.compile(r"wrist|hand|gripper|^image_?2$|^camera_?2$")
_SCENE_NAMES = re.compile(r"agentview|^image_?1?$|^camera_?1$|front|base|top|exterior|third|main|static")
# Classes that bring a picture of any size to their own, as lerobot-eval leaves it to them.
_RESIZES_ITSELF = ("resize_imgs_with_padding", "image_resolution", "resize_shape")


@dataclass(frozen=True)
class Inputs:
    """What goes into a policy's preprocessor.

    Attributes:
        pictures: for each of its keys, the picture of ours that it gets.
        sizes: height and width in pixels for the keys whose pictures have to be brought to a size.
        state: its key for the state (8,); None: it wants none.
    """

    pictures: Mapping[str, str]
    sizes: Mapping[str, tuple[int, int]]
    state: str | None

    @property
    def reads(self) -> tuple[str, ...]:
        """The observations of ours that are needed."""
        return (*dict.fromkeys(self.pictures.values()), *(["state"] if self.state else []))


def read_inputs(config: Any, renames: Mapping[str, str]) -> Inputs:
    """What a policy with this config gets.

    Args:
        config: lerobot's ``PreTrainedConfig``.
        renames: what the policy's preprocessor renames, from the key that it takes to the key of the config.

    Raises:
        VlaError: it wants more cameras than there are, another state or other observations, or gives other actions.
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
            raise _unfit(fit.OBSERVATION, f"the policy wants {key!r}, which no suite has: pictures and {STATE!r}")
        if tuple(feature.shape) != (STATE_SIZE,):
            raise _unfit(
                fit.STATE,
                f"the policy wants a state {tuple(feature.shape)}, the suite's is ({STATE_SIZE},): position, "
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
            f"the policy gives absolute end-effector poses (action_mode {mode!r}), and the suites' worlds execute "
            "relative ones",
            "lerobot-eval runs such a checkpoint with --env.control_mode=absolute, which is not here yet",
        )
    feature = (config.output_features or {}).get(ACTION)
    if feature is None or tuple(feature.shape) != (ACTION_SIZE,):
        shape = "none" if feature is None else tuple(feature.shape)
        raise _unfit(
            fit.ACTION_DIMENSION,
            f"the policy's actions are {shape}, the suite takes ({ACTION_SIZE},)",
            "take a checkpoint that was trained on LIBERO",
        )


def _assign(keys: list[str], config: Any) -> dict[str, str]:
    """Our picture for each key: by name, then by order. Keys of empty cameras get none: the class fills them itself."""
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
            f"the policy wants {len(keys) - named_empty} cameras ({', '.join(keys)}), and there are two "
            f"({_SCENE}, {_WRIST}): {', '.join(rest)} would see nothing",
            "if it was trained without, say so by empty_cameras in its config.json",
        )
    return {key: assigned[key] for key in keys if key in assigned}


def _height_and_width(shape: tuple[int, ...]) -> tuple[int, int]:
    if len(shape) != 3:
        raise _unfit(
            fit.PICTURE_SIZE,
            f"the policy wants a picture of shape {shape}, a suite's are (3, height, width)",
            "look at input_features in its config.json",
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
    """Load a policy, and try it out: what it draws, whether it batches, and the shape of its actions.

    Args:
        where: a folder that ``save_pretrained`` or lerobot-train wrote, or a model of the hub, ``OWNER/NAME`` or
            ``OWNER/NAME@REVISION``.
        device: ``auto`` (cuda, mps, cpu: the first there is) or one that torch knows, such as ``cuda:1``.
        folder: what a relative path is relative to.
        replan: how many steps of a chunk to execute by default; None: the config's ``n_action_steps``.

    Raises:
        VlaError: lerobot is missing, there is no such policy or it cannot be fetched, it was saved without processors,
            or it does not fit: other cameras, state or actions, or state of episodes that cannot be kept apart.
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
        raise VlaError(f"{option}: an adapter (use_peft); merge it into its base first (PEFT's merge_and_unload)")
    config.device = device
    if hasattr(config, "pretrained_backbone_weights"):
        # They would be downloaded, and then replaced by the policy's own.
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
    """A policy in memory, as a training loop has it, tried out as `load` does; its weights stay where they are.

    It may be kept while the training goes on: the answers are always those of the weights as they are then.

    Args:
        policy: lerobot's ``PreTrainedPolicy``, in evaluation mode; unwrapped, where accelerate or peft wraps it.
        preprocessor: its pipeline, as ``make_pre_post_processors`` gives it.
        postprocessor: likewise.
        replan: how many steps of a chunk to execute by default; None: the config's ``n_action_steps``.

    Raises:
        VlaError: it is in training mode, it is no policy of lerobot's, or it does not fit, as for `load`.
    """
    what = f"of_policy: {type(policy).__name__}"
    if not hasattr(getattr(policy, "config", None), "input_features") or not hasattr(policy, "select_action"):
        raise VlaError(f"{what} is no policy of lerobot's; unwrap it first: accelerator.unwrap_model(policy)")
    if policy.training:
        raise VlaError(f"{what} is in training mode, and its answers are random: call policy.eval() before")
    renames: dict[str, str] = {}
    for step in getattr(preprocessor, "steps", ()):
        renames.update(getattr(step, "rename_map", None) or {})
    device = str(next(policy.parameters()).device)

    inputs = _guarded(lambda: read_inputs(policy.config, renames), what)
    asked = (policy, preprocessor, postprocessor, inputs, device, replan)
    return cast("LerobotPolicy", _guarded(lambda: make_policy(*asked), f"{what} on {device}"))


def check(where: str, folder: Path = Path()) -> None:
    """Refuse early what cannot be loaded, without importing torch or asking the hub; the hub's models pass.

    Args:
        where: as for `load`.
        folder: what a relative path is relative to.

    Raises:
        VlaError: lerobot is not installed, or there is no such folder, or it is no policy's.
    """
    option = f"--vla-model=lerobot:{where}"
    if find_spec("lerobot") is None:
        raise VlaError(_not_installed(option, "there is none"))
    place = _find_here(option, where, folder)
    if place is not None:
        _check_files(option, place)


def digest(where: str, folder: Path = Path()) -> str | None:
    """Names the content of a policy: sha256 (hex) over its config, processors and weights; None: not on this machine.

    Args:
        where: as for `load`; nothing is downloaded.
        folder: what a relative path is relative to.
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
        "for that kind of policy, such as 'lerobot[smolvla]'"
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
        raise VlaError(f"{option}: there is no device {device!r} ({text}); auto takes what there is") from error
    return device


def _find(option: str, where: str, folder: Path) -> Path:
    """The folder of a policy, downloaded where it has to be."""
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
            f"({', '.join((_CONFIG, _WEIGHTS, *_PROCESSORS))}) could not be fetched: {_short(error)}. Without a "
            f"network give a folder: `hf download {name} --local-dir DIR` where there is one, then "
            "--vla-model=lerobot:DIR"
        ) from error


def _find_here(option: str, where: str, folder: Path) -> Path | None:
    """The folder of a policy on this machine; None for what may be a model of the hub. Raises VlaError."""
    place, path = _local(where, folder), _path(where, folder)
    if place is not None:
        return place
    if path.exists():
        raise VlaError(
            f"{option}: {path} has no {_CONFIG}; expected the folder that save_pretrained wrote (lerobot-train: "
            "OUTPUT/checkpoints/last/pretrained_model)"
        )
    if not _HUB_ID.fullmatch(where):
        raise VlaError(f"{option}: there is no folder {path}; expected one, or OWNER/NAME[@REVISION] of the hub")
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
            f"{option}: {place} has no {' and no '.join(missing)}, so how to normalise is not known. Policies saved "
            "before lerobot 0.4 have it in their weights: python -m lerobot.processor.migrate_policy_normalization "
            "--pretrained-path DIR makes a folder that has them"
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
    """What a policy reads beside its own folder, as the end of a sentence: tokenizers and configs of base models."""
    names = [getattr(config, "vlm_model_name", None), getattr(config, "tokenizer_path", None)]
    names += [(step.get("config") or {}).get("tokenizer_name") for step in _steps(saved[_PROCESSORS[0]])]
    found = sorted({name for name in names if isinstance(name, str) and name})
    if not found:
        return ""
    return (
        f" (it also reads {', '.join(found)}, a folder or from the hub; without a network have it in the hub's cache, "
        f"`hf download {found[0]}`, or write a folder into {_CONFIG} and {_PROCESSORS[0]})"
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


# A loaded lerobot policy as a `BatchPolicy`: batches where that changes no answer, one at a time where it would.

MOST = 1024
"""Questions that a policy takes at once, where it batches; ``--vla-max-batch`` is the limit that people set."""

# How far apart two answers to one question may be: asked alone twice, and asked alone and in a batch. A policy whose
# answers are further apart is asked one at a time.
_AGAIN, _IN_BATCH = 1e-5, 5e-2
_TRIAL_INSTRUCTION = "put the bowl on the plate"
_TRIAL_SIZE = 256

Processor = Callable[[Any], Any]


@dataclass
class LerobotSession:
    """What belongs to one episode.

    Attributes:
        instruction: what the robot is told.
        rng: the episode's; seeded anew before every question.
        samples: how many further draws of each chunk are wished for.
        memory: the attributes in which lerobot's class keeps what an episode left; empty where it keeps nothing.
    """

    instruction: str
    rng: np.random.Generator
    samples: int = 0
    memory: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Manner:
    """How a policy is asked.

    Attributes:
        chunks: by ``predict_action_chunk``; else by ``select_action``, one action a control step.
        noise: the shape of the noise that an answer is made from, which is drawn from the episode's generator and
            handed over; None: none is handed over.
        apart: it draws from torch's global generator or remembers earlier questions: before a question that generator
            is seeded from the episode's, and what the class remembers is exchanged for what the episode left.
        batches: several questions at once get the answers that each would get alone.
    """

    chunks: bool
    noise: tuple[int, int] | None = None
    apart: bool = False
    batches: bool = False


class LerobotPolicy:
    """Weights that all episodes share.

    Attributes:
        max_batch: questions at once; 1 for a class that draws its noise itself or keeps a history of the episode.
        reads: the observations that are needed.
        replan: how many steps of a chunk are executed, unless ``--vla-replan`` says otherwise.
        manner: how it is asked.
        device: where its weights are.
    """

    max_batch: int
    reads: Sequence[str]
    replan: int | None
    manner: Manner

    def __init__(
        self, model: Any, before: Processor, after: Processor, inputs: Inputs, device: str, manner: Manner
    ) -> None:
        """See `make_policy`, which finds out the manner."""
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
        """What its config says of it; `read_inputs` has refused what does not fit."""
        return Traits(
            action_size=self._model.config.output_features[ACTION].shape[0],
            reads=tuple(self.reads),
            state_size=None if self._inputs.state is None else STATE_SIZE,
            draws=True if self.manner.noise is not None else None,
        )

    @property
    def weights(self) -> dict[str, Any]:
        """All that an answer depends on, by name: the weights, and what the processors normalise by."""
        found = {f"model.{name}": value for name, value in self._model.state_dict().items()}
        for which, pipeline in (("before", self._before), ("after", self._after)):
            for number, step in enumerate(getattr(pipeline, "steps", ())):
                state = step.state_dict() if hasattr(step, "state_dict") else {}
                found |= {f"{which}.{number}.{name}": value for name, value in state.items()}
        return found

    def begin(self, episode: Episode) -> LerobotSession:
        """A session with nothing in its memory."""
        # Weights that a memory points to are shared, not copied.
        shared = {id(part): part for part in (*self._model.modules(), *self._model.parameters())}
        # What draws its noise itself, or draws none, has no further draws that could be asked for.
        samples = episode.wishes.samples if self.manner.noise is not None else 0
        return LerobotSession(episode.instruction, episode.rng, samples, copy.deepcopy(self._fresh, shared))

    def act(
        self, sessions: Sequence[LerobotSession], observations: Sequence[Observation]
    ) -> list[NDArray[np.float64] | Answer]:
        """The chunks (k, 7), after the policy's own postprocessor; with samples where a session wishes for some.

        Samples are asked for after the chunks, from noise that is drawn after theirs: what is executed is the same, bit
        for bit, whether samples are wished for or not.
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
        """(n, k, 7) of each session; None: it wishes for none. The same observation, as often in one question as there
        are samples, or as there are sessions where that is more, which is what a device is known to hold."""
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
        """Chunks of one question; a session that stands in it several times has new noise each time."""
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
            # The generator is put back: in the user's own process others draw from it too.
            with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []), torch.no_grad():
                torch.manual_seed(int(session.rng.integers(2**63)))
                if self.manner.chunks:
                    chunk = self._model.predict_action_chunk(batch)
                else:
                    chunk = self._model.select_action(batch)[:, None]
            session.memory = {name: vars(self._model)[name] for name in session.memory}
        finally:
            # And the model has no memory of the episode: it is what it was, also to its digest.
            vars(self._model).update(before)
        return self._finish(chunk)

    def _batch(self, sessions: Sequence[LerobotSession], observations: Sequence[Observation]) -> dict[str, Any]:
        """What the preprocessor takes: pictures (B, 3, H, W) float32 in [0, 1], state (B, 8) float32, instructions."""
        batch: dict[str, Any] = {"task": [session.instruction for session in sessions]}
        together = as_observations(observations)
        for key, name in self._inputs.pictures.items():
            if key in self._inputs.sizes:
                size = self._inputs.sizes[key]
                pictures = np.stack([resize_with_padding(observation[name], *size) for observation in observations])
            else:
                pictures = together.stacked(name)
            # As bytes to the device: a quarter of the way's load.
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
    """A policy that is asked in the best manner that it allows, as a few trial questions show.

    Args:
        model: lerobot's ``PreTrainedPolicy`` on its device.
        before: its preprocessor.
        after: its postprocessor.
        inputs: what it sees.
        device: torch's name.
        replan: instead of the config's ``n_action_steps``.

    Raises:
        VlaError: it does not answer, its actions are not (k, 7), or it keeps state of an episode where it cannot be
            taken out.
    """

    def policy_of(manner: Manner) -> LerobotPolicy:
        return LerobotPolicy(model, before, after, inputs, device, manner)

    # What trials draw is nobody else's.
    with torch.random.fork_rng(devices=[torch.device(device)] if device.startswith("cuda") else []):
        policy = policy_of(_find_manner(policy_of, model.config))
    if replan is not None and policy.manner.chunks:
        policy.replan = replan
    return policy


def _find_manner(policy_of: Callable[[Manner], LerobotPolicy], config: Any) -> Manner:
    steps = Manner(chunks=False, apart=True)
    # A history is of every control step, and chunks are asked for less often.
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
        raise VlaError(f"the policy does not answer a trial question: {describe(trouble)}") from trouble


def _repeats(policy_of: Callable[[Manner], LerobotPolicy], manner: Manner) -> Manner | None:
    """The manner, and whether it batches, where an answer depends on nothing but its question; else None."""
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
    """The manner, where an episode's answers do not show that another episode was in between. Raises VlaError."""
    policy = policy_of(manner)
    alone = _Trial(policy, 0)
    expected = [alone.ask(), alone.ask()]
    one, other = _Trial(policy, 0), _Trial(policy, 1)
    for answer in expected:
        if not np.allclose(answer, one.ask(), rtol=_IN_BATCH, atol=_IN_BATCH):
            raise VlaError(
                "the policy keeps what it knows of an episode where it cannot be taken out, so that one episode would "
                "change the next"
            )
        other.ask()
    return manner


class _Trial:
    """An episode of trial questions, all the same one, which follows from a seed."""

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
        """The session as it is before every question: its generator seeded anew."""
        self._session.rng = np.random.default_rng(self._seed)
        return self._session

    def ask(self) -> NDArray[np.float64]:
        """The answer. Raises VlaError where it is no actions (k, 7), or whatever the policy raises."""
        (given,) = self._policy.act([self.prepared()], [self.observation])
        answer = np.asarray(given)
        if answer.ndim != 2 or answer.shape[1] != ACTION_SIZE or not len(answer):
            raise VlaError(f"the policy's actions are {answer.shape[1:]}, expected ({ACTION_SIZE},)")
        return answer


def _own_replan(config: Any) -> int | None:
    steps = getattr(config, "n_action_steps", None)
    return steps if isinstance(steps, int) and steps > 0 else None


def _plain_attributes(model: Any) -> dict[str, Any]:
    """What a class may remember: its attributes that are neither torch's own nor its config."""
    names = set(vars(model)) - set(vars(torch.nn.Module())) - {"config"}
    return {name: vars(model)[name] for name in sorted(names)}
