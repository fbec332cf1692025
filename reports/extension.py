"""The parts of ``pytest-vla report`` that are no benchmark's own."""

from pytest_vla.entries import SectionEntry


def pytest_vla_sections() -> list[SectionEntry]:
    """Robustness, the language, costs, whether a policy looks, and further numbers."""
    at = "pytest_vla.reports.builtin"
    return [
        SectionEntry("robustness", "robustness to variations by dimension and level", f"{at}:robustness", 10),
        SectionEntry("language", "success under paraphrases, PRIDE, failure types", f"{at}:language", 20),
        SectionEntry("safety", "cumulative cost beside success, by literal and over an episode", f"{at}:safety", 25),
        SectionEntry("looking", "what a policy does that does not see", f"{at}:looking", 30),
        SectionEntry("metrics", "further numbers of episodes, which others add", f"{at}:further", 40),
    ]
