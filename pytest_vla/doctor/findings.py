"""What the doctor may find: a stable code for each cause, with the evidence and the lines that mend it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

WELL, WORLD, UNKNOWN, SOME_TASKS, CLOSED_LOOP = "VLA-D001", "VLA-D002", "VLA-D060", "VLA-D061", "VLA-D070"
NO_CAMERA, NO_STATE, NO_FINGER, NO_LANGUAGE = "VLA-D014", "VLA-D024", "VLA-D025", "VLA-D030"
OTHER_TASK, RARELY_CLOSES, LAG, RATE, LONG_CHUNK = "VLA-D031", "VLA-D042", "VLA-D050", "VLA-D051", "VLA-D052"
OTHER_SCALE, OTHER_TABLE = "VLA-D043", "VLA-D044"
OTHER_INPUT, OTHER_WORDING, RECORDED_OTHERWISE = "VLA-D026", "VLA-D032", "VLA-D003"

DEFAULT_DEMONSTRATIONS = 16
"""How many demonstrations are used: a few questions along many say more than many along a few, which are alike."""

CODES: Mapping[str, str] = {
    WELL: "nothing is wrong with the wiring",
    WORLD: "the simulator does not accept the demonstrations, or their actions are to be read otherwise",
    RECORDED_OTHERWISE: "the demonstrations recorded pictures or state otherwise than the suite shows them",
    "VLA-D010": "pictures are turned or mirrored",
    "VLA-D011": "one camera's picture is turned or mirrored",
    "VLA-D012": "red and blue are exchanged",
    "VLA-D013": "the cameras are exchanged",
    NO_CAMERA: "a camera's picture has no effect: it is black, under another name, or scaled to nearly nothing",
    "VLA-D015": "pictures have another range of values",
    "VLA-D016": "pictures are cut or resized otherwise",
    "VLA-D020": "the state is in another order",
    "VLA-D021": "the state's rotation is in another format",
    "VLA-D022": "the state's fingers are otherwise",
    "VLA-D023": "the state has other units",
    NO_STATE: "the state has no effect: it is zero or not sent",
    NO_FINGER: "a part of the state has no effect",
    OTHER_INPUT: "the policy is shown another observation in place of the state",
    NO_LANGUAGE: "the instruction has no effect: it is empty, or its words are not known",
    OTHER_TASK: "the policy is told the instruction of another task",
    OTHER_WORDING: "the instruction has another wording",
    "VLA-D040": "the gripper's sign is inverted",
    "VLA-D041": "the gripper has another range",
    RARELY_CLOSES: "the gripper closes too rarely: its threshold",
    OTHER_SCALE: "actions have another scale",
    OTHER_TABLE: "actions are normalised by another table",
    "VLA-D045": "actions are absolute poses",
    "VLA-D046": "actions are in another frame, or an axis is inverted",
    "VLA-D047": "the dimensions of actions are in another order",
    LAG: "actions come too early or too late",
    RATE: "actions are of another control rate",
    LONG_CHUNK: "too many, or too few, steps of each chunk are executed",
    UNKNOWN: "the policy does not know these demonstrations: weights that did not load, or of other tasks or data",
    SOME_TASKS: "the policy knows some of these tasks, and not others",
    CLOSED_LOOP: "the policy knows the demonstrations and fails in closed loop, or its episodes break",
}
"""Every code, with what it says."""


@dataclass(frozen=True)
class DoctorFinding:
    """A cause.

    Attributes:
        code: one of `CODES`.
        cause: what is wrong here, in words.
        evidence: why, in a sentence with numbers.
        confidence: "certain", "likely" or "possible".
        lines: of an adapter in Python, or what to do.
        numbers: the evidence's, by name.
        alternatives: codes of other causes that the demonstrations cannot tell apart from this one.
    """

    code: str
    cause: str
    evidence: str
    confidence: str
    lines: tuple[str, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)
    alternatives: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tried:
    """A wiring that was tried.

    Attributes:
        code: of the finding that it would be the cure of.
        name: in words.
        gain: by how much closer the policy's actions come to the demonstrated ones, as a share of these actions' mean
            absolute deviation from their median, over the wirings that had been chosen when it was last tried; None if
            the policy refuses it.
        low, high: its interval of 95%.
        questions: that it was tried on.
        refused: the policy's message if it refuses what it is shown, or empty.
        under: names of the wirings that were chosen before, on top of which it was tried.
    """

    code: str
    name: str
    gain: float | None
    low: float = 0.0
    high: float = 0.0
    questions: int = 0
    refused: str = ""
    under: tuple[str, ...] = ()


@dataclass(frozen=True)
class Diagnosis:
    """What was found.

    Attributes:
        findings: the most certain cause first; the last one says that nothing is wrong, if there is no other.
        explained: the share of demonstrated actions' variance that is explained as wired today, and as proposed.
        by_dimension: the same by dimension, "today" and "proposed".
        yardsticks: the share that no motion and the mean action explain.
        tried: the wirings.
        same: names of wirings that the demonstrations cannot tell apart from a proposed one, by its name.
        questions: how many the policy answered along the demonstrations.
        answers: (m, 7) by "today" and "proposed", for figures, with the demonstrated actions of the same rows by
            "shown_today" and "shown": they differ if what is proposed shifts actions in time.
        proposal: `pytest_vla.doctor.diagnosis.WiringProposal`, which makes the proposed changes.
        notes: what cannot be told, and what may well be so.
    """

    findings: tuple[DoctorFinding, ...]
    explained: tuple[float, float]
    by_dimension: Mapping[str, tuple[float, ...]]
    yardsticks: Mapping[str, float]
    tried: tuple[Tried, ...]
    same: Mapping[str, tuple[str, ...]]
    questions: int
    answers: Mapping[str, Any] = field(default_factory=dict, repr=False)
    proposal: Any = field(default=None, repr=False)
    notes: tuple[str, ...] = ()

    @property
    def is_well(self) -> bool:
        """Whether nothing was found."""
        return all(each.code == WELL for each in self.findings)


@dataclass(frozen=True)
class Replayed:
    """Demonstrations played back open loop from their own starts, under one reading of their actions.

    Attributes:
        reading: of the actions, in words; "as recorded" first.
        succeeded, count: of the demonstrations.
        drift_mm: the hand's distance from where it was recorded, at the last step, the median over demonstrations; NaN
            if the recorded positions are not known.
        error: the first message of the simulator where one of them neither succeeded nor failed; or empty.
    """

    reading: str
    succeeded: int
    count: int
    drift_mm: float
    error: str = ""


@dataclass(frozen=True)
class ComparedObservation:
    """What a demonstration recorded beside what the suite shows in the same state of the simulator.

    Attributes:
        name: of the observation.
        reading: that makes ours fit the recorded best, in words; "the same" if none is needed.
        difference: what is left then: grey levels on average for a picture, the largest absolute value for a state.
        before: the same as it is.
        ours, recorded: a picture of each (H, W, 3) uint8, for the page; None for a state.
    """

    name: str
    reading: str
    difference: float
    before: float
    ours: Any = field(default=None, repr=False)
    recorded: Any = field(default=None, repr=False)


@dataclass(frozen=True)
class ClosedLoop:
    """Episodes of a policy as wired today, and as proposed.

    Attributes:
        cases: their ids.
        today, proposed: whether each succeeded; `proposed` is empty if nothing was.
        errors: of the episodes that neither succeeded nor failed, each with its message.
    """

    cases: tuple[str, ...]
    today: tuple[bool, ...]
    proposed: tuple[bool, ...] = ()
    errors: tuple[str, ...] = ()


@dataclass(frozen=True)
class Examination:
    """Everything that the doctor did, step by step; a step that was not made is None or empty.

    Attributes:
        model: the text of ``--vla-model``.
        suite: the suite's name.
        demonstrations: their names.
        diagnosis: of the policy; its findings are the result.
        replayed: readings of the actions under which demonstrations were played back.
        compared: recorded pictures and state beside ours.
        closed_loop: episodes as wired today and as proposed.
        seconds: of each step, by name.
        notes: what was left out, and why.
        adapter: Python lines of an adapter that makes all proposed changes; empty if there are none.
        exchanged: the explained variance with recorded inputs, with the suite's, and with one recorded input alone.
    """

    model: str
    suite: str
    demonstrations: tuple[str, ...]
    diagnosis: Diagnosis
    replayed: tuple[Replayed, ...] = ()
    compared: tuple[ComparedObservation, ...] = ()
    closed_loop: ClosedLoop | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    adapter: tuple[str, ...] = ()
    exchanged: Mapping[str, float] = field(default_factory=dict)

    @property
    def mended(self) -> tuple[str, ...]:
        """The codes of the findings that the adapter mends."""
        return getattr(self.diagnosis.proposal, "codes", ())

    @property
    def adapter_use(self) -> str:
        """What the adapter changes, and how to use it: other findings have to be mended elsewhere."""
        found = [each.code for each in self.diagnosis.findings]
        some = [code for code in found if code in self.mended]
        what = "all of these changes" if some == found else f"the changes of {' and '.join(some)}"
        return f"An adapter that makes {what}. Save it in a module, which is the new --vla-model:"

    @property
    def adapter_module(self) -> tuple[str, ...]:
        """The lines of a module with the adapter, whose `policy` can be named as ``--vla-model``; empty if none."""
        if not self.adapter:
            return ()
        imports = [each for each in self.adapter if each.startswith(("import ", "from "))]
        return (
            *imports,
            "from pytest_vla.doctor.examine import policy_of_one",
            "from pytest_vla.policies.load import load_policy",
            f"yours = policy_of_one(load_policy({self.model!r}))",
            *self.adapter[len(imports) :],
        )


TODAY, PROPOSED = "today", "proposed"
"""The keys of `Diagnosis.by_dimension` and `Diagnosis.answers`: as wired today, and as proposed."""

_NOT_TEXT = ("answers", "ours", "proposal", "recorded")


def examination_table(examination: Examination) -> dict[str, Any]:
    """Return an examination for JSON: without pictures and answers, and with None for numbers that are not finite.

    The keys are the attributes of `Examination`. In addition, the diagnosis has ``is_well``, ``dimensions`` (the names
    of the numbers of ``by_dimension``), and ``explained`` by "today" and "proposed"; a finding has ``meaning``.
    """
    from pytest_vla.doctor.fits import DIMENSIONS

    table: dict[str, Any] = _plain(examination)
    diagnosis = table["diagnosis"]
    diagnosis["is_well"] = examination.diagnosis.is_well
    diagnosis["dimensions"] = list(DIMENSIONS)
    diagnosis["explained"] = dict(zip((TODAY, PROPOSED), diagnosis["explained"], strict=True))
    for finding in diagnosis["findings"]:
        finding["meaning"] = CODES.get(finding["code"], "")
    return table


def _plain(value: Any) -> Any:
    """Return dataclasses as dicts, sequences as lists, and numbers of numpy as Python's."""
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value) if each.name not in _NOT_TEXT}
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    # numpy's numbers.
    value = value.item() if hasattr(value, "item") else value
    return finite(value) if isinstance(value, float) else value


def finite(value: float | None) -> float | None:
    """Return a finite number, or None."""
    return None if value is None or not math.isfinite(value) else float(value)
