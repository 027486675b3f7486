"""Values of the policy fields that are Kubernetes' own: parts of a pod's spec, containers, templates.

Small pools, as in tests.properties.policies, which puts them into role blocks; two items of one identity are
never in one list.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]
Search = st.SearchStrategy[Any]


def pick(*values: Any) -> Search:
    return st.sampled_from(values)


def stated(**fields: Search) -> Search:
    """A map of optional fields, each either drawn or absent, and at least one of them."""
    return st.fixed_dictionaries({}, optional=fields).filter(bool)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def listed(item: Search, *keys: str, most: int = 3) -> Search:
    """A list of items of which no two have the same values of these keys."""
    return st.lists(item, max_size=most, unique_by=lambda one: tuple(str(one.get(key)) for key in keys))


_requirement = st.one_of(
    st.fixed_dictionaries(
        {"key": pick("arch", "zone"), "operator": pick("In", "NotIn"), "values": st.just(["a"])}
    ),
    st.fixed_dictionaries({"key": pick("arch", "spot"), "operator": pick("Exists", "DoesNotExist")}),
)
_node_term = stated(matchExpressions=st.lists(_requirement, min_size=1, max_size=2, unique_by=_text))
_pod_term = st.fixed_dictionaries(
    {
        "topologyKey": pick("zone", "kubernetes.io/hostname"),
        "labelSelector": st.just({"matchLabels": {"a": "b"}}),
    }
)
_weighted = st.fixed_dictionaries({"weight": pick(1, 50), "podAffinityTerm": _pod_term})
_preferred_node = st.fixed_dictionaries({"weight": pick(1, 50), "preference": _node_term})
REQUIRED, PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))


def _terms(required: Search, preferred: Search) -> Search:
    return stated(
        **{REQUIRED: required, PREFERRED: st.lists(preferred, min_size=1, max_size=2, unique_by=_text)}
    )


_between_pods = _terms(st.lists(_pod_term, min_size=1, max_size=2, unique_by=_text), _weighted)
affinity = stated(
    nodeAffinity=_terms(
        st.builds(
            lambda terms: {"nodeSelectorTerms": terms},
            st.lists(_node_term, min_size=1, max_size=2, unique_by=_text),
        ),
        _preferred_node,
    ),
    podAffinity=_between_pods,
    podAntiAffinity=_between_pods,
)
spread = listed(
    st.fixed_dictionaries(
        {
            "maxSkew": pick(1, 2),
            "topologyKey": pick("zone", "kubernetes.io/hostname"),
            "whenUnsatisfiable": pick("DoNotSchedule", "ScheduleAnyway"),
        },
        optional={"labelSelector": st.just({"matchLabels": {"a": "{{NAMESPACE}}"}})},
    ),
    "topologyKey",
    "whenUnsatisfiable",
)
_addresses = pick("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "fd00::1")
dns_config = stated(
    nameservers=st.lists(_addresses, min_size=1, max_size=3, unique=True),
    searches=st.lists(pick("a.example.com", "b.example.com"), min_size=1, max_size=2, unique=True),
    options=listed(
        st.fixed_dictionaries({"name": pick("ndots", "edns0")}, optional={"value": pick("1", "2")}), "name"
    ),
)
host_aliases = listed(
    st.fixed_dictionaries(
        {"ip": _addresses, "hostnames": st.lists(pick("a", "b.c"), min_size=1, max_size=2, unique=True)}
    ),
    "ip",
)
_seccomp = pick({"type": "RuntimeDefault"}, {"type": "Localhost", "localhostProfile": "p.json"})
pod_security = stated(
    fsGroup=pick(0, 185),
    runAsUser=pick(0, 185),
    runAsNonRoot=st.booleans(),
    supplementalGroups=st.lists(pick(1, 2, 3), min_size=1, max_size=2, unique=True),
    seccompProfile=_seccomp,
    sysctls=listed(
        st.fixed_dictionaries(
            {"name": pick("kernel.shm_rmid_forced", "net.core.somaxconn"), "value": pick("1")}
        ),
        "name",
    ),
)
_names = st.lists(pick("CHOWN", "SYS_ADMIN", "ALL", "NET_RAW"), min_size=1, max_size=2, unique=True)
security = stated(
    allowPrivilegeEscalation=st.booleans(),
    privileged=st.booleans(),
    runAsUser=pick(0, 185),
    runAsNonRoot=st.booleans(),
    readOnlyRootFilesystem=st.booleans(),
    capabilities=stated(add=_names, drop=_names),
    seccompProfile=_seccomp,
).filter(lambda one: not (one.get("allowPrivilegeEscalation") is False and _escalates(one)))


def _escalates(context: Json) -> bool:
    return bool(context.get("privileged") or "SYS_ADMIN" in context.get("capabilities", {}).get("add", ()))


def _fits(resources: Json) -> bool:
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    gpu = "nvidia.com/gpu"
    # All amounts of the pools are in order of size by themselves.
    small = all(_SIZES[requests[name]] <= _SIZES[limits[name]] for name in requests if name in limits)
    return small and (gpu not in requests or requests[gpu] == limits.get(gpu))


_SIZES = {"100m": 1, "2": 2, "4": 3, "64Mi": 1, "1Gi": 2, "16Gi": 3, 1: 1, 3: 3}
_amounts = stated(
    **{
        "cpu": pick("100m", "2", "4"),
        "memory": pick("64Mi", "1Gi", "16Gi"),
        "ephemeral-storage": pick("1Gi", "16Gi"),
        "nvidia.com/gpu": pick(1, 3),
    }
)
amounts = stated(requests=_amounts, limits=_amounts).filter(_fits)
memory_limits = pick("512m", "2g", "16Gi", "1.5x", "3x")
_handler = pick({"exec": {"command": ["true"]}}, {"sleep": {"seconds": 1}}, {"httpGet": {"port": 4040}})
lifecycle = stated(preStop=_handler, postStart=_handler)
_probe = st.fixed_dictionaries(
    {"httpGet": st.just({"port": 4040, "path": "/"})}, optional={"periodSeconds": pick(5)}
)
ports = st.fixed_dictionaries(
    {"containerPort": pick(4040, 7079, 9404)},
    optional={
        "name": pick("metrics", "spark-ui"),
        "protocol": pick("UDP"),
        "hostPort": pick(4040, 9404),
    },
)
_mounts = listed(
    st.fixed_dictionaries(
        {"name": pick("scratch", "tls", "own"), "mountPath": pick("/mnt/scratch", "/a", "/etc/tls")},
        optional={"readOnly": st.booleans()},
    ),
    "mountPath",
    most=2,
)
_env = listed(
    st.fixed_dictionaries({"name": pick("STAGE", "A"), "value": pick("x", "{{NAMESPACE}}")}), "name"
)
_common = {
    "env": _env,
    "volumeMounts": _mounts,
    "resources": amounts,
    "securityContext": security,
    "ports": listed(ports, "containerPort", "protocol", most=2).filter(
        lambda items: (
            len({item.get("name") for item in items if "name" in item})
            == sum("name" in item for item in items)
        )
    ),
    "tty": st.booleans(),
}
_ADDED = ("agent", "shipper", "proxy", "fetch-deps")


def added_containers(*names: str, **more: Search) -> Search:
    """A list of containers to add."""
    item = st.fixed_dictionaries(
        {"name": pick(*names), "image": pick("i:1", "{{NAMESPACE}}/i")},
        optional={**_common, "position": pick("First", "Last"), **more},
    )
    return listed(item, "name", most=2)


init_containers = added_containers("agent", "fetch-deps")
sidecars = added_containers(
    "shipper", "proxy", native=st.booleans(), lifecycle=lifecycle, readinessProbe=_probe
)
_template_container = st.fixed_dictionaries(
    {"name": pick("spark", *_ADDED)},
    optional={
        **_common,
        "image": pick("i:1"),
        "workingDir": pick("/work", "/opt"),
        "imagePullPolicy": pick("Always"),
    },
)
_sources = pick({"emptyDir": {}}, {"emptyDir": {"medium": "Memory"}}, {"configMap": {"name": "c"}})
templates = stated(
    metadata=stated(labels=st.just({"team": "t"}), annotations=st.just({"example.com/note": "n"})),
    spec=stated(
        hostname=pick("spark"),
        shareProcessNamespace=st.booleans(),
        hostPID=st.booleans(),
        hostUsers=st.booleans(),
        hostNetwork=st.booleans(),
        automountServiceAccountToken=st.booleans(),
        activeDeadlineSeconds=pick(100, 200),
        setHostnameAsFQDN=st.booleans(),
        priorityClassName=pick("batch-high", "batch-low"),
        securityContext=pod_security,
        affinity=affinity,
        dnsConfig=dns_config,
        volumes=listed(
            st.builds(lambda name, source: {"name": name, **source}, pick("scratch", "tls", "own"), _sources),
            "name",
        ),
        containers=listed(_template_container, "name", most=2),
        readinessGates=listed(st.fixed_dictionaries({"conditionType": pick("a.b/c", "d")}), "conditionType"),
        schedulingGates=listed(st.fixed_dictionaries({"name": pick("a.b/c", "d")}), "name"),
    ),
)

_gcp_provider = "projects/1/locations/global/workloadIdentityPools/p/providers/k"
aws = pick(
    {"roleArn": "r", "region": "a"}, {"podIdentity": True}, {"roleArn": "{{NAMESPACE}}", "regionalSts": True}
)
azure = pick({"clientId": "c", "tenantId": "t"}, {"clientId": "{{POD_LABEL:team}}", "tenantId": "t"})
gcp = pick(
    {"keySecret": "lake"},
    {"keySecret": "k", "mountPath": "/a", "key": "a"},
    {"workloadIdentityProvider": _gcp_provider},
)
local_dirs = pick(
    {"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
    {"emptyDir": {}, "paths": ["/mnt/scratch", "/scratch"]},
    {"onDemand": {"size": "1Gi"}},
    {"onDemand": {"size": "5Gi", "storageClass": "{{NAMESPACE}}"}, "paths": ["/a/"]},
)
java_agents = listed(
    pick(
        {"name": "a", "jar": "/a.jar"},
        {"name": "b", "jar": "/b.jar", "options": "x", "configMap": "c", "configPath": "/a/b"},
        {"name": "a", "jar": "/c.jar", "properties": {"k": "{{EXECUTOR_ID|x}}"}},
    ),
    "name",
)
monitoring = pick(
    {"jar": "/m.jar", "configFile": "/m.yaml", "port": 4040, "portName": "spark-ui"},
    {"jar": "/m.jar", "configMap": "ca-bundle"},
)
kerberos = pick({"krb5ConfigMap": "c"}, {"tokenSecret": "lake", "keytabSecret": "k"})
