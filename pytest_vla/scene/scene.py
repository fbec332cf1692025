"""The facts of a compiled scene beside MuJoCo's model: bodies, sites, placement. Plain values, JSON-able."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from pytest_vla.plan.task import MujocoScene
from pytest_vla.scene.catalog import CATEGORIES, Category, category_from_json
from pytest_vla.scene.panda import ROBOSUITE_1_4
from pytest_vla.scene.problem import Problem
from pytest_vla.scene.workspaces import workspace

# Raised when compose.py or this file changes what is compiled or recorded, so that old cache entries are not used.
FORMAT = 1

FRONT_CAMERA = "agentview"
"""The camera of LIBERO's scenes that looks from outside."""


@dataclass(frozen=True)
class SceneBody:
    """An object or fixture. Offsets in metres from its root body: top and bottom (z), horizontal radius.

    `kind` is what its category declares: how it is placed, when it counts as open or on.
    """

    name: str
    category: str
    is_fixture: bool
    root_body: str
    joints: tuple[str, ...]
    contact_geoms: tuple[str, ...]
    bottom: float
    top: float
    radius: float
    kind: Category


@dataclass(frozen=True)
class SceneSite:
    """A region that literals may name: a zone of the workspace (no parent) or a site of an object or fixture.

    `joints` are those of the part that carries the site; `size` is the half size in metres.
    """

    name: str
    parent: str | None
    joints: tuple[str, ...]
    size: tuple[float, ...]


@dataclass(frozen=True)
class SceneSpec:
    """The parts of a compiled scene.

    `hidden_sites` get a negative alpha at reset, as robosuite hides them; `burners` are (fixture, site) that glow
    while turned on. Of a suite's own world, `own` has the parts, and the rest is empty.
    """

    problem: str
    bodies: tuple[SceneBody, ...]
    sites: tuple[SceneSite, ...]
    hidden_sites: tuple[str, ...]
    burners: tuple[tuple[str, str], ...]
    own: MujocoScene | None = None

    @property
    def camera(self) -> str:
        """The model's camera that looks from outside."""
        return FRONT_CAMERA if self.own is None else self.own.camera

    @property
    def middle(self) -> tuple[float, float, float]:
        """The middle of the workspace (3,) in m, world frame, at the height of its table top or floor."""
        x, y, z = workspace(self.problem, self.problem).offset if self.own is None else self.own.middle
        return float(x), float(y), float(z)

    def body(self, name: str) -> SceneBody | None:
        """Return an object or fixture by its name in the task file, or None."""
        return next((body for body in self.bodies if body.name == name), None)

    def site(self, name: str) -> SceneSite | None:
        """Return a region's site by its key, or None."""
        return next((site for site in self.sites if site.name == name), None)


def own_scene(own: MujocoScene) -> SceneSpec:
    """Return the scene of a suite's own world, for a variation's edits."""
    return SceneSpec("", (), (), (), (), own)


def scene_to_json(scene: SceneSpec) -> dict[str, Any]:
    """Return a JSON-able form of a scene; LIBERO's categories are stored by their names only."""
    value = dataclasses.asdict(scene)
    del value["own"]  # compiled scenes are never a suite's own
    for body, told in zip(scene.bodies, value["bodies"], strict=True):
        if CATEGORIES.get(body.category) == body.kind:
            del told["kind"]
    return value


def scene_from_json(value: dict[str, Any]) -> SceneSpec:
    """Return the scene from `scene_to_json`; raises KeyError or TypeError on another shape."""
    bodies = tuple(
        SceneBody(
            **{
                **body,
                "joints": tuple(body["joints"]),
                "contact_geoms": tuple(body["contact_geoms"]),
                "kind": category_from_json(body["kind"]) if "kind" in body else CATEGORIES[body["category"]],
            }
        )
        for body in value["bodies"]
    )
    sites = tuple(
        SceneSite(**{**site, "joints": tuple(site["joints"]), "size": tuple(site["size"])}) for site in value["sites"]
    )
    burners = tuple((fixture, site) for fixture, site in value["burners"])
    return SceneSpec(value["problem"], bodies, sites, tuple(value["hidden_sites"]), burners)


def scene_parts(problem: Problem) -> dict[str, Any]:
    """Return the parts of a problem that decide the compiled scene: class, fixtures, objects, zones; JSON-able.

    Instruction, goal and init literals do not count: tasks of one scene share one compiled model.

    Raises:
        SceneError: the problem class is not known.
    """
    place = workspace(problem.name, problem.source)
    # A key that is declared twice counts once, with the later values, as upstream's dictionary has it.
    zones = {region.key: region for region in problem.regions if place.name in region.key}
    moved = [mover.name for mover in problem.movers]
    scales = {item.name: item.scale for item in (*problem.fixtures, *problem.objects) if item.scale != 1.0}
    # Fields that LIBERO's scenes lack are left out if empty, so that the keys of its scenes do not change.
    further = (
        ({"movers": moved} if moved else {})
        | ({"scales": scales} if scales else {})
        | ({"robosuite": place.profile.robosuite} if place.profile != ROBOSUITE_1_4 else {})
    )
    return {
        **further,
        "format": FORMAT,
        "problem": problem.name,
        "fixtures": [(item.name, item.category) for item in problem.fixtures if item.category != place.category],
        "objects": [(item.name, item.category) for item in problem.objects],
        "zones": [(zone.key, zone.ranges[:1], zone.rgba) for zone in zones.values()],
    }
