"""The benchmark measures what it says: the policies match as announced, and the client reads real answers."""

from __future__ import annotations

import json
import ssl
from pathlib import Path

import pytest

from tests.bench import load
from tests.bench.scenarios import REVIEWS, Scenario, bodies, scenarios
from webhook.admission import admit
from webhook.policy.load import load as load_policies
from webhook.policy.policy_set import compile_policies
from webhook.running import RunningServer


@pytest.mark.parametrize(
    ("scenario", "matching"), list(zip(scenarios(), (5, 20, 0, 1), strict=True)), ids="abcd"
)
def test_as_many_policies_match_as_the_scenario_says(scenario: Scenario, matching: int) -> None:
    loaded = load_policies([("policies.yaml", scenario.policies)])
    assert loaded.errors == ()
    policies = compile_policies(loaded.policies, loaded.namespaces)
    assert len(policies) == 20
    for body in bodies():
        decision = admit(json.loads(body)["request"], policies)
        assert len(decision.policies) == matching
        assert decision.findings == [] or scenario.key == "d"
        assert bool(decision.operations) is scenario.changes


def test_the_client_reads_whole_answers_of_the_real_server(tmp_path: Path) -> None:
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "policies.yaml").write_text(scenarios()[1].policies)
    requests = [load.request("/mutate?timeout=5s", body) for body in bodies()]
    with RunningServer(policies, log=tmp_path / "log") as server:
        context = ssl.create_default_context(cafile=str(server.ca))
        answers = load.ask(server.port, context, requests)
        result = load.run(server.port, context, requests, seconds=0.2, connections=2)
        counted = server.probe("/metrics")
    uids = [json.loads(answer)["response"]["uid"] for answer in answers]
    assert uids == [json.loads(body)["request"]["uid"] for body in bodies()]
    assert result.answers > 0
    assert len(result.latencies) == result.answers
    # what the client counted the server has answered; the last request of each connection goes uncounted
    (total,) = (
        line for line in counted.splitlines() if line.startswith("spark_webhook_admission_seconds_count")
    )
    assert 0 <= float(total.split()[1]) - len(REVIEWS) - result.answers <= 2


def test_another_status_than_200_is_not_counted(tmp_path: Path) -> None:
    with RunningServer(tmp_path, log=tmp_path / "log") as server:
        context = ssl.create_default_context(cafile=str(server.ca))
        with pytest.raises(ConnectionError, match="404"):
            load.ask(server.port, context, [load.request("/elsewhere", b"{}")])
