"""The reference page lists every field, says what is so, and its examples are policies that have an
effect."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests import corpus, door
from tools import reference
from webhook.policy.load import load
from webhook.policy.model import PolicySpec
from webhook.policy.role_block import RoleBlock
from webhook.reasons import Reason

PAGE = reference.TARGET.read_text(encoding="utf-8")
FIELDS = sorted(RoleBlock.model_fields)
DRIVER_ONLY = ("kubernetesCredentials", "sparkConf")


def test_the_page_is_up_to_date() -> None:
    assert reference.text() == PAGE, "it is old: run python tools/reference.py"


def test_every_field_is_described_with_an_example() -> None:
    for model in (PolicySpec, RoleBlock):
        for name, field in model.model_fields.items():
            assert field.description, name
            assert field.examples, name


def test_every_field_is_listed() -> None:
    headings = set(re.findall("^### (.*)$", PAGE, re.MULTILINE))
    assert set(FIELDS) <= headings
    assert all(f"| `{name}` |" in PAGE for name in PolicySpec.model_fields)


def test_every_reason_code_is_explained() -> None:
    assert [reason for reason in Reason if f"| `{reason}` | {reason.explain} |" not in PAGE] == []


@pytest.mark.parametrize("name", FIELDS)
def test_examples_have_an_effect(name: str) -> None:
    """Each example on the page, as it stands there, on a driver of Spark's own making."""
    (example,) = re.findall(rf"^### {name}\n.*?^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    policies = door.policy_set(_policy({"driver": yaml.safe_load(example)}))
    outcome = door.admit(corpus.review("4.3.0/cluster-bare-driver"), policies)
    assert outcome.operations
    assert [str(finding) for finding in outcome.decision.findings] == []


@pytest.mark.parametrize("name", sorted(set(PolicySpec.model_fields) - {"common", "driver", "executor"}))
def test_examples_of_a_policy_are_valid(name: str) -> None:
    for example in PolicySpec.model_fields[name].examples or ():
        loaded = load([("policies.yaml", _policy({name: example}))])
        assert loaded.errors == ()


def _policy(spec: dict[str, Any]) -> str:
    document = {
        "apiVersion": "sparkwebhook.dev/v1alpha1",
        "kind": "ClusterSparkPodPolicy",
        "metadata": {"name": "a"},
        "spec": spec,
    }
    return yaml.safe_dump(document)
