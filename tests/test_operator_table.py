"""What the Spark operator's webhook does to a pod can be asked for in a policy (operator_table.yaml).

Each row names the cases that show it; that a case holds is for test_cases.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import test_cases

TABLE = yaml.load((Path(__file__).parent / "operator_table.yaml").read_text(), test_cases.Loader)
ROWS = [pytest.param(row, id=f"{part}-{name}") for part, rows in TABLE.items() for name, row in rows.items()]
# Mutations in the operator's chain, and rows of what it leaves to spark-submit.
MUTATIONS, SUBMITTED = 26, 7
# What a case says that is about something the pod has: all of the patch, or what became of the author's.
_SAID = {"patch", "findings", "denied", "replaces", "absent"}


def test_the_table_is_whole() -> None:
    assert list(TABLE) == ["webhook", "submission"]
    assert list(TABLE["webhook"]) == list(range(1, MUTATIONS + 1))
    assert len(TABLE["submission"]) == SUBMITTED


@pytest.mark.parametrize("row", ROWS)
def test_row(row: dict[str, Any]) -> None:
    assert set(row) <= {"field", "cases", "there", "instead"}
    assert row["field"]
    effects, meetings = _cases(row["cases"]), _cases(row["there"])
    for case in effects:
        expected = case.value["expect"]
        assert expected.get("patch") or expected.get("pod"), f"{case.file.name} expects no change"
    roles = {role for case in effects for role in _roles(case)}
    assert roles == {"driver", "executor"}, f"no case of a {({'driver', 'executor'} - roles).pop()}"
    for case in meetings:
        assert _SAID & set(case.value["expect"]) or "edit" in case.value, f"{case.file.name} meets nothing"


def _cases(names: list[str]) -> list[test_cases.Case]:
    assert names
    return [test_cases.read(test_cases.CASES / f"{name}.yaml") for name in names]


def _roles(case: test_cases.Case) -> set[str]:
    pods = [case.review(source)["request"]["object"] for source in case.sources]
    return {pod["metadata"]["labels"]["spark-role"] for pod in pods}
