"""The wire contract of an admission review: bytes in, a checked request out; a decision in, bytes out.

Knows admission.k8s.io/v1 and nothing of policies or HTTP connections. It must never put a value of the
reviewed object into an error, and never answer with another uid than the one that was asked with.
"""

from __future__ import annotations

from binascii import b2a_base64
from typing import Any

import orjson

from webhook.admission import Decision

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"

_MANAGED_FIELDS, _SPEC_FOLLOWS = b',"managedFields":[', b']},"spec":{'

# Audit events keep what they are given; a policy list is cut so that no pod can bloat the audit log.
_AUDIT_VALUE_LIMIT = 256

# The reasons of k8s.io/apimachinery metav1.StatusReason for the codes that are answered here.
_STATUS_REASONS = {
    400: "BadRequest",
    404: "NotFound",
    405: "MethodNotAllowed",
    408: "Timeout",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}

# Go's zero value stands for "absent" in every one of these, and encoders differ in which they write.
_OPTIONAL: tuple[tuple[str, type, str], ...] = (
    ("namespace", str, "a string"),
    ("name", str, "a string"),
    ("subResource", str, "a string"),
    ("kind", dict, "an object"),
    ("resource", dict, "an object"),
    ("userInfo", dict, "an object"),
    ("object", dict, "an object"),
    ("oldObject", dict, "an object"),
    ("options", dict, "an object"),
    ("dryRun", bool, "a boolean"),
)


class BadReview(Exception):
    """The request cannot be answered with an admission response.

    `status` is the HTTP status code, `message` the text for the `Status` object.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def decode(body: bytes) -> dict[str, Any]:
    """The `request` of an AdmissionReview, its fields of the types that the API defines.

    Reviews of every operation, kind and subresource pass; only a CREATE must carry an object.

    Raises:
        BadReview: the body is no AdmissionReview of admission.k8s.io/v1.
    """
    if not body:
        raise BadReview(400, f"the body is empty: an {KIND} of {API_VERSION} is expected")
    try:
        # orjson refuses more than 1024 levels, NaN, a byte order mark and invalid UTF-8 by itself.
        review = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadReview(400, f"the body is not JSON: {error}") from None
    if not isinstance(review, dict):
        raise BadReview(400, f"the body is not an {KIND}: it is no JSON object")
    if review.get("apiVersion") != API_VERSION or review.get("kind") != KIND:
        raise BadReview(400, _wrong_version(review))
    request = review.get("request")
    if not isinstance(request, dict):
        raise BadReview(400, f"{KIND}.request is {_found(request)}: it must be an object")
    for name in ("uid", "operation"):
        value = request.get(name)
        if not isinstance(value, str) or not value:
            raise BadReview(400, f"{KIND}.request.{name} is {_found(value)}: it must be a non-empty string")
    for name, kind, words in _OPTIONAL:
        value = request.get(name)
        if value is not None and not isinstance(value, kind):
            raise BadReview(400, f"{KIND}.request.{name} is {_found(value)}: it must be {words}")
    if request.get("object") is None and request["operation"] == "CREATE":
        raise BadReview(400, f"{KIND}.request.object is {_found(None)}: a CREATE carries the new object")
    return request


def without_managed_fields(body: bytes) -> bytes:
    """The body without `metadata.managedFields` of its object, where an API server put them.

    Nobody here reads them, and they cost as much to decode as all the rest. The API server writes them as the
    last field of metadata, before spec. Inside of a JSON string every quote has a backslash before it, so
    neither mark can be found in one; a cut that would take another object's metadata along is not made.
    """
    start = body.find(_MANAGED_FIELDS)
    end = body.find(_SPEC_FOLLOWS, start) if start >= 0 else -1
    if end < 0 or body.find(b'"metadata":', start, end) >= 0:
        return body
    return body[:start] + body[end + 1 :]


def encode(uid: str, decision: Decision) -> bytes:
    """The AdmissionReview that answers the request with this uid."""
    response: dict[str, Any] = {"uid": uid, "allowed": decision.allowed}
    if not decision.allowed:
        # Without a code the API server makes it a 400 without reason. 403 is what a refusal by policy is
        # called everywhere else, and neither Spark's client nor kubectl rewrites or retries it: 429 and 500
        # are asked again, 422 is shown as an invalid manifest.
        response["status"] = {"code": 403, "reason": "Forbidden", "message": decision.message}
    elif decision.operations:
        # patch and patchType together or neither: one alone is refused, whatever the failure policy says.
        patch = b2a_base64(orjson.dumps(decision.operations), newline=False)
        response["patchType"] = "JSONPatch"
        response["patch"] = orjson.Fragment(b'"' + patch + b'"')
    if warnings := decision.warnings():
        response["warnings"] = warnings
    # The API server puts the webhook's name and a slash in front of a key and drops keys that hold one.
    audit = {"decision": str(decision.reason)}
    if decision.policies:
        audit["policies"] = _short(",".join(decision.policies))
    response["auditAnnotations"] = audit
    return orjson.dumps({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def status_object(code: int, message: str) -> bytes:
    """A Kubernetes `Status` of a failure: the only body whose text the API server passes on for any code."""
    return orjson.dumps(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": _STATUS_REASONS.get(code, "Unknown"),
            "code": code,
        }
    )


def _wrong_version(review: dict[str, Any]) -> str:
    version, kind = review.get("apiVersion"), review.get("kind")
    if version == "admission.k8s.io/v1beta1" and kind == KIND:
        return (
            f"{KIND} of {version} is not served, only {API_VERSION}: "
            "set admissionReviewVersions: [v1] in the webhook configuration"
        )
    if isinstance(version, str) and isinstance(kind, str):
        return f"the body is {_short(kind)!a} of {_short(version)!a}, not {KIND} of {API_VERSION}"
    return f"the body has no apiVersion and kind: an {KIND} of {API_VERSION} is expected"


def _short(text: str) -> str:
    return text if len(text) <= _AUDIT_VALUE_LIMIT else text[: _AUDIT_VALUE_LIMIT - 3] + "..."


def _found(value: Any) -> str:
    """What stands there, by JSON type: never the value itself."""
    if value is None:
        return "missing or null"
    if value == "":
        return "empty"
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean"}
    return names.get(type(value), "a number")
