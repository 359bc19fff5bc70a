"""From a parse tree to effects: each node is looked at once, and one of a type not known is told.

Pure.  A stack of its own: the depth of a tree costs no recursion.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

from attrs import define, field, frozen

from svc.kinds.postgres.effects import (
    LONGEST,
    LONGEST_NAME,
    MOST_NAMES,
    NameChange,
    TextEffects,
    Unreadable,
    parse_tree,
)
from svc.kinds.postgres.nodes import (
    CHANGING_SETTINGS,
    DEFINING,
    EFFECTS_OF_FUNCTIONS,
    LARGE_OBJECTS,
    PARTS_OF_TABLES,
    PLAIN,
    REACHING_OUT,
    READING_LARGE_OBJECTS,
    RUNNING_TEXT,
)
from svc.kinds.postgres.reading import changes_reading
from svc.kinds.postgres.shapes import by_shape

Node = Mapping[str, Any]

SETTINGS_VIEW = "pg_settings"
"""An UPDATE of it is a SET."""

_SIMPLE = re.compile(r"[a-z_][a-z0-9_$]*\Z")
_ENDS = frozenset({"COMMIT", "ROLLBACK", "ROLLBACK TO"})


@frozen
class Scope:
    """Where a node stands.

    Attributes:
        ctes: Names that WITH gives to results: no tables.
        tables: What a table named here is put with.
    """

    ctes: frozenset[str]
    tables: set[str]


@lru_cache(4096)
def text_effects(text: bytes, longest: int = LONGEST) -> TextEffects:
    """What a text would do, or why nobody knows; the same text, or its shape, is read once."""
    read = partial(_read, longest=longest)
    return by_shape(text, read) if len(text) <= longest else read(text)


def _read(text: bytes, longest: int) -> TextEffects:
    try:
        tree = parse_tree(text, longest)
    except Unreadable as why:
        return TextEffects(incomplete=str(why), complaint=why.complaint)
    walk = Walk()
    walk.run(tree.get("stmts", ()))
    return walk.found


def dotted(parts: list[str]) -> str:
    """A name as SQL writes it."""
    return ".".join(
        part if _SIMPLE.match(part) else '"{}"'.format(part.replace('"', '""')) for part in parts
    )


def _strings(nodes: Any) -> list[str]:
    return [node["String"].get("sval", "") for node in nodes or () if "String" in node]


def _constant(nodes: Any) -> str | None:
    """The text that the first of the arguments is; None: it is no constant."""
    first = nodes[0].get("A_Const", {}) if nodes else {}
    return first["sval"].get("sval", "") if "sval" in first else None


def _relation(node: Node) -> str:
    return dotted([node[part] for part in ("catalogname", "schemaname", "relname") if part in node])


@define
class Walk:
    """One walk over the statements of one text."""

    effects: set[str] = field(factory=set)
    reads: set[str] = field(factory=set)
    writes: set[str] = field(factory=set)
    objects: set[str] = field(factory=set)
    functions: set[str] = field(factory=set)
    unknown: set[str] = field(factory=set)
    kinds: list[str] = field(factory=list)
    executes: set[bytes] = field(factory=set)
    changes: list[NameChange] = field(factory=list)
    _todo: list[tuple[Any, Scope]] = field(factory=list)

    def run(self, statements: Any) -> None:
        """Look at all of them."""
        for one in statements:
            statement = one.get("stmt", {})
            kind = next(iter(statement), "")
            body = statement.get(kind, {})
            is_end = kind == "TransactionStmt" and _transaction(body) in _ENDS
            self.kinds.append("end" if is_end else kind)
            if kind == "PrepareStmt":
                self._prepare(body)
                continue
            if kind == "DeallocateStmt" and "name" in body:
                self.changes.append(NameChange(body["name"].encode("utf-8"), None))
            self._push(statement, Scope(frozenset(), self.reads))
        while self._todo:
            self._look(*self._todo.pop())

    @property
    def found(self) -> TextEffects:
        """What it came to."""
        effects = TextEffects(
            effects=frozenset(self.effects),
            reads=frozenset(self.reads),
            writes=frozenset(self.writes),
            objects=frozenset(self.objects),
            functions=frozenset(self.functions),
            incomplete=min(self.unknown, default=""),
            ends_transaction=bool(self.kinds) and set(self.kinds) == {"end"},
            executes=frozenset(self.executes),
            changes=tuple(self.changes),
        )
        for names in (effects.reads, effects.writes, effects.objects, effects.functions):
            if len(names) > MOST_NAMES or any(len(name) > LONGEST_NAME for name in names):
                return TextEffects(effects=effects.effects, incomplete="too_many_names")
        return effects

    def _push(self, node: Any, scope: Scope) -> None:
        if isinstance(node, dict | list):
            self._todo.append((node, scope))

    def _rest(self, body: Node, scope: Scope, *skip: str) -> None:
        for key, value in body.items():
            if key not in skip:
                self._push(value, scope)

    def _look(self, node: Any, scope: Scope) -> None:
        if isinstance(node, list):
            for item in node:
                self._push(item, scope)
        elif "relname" in node and "relpersistence" in node:
            self._table(node, scope)
        else:
            for key, value in node.items():
                self._look_at(key, value, scope)

    def _look_at(self, key: str, value: Any, scope: Scope) -> None:
        rule = _RULES.get(key)
        if not key[:1].isupper():
            self._push(value, scope)
        elif rule is not None:
            rule(self, value, scope)
        elif key in PLAIN:
            self._plain(key, value, scope)
        elif key in DEFINING:
            self._define(key, value)
        else:
            self.unknown.add(f"node_{key}")
            self._push(value, scope)

    # -- names

    def _table(self, node: Node, scope: Scope) -> None:
        if "schemaname" in node or node["relname"] not in scope.ctes:
            scope.tables.add(_relation(node))

    def _plain(self, key: str, value: Any, scope: Scope) -> None:
        if key == "A_Expr" and len(value.get("name", ())) > 1:
            self.functions.add("operator " + ".".join(_strings(value["name"])))
        self._push(value, scope)

    def _call(self, value: Node, scope: Scope) -> None:
        parts = _strings(value["funcname"])
        if len(parts) > 1 and parts[0] == "pg_catalog":
            parts = parts[1:]
        name = parts[-1] if parts else ""
        self.functions.add(dotted(parts))
        self.effects.update(
            effect for effect, names in EFFECTS_OF_FUNCTIONS.items() if name in names
        )
        if name in READING_LARGE_OBJECTS:
            self.reads.add(LARGE_OBJECTS)
        if name in CHANGING_SETTINGS:
            setting = _constant(value.get("args", ()))
            if setting is None or changes_reading(setting, None):
                self.unknown.add("changes_how_texts_are_read")
        if name in RUNNING_TEXT:
            self.unknown.add("function_that_runs_a_text")
        self._rest(value, scope, "funcname")

    def _sample(self, value: Node, scope: Scope) -> None:
        self.functions.add(dotted(_strings(value["method"])))
        self._rest(value, scope, "method")

    # -- queries

    def _within(self, body: Node, scope: Scope) -> Scope:
        """The scope in a statement that may begin with WITH."""
        clause = body.get("withClause") or {}
        ctes, expressions = scope.ctes, [c["CommonTableExpr"] for c in clause.get("ctes", ())]
        if clause.get("recursive"):
            ctes |= {each["ctename"] for each in expressions}
        for each in expressions:
            self._rest(each, Scope(ctes, self.reads))
            ctes |= {each["ctename"]}
        return Scope(ctes, self.reads)

    def _select(self, value: Node, scope: Scope) -> None:
        self.effects.add("read")
        inner = self._within(value, scope)
        for side in ("larg", "rarg"):
            if side in value:
                self._push({"SelectStmt": value[side]}, inner)
        if value.get("lockingClause"):
            self.effects.add("lock")
        self._into(value.get("intoClause"), inner)
        skip = ("withClause", "larg", "rarg", "lockingClause", "intoClause")
        self._rest(value, inner, *skip)

    def _into(self, clause: Node | None, scope: Scope) -> None:
        if clause:
            self.effects |= {"write", "ddl"}
            self.writes.add(_relation(clause["rel"]))
            self._rest(clause, scope, "rel")

    def _insert(self, value: Node, scope: Scope) -> None:
        inner, skip = self._within(value, scope), ""
        source = value.get("selectStmt", {}).get("SelectStmt", {})
        if "valuesLists" in source and "withClause" not in source:
            # Rows that are given are not read from anywhere, but for what is in them.
            skip = "selectStmt"
            self._rest(source, inner)
        shows = "returningClause" in value or "onConflictClause" in value
        self._changed(value, inner, shows, skip)

    def _change(self, value: Node, scope: Scope) -> None:
        self._changed(value, self._within(value, scope), True)

    def _changed(self, value: Node, inner: Scope, shows: bool, skip: str = "") -> None:
        self.effects |= {"read", "write"} if shows else {"write"}
        target = _relation(value["relation"])
        self.writes.add(target)
        if value["relation"].get("relname") == SETTINGS_VIEW:
            self.unknown.add("changes_how_texts_are_read")
        if shows:
            self.reads.add(target)
        self._rest(value, inner, "relation", "withClause", skip)

    def _copy(self, value: Node, scope: Scope) -> None:
        is_from = value.get("is_from", False)
        self.effects.add("write" if is_from else "read")
        if "relation" in value:
            (self.writes if is_from else self.reads).add(_relation(value["relation"]))
        if "filename" in value or value.get("is_program"):
            self.effects.add("unsafe_io")
        self._rest(value, scope, "relation")

    def _truncate(self, value: Node, scope: Scope) -> None:
        self.effects.add("write")
        self._rest(value, Scope(frozenset(), self.writes))

    def _lock(self, value: Node, scope: Scope) -> None:
        self.effects.add("lock")
        self._rest(value, Scope(frozenset(), self.objects))

    def _create_as(self, value: Node, scope: Scope) -> None:
        self._into(value["into"], scope)
        self._rest(value, scope, "into")

    def _refresh(self, value: Node, scope: Scope) -> None:
        self.effects |= {"write", "ddl"}
        self._rest(value, Scope(frozenset(), self.writes))

    # -- the rest

    def _define(self, key: str, value: Node) -> None:
        self.effects.add("ddl")
        if key in REACHING_OUT:
            self.effects.add("unsafe_io")
        sort = value.get("removeType") or value.get("objtype") or ""
        named = value.get("objects", []) if key == "DropStmt" else [value.get("object")]
        for each in named:
            self._named(sort, each or {})
        self._rest(value, Scope(frozenset(), self.objects))

    def _named(self, sort: str, node: Node) -> None:
        """An object by its name; of a part of a table, the table."""
        inner = next(iter(node.values()), None)
        if not isinstance(inner, dict):
            return
        names = inner.get("items") or inner.get("names") or inner.get("objname") or [node]
        parts = _strings(names)
        if sort in PARTS_OF_TABLES:
            parts = parts[:-1]
        if parts:
            self.objects.add(dotted(parts))

    def _set_variable(self, value: Node, scope: Scope) -> None:
        args = value.get("args", ())
        if args:  # without a value it is RESET or SET DEFAULT, back to the session's start
            given = _constant(args) if len(args) == 1 else None
            if changes_reading(value.get("name", ""), given):
                self.unknown.add("changes_how_texts_are_read")
        self._set(value, scope)

    def _set(self, value: Node, scope: Scope) -> None:
        self.effects.add("set")
        self._rest(value, scope)

    def _control(self, value: Node, scope: Scope) -> None:
        self.effects.add("transaction")

    def _explain(self, value: Node, scope: Scope) -> None:
        self.effects.add("read")
        self._rest(value, scope)

    def _show(self, value: Node, scope: Scope) -> None:
        self.effects.add("read")

    def _notify(self, value: Node, scope: Scope) -> None:
        self.effects.add("notify")

    def _load(self, value: Node, scope: Scope) -> None:
        self.effects.add("unsafe_io")

    def _do(self, value: Node, scope: Scope) -> None:
        self.effects.add("call")
        self.unknown.add("do_block")

    def _procedure(self, value: Node, scope: Scope) -> None:
        self.effects.add("call")
        self._call(value["funccall"], scope)

    def _execute(self, value: Node, scope: Scope) -> None:
        self.executes.add(value["name"].encode("utf-8"))
        self._rest(value, scope)

    def _prepare(self, body: Node) -> None:
        """A PREPARE may do what its EXECUTE does: it is decided by the same."""
        inner = Walk()
        inner.run([{"stmt": body["query"]}])
        found = inner.found
        self.effects |= found.effects
        self.reads |= found.reads
        self.writes |= found.writes
        self.objects |= found.objects
        self.functions |= found.functions
        if found.incomplete:
            self.unknown.add(found.incomplete)
        self.changes.append(NameChange(body["name"].encode("utf-8"), found))
        self._rest(body, Scope(frozenset(), self.reads), "query")


Rule = Callable[[Walk, Any, Scope], None]

_RULES: Mapping[str, Rule] = {
    "RangeVar": Walk._table,
    "FuncCall": Walk._call,
    "RangeTableSample": Walk._sample,
    "SelectStmt": Walk._select,
    "InsertStmt": Walk._insert,
    "UpdateStmt": Walk._change,
    "DeleteStmt": Walk._change,
    "MergeStmt": Walk._change,
    "CopyStmt": Walk._copy,
    "TruncateStmt": Walk._truncate,
    "LockStmt": Walk._lock,
    "CreateTableAsStmt": Walk._create_as,
    "RefreshMatViewStmt": Walk._refresh,
    "VariableSetStmt": Walk._set_variable,
    "DiscardStmt": Walk._set,
    "DeallocateStmt": Walk._set,
    "ConstraintsSetStmt": Walk._control,
    "TransactionStmt": Walk._control,
    "ExplainStmt": Walk._explain,
    "DeclareCursorStmt": Walk._explain,
    "FetchStmt": Walk._show,
    "ClosePortalStmt": Walk._show,
    "VariableShowStmt": Walk._show,
    "ListenStmt": Walk._notify,
    "UnlistenStmt": Walk._notify,
    "NotifyStmt": Walk._notify,
    "LoadStmt": Walk._load,
    "DoStmt": Walk._do,
    "CallStmt": Walk._procedure,
    "ExecuteStmt": Walk._execute,
}


def _transaction(body: Node) -> str:
    return str(body.get("kind", "")).removeprefix("TRANS_STMT_").replace("_", " ")
