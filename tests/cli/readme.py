"""The README's outputs and its table of reason codes, as a real run prints them.

    python -m tests.cli.readme       renews them in README.md

A `yaml` block whose first line is a comment with a path is that file; a `console` block is a command line of
this project after `$ ` and what it prints, standard error first.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from webhook.reasons import Reason

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"

_FILE = re.compile(r"^```yaml\n(# (\S+)\n.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^```console\n\$ spark-webhook (.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_REASONS = re.compile(r"(^\| code \| meaning \|\n\| --- \| --- \|\n)((?:^\|.*\n)*)", re.MULTILINE)


def renewed(text: str) -> str:
    """The text with every output and the table as they are now."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for entry in ("manifests", "tests"):
            (folder / entry).symlink_to(ROOT / entry)
        for content, path in _FILE.findall(text):
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(content)
        text = _COMMAND.sub(lambda found: _printed(found[1], folder), text)
    table = "".join(f"| `{reason}` | {reason.explain} |\n" for reason in Reason)
    return _REASONS.sub(lambda found: found[1] + table, text)


def _printed(arguments: str, folder: Path) -> str:
    outcome = subprocess.run(
        [sys.executable, "-m", "webhook", *shlex.split(arguments)],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return f"```console\n$ spark-webhook {arguments}\n{outcome.stderr}{outcome.stdout}```"


if __name__ == "__main__":
    README.write_text(renewed(README.read_text()))
