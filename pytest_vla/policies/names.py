"""The names that people type for published checkpoints: ``--vla-model=pi05`` is one of lerobot's on LIBERO."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Checkpoint:
    """A published checkpoint.

    Attributes:
        name: what people type.
        hub_id: of the model on https://huggingface.co.
        source: the page that names the checkpoint for LIBERO.
        replan: how many steps of a chunk its publishers execute, where their evaluation says another number than the
            checkpoint's own config; None: the config's.
        offered: whether messages name it among what there is.
    """

    name: str
    hub_id: str
    source: str
    replan: int | None = None
    offered: bool = True


_DOCS = "https://huggingface.co/docs/lerobot"

CHECKPOINTS = (
    Checkpoint("pi0", "lerobot/pi0_libero_finetuned", "https://huggingface.co/lerobot/pi0_libero_finetuned"),
    # "We set n_action_steps=10, matching the original OpenPI implementation"; the config says 50.
    Checkpoint("pi05", "lerobot/pi05_libero_finetuned", f"{_DOCS}/libero", replan=10),
    Checkpoint("smolvla", "HuggingFaceVLA/smolvla_libero", "https://github.com/huggingface/lerobot/issues/1369"),
    # Gives absolute poses (lerobot-eval runs it with --env.control_mode=absolute): loading it says so.
    Checkpoint("xvla", "lerobot/xvla-libero", f"{_DOCS}/xvla", offered=False),
)
