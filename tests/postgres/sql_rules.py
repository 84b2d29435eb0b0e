"""Whether SQL keeps the rules under which tables can be shared by tenants and distributed by them.

A statement is parsed, and every table of a tenant in it, wherever it stands, must be held to the bound tenant by a condition
of its own: one that every row must meet which that table contributes. The tenant may not be used in any other way.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

# What is asked of the server that the application must tell it (rule 9), or that is tied to a session (rule 12).
FORBIDDEN = re.compile(
    r"now|clock_timestamp|statement_timestamp|transaction_timestamp|timeofday|current_timestamp|current_date|current_time"
    r"|current_?datetime|localtime(stamp)?|rand(om)?|random_normal|randomblob|setseed|gen_random_uuid|uuid|uuidv[47]|uuid_generate_v\w+"
    r"|nextval|currval|setval|lastval|pg_notify|set_config|pg_(try_)?advisory\w*|strftime|julianday|unixepoch|last_insert_rowid"
)
STATEMENTS = (exp.Select, exp.SetOperation, exp.Insert, exp.Update, exp.Delete)
# A function that asks for itself whether the tenant is the transaction's.
ASKS_ITSELF = "postings"


def faults(sql: str, tables: frozenset[str], dialect: str = "postgres") -> list[str]:
    """What is wrong with a statement; `tables` are those inside a tenant."""
    try:
        parsed = sqlglot.parse(sql, dialect=dialect)
    except SqlglotError as error:
        return [f"cannot be read: {str(error).splitlines()[0]}"]
    return [fault for statement in parsed if statement is not None for fault in _faults(statement, tables)]


def _faults(statement: exp.Expr, tables: frozenset[str]) -> Iterator[str]:
    if not isinstance(statement, STATEMENTS):
        yield f"not a query: {statement.key.upper()}"
        return
    for node in statement.walk():
        match node:
            case exp.Merge() | exp.Command() | exp.Create() | exp.Drop():
                yield f"not a query: {node.key.upper()}"
            case exp.Into():
                yield "makes a table"
            case exp.Join() if node.side == "FULL" and node.args.get("using"):
                yield "a full join with USING"
            case exp.Join() if node.args.get("method") == "NATURAL":
                yield "a natural join"
            case exp.Func() if FORBIDDEN.fullmatch(_name(node)):
                yield f"calls {_name(node)}"
            case exp.Insert():
                yield from _of_insertion(node, tables)
            case exp.Update():
                yield from _of_update(node)
            case exp.Table() if node.name.lower() in tables and not _is_target(node):
                if not _held(node):
                    yield f"{node.name} is not held to the tenant"
    yield from _other_uses(statement)


def _name(function: exp.Func) -> str:
    return (function.name if isinstance(function, exp.Anonymous) else function.sql_names()[0]).lower()


# -- what is written -----------------------------------------------------------------------------------------------------


def _of_insertion(insertion: exp.Insert, tables: frozenset[str]) -> Iterator[str]:
    target = insertion.this
    table = target.this if isinstance(target, exp.Schema) else target
    if table.name.lower() not in tables:
        return
    columns = [column.name for column in target.expressions] if isinstance(target, exp.Schema) else []
    if "tenant" not in columns:
        yield f"writes to {table.name} without naming the tenant"
    elif not all(_is_bound(row[columns.index("tenant")]) for row in _rows(insertion)):
        yield f"writes to {table.name} for another tenant"
    conflict = insertion.args.get("conflict")
    if conflict is not None:
        keys = conflict.args.get("conflict_keys") or []
        if "tenant" not in [key.name for key in keys]:
            yield "ON CONFLICT does not name the tenant"


def _rows(insertion: exp.Insert) -> list[list[exp.Expr]]:
    source = insertion.expression
    if isinstance(source, exp.Values):
        return [row.expressions for row in source.expressions]
    return [select.expressions for select in _selects(source)]


def _selects(source: exp.Expr) -> list[exp.Select]:
    if isinstance(source, exp.SetOperation):
        return _selects(source.left) + _selects(source.right)
    return [source] if isinstance(source, exp.Select) else []


def _of_update(update: exp.Update) -> Iterator[str]:
    if any(isinstance(change, exp.EQ) and change.left.name == "tenant" for change in update.expressions):
        yield "a row changes hands"


def _is_target(table: exp.Table) -> bool:
    """Whether rows are written to it, which is looked at elsewhere."""
    parent = table.parent
    return isinstance(parent, exp.Insert) or (isinstance(parent, exp.Schema) and isinstance(parent.parent, exp.Insert))


# -- what is read --------------------------------------------------------------------------------------------------------


def _held(table: exp.Table) -> bool:
    """Whether a condition holds all rows of a table to the bound tenant."""
    scope = table.find_ancestor(exp.Select, exp.Update, exp.Delete)
    if scope is None:
        return False
    alone = len(_sources(scope)) == 1
    return any(_holds(condition, table.alias_or_name, alone) for condition in _conditions(scope, table))


def _sources(scope: exp.Expr) -> list[exp.Expr]:
    """What stands in FROM, or is changed."""
    found = [node for node in scope.find_all(exp.Table, exp.Subquery, exp.Unnest) if _is_source(node, scope)]
    return [node for node in found if not isinstance(node, exp.Table) or node.name]


def _is_source(node: exp.Expr, scope: exp.Expr) -> bool:
    place = node.parent
    while isinstance(place, exp.Join | exp.From | exp.Lateral):
        place = place.parent
    return place is scope and not (isinstance(node.parent, exp.Select) and node.arg_key == "expressions")


def _conditions(scope: exp.Expr, table: exp.Table) -> Iterator[exp.Expr]:
    """What must be true of each row that this table contributes."""
    where = scope.args.get("where")
    if where is not None:
        yield from _parts(where.this)
    for join in scope.find_all(exp.Join):
        inner = not join.side and join.kind in ("", "INNER", "CROSS")
        its_own = join.side == "LEFT" and join.this is table
        if join.args.get("on") is not None and _joins(join, scope) and (inner or its_own):
            yield from _parts(join.args["on"])


def _joins(join: exp.Join, scope: exp.Expr) -> bool:
    place = join.parent
    while isinstance(place, exp.Table | exp.From):
        place = place.parent
    return place is scope


def _parts(condition: exp.Expr) -> Iterator[exp.Expr]:
    inner = condition.unnest()
    if isinstance(inner, exp.And):
        yield from _parts(inner.left)
        yield from _parts(inner.right)
    else:
        yield inner


def _holds(condition: exp.Expr, name: str, alone: bool) -> bool:
    if not isinstance(condition, exp.EQ):
        return False
    for one, other in ((condition.left, condition.right), (condition.right, condition.left)):
        if _is_tenant(one) and _is_bound(other):
            return one.text("table") == name or (alone and not one.text("table"))
    return False


def _is_tenant(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and node.name == "tenant"


def _is_bound(node: exp.Expr) -> bool:
    return isinstance(node, exp.Placeholder) and node.name == "tenant"


def _other_uses(statement: exp.Expr) -> Iterator[str]:
    """A tenant may be compared with the bound one or with that of another row, and be written down."""
    for node in statement.find_all(exp.Column, exp.Placeholder):
        if node.name != "tenant":
            continue
        parent = node.parent
        compared = isinstance(parent, exp.EQ) and all(
            _is_tenant(side) or _is_bound(side) for side in (parent.left, parent.right)
        )
        written = _is_bound(node) and (_is_written(node) or _is_asked(node))
        if not compared and not written and not _is_conflict_key(node):
            yield "the tenant is used in another way"


def _is_written(node: exp.Expr) -> bool:
    """Whether it is a value of an insertion."""
    insertion = node.find_ancestor(exp.Insert)
    return insertion is not None and any(node is value for row in _rows(insertion) for value in row)


def _is_conflict_key(node: exp.Expr) -> bool:
    conflict = node.find_ancestor(exp.OnConflict)
    keys = conflict.args.get("conflict_keys") if conflict is not None else None
    return any(node is column for key in keys or [] for column in key.find_all(exp.Column))


def _is_asked(node: exp.Expr) -> bool:
    return isinstance(node.parent, exp.Anonymous) and node.parent.name.lower() == ASKS_ITSELF


# -- SQL between Python ----------------------------------------------------------------------------------------------------


def literals(source: Path) -> Iterator[tuple[int, str]]:
    """The pieces of text of a module, with `{}` where something is put in, and the line of each; no docstrings."""
    inner: set[int] = set()
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Expr):
            inner.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            inner.update(id(value) for value in node.values)
            yield node.lineno, "".join(_shown(value) for value in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node.lineno, node.value


def _shown(value: ast.expr) -> str:
    return str(value.value) if isinstance(value, ast.Constant) else "{}"


def unnamed(source: Path, tables: frozenset[str]) -> list[str]:
    """Pieces of SQL that read or write rows of a tenant's table, or of one that is put in, and do not name the tenant."""
    rows = re.compile(
        rf"\b(FROM|JOIN|INTO|UPDATE)\s+(\{{\}}\.)?({'|'.join(sorted(tables))}|\{{\}})(?![\w.])", re.IGNORECASE
    )
    named = re.compile(r"\btenant = |\((%?\(?)tenant\b")
    return [
        f"{source.name}:{line} {text}"
        for line, text in literals(source)
        if rows.search(text) and not named.search(text)
    ]
