"""The policy that uses every feature step does so, and all of it is in effect on a bare pod."""

from __future__ import annotations

import pytest
import yaml

from tests import corpus, door
from tests.every_step import TEXT
from webhook.policy.role_block import RoleBlock

DRIVER_ONLY = {"kubernetesCredentials", "sparkConf"}


def test_it_states_every_field() -> None:
    spec = yaml.safe_load(TEXT)["spec"]
    stated = {field for block in ("common", "driver", "executor") for field in spec[block]}
    assert stated == set(RoleBlock.model_fields)
    assert set(spec["common"]) == set(RoleBlock.model_fields) - DRIVER_ONLY


@pytest.mark.parametrize("name", ["4.3.0/cluster-bare-driver", "4.3.0/cluster-bare-executor"])
def test_all_of_it_is_in_effect_on_a_bare_pod(name: str) -> None:
    outcome = door.admit(corpus.review(name), door.policy_set(TEXT))
    assert [str(finding) for finding in outcome.decision.findings] == []
    assert outcome.status["policies"][0]["name"] == "every-step"
