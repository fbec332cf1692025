"""What a kind of policy is: how ``--vla-model=KIND:TEXT`` is written, and how it becomes a policy."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_vla.policies.spec import ModelSpec

if TYPE_CHECKING:
    from pytest_vla.policies.base import BatchPolicy, Policy


@dataclass(frozen=True)
class Kind:
    """A kind of ``--vla-model``: how it is written, and how the text after the colon becomes a policy.

    The three functions take that text, and the spec that it is of.

    Attributes:
        name: what stands before the colon.
        usage: how it is written, for messages.
        takes: what the text after the colon is; None: there is none.
        load: gives the policy; raises VlaError.
        check: refuses early what cannot be loaded, by a VlaError.
        digest: names the content that the policy is made of; None: not known.
        required: whether the text has to be there.
        batches: whether it gives policies that answer in batches, which all workers share; None: some do.
        arguments: whether ``?NAME=VALUE&...`` after the text is of arguments, which `load` finds as
            `ModelSpec.arguments`; elsewhere it is part of the text.
        checkpoints: what may stand after an @ behind the name, as in ``tiny@early``; the text is then ``@early``.
        draws: whether its policies sample their actions, as far as is known without loading one
            (`pytest_vla.policies.traits.Traits.draws`).
        offered: whether messages name it among what there is; one that cannot run here is none to try.
    """

    name: str
    usage: str
    takes: str | None
    load: Callable[[str, ModelSpec], "Policy | BatchPolicy"]
    check: Callable[[str, ModelSpec], None] = lambda text, spec: None
    digest: Callable[[str, ModelSpec], str | None] = lambda text, spec: None
    required: bool = True
    batches: bool | None = False
    arguments: bool = False
    checkpoints: tuple[str, ...] = ()
    offered: bool = True
    draws: bool | None = None
