"""The parts of ``pytest-vla report`` that are no benchmark's own."""

from pytest_vla.entries import SectionEntry


def pytest_vla_sections() -> list[SectionEntry]:
    """Robustness, the language, costs, looking, what foretells failure, labels, the hand's way, further numbers."""
    at, shape = "pytest_vla.reports.builtin", "pytest_vla.reports.builtin_schemas"
    return [
        SectionEntry(
            "robustness",
            "robustness to variations by dimension and level",
            f"{at}:robustness",
            10,
            f"{shape}:robustness",
        ),
        SectionEntry(
            "language", "success under paraphrases, PRIDE, failure types", f"{at}:language", 20, f"{shape}:language"
        ),
        SectionEntry(
            "safety",
            "cumulative cost beside success, by literal and over an episode",
            f"{at}:safety",
            25,
            f"{shape}:safety",
        ),
        SectionEntry("looking", "what a policy does that does not see", f"{at}:looking", 30, f"{shape}:looking"),
        SectionEntry(
            "foretelling",
            "whether uncertainty foretells failure, by moment",
            f"{at}:foretelling",
            35,
            f"{shape}:foretelling",
        ),
        SectionEntry(
            "labels", "whether metrics go with people's labels of quality", f"{at}:labels", 36, f"{shape}:labels"
        ),
        SectionEntry("economy", "how far the hand goes, beside the expert's", f"{at}:economy", 37, f"{shape}:economy"),
        SectionEntry(
            "metrics", "further numbers of episodes, which others add", f"{at}:further", 40, f"{shape}:further"
        ),
    ]
