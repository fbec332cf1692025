"""What the plugin costs a project that has it installed and does not use it: processor time of ``--collect-only``.

``python benchmarks/startup.py`` runs pytest in pairs, with the plugin and with ``-p no:vla``, and prints the least of
each and their difference: what is least is what nothing else on the machine has disturbed. Wanted: under 50 ms.
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

PAIRS = 20
WITHOUT = ("-p", "no:vla")


def processor_seconds(folder: Path, *arguments: str) -> float:
    """User and system time of one ``pytest --collect-only``."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *arguments]
    # Compiled modules are kept, as they are everywhere but where somebody forbids it.
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Prints the least processor time of each, and the difference."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "test_foreign.py").write_text("def test_one():\n    pass\n")
        # Once for the compiled modules.
        processor_seconds(folder)
        pairs = [(processor_seconds(folder), processor_seconds(folder, *WITHOUT)) for _ in range(PAIRS)]
    used, unused = (1000 * min(column) for column in zip(*pairs, strict=True))
    print(f"pytest --collect-only: {unused:.0f} ms without the plugin, {used:.0f} ms with it: {used - unused:+.0f} ms")


if __name__ == "__main__":
    main()
