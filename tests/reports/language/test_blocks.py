"""The language's blocks: groups of paraphrases that have the same name stand under different headings."""

from pytest_vla.metrics.language import LanguageGroup, Paraphrases
from pytest_vla.metrics.language_grounding import GroundingEstimate
from pytest_vla.metrics.language_paths import LanguageReport, ModelResults
from pytest_vla.metrics.success import success_rate
from pytest_vla.reports.html.parts import page_blocks
from pytest_vla.reports.language import language_blocks


def test_object_and_action_rows_of_one_name_have_headings() -> None:
    estimate = GroundingEstimate(50.0, (40.0, 60.0))
    one = LanguageGroup(8, estimate, estimate, estimate, estimate)
    groups = {"none": one, "addition": one}
    found = Paraphrases("template", 0.5, one, {0.5: estimate}, {("none", "hint"): one}, groups, groups, {}, {})
    nothing = success_rate("varied", [])
    model = ModelResults("m", "s", ("a-run",), (), None, nothing, found, None, {}, None, None, ())
    blocks = page_blocks(language_blocks(LanguageReport(0.5, (model,)), full=True))
    tables = [table for block in blocks for table in block.tables]
    by_heading = {table.columns[0].head: [row[0] for row in table.rows] for table in tables}
    assert by_heading["object type"] == by_heading["action type"] == ["none", "addition"]
