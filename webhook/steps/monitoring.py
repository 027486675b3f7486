"""monitoring: Prometheus' JMX exporter as a Java agent, its configuration, its port, and scrape annotations.

Paths, port and names are those that the Spark operator gives it. The annotations are a feature of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from webhook.changes import Change, EnsureItem, EnsureKey, JoinEnv
from webhook.kinds import PORTS, Json
from webhook.policy.spark_fields import MonitoringItem
from webhook.steps.base import Step, config_map_at
from webhook.steps.java_agents import VARIABLE

_PATH, _FILE = "/etc/metrics/conf", "prometheus.yaml"


def changes(item: MonitoringItem) -> Sequence[Change]:
    """The exporter, or the annotations."""
    if item.scrape:
        annotations = {"scrape": "true", "port": str(item.port), "path": "/metrics"}
        return [EnsureKey("annotations", f"prometheus.io/{key}", value) for key, value in annotations.items()]
    wanted: list[Change] = []
    if item.configMap is not None:
        wanted = config_map_at(item.configMap, _PATH, item.containers)
    file = item.configFile or f"{_PATH}/{_FILE}"
    port: Json = {"name": item.portName, "containerPort": item.port, "protocol": "TCP"}
    return [
        *wanted,
        EnsureItem(PORTS, port, item.containers),
        JoinEnv(VARIABLE, f"-javaagent:{item.jar}={item.port}:{file}", " ", item.containers),
    ]


def _items(value: MonitoringItem | None) -> Iterable[tuple[str, MonitoringItem]]:
    if value is None:
        return
    stated = {key: getattr(value, key) for key in value.model_fields_set | {"scrape"}}
    yield "", MonitoringItem.model_construct(set(stated), **{**stated, "scrape": False})
    if value.scrape:
        yield ".scrape", MonitoringItem.model_construct(set(stated), **stated)


STEP = Step(
    field="monitoring",
    changes=changes,
    identity=lambda item: "scrape" if item.scrape else "exporter",
    subject=lambda item: "monitoring annotations" if item.scrape else "monitoring exporter",
    items=_items,
)
