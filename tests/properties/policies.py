"""Valid policies over the whole model, with names from pools so small that they meet each other and the pods.

The pools hold names that the recorded pods use too. It must never build a policy that lint refuses: the tests
treat that as a failure.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import yaml
from hypothesis import strategies as st

from tests.properties import parts
from webhook.policy.check import check_object

Json = dict[str, Any]
Search = st.SearchStrategy[Any]

LONG = "a-name-of-more-than-sixty-three-characters-that-has-to-be-cut-somewhere"
NAMESPACES = ("jobs", "etl")
ENV_NAMES = (
    *("STAGE", "GREETING", "PYTHONPATH", "DB_PASSWORD", "NODE_NAME", "FROM_TEMPLATE"),
    *("REGION", "LAKE_HOST", "JAVA_TOOL_OPTIONS", "GOOGLE_APPLICATION_CREDENTIALS"),
)
TEXTS = (
    *("prod", "test", "", "/opt/app:/opt/libs", "$(STAGE)", "x $(REGION) $(LAKE_HOST) $$(STAGE)", "ünï\n"),
    *(
        "{{NAMESPACE}}",
        "{{POD_LABEL:team}}",
        "{{EXECUTOR_ID|x}}",
        "{{APP_ID}}-{{APP_NAME|-}}",
        r"\{{APP_ID}}",
    ),
    *("{{NAMESPACE_LABEL:team}}", "{{NAMESPACE_ANNOTATION:text|none}}", "{{ .Vault }}"),
)
SECRETS = ("lake", "driver-tls", "shared-keystore", "a.b", "a-b", LONG, "{{NAMESPACE}}-s", "common-env")
VOLUMES = ("scratch", "claimed", "workdir", "tls", "bundle", "lake-volume", "driver-tls-volume", "own")
PATHS = (
    *("/mnt/scratch", "/mnt/scratch/", "/etc/secrets/tls", "/work-dir", "/vault", "/var/log/spark"),
    *("/var/spark/local1", "/a", "/a/b", "/{{NAMESPACE}}", "/etc/tls"),
)
LABELS = ("team", "owner", "example.com/cost-centre", "app.kubernetes.io/managed-by")
LABEL_VALUES = (
    "data-platform",
    "lake",
    "",
    "{{POD_LABEL:team}}",
    "{{NAMESPACE}}",
    "{{NAMESPACE_ANNOTATION:text}}",
)
ANNOTATIONS = ("prometheus.io/scrape", "sidecar.istio.io/inject", "example.com/note", "Plain")
NODE_LABELS = ("pool", "kubernetes.io/arch", "disk")
CONTAINERS = ("proxy", "fetch-deps", "log-shipper", "spark-kubernetes-driver", "main-executor", "mesh-proxy")


def stated(**fields: Search) -> Search:
    """A map of optional fields, each either drawn or absent."""
    return st.fixed_dictionaries({}, optional=fields)


def pick(*values: Any) -> Search:
    return st.sampled_from(values)


on_conflict = pick("Keep", "Replace", "Reject")
containers = st.one_of(pick("Spark", "All"), st.lists(pick(*CONTAINERS), min_size=1, max_size=2, unique=True))
in_containers = {"onConflict": on_conflict, "containers": containers}

key_paths = st.lists(
    st.fixed_dictionaries(
        {"key": pick("a", "b"), "path": pick("a", "b/c")}, optional={"mode": pick(256, 420)}
    ),
    min_size=1,
    max_size=2,
    unique_by=lambda item: str(item["path"]),
)
projections = {
    "items": key_paths,
    "defaultMode": pick(256, 420),
    "optional": st.booleans(),
    "subPath": pick("a", "b/c"),
    "readOnly": st.booleans(),
}
mounted = {"name": pick(*SECRETS), "mountPath": pick(*PATHS)}
secrets = st.fixed_dictionaries(
    mounted,
    optional={
        **projections,
        **in_containers,
        "type": pick("Generic", "GCPServiceAccount", "HadoopDelegationToken"),
    },
)
config_maps = st.fixed_dictionaries(mounted, optional={**projections, **in_containers})

quantities = pick("5Gi", "5120Mi", "1.5Gi", "1024Ki", "1G")
volume_sources: dict[str, Search] = {
    "emptyDir": stated(medium=pick("", "Memory"), sizeLimit=quantities),
    "secret": st.fixed_dictionaries(
        {"secretName": pick("s", "driver-tls")},
        optional={"defaultMode": pick(256, 420), "optional": st.booleans()},
    ),
    "configMap": st.fixed_dictionaries(
        {"name": pick("c", "ca-bundle")}, optional={"items": key_paths, "defaultMode": pick(292, 420)}
    ),
    "persistentVolumeClaim": st.fixed_dictionaries(
        {"claimName": pick("existing-claim", "other")}, optional={"readOnly": st.booleans()}
    ),
    "hostPath": st.fixed_dictionaries(
        {"path": pick("/srv/data", "/x")}, optional={"type": pick("", "Directory")}
    ),
    "nfs": st.just({"server": "nfs.example.com", "path": "/exports/data"}),
    "csi": st.just({"driver": "example.com", "readOnly": False, "volumeAttributes": {"a": "{{NAMESPACE}}"}}),
    "downwardAPI": st.just({"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}),
    "projected": st.just(
        {
            "sources": [
                {"serviceAccountToken": {"path": "token", "audience": "vault"}},
                {"secret": {"name": "s"}},
                {"downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            ]
        }
    ),
    "ephemeral": st.builds(
        lambda size: {
            "volumeClaimTemplate": {
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
            }
        },
        quantities,
    ),
}
mounts = st.fixed_dictionaries(
    {"mountPath": pick(*PATHS)},
    optional={"readOnly": st.booleans(), "subPath": pick("", "a"), "containers": containers},
)


@st.composite
def volumes(draw: st.DrawFn, *, with_mounts: bool = True) -> Json:
    """A volume of a policy, or without mounts one of a pod."""
    source = draw(st.sampled_from(sorted(volume_sources)))
    item: Json = {"name": draw(pick(*VOLUMES)), source: draw(volume_sources[source])}
    if with_mounts:
        item.update(draw(stated(onConflict=on_conflict, mounts=st.lists(mounts, max_size=2))))
    return item


references = st.one_of(
    st.just({"secretKeyRef": {"name": "db-credentials", "key": "password"}}),
    st.just({"configMapKeyRef": {"name": "c", "key": "k", "optional": True}}),
    st.just({"fieldRef": {"fieldPath": "spec.nodeName"}}),
    st.just({"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}),
    st.builds(
        lambda divisor: {"resourceFieldRef": {"resource": "limits.memory", "divisor": divisor}},
        pick("1Mi", "1024Ki"),
    ),
)
env_names = pick(*ENV_NAMES)
literal_env = st.fixed_dictionaries({"name": env_names, "value": pick(*TEXTS)})
reference_env = st.fixed_dictionaries({"name": env_names, "valueFrom": references})
env = st.one_of(
    st.fixed_dictionaries({"name": env_names, "value": pick(*TEXTS)}, optional=in_containers),
    st.fixed_dictionaries(
        {"name": env_names, "value": pick(*filter(None, TEXTS)), "join": pick(" ", ":", ",")},
        optional=in_containers,
    ),
    st.fixed_dictionaries({"name": env_names, "valueFrom": references}, optional=in_containers),
)
source_reference = st.fixed_dictionaries(
    {"name": pick("common-env", "lake", "{{NAMESPACE}}")}, optional={"optional": st.booleans()}
)
env_from = st.one_of(
    *(
        st.fixed_dictionaries({kind: source_reference}, optional={"prefix": pick("", "C_"), **in_containers})
        for kind in ("configMapRef", "secretRef")
    )
)
seconds = st.fixed_dictionaries(
    {
        "key": pick("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "spot"),
        "operator": st.just("Exists"),
        "effect": st.just("NoExecute"),
    },
    optional={"tolerationSeconds": pick(0, 30, 300)},
)
tolerations = st.one_of(
    seconds,
    st.fixed_dictionaries(
        {"key": pick("dedicated", "spot"), "value": pick("spark", "lake")},
        optional={"operator": st.just("Equal"), "effect": pick("NoSchedule", "NoExecute")},
    ),
    st.fixed_dictionaries(
        {"operator": st.just("Exists")}, optional={"effect": pick("NoSchedule", "NoExecute")}
    ),
)


def with_on_conflict(items: Search) -> Search:
    return st.builds(lambda item, more: {**item, **more}, items, stated(onConflict=on_conflict))


def _in_containers(values: Search) -> Search:
    return st.builds(lambda value, more: {**value, **more}, values, stated(**in_containers))


def _maps(keys: tuple[str, ...], values: tuple[str, ...]) -> Search:
    return st.dictionaries(pick(*keys), pick(*values), max_size=3)


def without_doubles(block: Json) -> Json:
    """The block without items that another one has for the same containers: lint refuses those."""
    seen: dict[Any, list[Any]] = {}

    def free(item: Json, *identities: Any) -> bool:
        where = item.get("containers", "Spark")
        if any(overlap(where, other) for identity in identities for other in seen.get(identity, ())):
            return False
        for identity in identities:
            seen.setdefault(identity, []).append(where)
        return True

    def path(item: Json) -> Any:
        return ("path", item["mountPath"].rstrip("/"))

    def of_type(item: Json) -> list[Any]:
        return {
            "GCPServiceAccount": [("env", "GOOGLE_APPLICATION_CREDENTIALS")],
            "HadoopDelegationToken": [("env", "HADOOP_TOKEN_FILE_LOCATION")],
        }.get(item.get("type", ""), [])

    def source(item: Json) -> Any:
        kind = "configMapRef" if "configMapRef" in item else "secretRef"
        return (kind, item.get("prefix") or "", item[kind]["name"])

    def taint(item: Json) -> Any:
        return (item.get("key"), item.get("operator", "Equal"), item.get("value"), item.get("effect"))

    def volume(item: Json) -> bool:
        item["mounts"] = [mount for mount in item.get("mounts", []) if free(mount, path(mount))]
        return free({"containers": "All"}, ("volume", item["name"]))

    kept: dict[str, Callable[[Json], bool]] = {
        "secrets": lambda item: free(item, path(item), *of_type(item)),
        "configMaps": lambda item: free(item, path(item)),
        "volumes": volume,
        "env": lambda item: free(item, ("env", item["name"])),
        "envFrom": lambda item: free(item, source(item)),
        "tolerations": lambda item: free(item, taint(item)),
        "imagePullSecrets": lambda item: free(item, ("pull", item["name"])),
    }
    return {
        field: [item for item in copy.deepcopy(value) if kept[field](item)] if field in kept else value
        for field, value in block.items()
    }


def overlap(one: Any, other: Any) -> bool:
    """True if two values of `containers` can stand for one container by what a policy alone says."""
    if "All" in (one, other) or one == other:
        return True
    names = [{"spark-kubernetes-driver"} if value == "Spark" else set(value) for value in (one, other)]
    return bool(names[0] & names[1])


blocks = stated(
    secrets=st.lists(secrets, max_size=3),
    configMaps=st.lists(config_maps, max_size=2),
    volumes=st.lists(volumes(), max_size=3),
    env=st.lists(env, max_size=4),
    envFrom=st.lists(env_from, max_size=3),
    hadoop=st.fixed_dictionaries(
        {"configMap": pick("hadoop-conf", "{{NAMESPACE}}-hadoop")}, optional=in_containers
    ),
    labels=_maps(LABELS, LABEL_VALUES),
    annotations=_maps(ANNOTATIONS, TEXTS),
    nodeSelector=_maps(NODE_LABELS, LABEL_VALUES),
    tolerations=st.lists(with_on_conflict(tolerations), max_size=3),
    imagePullSecrets=st.lists(
        with_on_conflict(st.fixed_dictionaries({"name": pick("regcred", "mirror")})), max_size=2
    ),
).map(without_doubles)

# Fields in which a namespaced policy may not ask for everything.
GUARDED = (
    *("serviceAccountName", "hostNetwork", "podSecurityContext", "securityContext"),
    *("initContainers", "sidecars", "podTemplate"),
)
wide_blocks = st.builds(
    lambda few, parts: {**few, **parts},
    blocks,
    st.fixed_dictionaries(
        {},
        optional={
            "affinity": parts.affinity,
            "topologySpreadConstraints": parts.spread,
            "priorityClassName": pick("batch-high", "batch-low"),
            "schedulerName": pick("volcano", "yunikorn"),
            "runtimeClassName": pick("gvisor", "kata"),
            "terminationGracePeriodSeconds": pick(0, 60),
            "serviceAccountName": pick("spark", "other"),
            "podSecurityContext": parts.pod_security,
            "hostNetwork": st.booleans(),
            "dnsPolicy": pick("Default", "ClusterFirstWithHostNet"),
            "dnsConfig": parts.dns_config,
            "hostAliases": parts.host_aliases,
            "shareProcessNamespace": st.booleans(),
            "initContainers": parts.init_containers,
            "sidecars": parts.sidecars,
            "ports": parts.listed(
                st.builds(lambda port, more: {**port, **more}, parts.ports, stated(**in_containers)),
                "containerPort",
                "protocol",
            ),
            "lifecycle": _in_containers(parts.lifecycle),
            "resources": _in_containers(parts.amounts),
            "securityContext": _in_containers(parts.security),
            "podTemplate": with_on_conflict(parts.templates),
            "aws": _in_containers(parts.aws),
            "azure": _in_containers(parts.azure),
            "gcp": _in_containers(parts.gcp),
            "localDirs": with_on_conflict(parts.local_dirs),
            "javaAgents": parts.java_agents,
            "monitoring": _in_containers(parts.monitoring),
            "kerberos": _in_containers(parts.kerberos),
        },
    ),
)

expressions = st.one_of(
    st.fixed_dictionaries(
        {
            "key": pick("team", "spark-role"),
            "operator": pick("In", "NotIn"),
            "values": st.lists(pick("data-platform", "driver", "lake"), min_size=1, max_size=2, unique=True),
        }
    ),
    st.fixed_dictionaries({"key": pick("team", "owner"), "operator": pick("Exists", "DoesNotExist")}),
)
selectors = stated(
    matchLabels=st.dictionaries(pick("team", "spark-role"), pick("data-platform", "driver"), max_size=1),
    matchExpressions=st.lists(expressions, max_size=2),
)


def _specs(block: Search) -> Search:
    return st.builds(
        lambda some, few: {**some, **few},
        stated(common=block, driver=block, executor=block),
        stated(
            priority=pick(-1, 0, 1),
            mandatory=st.booleans(),
            onConflict=on_conflict,
            atomic=st.booleans(),
        ),
    )


_CLASH = re.compile(r"spec\.(?P<block>\w+)\.(?P<field>\w+).*: wants another ")


@st.composite
def policies(draw: st.DrawFn, role_blocks: Search = blocks) -> Json:
    """One policy document."""
    metadata: Json = {"name": draw(pick("a", "b", "c", "z", "a-policy-with-a-long-name-" * 4 + "x"))}
    spec = draw(_specs(role_blocks))
    namespaced = draw(pick(False, False, True))
    match: Json = {}
    if draw(pick(False, False, True)):
        match["podSelector"] = draw(selectors)
    if namespaced:
        metadata["namespace"] = draw(pick(*NAMESPACES))
        for block in ("common", "driver", "executor"):
            if block in spec:
                found = [item for item in spec[block].get("volumes", []) if "hostPath" not in item]
                free = {key: value for key, value in spec[block].items() if key not in GUARDED}
                spec = {**spec, block: {**free, "volumes": found}}
    elif draw(pick(False, False, True)):
        match["namespaceSelector"] = draw(selectors)
    return _without_clashes(
        {
            "apiVersion": "sparkwebhook.dev/v1alpha1",
            "kind": "SparkPodPolicy" if namespaced else "ClusterSparkPodPolicy",
            "metadata": metadata,
            "spec": {**spec, **({"match": match} if match else {})},
        }
    )


def _without_clashes(document: Json) -> Json:
    """The policy without fields that want another thing than one before them at the same place."""
    _, problems = check_object(document, frozenset())
    clash = next((found for text in problems if (found := _CLASH.match(text))), None)
    if clash is None:
        return document
    spec = document["spec"]
    block = {key: value for key, value in spec[clash["block"]].items() if key != clash["field"]}
    return _without_clashes({**document, "spec": {**spec, clash["block"]: block}})


NAMESPACE_DOCUMENTS = [
    {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": "jobs",
            "labels": {"team": "data-platform"},
            "annotations": {"text": "two words"},
        },
    }
]


def _sets(policy: Search) -> Search:
    return st.lists(
        policy,
        min_size=1,
        max_size=4,
        unique_by=lambda item: (item["metadata"]["name"], item["metadata"].get("namespace", "")),
    )


policy_sets = _sets(policies())
wide_policy_sets = _sets(policies(wide_blocks))


def to_yaml(documents: list[Json]) -> str:
    """The policies, and what is known of namespaces, as one file."""
    return str(yaml.dump_all([*NAMESPACE_DOCUMENTS, *documents], Dumper=yaml.CSafeDumper, allow_unicode=True))
