"""The parts of ``pytest-vla report`` that are no benchmark's own."""

from pytest_vla.entries import SectionEntry


def pytest_vla_sections() -> list[SectionEntry]:
    """Robustness, the language, costs, looking, what foretells failure, labels, the hand's way, further numbers."""
    at = "pytest_vla.reports"
    return [
        SectionEntry(
            "robustness",
            "robustness to variations by dimension and level",
            f"{at}.robustness:section",
            10,
            f"{at}.robustness:schema",
        ),
        SectionEntry(
            "language",
            "success under paraphrases, PRIDE, failure types",
            f"{at}.language:section",
            20,
            f"{at}.language:schema",
        ),
        SectionEntry(
            "safety",
            "cumulative cost beside success, by literal and over an episode",
            f"{at}.safety:section",
            25,
            f"{at}.safety:schema",
        ),
        SectionEntry("looking", "behaviour without vision", f"{at}.looking:section", 30, f"{at}.looking:schema"),
        SectionEntry(
            "foretelling",
            "whether uncertainty predicts failure, by moment",
            f"{at}.foretelling:section",
            35,
            f"{at}.foretelling:schema",
        ),
        SectionEntry(
            "labels",
            "correlation of metrics with people's quality labels",
            f"{at}.labels:section",
            36,
            f"{at}.labels:schema",
        ),
        SectionEntry(
            "economy", "hand path compared with the expert's", f"{at}.economy:section", 37, f"{at}.economy:schema"
        ),
        SectionEntry(
            "metrics",
            "metrics of packages and projects",
            f"{at}.further:section",
            40,
            f"{at}.further:schema",
        ),
    ]
