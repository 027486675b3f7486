"""javaAgents: agents in the JVMs of containers, by JAVA_TOOL_OPTIONS, which every JVM reads.

The options are joined to those that are there, so that none of the author's or of Spark's is lost.
"""

from __future__ import annotations

from collections.abc import Sequence

from webhook.changes import Change, JoinEnv
from webhook.policy.spark_fields import JavaAgentItem
from webhook.steps.base import Step, config_map_at

VARIABLE = "JAVA_TOOL_OPTIONS"


def changes(item: JavaAgentItem) -> Sequence[Change]:
    """The agent's configuration, and its options."""
    wanted: list[Change] = []
    if item.configMap is not None and item.configPath is not None:
        wanted = config_map_at(item.configMap, item.configPath, item.containers)
    agent = f"-javaagent:{item.jar}={item.options}" if item.options else f"-javaagent:{item.jar}"
    options = [agent, *(f"-D{key}={value}" for key, value in item.properties.items())]
    return [*wanted, JoinEnv(VARIABLE, " ".join(options), " ", item.containers)]


STEP = Step(
    field="javaAgents",
    changes=changes,
    identity=lambda item: item.name,
    subject=lambda item: f"java agent {item.name}",
)
