"""The CRDs in manifests/ are those that the policy model stands for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools import crds

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("path", crds.files(), ids=str)
def test_the_files_are_up_to_date(path: Path) -> None:
    written = (ROOT / path).read_text(encoding="utf-8")
    assert written == crds.files()[path], f"{path} is old: run python tools/crds.py"


@pytest.mark.parametrize("path", crds.files(), ids=str)
def test_it_can_be_applied_by_clients_that_keep_the_last_applied_text(path: Path) -> None:
    """kubectl apply without --server-side keeps it in an annotation, and those have 256 KiB in all."""
    definition = yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))
    assert len(json.dumps(definition, separators=(",", ":")).encode()) < 256 << 10


@pytest.mark.parametrize("path", crds.files(), ids=str)
def test_nothing_is_defaulted(path: Path) -> None:
    """A default would be written into every object, and could never change again."""
    schema = yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))["spec"]["versions"][0]["schema"]
    assert not list(_defaults(schema["openAPIV3Schema"]))


def _defaults(schema: Any) -> Any:
    if "default" in schema:
        yield schema
    for inner in (*schema.get("properties", {}).values(), schema.get("items")):
        if isinstance(inner, dict):
            yield from _defaults(inner)
