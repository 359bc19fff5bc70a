"""What a running Proxy may be missing, so that it opens no session.

The words are those of ``svc_proxy_lacking``; a Proxy tells them to its persons with the list of
their resources, so that ``svc status`` does not look healthy while nothing opens.  A Proxy's word
is shown only if it is one of these.
"""

from __future__ import annotations

from types import MappingProxyType

LACKING = MappingProxyType(
    {
        "control_pool": "the Proxy cannot reach Authority",
        "policy": "the Proxy has no fresh policy",
        "audit_spool": "the Proxy cannot write its audit records",
    }
)
"""Every word, and its sentence for a person."""
