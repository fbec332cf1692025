"""Data folders with a list of LIBERO-Plus's tasks."""

import json
import re
from pathlib import Path

from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Task
from pytest_vla.suites.libero_plus.listing import LIST
from tests.support.data import libero_data

BOWL = "put_the_bowl_on_the_plate"
PLAIN = "view_0_0_100_0_0_initstate_0"

OTHERS = {
    "light": f"{BOWL}_light_8",
    "table": f"{BOWL}_table_3",
    "tb": f"{BOWL}_tb_2",
    "language": f"{BOWL}_language_5_{PLAIN}",
    "level": f"{BOWL}_moved_level2_sample1",
    "add": f"{BOWL}_add_9",
    "camera": f"{BOWL}_view_30_15_100_0_0_initstate_0",
    "robot": f"{BOWL}_view_0_0_100_0_0_initstate_150",
    "noise": f"{BOWL}_{PLAIN}_noise_33",
}
CATEGORY = {
    "light": "Light Conditions",
    "table": "Background Textures",
    "tb": "Background Textures",
    "language": "Language Instructions",
    "level": "Objects Layout",
    "add": "Objects Layout",
    "camera": "Camera Viewpoints",
    "robot": "Robot Initial States",
    "noise": "Sensor Noise",
}


def listed(folder: Path, names: dict[str, str] | None = None) -> Path:
    """A data folder with LIBERO's data and a list of some entries."""
    (folder / "libero").symlink_to(libero_data())
    package = folder / "libero_plus" / "libero" / "libero"
    (package / "benchmark").mkdir(parents=True)
    rows = [
        {"id": number, "name": name, "category": CATEGORY[key], "difficulty_level": number % 5 + 1}
        for number, (key, name) in enumerate((names or OTHERS).items(), 1)
    ]
    (package / LIST).write_text(json.dumps({"libero_goal": rows}))
    return package


def task_in(folder: Path) -> Task:
    return load_suite("libero_goal", data=folder).task(BOWL)


def bddl(package: Path, name: str, problem: str, language: str = "Put the bowl on the plate") -> Path:
    text = (libero_data() / "bddl_files" / "libero_goal" / f"{BOWL}.bddl").read_text()
    text = re.sub(r"\(problem \w+\)", f"(problem {problem})", text)
    text = re.sub(r"\(:language [^)]*\)", f"(:language {language})", text)
    file = package / "bddl_files" / "libero_goal" / f"{name.partition('_view_')[0]}.bddl"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file
