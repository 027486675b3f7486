"""The rules for single values of a policy: names, labels, paths, text.

A rule returns None, or what is wrong and how to fix it. It never repeats the value: that may be a secret. A
value that holds a placeholder passes here while a policy is loaded; it is checked again after filling in,
with `context=FILLED`, when braces are plain text.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Annotated, Any, Final

from pydantic import AfterValidator, GetCoreSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from webhook.policy import placeholders

FILLED: Final = {"filled": True}
"""Validation context for values whose placeholders have been filled in: every rule applies to them."""

OWN_PREFIX = "sparkwebhook.dev/"
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
FILE_MODE_MAX = 0o777

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_ENV_NAME = re.compile(r"[\x20-\x3c\x3e-\x7e]+")
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_QUANTITY = re.compile(r"\+?(\d+\.?\d*|\.\d+)([eE][+-]?\d+|[EPTGMkmun]|[EPTGMK]i)?", re.ASCII)
_POD_FIELD = re.compile(
    r"metadata\.(name|namespace|uid|((labels|annotations)(\['[^']+'\])?))"
    r"|spec\.(nodeName|serviceAccountName)|status\.(hostIPs?|podIPs?)"
)
_RESOURCE = re.compile(r"(limits|requests)\.(cpu|memory|ephemeral-storage|hugepages-\w+)")
_PORT_NAME = re.compile(r"(?=.*[a-z])[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SYSCTL = re.compile(r"[a-z0-9]([-_a-z0-9]*[a-z0-9])?([./][a-z0-9]([-_a-z0-9]*[a-z0-9])?)*")
_NUL_INSIDE = "must not contain the character NUL"

Rule = Callable[[str], str | None]
Validator = Callable[[str, ValidationInfo], str]


def fault(message: str, *at: str | int) -> PydanticCustomError:
    """An error with exactly this text; `at` leads from the value being validated to the part it is about."""
    return PydanticCustomError("policy", "{message}", {"message": message, "at": at})


def dns_label(text: str) -> str | None:
    if len(text) <= 63 and _DNS_LABEL.fullmatch(text):
        return None
    return (
        "not a valid name: use lower case letters, digits and '-', at most 63, "
        "with a letter or digit at both ends"
    )


def dns_subdomain(text: str) -> str | None:
    if len(text) <= 253 and _DNS_SUBDOMAIN.fullmatch(text):
        return None
    return (
        "not a valid name: use lower case letters, digits, '-' and '.', at most 253, "
        "with a letter or digit at both ends of every part"
    )


def env_name(text: str) -> str | None:
    if _ENV_NAME.fullmatch(text):
        return None
    return "not a valid variable name: use printable ASCII characters other than '=', at least one"


def env_prefix(text: str) -> str | None:
    if not text or _ENV_NAME.fullmatch(text):
        return None
    return "not a valid prefix: use printable ASCII characters other than '='"


def config_key(text: str) -> str | None:
    if len(text) <= 253 and _CONFIG_KEY.fullmatch(text) and text not in (".", "..") and text[:2] != "..":
        return None
    return "not a valid key: use letters, digits, '-', '_' and '.', at most 253"


def label_key(text: str) -> str | None:
    prefix, slash, name = text.rpartition("/")
    if slash and dns_subdomain(prefix):
        return "not a valid key: what stands before the '/' must be a DNS name in lower case"
    if len(name) <= 63 and _QUALIFIED.fullmatch(name):
        return None
    return (
        "not a valid key: use letters, digits, '-', '_' and '.', at most 63, "
        "with a letter or digit at both ends; a DNS name and '/' may stand before it"
    )


def annotation_key(text: str) -> str | None:
    return label_key(text.lower())


def label_value(text: str) -> str | None:
    if not text or (len(text) <= 63 and _QUALIFIED.fullmatch(text)):
        return None
    return (
        "not a valid label value: use letters, digits, '-', '_' and '.', at most 63, "
        "with a letter or digit at both ends (an empty value is fine)"
    )


def toleration_key(text: str) -> str | None:
    return label_key(text) if text else None


def mount_path(text: str) -> str | None:
    if not text.startswith("/"):
        return "must be an absolute path: begin it with '/'"
    if ":" in text:
        return "must not contain ':'"
    return no_parent(text)


def relative_path(text: str) -> str | None:
    if text.startswith("/"):
        return "must be a relative path: remove the '/' at its beginning"
    return no_parent(text)


def file_path(text: str) -> str | None:
    """The path of a projected file: as `relative_path`, and neither empty nor beginning with two dots."""
    if not text:
        return "must not be empty: write the file's path below the mount"
    if text.startswith(".."):
        return "must not begin with '..'"
    return relative_path(text)


def no_parent(text: str) -> str | None:
    return "must not contain '..': write the path that is meant" if ".." in text.split("/") else None


def quantity(text: str) -> str | None:
    if _QUANTITY.fullmatch(text):
        return None
    if _QUANTITY.fullmatch(text.removeprefix("-")):
        return "must not be negative"
    return "not a quantity: write a number, and if need be a unit, as in 500m, 2, 10Gi"


def medium(text: str) -> str | None:
    if text in ("", "Memory", "HugePages") or text.startswith("HugePages-"):
        return None
    return 'must be "", Memory, HugePages or HugePages-<size>'


def pod_field(text: str) -> str | None:
    if _POD_FIELD.fullmatch(text):
        return None
    return (
        "not a field that can be referred to: use metadata.name, .namespace, .uid, .labels['key'] or "
        ".annotations['key'], spec.nodeName or .serviceAccountName, status.hostIP(s) or .podIP(s)"
    )


def container_resource(text: str) -> str | None:
    if _RESOURCE.fullmatch(text):
        return None
    return "not a resource: use limits or requests of cpu, memory or ephemeral-storage, as in limits.memory"


def not_empty(text: str) -> str | None:
    return None if text else "must not be empty"


def port_name(text: str) -> str | None:
    if len(text) <= 15 and _PORT_NAME.fullmatch(text) and "--" not in text:
        return None
    return (
        "not a valid name of a port: use lower case letters, digits and single '-' between them, "
        "at most 15, at least one letter"
    )


def ip_address(text: str) -> str | None:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return "not an IP address: write it as in 10.0.0.1 or fd00::1"
    return None


def search_domain(text: str) -> str | None:
    """A DNS search domain: a dot may stand at its end or alone, and underscores are fine."""
    if text == "." or not dns_subdomain(text.removesuffix(".").replace("_", "a")):
        return None
    return "not a valid domain: use lower case letters, digits, '-', '_' and '.', as in jobs.example.com"


# What is decided before the driver's container starts -> what to do instead.
_DECIDED = {
    "spark.master": "",
    "spark.submit.deployMode": "",
    "spark.app.id": "",
    "spark.kubernetes.namespace": "",
    "spark.kubernetes.submitInDriver": "",
    "spark.driver.memory": "",
    "spark.driver.memoryOverhead": "",
    "spark.driver.memoryOverheadFactor": "",
    "spark.driver.minMemoryOverhead": "",
    "spark.driver.cores": "",
    "spark.driver.host": "",
    "spark.driver.port": "",
    "spark.driver.bindAddress": "",
    "spark.driver.blockManager.port": "",
    "spark.driver.extraJavaOptions": "use `javaAgents`, or `env` with JAVA_TOOL_OPTIONS and join",
    "spark.driver.defaultJavaOptions": "use `javaAgents`, or `env` with JAVA_TOOL_OPTIONS and join",
    "spark.executor.extraJavaOptions": "use `javaAgents`, or `env` with JAVA_TOOL_OPTIONS and join",
    "spark.kubernetes.driver.podTemplateFile": "use `podTemplate`",
    "spark.local.dir": "use `localDirs`",
}
_DECIDED_PREFIXES = {
    "spark.kubernetes.driver.": "use the fields of the block driver",
    "spark.kubernetes.authenticate.driver.": "use `serviceAccountName` or `kubernetesCredentials`",
    "spark.kubernetes.driverEnv.": "use `env`",
    "spark.kubernetes.authenticate.submission.": "",
}
_PROPERTY = re.compile(r"spark\.[!-<>-~]+")


def spark_property(text: str) -> str | None:
    """A property that still counts when the driver's container starts."""
    if not _PROPERTY.fullmatch(text):
        return "not a Spark property: it begins with spark. and has neither spaces nor '='"
    hint = _DECIDED.get(text)
    if hint is None:
        hint = next((hint for prefix, hint in _DECIDED_PREFIXES.items() if text.startswith(prefix)), None)
    if hint is None:
        return None
    return f"is decided before the driver starts: {hint or 'set it where the job is submitted'}"


def sysctl(text: str) -> str | None:
    if len(text) <= 253 and _SYSCTL.fullmatch(text):
        return None
    return "not the name of a kernel parameter: write it as in net.ipv4.ip_local_port_range"


# The rules as regular expressions that mean the same in RE2; lengths, and what they can't say, are missing.
_PATTERNS: dict[Rule, str] = {
    dns_label: _DNS_LABEL.pattern,
    dns_subdomain: _DNS_SUBDOMAIN.pattern,
    env_name: _ENV_NAME.pattern,
    config_key: _CONFIG_KEY.pattern,
    label_value: f"({_QUALIFIED.pattern})?",
    mount_path: "/[^:]*",
    relative_path: r"([^/][\s\S]*)?",
    file_path: r"[^/][\s\S]*",
    quantity: _QUANTITY.pattern.replace(r"\d", "[0-9]"),
}


def any_text_error(text: str, *, filled: bool = False) -> str | None:
    """What is wrong with any text of a policy, whatever it is for; `filled`: its braces are plain text."""
    if "\x00" in text:
        return _NUL_INSIDE
    return placeholders.error(text) if "{{" in text and not filled else None


def checker(check: Rule) -> Validator:
    """A function that lets a text pass if `check` accepts it, or while it holds placeholders to fill in."""

    def validate(value: str, info: ValidationInfo) -> str:
        if not info.context and "{{" in value:
            if problem := any_text_error(value):
                raise fault(problem)
            if placeholders.present(value):
                return value
        problem = _NUL_INSIDE if "\x00" in value else check(value)
        if problem:
            raise fault(problem)
        return value

    return validate


def schema_extra(check: Rule | None, *, literal: bool = False) -> dict[str, Any]:
    """What a JSON schema can say of a rule: a pattern; it lets placeholders pass unless it is `literal`."""
    pattern = _PATTERNS.get(check) if check is not None else None
    if pattern is None:
        return {}
    # A dot would not stand for a line break.
    return {"pattern": f"^({pattern})$" if literal else rf"^({pattern}|[\s\S]*\{{\{{[\s\S]*)$"}


class Checked:
    """Annotates a text with a validator and with what a JSON schema can say of it."""

    def __init__(self, validate: Validator, extra: dict[str, Any]) -> None:
        self._validate = validate
        self._extra = extra

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return self.applied_to(handler(source))

    def applied_to(self, schema: CoreSchema) -> CoreSchema:
        """The schema of a text, with the validator after it."""
        return core_schema.with_info_after_validator_function(
            self._validate, schema, metadata={"pydantic_js_extra": self._extra}
        )


def rule(check: Rule) -> Checked:
    """Annotates a text with `checker(check)`."""
    return Checked(checker(check), schema_extra(check))


def literal(check: Rule) -> Checked:
    """As `rule`, for a text in which a placeholder is an error."""

    def validate(value: str, _info: ValidationInfo) -> str:
        if placeholders.present(value):
            raise fault("placeholders can't be used here")
        if problem := check(value):
            raise fault(problem)
        return value

    return Checked(validate, schema_extra(check, literal=True))


def check_text(value: str, info: ValidationInfo) -> str:
    """The checker of text that has no other rule."""
    if problem := any_text_error(value, filled=bool(info.context)):
        raise fault(problem)
    return value


Text = Annotated[str, AfterValidator(check_text)]
DnsLabel = Annotated[str, rule(dns_label)]
DnsSubdomain = Annotated[str, rule(dns_subdomain)]
EnvPrefix = Annotated[str, rule(env_prefix)]
LabelValue = Annotated[str, rule(label_value)]
RelativePath = Annotated[str, rule(relative_path)]
FixedDnsLabel = Annotated[str, literal(dns_label)]
FixedDnsSubdomain = Annotated[str, literal(dns_subdomain)]
FixedLabelKey = Annotated[str, literal(label_key)]
FixedLabelValue = Annotated[str, literal(label_value)]
