"""The edits that a gate of this kind names, and what they say."""

from __future__ import annotations

DROP = "drop"
"""At the Connector: these bytes of a denied request do not reach the target."""

DENIED = "denied"
"""At the person's program: the answer to a request that policy does not allow."""

REFUSED = "refused"
"""There: the answer to a request that no gate reads, since it could be read in two ways."""

BAD_ANSWER = "bad_answer"
"""There: the answer in place of one that the target has framed in two ways, or not at all."""

ANSWERED = "answered"
"""There: the answer to a question about what is allowed, where policy itself has it."""

ANSWERED_HERE = "answered_here"
"""Why such a request is denied to the target."""

ENDED = "ended"
"""There: the last word of a connection that was broken off, where one can be said."""

# The values that those edits have.
DECISION, POLICIES, REASON, TEXT = "decision", "policies", "reason", "text"
REQUEST = "request"
FORM, PAGE, NO_BODY = "form", "page", "none"
WEBSOCKET, CHANNELS, STREAMS, EVENTS = "websocket", "channels", "streams", "events"
CLOSES, YES = "closes", "yes"
BETWEEN_POLICIES = "\n"
