"""Policies that use every feature step at once, drivers and executors alike, as one YAML text."""

from __future__ import annotations

from pathlib import Path

TEXT = (Path(__file__).parent / "every_step.yaml").read_text(encoding="utf-8")
