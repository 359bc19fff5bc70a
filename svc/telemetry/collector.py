"""The HTTP session to the trace collector, which is not trusted.

Its answers are read up to a limit and thrown away; no redirect is followed,
no ``.netrc`` and no proxy variable is read.
"""

from __future__ import annotations

from typing import Any

import requests

MAX_ANSWER = 65_536


class CollectorSession(requests.Session):
    """A session that never reads more of an answer than the limit."""

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Nowhere: even to look where a redirect leads would read its whole body."""
        return

    def request(self, *args: Any, **kwargs: Any) -> Any:
        """Send; the answer's body is cut at the limit and its connection closed beyond."""
        kwargs.update(stream=True, allow_redirects=False)
        answer = super().request(*args, **kwargs)
        answer._content = answer.raw.read(MAX_ANSWER, decode_content=False)
        answer._content_consumed = True
        answer.close()
        return answer


def collector_session() -> CollectorSession:
    """A new session."""
    session = CollectorSession()
    session.trust_env = False
    return session
