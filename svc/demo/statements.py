"""Statements through the local endpoint by psycopg2, the client library that svc installs."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import psycopg2
from attrs import frozen

from svc.demo.scene import DATABASE, DATABASE_NAME, DATABASE_ROLE
from svc.errors import Unavailable

_CONNECT_SECS = 10


@frozen
class StatementAnswer:
    """What a client library reports of one statement: a value, or the fields of an error."""

    value: Any = None
    code: str = ""
    text: str = ""
    detail: str = ""
    hint: str = ""


@frozen
class LocalDatabase:
    """The person's local endpoint of the database, as ``svc status`` tells of it."""

    there: dict[str, Any]

    def run(self, *statements: str) -> list[StatementAnswer]:
        """Run each as a transaction of its own in one session; blocks.

        Raises:
            Unavailable: no session opened.
        """
        try:
            connection = psycopg2.connect(
                **self._where(),
                user=DATABASE_ROLE,
                dbname=DATABASE_NAME,
                connect_timeout=_CONNECT_SECS,
            )
        except psycopg2.Error as error:
            text = " ".join(str(error).split())
            raise Unavailable(f"{DATABASE.id}: no session opened: {text}") from None
        connection.autocommit = True
        with closing(connection), connection.cursor() as cursor:
            return [_answer(cursor, one) for one in statements]

    def _where(self) -> dict[str, Any]:
        if not self.there["address"]:
            return {"host": self.there["directory"]}
        host, _, port = self.there["address"].rpartition(":")
        return {"host": host, "port": int(port)}


def _answer(cursor: Any, statement: str) -> StatementAnswer:
    try:
        cursor.execute(statement)
        row = cursor.fetchone()
    except psycopg2.Error as error:
        told = error.diag
        return StatementAnswer(
            code=error.pgcode or "",
            text=told.message_primary or "",
            detail=told.message_detail or "",
            hint=told.message_hint or "",
        )
    return StatementAnswer(value=row[0] if row else None)
