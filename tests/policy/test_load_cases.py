"""Policy files and what loading them must say: one file of data/ is one case.

A case is the text of a policy file. Lines that begin with `#!` are not part of it:
    #! file NAME        the lines from here on are a file of this name (without it, the file is policy.yaml)
    #! allow NAME       lifts a guardrail
    #! policy KIND NAME, #! namespace NAME, #! error LINE..., #! note LINE...
                        what loading must give, all of it and in this order
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from webhook.policy.load import Loaded, load

DATA = Path(__file__).parent / "data"
CASES = sorted(DATA.glob("*.yaml"))
SECRET_VALUES = ("hunter2", "AKIA", "banana")


@pytest.mark.parametrize("case", CASES, ids=[case.stem for case in CASES])
def test_case(case: Path) -> None:
    files, allowed, expected = parse(case.read_text(encoding="utf-8"))
    loaded = load(files, allowed=allowed)
    assert results(loaded) == expected
    assert expected or case.stem == "nothing"
    messages = [problem.message for problem in (*loaded.errors, *loaded.notes)]
    for text in messages:
        assert not re.search("pydantic|Input should|validation|Traceback|https?:", text)
        assert not any(value in text for value in SECRET_VALUES)


def parse(text: str) -> tuple[list[tuple[str, str]], frozenset[str], list[str]]:
    """The files, the lifted guardrails and the expected results of a case."""
    files: list[tuple[str, list[str]]] = [("policy.yaml", [])]
    allowed: set[str] = set()
    expected: list[str] = []
    for line in text.splitlines(keepends=True):
        if not line.startswith("#! "):
            files[-1][1].append(line)
            continue
        word, _, rest = line[3:].rstrip("\n").partition(" ")
        match word:
            case "file":
                files.append((rest, []))
            case "allow":
                allowed.add(rest)
            case "error" | "note" | "policy" | "namespace":
                expected.append(f"{word} {rest}")
            case _:
                raise ValueError(f"not a directive: {line}")
    return [(name, "".join(lines)) for name, lines in files if lines], frozenset(allowed), expected


def results(loaded: Loaded) -> list[str]:
    """What was loaded, as the cases write it."""
    names = [f"{policy.kind} {policy.namespace or ''}/{policy.name}" for policy in loaded.policies]
    return [
        *(f"policy {name.replace(' /', ' ')}" for name in names),
        *(f"namespace {name}" for name in loaded.namespaces),
        *(f"error {problem}" for problem in loaded.errors),
        *(f"note {problem}" for problem in loaded.notes),
    ]
