"""A page as HTML: Jinja2 with everything escaped, our style and script inside, and nothing from elsewhere."""

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from pytest_vla.reports.blocks import cell_text
from pytest_vla.reports.html.parts import Page
from pytest_vla.util.text import printable_lines

_FOLDER = "pytest_vla.reports.html"
_UNSAFE = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&'\u2028\u2029"}


def page_html(page: Page) -> bytes:
    """The whole document, UTF-8; what UTF-8 cannot say is ``?``."""
    script = _read("page.js")
    return rendered(
        "page.html.j2",
        ("style.css",),
        page=page,
        script=Markup(script),
        # Only this script runs, whatever else stands in the page.
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def rendered(template: str, styles: Sequence[str], **values: Any) -> bytes:
    """A document of one of our templates, UTF-8.

    Args:
        template: its name.
        styles: names of the style sheets that it has inside, as `style`.
        values: what else it is given.
    """
    style = Markup("").join(Markup(_read(name)) for name in styles)
    return _environment().get_template(template).render(style=style, **values).encode("utf-8", "replace")


def script_json(value: Any) -> Markup:
    """JSON that can stand in a script element: no text in it ends the element, opens a comment or breaks a line.

    Raises:
        ValueError: it holds NaN or infinity, which JSON has not.
    """
    return Markup(json.dumps(value, allow_nan=False, separators=(",", ":")).translate(_UNSAFE))


@cache
def _environment() -> jinja2.Environment:
    found = jinja2.Environment(
        loader=jinja2.FunctionLoader(_read),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    found.globals["cell_text"] = cell_text
    return found


def _shown(value: Any) -> Any:
    """What stands in the page: control characters and marks that turn the reading direction are taken out."""
    return printable_lines(value) if type(value) is str else value


def _read(name: str) -> str:
    return (files(_FOLDER) / "templates" / name).read_text(encoding="utf-8")
