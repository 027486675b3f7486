"""What belongs to Spark on its own pods: labels, environment, volumes and paths that nobody else may set.

Constants of org.apache.spark.deploy.k8s (Constants.scala, the feature steps), Spark 2.4 to 4.3. It must never
know how a policy is written; the hints name the policy field that does what the author probably wants.
"""

from __future__ import annotations

ROLE_LABEL = "spark-role"
APP_ID_LABEL = "spark-app-selector"
APP_NAME_LABEL = "spark-app-name"
VERSION_LABEL = "spark-version"
EXECUTOR_ID_LABEL = "spark-exec-id"

# In a policy it stands for Spark's own container, whatever that one is called.
CONTAINER_PLACEHOLDER = "spark"

DRIVER, EXECUTOR = "driver", "executor"
# Stands for the executor id in pods that a StatefulSet or Deployment makes, until the driver relabels them.
UNASSIGNED_EXECUTOR_ID = "EXECID"

LABELS = frozenset(
    {
        ROLE_LABEL,
        APP_ID_LABEL,
        APP_NAME_LABEL,
        VERSION_LABEL,
        EXECUTOR_ID_LABEL,
        "spark-exec-resourceprofile-id",
        "spark-exec-inactive",
    }
)

# The environment variable that only Spark puts on its own container, whatever the container is called.
MARKER_ENV = {DRIVER: "SPARK_DRIVER_BIND_ADDRESS", EXECUTOR: "SPARK_EXECUTOR_ID"}
# `executor` is the name in Spark 2.4.
CONTAINER_NAMES = {
    DRIVER: ("spark-kubernetes-driver",),
    EXECUTOR: ("spark-kubernetes-executor", "executor"),
}

HADOOP_VOLUME, HADOOP_PATH, HADOOP_ENV = "hadoop-properties", "/opt/hadoop/conf", "HADOOP_CONF_DIR"
TOKEN_ENV = "HADOOP_TOKEN_FILE_LOCATION"
KRB5_VOLUME, KRB5_PATH = "krb5-file", "/etc/krb5.conf"
KEYTAB_VOLUME, KEYTAB_PATH = "kerberos-keytab", "/mnt/secrets/kerberos-keytab"
TOKENS_VOLUME, TOKENS_PATH = "hadoop-secret", "/mnt/secrets/hadoop-credentials"
CREDENTIALS_VOLUME, CREDENTIALS_PATH = "kubernetes-credentials", "/mnt/secrets/spark-kubernetes-credentials"

OWN_ENV = {
    HADOOP_ENV: "hadoop",
    TOKEN_ENV: "kerberos",
    "SPARK_LOCAL_DIRS": "localDirs",
    "SPARK_CONF_DIR": "sparkConf",
    "_SPARK_AUTH_SECRET": "sparkConf",
    "SPARK_USER": "",
    "SPARK_DRIVER_URL": "",
    "SPARK_DRIVER_BIND_ADDRESS": "",
    "SPARK_DRIVER_POD_IP": "",
    "SPARK_APPLICATION_ID": "",
    "SPARK_EXECUTOR_ID": "",
    "SPARK_EXECUTOR_CORES": "sparkConf",
    "SPARK_EXECUTOR_MEMORY": "sparkConf",
    "SPARK_EXECUTOR_POD_IP": "",
    "SPARK_EXECUTOR_POD_NAME": "",
    "SPARK_EXECUTOR_LIBRARY_PATH": "sparkConf",
    "SPARK_RESOURCE_PROFILE_ID": "",
    "SPARK_CLASSPATH": "sparkConf",
}
OWN_ENV_PREFIXES = ("SPARK_JAVA_OPT_", "SPARK_EXECUTOR_ATTRIBUTE_")
LOCAL_DIRS_PREFIX, _TOKEN_VOLUMES = OWN_VOLUME_PREFIXES = ("spark-local-dir-", "kube-api-access-")
LOCAL_DIRS_ENV = "SPARK_LOCAL_DIRS"
OWN_VOLUMES = {
    "spark-conf-volume": "sparkConf",
    "spark-conf-volume-driver": "sparkConf",
    "spark-conf-volume-exec": "sparkConf",
    "pod-template-volume": "",
    CREDENTIALS_VOLUME: "kubernetesCredentials",
    HADOOP_VOLUME: "hadoop",
    KRB5_VOLUME: "kerberos",
    KEYTAB_VOLUME: "kerberos",
    TOKENS_VOLUME: "kerberos",
}
OWN_PATHS = {
    "/opt/spark/conf": "sparkConf",
    "/opt/spark/pod-template": "",
    HADOOP_PATH: "hadoop",
    KRB5_PATH: "kerberos",
    KEYTAB_PATH: "kerberos",
    TOKENS_PATH: "kerberos",
    CREDENTIALS_PATH: "kubernetesCredentials",
}
TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"


def own_label(key: str) -> bool:
    """True for the labels that Spark, its services and its allocators select by."""
    return key in LABELS


def own_env(name: str) -> str | None:
    """The policy field to use instead of setting this variable ("": none does); None if it is free."""
    if name.startswith(OWN_ENV_PREFIXES):
        return "sparkConf"
    return OWN_ENV.get(name)


def own_volume(name: str) -> str | None:
    """The policy field to use instead of a volume of this name ("": none does); None if it is free.

    The service account's token volume is Kubernetes' own and counts as taken too.
    """
    if name.startswith(LOCAL_DIRS_PREFIX):
        return "localDirs"
    if name.startswith(_TOKEN_VOLUMES):
        return ""
    return OWN_VOLUMES.get(name)


def own_path(path: str) -> str | None:
    """The policy field to use instead of mounting at this normalised path ("": none does); None if free."""
    if path == TOKEN_PATH:
        return ""
    return OWN_PATHS.get(path)
