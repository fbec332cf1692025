"""Names of openpi's websocket protocol, and what pytest-vla's own server and client say to each other beyond it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_vla.policies.traits import Traits

DEFAULT_PORT = 8000

OBSERVATIONS: Mapping[str, str] = {
    "observation/image": "agentview_image",
    "observation/wrist_image": "robot0_eye_in_hand_image",
    "observation/state": "state",
}
"""What openpi's LIBERO client sends, and which of our observations each is. Beside them is the `PROMPT`."""

PROMPT = "prompt"

OURS = "pytest_vla"
"""The key by which pytest-vla's own server and client know each other: in the metadata, and in each request."""

VERSION = 1


@dataclass(frozen=True)
class Served:
    """What pytest-vla's own server says of its policy when somebody connects.

    Attributes:
        reads: the observations that a question has; None: all that there are.
        replan: how many steps of a chunk are executed; None: all.
        digest: names the content that the policy is made of; None: not known.
        traits: what the policy says of itself.
    """

    reads: tuple[str, ...] | None
    replan: int | None = None
    digest: str | None = None
    traits: Traits = field(default_factory=Traits)

    def metadata(self) -> dict[str, Any]:
        """What is sent on connection, in openpi's place for it."""
        reads = None if self.reads is None else list(self.reads)
        said = {"reads": reads, "replan": self.replan, "digest": self.digest, "traits": self.traits.table()}
        return {OURS: {"protocol": VERSION, **said}}

    @classmethod
    def of(cls, metadata: Mapping[Any, Any]) -> "Served | None":
        """What `metadata` made; None: it is another server's. Raises ValueError, or VlaError for its traits."""
        if OURS not in metadata:
            return None
        table = metadata[OURS]
        version = table.get("protocol") if isinstance(table, dict) else None
        if version != VERSION:
            raise ValueError(
                f"the server speaks version {version!r} of pytest-vla's protocol, and this is version {VERSION}: "
                "install the same pytest-vla on both machines"
            )
        reads, replan, digest, traits = (table.get(name) for name in ("reads", "replan", "digest", "traits"))
        if not (reads is None or (isinstance(reads, list) and all(isinstance(name, str) for name in reads))):
            raise ValueError("the server does not say what its policy reads")
        if not (replan is None or (type(replan) is int and replan >= 1)):
            raise ValueError(f"the server's replan is {str(replan)[:40]}, and no number of steps")
        if not (digest is None or isinstance(digest, str)) or not isinstance(traits, dict):
            raise ValueError("the server's digest is a text, and its traits are a table")
        return cls(None if reads is None else tuple(reads), replan, digest, Traits.of(traits))
