"""The facts that a request can come with, whatever kinds a gateway serves.

Each says whether it is public or personal.  Statement text, header values, bodies, query strings
and credentials have no word here and must never get one.
"""

from __future__ import annotations

from svc.model.policy.terms import AttributeTerm

FACTS = (
    AttributeTerm(
        name="now", type="Long", classified="public", help="Seconds since the epoch.", ticking=True
    ),
    AttributeTerm(
        name="hour", type="Long", classified="public", help="Hour of the day, 0 to 23, UTC."
    ),
    AttributeTerm(
        name="weekday",
        type="Long",
        classified="public",
        help="Day of the week, 1 (Monday) to 7, UTC.",
    ),
    AttributeTerm(
        name="mfa_age_seconds",
        type="Long",
        classified="public",
        help=(
            "Seconds since the person presented a second factor, counted from the sign-in and never"
            " from a renewal; absent where nobody says that there was one, and with `view`."
        ),
        ticking=True,
    ),
    AttributeTerm(
        name="approved_request",
        type=(
            AttributeTerm(
                name="id", type="String", classified="public", help="The id of the request."
            ),
            AttributeTerm(
                name="approver",
                type="String",
                classified="public",
                help="The id of the person who approved it.",
            ),
            AttributeTerm(
                name="expires",
                type="Long",
                classified="public",
                help="When it ends, in seconds since the epoch.",
            ),
            AttributeTerm(
                name="exact",
                type="Bool",
                classified="public",
                help="It is for the exact text of this one request; absent of any other.",
            ),
        ),
        classified="public",
        help="The approved request for access that covers this one; absent without one.",
    ),
    AttributeTerm(
        name="requested_action",
        type="String",
        classified="public",
        help="The action that a request for access is for (see `approveAccess`).",
    ),
    AttributeTerm(
        name="login_user",
        type="String",
        classified="personal",
        help="The account on the target; absent where SSH does not end at the Connector.",
    ),
    AttributeTerm(
        name="named_person",
        type="String",
        classified="personal",
        help="The id of the person that the request asks to be made as (see `actAs`).",
    ),
    AttributeTerm(
        name="db_role",
        type="String",
        classified="public",
        help="The database role that the client requests.",
    ),
    AttributeTerm(
        name="db_name",
        type="String",
        classified="public",
        help="The database that the client requests; nobody fills it, PostgreSQL has `database`.",
        claimed=True,
    ),
    AttributeTerm(
        name="read_only",
        type="Bool",
        classified="public",
        help="The session cannot write; nobody fills it.",
        claimed=True,
    ),
    AttributeTerm(
        name="effects",
        type="Set<String>",
        classified="public",
        help="What a statement does: `read`, `write`, …",
    ),
    AttributeTerm(
        name="objects",
        type="Set<String>",
        classified="public",
        help="The names that a statement refers to.",
    ),
    AttributeTerm(
        name="fingerprint",
        type="String",
        classified="public",
        help="The hash of a statement without its constants; nobody fills it.",
        claimed=True,
    ),
    AttributeTerm(name="verb", type="String", classified="public", help="The Kubernetes verb."),
    AttributeTerm(
        name="api_group", type="String", classified="public", help="The Kubernetes API group."
    ),
    AttributeTerm(
        name="api_resource",
        type="String",
        classified="public",
        help="The Kubernetes resource and subresource.",
    ),
    AttributeTerm(
        name="object_namespace",
        type="String",
        classified="public",
        help="The Kubernetes namespace.",
    ),
    AttributeTerm(
        name="object_name", type="String", classified="public", help="The Kubernetes object's name."
    ),
    AttributeTerm(name="method", type="String", classified="public", help="The HTTP method."),
    AttributeTerm(
        name="path", type="String", classified="personal", help="The path, without its query."
    ),
    AttributeTerm(
        name="proxy_reported",
        type=(
            AttributeTerm(
                name="source_address",
                type="ipaddr",
                classified="personal",
                help="The network address of the caller.",
            ),
        ),
        classified="personal",
        help="Facts that only the Proxy knows and nobody else can check.",
    ),
)
