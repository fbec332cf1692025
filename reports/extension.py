"""The parts of ``pytest-vla report`` that are no benchmark's own."""

from pytest_vla.entries import PaperEntry, SectionEntry

_ON_REQUEST = ("evaluators", "time-to-success", "paper")

# Of each its name, its module in `pytest_vla.reports`, its place on the page, and what it is about.
_SECTIONS = (
    ("success", "success", 5, "success of imported logs by task"),
    ("robustness", "robustness", 10, "robustness to variations by dimension and level"),
    ("language", "language", 20, "success under paraphrases, PRIDE, failure types"),
    ("safety", "safety", 25, "cumulative cost beside success, by literal and over an episode"),
    ("looking", "looking", 30, "behaviour without vision"),
    ("foretelling", "foretelling", 35, "whether uncertainty predicts failure, by moment"),
    ("labels", "labels", 36, "correlation of metrics with people's quality labels"),
    ("economy", "economy", 37, "hand path compared with the expert's"),
    ("evaluators", "evaluators", 38, "success under the step budget of each published evaluator, published numbers"),
    ("time-to-success", "time_to_success", 39, "steps to success, and whether two models differ in them"),
    ("paper", "papers", 39, "a paper's tables and figures, with --paper"),
    ("metrics", "further", 40, "metrics of packages and projects"),
)


def pytest_vla_sections() -> list[SectionEntry]:
    """Return the sections that are no benchmark's own."""
    at = "pytest_vla.reports."
    occlusion = "where the policy looks, with --occlusion and another format than html"
    return [
        *(
            SectionEntry(
                name,
                about,
                f"{at}{module}:section",
                place,
                f"{at}{module}:schema",
                on_request=name in _ON_REQUEST,
            )
            for name, module, place, about in _SECTIONS
        ),
        SectionEntry("occlusion", occlusion, f"{at}looking:occlusion_section", 31, f"{at}looking:occlusion_schema"),
    ]


def pytest_vla_papers() -> list[PaperEntry]:
    """Return the papers that are of no suite."""
    at = "pytest_vla.reports."
    return [
        PaperEntry("vla-uq", "uncertainty and quality metrics, arXiv 2507.17049", f"{at}labels:VLA_UQ"),
        PaperEntry("vlatest", "VLATest's scenes, arXiv 2409.12894", f"{at}papers:VLATEST", has_models=False),
    ]
