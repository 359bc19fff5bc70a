"""How policies speak of web applications."""

from __future__ import annotations

from svc.interfaces.kinds import KindTerms
from svc.kinds.web.operations import operations
from svc.model.policy.requests import NAMED_PERSON

ACCESS = "webAccess"
"""The action of each request."""

TERMS = KindTerms(
    "WebApp",
    open_action="webConnect",
    actions={"webConnect": "connect", ACCESS: "web"},
    context={
        "method": "String",
        "path": "String",
        "host": "String public",
        "content_type": "String public",
        "upgrade": "Bool public",
        NAMED_PERSON: "String",
    },
    protocol="web",
    operations=operations(ACCESS),
)
