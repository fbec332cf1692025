"""The parts of ``pytest-vla report`` that are no benchmark's own."""

from pytest_vla.entries import SectionEntry


def pytest_vla_sections() -> list[SectionEntry]:
    """Robustness, the language, costs, looking, what foretells failure, labels, the hand's way, further numbers."""
    at = "pytest_vla.reports.builtin"
    return [
        SectionEntry("robustness", "robustness to variations by dimension and level", f"{at}:robustness", 10),
        SectionEntry("language", "success under paraphrases, PRIDE, failure types", f"{at}:language", 20),
        SectionEntry("safety", "cumulative cost beside success, by literal and over an episode", f"{at}:safety", 25),
        SectionEntry("looking", "what a policy does that does not see", f"{at}:looking", 30),
        SectionEntry("foretelling", "whether uncertainty foretells failure, by moment", f"{at}:foretelling", 35),
        SectionEntry("labels", "whether metrics go with people's labels of quality", f"{at}:labels", 36),
        SectionEntry("economy", "how far the hand goes, beside the expert's", f"{at}:economy", 37),
        SectionEntry("metrics", "further numbers of episodes, which others add", f"{at}:further", 40),
    ]
