"""The numbers of tiny's model card as tables in Markdown, from its JSON alone."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_vla.metrics.robustness import SIGNIFICANT
from scripts.tiny_numbers import ALL, PARAPHRASES

Table = Mapping[str, Any]
Rows = list[list[str]]

MODEL, EARLY = "tiny", "tiny@early"
"""The checkpoints that ship, as ``--vla-model`` has them."""

DIMENSIONS = ("layout", "background", "light", "camera", "robot", "noise", "language", "action")
CHECKPOINTS = {"benign": "`tiny`", "early": "`tiny@early`", "deaf": "deaf", "blind": "blind"}
TOLD = {"right text": "the task's text", "blank": "nothing", "nonsense": "nonsense", "other_task": "another task's"}
LEVELS = (0, 1, 2, 3, 4, 5)
FAILURES = ("far", "undefined", "another task's path")
HEAD = """<!-- Made by scripts/tiny_card.py from docs/tiny.json: change nothing here. -->

# tiny in numbers

Percentages are of successes and failures, with 95% intervals over these tasks in brackets and over tasks like these in
parentheses, where there are enough tasks; episodes of one task and seed are one unit of them. Behind a number of
episodes stands how many further ones are in no rate, and why. Each table stands below the command that ran its
episodes.
"""


def page(card: Table, shipped: Mapping[str, str | None]) -> str:
    """All tables of the parts that were measured; what is of other weights than those that ship is named alone.

    Args:
        card: the JSON.
        shipped: the digests of the weights of `MODEL` and `EARLY`.
    """
    others = other_weights(card["parts"], shipped)
    parts = {name: part for name, part in card["parts"].items() if name not in others}
    texts = [HEAD]
    if others:
        texts.append(f"Left out, as they are of other weights than those that ship: {listed(others)}.\n")
    for title, names, rows in SECTIONS:
        known = [name for name in names if name in parts]
        if known and known[0] == names[0]:
            commands = "\n".join(parts[name]["command"] for name in known)
            texts.append(f"## {title}\n\n```bash\n{commands}\n```\n")
            texts += [f"{each}\n" for each in rows({name: parts[name]["numbers"] for name in known})]
    if failures := failure_rows(parts):
        texts.append("## How it fails\n")
        texts.append("Algorithm 1 of LIBERO-Para, by exact DTW, on the varied episodes above.\n")
        texts.append("They are compared with successes among them and their benign twins, which are in no share.\n")
        texts.append(f"{markdown(failures)}\n")
    return "\n".join(texts)


def other_weights(parts: Mapping[str, Table], shipped: Mapping[str, str | None]) -> list[str]:
    """The parts that tell of other weights than those that ship, or of ablations that were not trained beside them."""
    told = {name: part.get("beside", part["weights"]) for name, part in parts.items()}
    return [name for name, weights in told.items() if weights != shipped[EARLY if name == "early" else MODEL]]


def benign_rows(parts: Mapping[str, Table]) -> Iterator[str]:
    """Success by task, of both checkpoints."""
    yield success_table(parts)


def ablation_rows(parts: Mapping[str, Table]) -> Iterator[str]:
    """Success by task of who never hears and of who never sees, beside `tiny`'s own."""
    yield (
        "Hands fitted to the same rows in as many steps: *deaf* reads each instruction as the empty one, and "
        "*blind* is told the mean scene of training, whatever its cameras show."
    )
    yield success_table(parts)


def success_table(parts: Mapping[str, Table]) -> str:
    """A row a task, and a column a part."""
    tasks = [name for name in next(iter(parts.values())) if name.startswith("success/")]
    rows: Rows = [["task", *(f"{CHECKPOINTS[name]}, %" for name in parts), "episodes"]]
    for name in tasks:
        task = name.partition("/")[2]
        # In the order of the columns; what several have stands once.
        counts = dict.fromkeys(stands_on(each) for part in parts.values() if (each := part.get(name)) is not None)
        rows.append([f"**{task}**" if task == ALL else f"`{task}`", *(cell(part.get(name)) for part in parts.values())])
        rows[-1].append(" and ".join(counts))
    return markdown(rows)


def listening_rows(parts: Mapping[str, Table]) -> Iterator[str]:
    """What is done under other texts than the task's."""
    numbers = parts["listening"]
    rows: Rows = [["what it is told", "episodes", "does the task of the scene, %", "does what it is told, %"]]
    for name, text in TOLD.items():
        found = numbers.get(f"success/{name}")
        if found is not None:
            followed = cell(found) if name == "right text" else cell(numbers.get(f"followed/{name}"))
            rows.append([text, stands_on(found), cell(found), followed])
    yield markdown(rows)
    if (lost := numbers.get("lost share of success")) is not None:
        yield f"The report's verdict: **{lost['told']['verdict']}**."


def robustness_rows(parts: Mapping[str, Table]) -> Iterator[str]:
    """Success by dimension and level, and which dimensions' drop is told from none."""
    numbers = parts["robustness"]
    known = [name for name in DIMENSIONS if f"success/{name}/{ALL}" in numbers]
    levels = [f"L{level}" for level in LEVELS]
    rows: Rows = [["dimension", "benign", *levels[1:], "change, points", "pairs", "halves at"]]
    drops, shown = [], []
    for name in known:
        change, halves = numbers.get(f"change/{name}"), numbers.get(f"success halves at/{name}")
        row = [name, *(bare(numbers.get(f"success/{name}/{level}")) for level in levels), cell(change, signed=True)]
        rows.append([*row, stands_on(change), level_of(halves)])
        if change is not None and "interval" in change and change["interval"][1] < 0:
            drops.append(name)
            adjusted = change["told"]["p adjusted"]
            shown += [name] if adjusted is not None and adjusted < SIGNIFICANT else []
    yield markdown(rows)
    others = [name for name in known if name not in drops]
    yield f"Success drops, by an interval that leaves out zero: {listed(drops)}. It may be none: {listed(others)}."
    yield f"With Holm's correction for all dimensions: {listed(shown)}."
    yield from kind_rows(numbers)


def kind_rows(numbers: Table) -> Iterator[str]:
    """Success by kind and level."""
    kinds: dict[str, dict[str, Table]] = {}
    for name, number in numbers.items():
        if name.startswith("kind/"):
            _, kind, *level = name.split("/")
            kinds.setdefault(kind, {})[level[0] if level else "L0"] = number
    rows: Rows = [["kind", *(f"L{level}" for level in LEVELS[1:])]]
    yield "By kind, with the number of episodes:"
    rows += [[f"`{kind}`", *(counted(found.get(f"L{level}")) for level in LEVELS[1:])] for kind, found in kinds.items()]
    yield markdown(rows)


def paraphrase_rows(parts: Mapping[str, Table]) -> Iterator[str]:
    """Success and PRIDE, of trained kinds and of those that were kept out."""
    numbers = parts[PARAPHRASES]
    rows: Rows = [["paraphrases", "episodes", "success, %", "mean distance", "PRIDE", "overestimation, %"]]
    for name, found in numbers.items():
        kind, _, group = name.partition("/")
        if kind == "success":
            others = [numbers.get(f"{each}/{group}") for each in ("distance", "PRIDE", "overestimation")]
            distance = bare(others[0], digits=3)
            rows.append([group, stands_on(found), cell(found), distance, cell(others[1]), cell(others[2])])
    yield markdown(rows)
    source = numbers.get(f"PRIDE/{ALL}", {}).get("told", {})
    if source:
        low = ": the extra `language` was not installed" if source["low fidelity"] else ""
        yield f"Distances by {source['backend']}{low}."


def displacement_rows(parts: Mapping[str, Table]) -> Iterator[str]:
    """Success by how far the goal's first object was moved."""
    numbers = parts["displacement"]
    metres = [f"{tenths / 10:.1f} m" for tenths in LEVELS[1:]]
    rows: Rows = [["", "benign", *metres, "change, points", "pairs"]]
    for axis in ("x", "y"):
        found = (counted(numbers.get(f"success/displace_{axis}/{each}")) for each in metres)
        change = numbers.get(f"change/displace_{axis}")
        benign = counted(numbers.get("success/benign"))
        rows.append([f"along {axis}", benign, *found, cell(change, signed=True), stands_on(change)])
    yield markdown(rows)


def safety_rows(parts: Mapping[str, Table]) -> Iterator[str]:
    """Success, safe success and cost by level."""
    numbers = parts["safety"]
    rows: Rows = [["level", "episodes", "success, %", "success at no cost, %", "mean cost"]]
    for name, found in numbers.items():
        kind, _, level = name.partition("/")
        if kind == "success":
            cost = next((each for key, each in numbers.items() if _is_account(key, level)), None)
            safe = cell(numbers.get(f"safe success/{level}"))
            rows.append([level, stands_on(found), cell(found), safe, cell(cost)])
    yield markdown(rows)


def _is_account(key: str, level: str) -> bool:
    """Whether a number is the cost of a level by an account: the headline's is the first."""
    return key.startswith("cost by ") and key.endswith(f"/{level}")


def speed_rows(parts: Mapping[str, Table]) -> Iterator[str]:
    """The time of a question."""
    rows: Rows = [["questions at once", "median, ms", "slowest, ms"]]
    for name, found in parts["speed"].items():
        at_once = name.removeprefix("time of ").removesuffix(" at once")
        rows.append([at_once, bare(found), f"{found['told']['slowest']:.1f}"])
    yield markdown(rows)


def failure_rows(parts: Mapping[str, Table]) -> Rows:
    """Near and far failures by what was varied; the head alone is no row."""
    rows: Rows = []
    for part in ("robustness", PARAPHRASES):
        numbers = parts.get(part, {}).get("numbers", {})
        for name, near in numbers.items():
            if not name.startswith("failures/near/"):
                continue
            group = name.removeprefix("failures/near/")
            far, unlabelled, other = (numbers[f"failures/{kind}/{group}"] for kind in FAILURES)
            rows.append([group, stands_on(near), cell(near), cell(far), cell(unlabelled), cell(other)])
    other = "of those with one, on another task's path, %"
    head = ["varied", "episodes", "near, %", "far, %", "without a label, %", other]
    return [head, *rows] if rows else []


def cell(number: Table | None, *, signed: bool = False) -> str:
    """``97.5 [94.1, 99.2] (83.5, 99.5)``; a dash where nothing is known."""
    known = {} if number is None else number
    texts = [bare(number, signed=signed)]
    if (interval := known.get("interval")) is not None:
        texts.append(f"[{ends(interval, signed=signed)}]")
    if (interval := known.get("tasks_interval")) is not None:
        texts.append(f"({ends(interval, signed=signed)})")
    return " ".join(texts)


def bare(number: Table | None, *, signed: bool = False, digits: int = 1) -> str:
    """The value alone."""
    if number is None or number["value"] is None:
        return "-"
    return f"{number['value']:{'+' if signed else ''}.{digits}f}"


def counted(number: Table | None) -> str:
    """``80 (5)``: percent, and of how many."""
    if number is None:
        return "-"
    return f"{'-' if number['value'] is None else format(number['value'], '.0f')} ({stands_on(number)})"


def stands_on(number: Table | None) -> str:
    """``39; not 1 policy-raised``: episodes, or pairs, and how many further ones are not among them, by reason."""
    if number is None:
        return "0"
    reasons = ", ".join(f"{count} {reason}" for reason, count in number["not_counted"].items())
    return f"{number['episodes']}; not {reasons}" if reasons else str(number["episodes"])


def listed(names: Sequence[str]) -> str:
    """Names, or that there are none."""
    return ", ".join(names) or "none"


def level_of(number: Table | None) -> str:
    """The level at which success halves; else a dash."""
    return cell(number) if number is not None and number["value"] is not None else "-"


def ends(interval: Sequence[float], *, signed: bool = False) -> str:
    """``94.1, 99.2``."""
    return ", ".join(f"{end:+.1f}" if signed else f"{end:.1f}" for end in interval)


def markdown(rows: Rows) -> str:
    """A table; the first row is its head."""
    head, *others = rows
    lines = [f"| {' | '.join(row)} |" for row in (head, *others)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])


SECTIONS = (
    ("Success", ("benign", "early"), benign_rows),
    ("Does it listen?", ("listening",), listening_rows),
    ("Without ears, without eyes", ("deaf", "blind", "benign"), ablation_rows),
    ("Robustness", ("robustness",), robustness_rows),
    ("Paraphrases", (PARAPHRASES,), paraphrase_rows),
    ("Displaced objects, as LIBERO-PRO's Figure 6", ("displacement",), displacement_rows),
    ("What success costs", ("safety",), safety_rows),
    ("Time of a question", ("speed",), speed_rows),
)
"""Of the page: the title, the parts that are in it, the first of which has to be there, and what makes its text."""
