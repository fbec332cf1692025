"""Text logs of published evaluators: what loggers and terminals add changes nothing, and what is missing is noticed."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla.errors import VlaError
from pytest_vla.suites.libero.text_logs import TEXT_EVALUATORS, TextLog, is_text_log, parse_text_log
from tests.support.evaluator_logs import BAR, outcomes, text_lines, text_log
from tests.support.examples import scaled

RESULTS = outcomes("libero_goal", 2, 3, [(0, 1), (1, 2)])
PATH = Path("log.txt")

Read = list[tuple[str, tuple[int, int], bool, str, list[tuple[str, list[tuple[int, bool, str]]]]]]


def read(text: str) -> Read:
    """Return what a log says, without line numbers."""
    return [
        (
            section.suite,
            section.earlier,
            section.has_totals,
            section.open.partition(" (line")[0],
            [
                (task.text, [(each.number, each.succeeded, each.error) for each in task.episodes])
                for task in section.tasks
            ],
        )
        for section in parse(text).sections
    ]


def refused(text: str) -> str | None:
    try:
        parse(text)
    except VlaError as error:
        return str(error)
    return None


def parse(text: str) -> TextLog:
    return parse_text_log(text, PATH)


@pytest.mark.parametrize("evaluator", TEXT_EVALUATORS)
def test_each_script_writes_a_log_that_tells_its_episodes(evaluator: str) -> None:
    results = {**RESULTS, "open the top drawer and put the bowl inside": [True, "no answer", True]}
    log = parse(text_log(evaluator, "libero_goal", results))
    (section,) = log.sections
    assert (section.suite, section.earlier, section.open) == ("libero_goal", (0, 0), "")
    assert [(task.text, [each.succeeded for each in task.episodes]) for task in section.tasks] == [
        (text, [end is True for end in ends]) for text, ends in results.items()
    ]
    assert [each.error for each in section.tasks[2].episodes] == ["", "no answer", ""]
    assert section.has_totals == (evaluator in ("openpi", "openvla-oft"))
    # OpenVLA's and GR00T's are alike: the file's name tells them apart.
    alone = {"openpi": ("openpi",), "openvla-oft": ("openvla-oft",)}
    assert log.evaluators == alone.get(evaluator, ("openvla", "groot-n1.5"))


PREFIXES = ("", "INFO:root:", "2026-01-01 10:00:00,123 [INFO] ", "[10:00:00] INFO     ", "\x1b[32mINFO\x1b[0m: ")
NOISE = (
    "",
    "loading the model",
    BAR,
    "████▉   | 47/50 [03:48<00:13,  4.39s/it]",
    "  0%|          | 0/50 [00:00<?, ?it/s]",
    "Current Task: 3",
    "\x1b]0;title\x07",
    "3513",
    "UserWarning: Task success is unknown",
)


@settings(max_examples=scaled(60))
@given(st.data())
def test_prefixes_noise_and_carriage_returns_change_nothing(data: st.DataObject) -> None:
    plain = [line.removeprefix("INFO:root:") for line in text_lines("openvla", "libero_goal", RESULTS)]
    prefix, ending = data.draw(st.sampled_from(PREFIXES)), data.draw(st.sampled_from(("", "\r", BAR, "   eval.py:310")))
    lines: list[str] = []
    for line in plain:
        lines += data.draw(st.lists(st.sampled_from(NOISE), max_size=1))
        begin = data.draw(st.sampled_from(("", BAR.lstrip("\r"), "\r")))
        lines.append(f"{begin}{prefix}{line}{ending}")
    text = "\n".join(lines)
    for place in sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=20)), reverse=True):
        text = f"{text[:place]}\r{text[place:]}"
    assert is_text_log(text)
    assert read(text) == read("\n".join(plain))


@settings(max_examples=scaled(150))
@given(st.sampled_from(TEXT_EVALUATORS), st.data())
def test_a_log_that_breaks_off_is_noticed(evaluator: str, data: st.DataObject) -> None:
    text = text_log(evaluator, "libero_goal", RESULTS)
    whole = read(text)
    cut = text[: data.draw(st.integers(0, len(text) - 2))]
    if (refusal := refused(cut)) is not None:
        assert f"{PATH}, line " in refusal
        return
    sections = parse(cut).sections
    episodes = [each for section in sections for task in section.tasks for each in task.episodes]
    assert len(episodes) <= 6
    if not any(section.open for section in sections) and episodes:
        # Whole tasks: fewer than the suite has, or the script's totals are missing.
        assert len(episodes) in (3, 6)
        assert len(episodes) == 3 or evaluator in ("openvla", "groot-n1.5") or cut.count("\n") >= text.count("\n") - 5
    assert read(cut)[:1] == whole or len(read(cut)) <= 1


@settings(max_examples=scaled(100))
@given(st.sampled_from(TEXT_EVALUATORS), st.data())
def test_the_end_of_a_log_has_the_episodes_that_are_in_it(evaluator: str, data: st.DataObject) -> None:
    text = text_log(evaluator, "libero_goal", RESULTS)
    tail = text[data.draw(st.integers(0, len(text))) :]
    ((_, _, _, _, tasks),) = read(text)
    every = [(name, each) for name, some in tasks for each in some]
    for section in parse(tail).sections:
        seen = [(task.text, (e.number, e.succeeded, e.error)) for task in section.tasks for e in task.episodes]
        assert seen == every[len(every) - len(seen) :]
        if seen:
            before = every[: len(every) - len(seen)]
            assert section.earlier == (len(before), sum(each[1] for _, each in before))


@settings(max_examples=scaled(150))
@given(st.sampled_from(TEXT_EVALUATORS), st.data())
def test_a_lost_or_doubled_line_is_refused_or_changes_nothing(evaluator: str, data: st.DataObject) -> None:
    """Only lines that repeat what others say may be lost, or be there twice."""
    lines = list(text_lines(evaluator, "libero_goal", RESULTS))
    place = data.draw(st.integers(0, len(lines) - 1))
    twice = data.draw(st.booleans())
    changed = lines[:place] + ([lines[place]] * 2 if twice else []) + lines[place + 1 :]
    text, was = "\n".join(changed), read("\n".join(lines))
    if (refusal := refused(text)) is not None:
        assert f"{PATH}, line " in refusal
        return
    found = read(text)
    if any(key in lines[place] for key in ("Task: ", "Starting", "Success: ", "# ")):
        assert found[0][3], "an episode without a line is open at the end"
    elif "suite" in lines[place]:
        assert [each[1:] for each in found] == [each[1:] for each in was]
    else:
        assert [each[:2] + each[4:] for each in found] == [each[:2] + each[4:] for each in was]


@pytest.mark.parametrize(
    ("line", "instead", "told"),
    [
        ("# successes: 2 (66.7%)", "# successes: 3 (100.0%)", "a failure|a success|add up"),
        ("# successes: 2 (66.7%)", "# successes: 2 (67.7%)", "are not 67.7%"),
        ("# successes: 2 (66.7%)", "# successes: 2 (66", "cut off"),
        ("Current task success rate: 0.6666666666666666", "Current task success rate: 0.5", "no success rate of 0.5"),
        ("Current total success rate: 0.6666666666666666", "Current total success rate: 0.8", "no success rate of 0.8"),
        ("Starting episode 2...", "Starting episode 3...", "follows episode 1"),
        ("# episodes completed so far: 2", "# episodes completed so far: 4", "after 1"),
        ("Success: False", "Success: Fal", "cut off"),
        ("Starting episode 2...", "Starting episode 2...\nCaught exception: x\nSuccess: True", "ended by an exception"),
        ("Using default initial states", "Using initial states from my.json", "my.json"),
    ],
)
def test_what_contradicts_itself_is_refused_by_its_line(line: str, instead: str, told: str) -> None:
    lines = list(text_lines("openvla-oft", "libero_goal", RESULTS))
    place = lines.index(line)
    text = "\n".join([*lines[:place], instead, *lines[place + 1 :]])
    with pytest.raises(VlaError, match=told) as caught:
        parse(text)
    number = int(str(caught.value).partition("line ")[2].partition(":")[0])
    assert place < number <= place + 9


def test_a_log_after_another_is_a_part_of_its_own() -> None:
    goal, spatial = (text_log("openpi", name, outcomes(name, 2, 2)) for name in ("libero_goal", "libero_spatial"))
    assert [section.suite for section in parse(goal + spatial).sections] == ["libero_goal", "libero_spatial"]
    bare = "\n".join(line for line in (goal + spatial).split("\n") if "suite" not in line)
    assert [len(section.tasks) for section in parse(bare).sections] == [2, 2]


def test_a_text_without_such_lines_is_no_log() -> None:
    for text in ("", "Task: x", "Success: True", '{"task": 1}', "Episode 3: success"):
        assert not is_text_log(text)
        assert parse(text).sections == ()
