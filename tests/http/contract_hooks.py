# SPDX-License-Identifier: Apache-2.0
"""What schemathesis cannot know by itself about the server that test_contract.sh starts.

Half of the ids that it makes up name something that is there, so that answers are looked at and not only refusals. A
text with a meaning that no schema says (a cursor, a workload, a device, a model's bytes) is one that has it. No request
waits for a job that does not end. The schemas of answers are closed: a member that the document lacks fails.
"""
import itertools
import os
import pathlib
import re

import schemathesis
from hypothesis import strategies as st
from schemathesis.transport.serialization import Binary

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
MODEL, SPARE_MODEL, OPEN_JOB, ENDED_JOB = os.environ["CONTRACT_IDS"].split()
MODEL_BYTES = pathlib.Path(os.environ["CONTRACT_MODEL"]).read_bytes()
WORKLOAD, DEVICE = os.environ["CONTRACT_WORKLOAD"], os.environ["CONTRACT_DEVICE"]
DEFAULT_PROJECT = "00000000-0000-7000-8000-000000000000"
CURSORS = {"/v1/models": MODEL, "/v1/jobs": ENDED_JOB, "/v1/projects": DEFAULT_PROJECT,
           "/v1/tokens": DEFAULT_PROJECT, "/v1/configs": f"{WORKLOAD}|{DEVICE}", "/v1/golden/history": "1",
           "/v1/jobs/{id}/deliveries": "1"}
MEANINGS = {"workload": (WORKLOAD, 2000), "device": (DEVICE, 200)}
KEYS = itertools.count()
SECRET = "whsec_" + "A" * 32
MOVES = ("/cancel", "/pause", "/resume", "/retry")
ALWAYS = ("/events", *MOVES)  # so that the job that ended stays so

A_FILE = st.just(MODEL_BYTES)
schemathesis.openapi.media_type("application/octet-stream", A_FILE)
schemathesis.openapi.format("binary", A_FILE.map(Binary))


def is_uuid(text):
    return isinstance(text, str) and UUID.fullmatch(text)


def may_replace(made_up):
    """Half of them; but one that an answer gave, a UUID of version 7, means what it says."""
    return made_up[14] != "7" and made_up[0] in "01234567"


def known_id(method, path):
    if path.startswith("/v1/models/"):
        return SPARE_MODEL if method == "DELETE" else MODEL
    if path.startswith("/v1/projects/"):
        return DEFAULT_PROJECT
    if path.startswith("/v1/jobs/"):
        return OPEN_JOB if path.endswith(MOVES) else ENDED_JOB
    return None


def close_answers(node):
    if isinstance(node, dict):
        if "properties" in node and "required" in node:
            node.setdefault("additionalProperties", False)
        for value in node.values():
            close_answers(value)
    elif isinstance(node, list):
        for value in node:
            close_answers(value)


@schemathesis.hook
def before_load_schema(context, raw_schema):
    close_answers(raw_schema["components"]["schemas"])
    for item in raw_schema["paths"].values():
        for operation in item.values():
            if isinstance(operation, dict):
                close_answers(operation.get("responses"))


def without_fractions(node):
    """75.0 as 75: a whole number is written as one, which JSON Schema cannot ask for."""
    if isinstance(node, dict):
        return {name: without_fractions(value) for name, value in node.items()}
    return int(node) if isinstance(node, float) and node.is_integer() else node


def give_job(body):
    if is_uuid(body.get("model_id")):
        body["model_id"] = MODEL
    tuner = body.get("tuner")
    if isinstance(tuner, dict) and isinstance(tuner.get("template"), str) and len(tuner["template"]) <= 60:
        tuner["template"] = ""
    if isinstance(body.get("webhook_url"), str) and body["webhook_url"].startswith(("http://", "https://")):
        body["webhook_url"] = "https://hooks.invalid/"  # a name that no one has
    if re.fullmatch(r"whsec_[A-Za-z0-9+/]+={0,2}", str(body.get("webhook_secret"))):
        body["webhook_secret"] = SECRET
        body.setdefault("webhook_url", "https://hooks.invalid/")


def give_team(body):
    """The first token would shut the tests out, so none is made; there is one project to share with."""
    if isinstance(body.get("scopes"), list) and all(scope in ("read", "submit", "admin") for scope in body["scopes"]):
        body["scopes"] = ["read"]
    for name in ("shared_with", "config_shared_with"):
        if isinstance(body.get(name), list) and all(isinstance(one, str) for one in body[name]) and len(body[name]) <= 100:
            body[name] = ["default"]


def is_number(text, most):
    return str(text).isascii() and str(text).isdigit() and 1 <= int(text) <= most


def give_query(path, case):
    query = case.query or {}
    ended = (case.path_parameters or {}).get("id") == ENDED_JOB
    if isinstance(query.get("cursor"), str) and path in CURSORS:
        query["cursor"] = CURSORS[path]
    for name, (value, most) in MEANINGS.items():
        if isinstance(query.get(name), str) and 1 <= len(query[name].encode()) <= most:
            query[name] = value
    if is_number(query.get("wait"), 300):
        query["wait"] = "1" if ended else "0"
    if is_number(query.get("batch"), 65536):
        query["batch"] = "1"
    if path.endswith("/report") and "limit" in query:  # it is a limit of the comparison
        query.setdefault("compare_to", OPEN_JOB)
    for name, value in query.items():
        if value in ([], {}, None):  # it would not be sent at all
            query[name] = ""


def has_no_end(case):
    """Whether it opens the project's stream, which lasts as long as the server: its head is enough then."""
    query = dict(case.query or {})
    after = query.pop("after", "0")
    after = after[0] if isinstance(after, list) and len(after) == 1 else after
    last = str((case.headers or {}).get("Last-Event-ID", "")).strip()
    is_after = re.fullmatch(r"-?[0-9]+", str(after)) and 0 <= int(after) <= 2**53
    return not query and is_after and re.fullmatch(r"[0-9]{0,18}", last)


@schemathesis.hook
def before_call(context, case, kwargs):
    path, method = case.operation.path, case.method.upper()
    known = known_id(method, path)
    made_up = (case.path_parameters or {}).get("id")
    if known and is_uuid(made_up) and (path.endswith(ALWAYS) or may_replace(made_up)):
        case.path_parameters["id"] = known
    if path == "/v1/jobs" and method == "POST" and isinstance(case.body, dict):
        case.body = without_fractions(case.body)
        give_job(case.body)
    if path.startswith(("/v1/projects", "/v1/tokens", "/v1/configs/visibility")) and isinstance(case.body, dict):
        case.body = without_fractions(case.body)
        give_team(case.body)
    give_query(path, case)
    if path == "/v1/events" and method == "GET" and has_no_end(case):
        case.method = "HEAD"
    key = (case.headers or {}).get("Idempotency-Key")
    if isinstance(key, str) and re.fullmatch(r"[!-~]([ -~]{0,240}[!-~])?", key):
        case.headers["Idempotency-Key"] = f"{key}{next(KEYS)}"  # each request is one of its own
    if isinstance((case.headers or {}).get("Range"), str):
        case.headers["Range"] = "bytes=-5"


@schemathesis.check
def problem_types_are_listed(context, response, case):
    """Each refusal says why by a type that clients can look up."""
    if not 400 <= response.status_code < 500 or case.method.upper() == "HEAD":
        return
    assert response.headers["content-type"] == ["application/problem+json"], response.headers["content-type"]
    problem = response.json()
    code = problem["type"].rpartition(":")[2]
    known = case.operation.schema.raw_schema["x-problem-types"]
    assert code in known, f"{problem['type']} is not in x-problem-types"
    assert problem["status"] == response.status_code


@schemathesis.check
def every_answer_is_guarded(context, response, case):
    for name, value in (("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer")):
        assert response.headers.get(name) == [value], f"{name}: {response.headers.get(name)}"
    assert response.headers.get("cache-control"), "no Cache-Control"
    assert response.headers.get("x-request-id"), "no X-Request-Id"
