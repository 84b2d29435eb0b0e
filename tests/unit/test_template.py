"""A template is rendered in one pass, and what it inserts stays data.

Contract: S1.15, S1.16, S1.17, S1.19, S1.21, S4.12, S4.14, C17, C18, C19, B1.15, B4.7.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memwell.context.template import (
    BARE,
    MAX_EXPRESSION,
    MAX_EXPRESSIONS,
    MAX_RESULT,
    MAX_TEMPLATE,
    Expression,
    Lookup,
    Missing,
    Rendered,
    list_expressions,
    parse,
    render,
)
from memwell.errors import Invalid, TooLarge
from memwell.text.fence import hide_marks
from memwell.text.moments import build_time_formatter

from ..cases import cases
from ..processor_time import processor_time
from ..properties import examples

NOW = datetime(2026, 4, 19, 10, 0, tzinfo=UTC)
VALUES: Lookup = {
    BARE: {"input": "the parent's output", "attachments": [{"name": "a.pdf"}], "organization_id": ""},
    "agent": {"input": "the run's input", "name": "Ada"},
    "metadata": {
        "user_id": "alice",
        "project_id": 7,
        "user": {"id": "u-1", "e-mail": "a@example.org", "straße": "Am Markt"},
        "tags": ["new", "vip"],
        "a": {"b": [0, 1, {"c": "deep"}]},
        "yes": True,
        "no": False,
        "ratio": 0.5,
        "nothing": None,
        "empty": "",
    },
    "step": {"extract": {"output": "facts"}},
}
MODES: tuple[Missing, ...] = get_args(Missing)

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("{{input}}")
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from("abc"), inner), max_leaves=8
)
PIECES = [
    "{{", "}}", "{", "}", " ", "\n", ".", "[", "]", "[0]", "[1]", "[*]", "a", "b", "c", "ns", "ns.", "-", "_", "é", "now",
    "1 week ago", "99999 years ago", "9000 years ago", "{{ns.a}}", "{{ a }}", "{{ns.b[0].c}}", "{{yesterday}}", "\ud800",
    "\x00", "9" * 30, "{{1 2}}",
]  # fmt: skip
HOSTILE = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=14).map("".join)


def rendered(text: str, missing: Missing = "empty", values: Lookup = VALUES) -> Rendered:
    return render(parse(text), values, missing=missing)


def text_of(text: str) -> str:
    return rendered(text, "error").text


@cases(
    ("text", "shown"),
    [
        ("{{input}}", "the parent's output"),
        ("{{agent.input}}", "the run's input"),
        ("{{ metadata.user_id }}", "alice"),
        ("{{\n\tmetadata.user_id\n}}", "alice"),
        ("project-{{metadata.project_id}}", "project-7"),
        ("{{agent.name}}: {{input}}!", "Ada: the parent's output!"),
        ("{{input}}{{input}}", "the parent's output" * 2),
        ("{{step.extract.output}}", "facts"),
        ("{{organization_id}}", ""),
    ],
)
def test_names_are_replaced_also_inside_text(text: str, shown: str) -> None:
    """S1.15, S1.16, S1.19, S1.21, B1.15, B4.7."""
    assert text_of(text) == shown


@cases(
    ("path", "shown"),
    [
        ("metadata.user.id", "u-1"),
        ("metadata.user.e-mail", "a@example.org"),
        ("metadata.user.straße", "Am Markt"),
        ("metadata.tags[0]", "new"),
        ("metadata.tags[01]", "vip"),
        ("metadata.a.b[2].c", "deep"),
        ("attachments[0].name", "a.pdf"),
    ],
)
def test_a_path_goes_into_objects_by_name_and_into_arrays_by_index(path: str, shown: str) -> None:
    """S1.16, B1.15."""
    assert text_of(f"{{{{{path}}}}}") == shown


@cases(
    ("path", "shown"),
    [
        ("metadata.yes", "true"),
        ("metadata.no", "false"),
        ("metadata.ratio", "0.5"),
        ("metadata.tags", '["new","vip"]'),
        ("metadata.a", '{"b":[0,1,{"c":"deep"}]}'),
        ("metadata.user", '{"id":"u-1","e-mail":"a@example.org","straße":"Am Markt"}'),
    ],
)
def test_values_other_than_text_are_inserted_as_compact_json(path: str, shown: str) -> None:
    assert text_of(f"{{{{{path}}}}}") == shown


@cases("value", [float("nan"), float("inf"), {1, 2}, b"bytes", NOW, object(), [[float("nan")]]])
def test_values_that_are_not_json_are_refused(value: Any) -> None:
    with pytest.raises(Invalid, match="line 1, column 3: 'a' has a value that cannot be written as JSON"):
        rendered("x {{a}}", values={BARE: {"a": value}})


def test_a_value_that_never_ends_is_refused() -> None:
    deep: list[Any] = []
    deep.append(deep)
    endless: list[Any] = []
    for _ in range(100_000):
        endless = [endless]
    for value in (deep, endless):
        with pytest.raises(Invalid, match="JSON"):
            rendered("{{a}}", values={BARE: {"a": value}})


@cases(
    "path",
    [
        "metadata.missing",
        "metadata.user.missing.id",
        "metadata.user_id.length",
        "metadata.user_id[0]",
        "metadata.tags[2]",
        "metadata.tags[99999999999999999999999]",
        "metadata.tags.0",
        "metadata.user[0]",
        "metadata.nothing",
        "unknown",
        "attachments[1]",
        "yesterday",
    ],
)
def test_what_is_missing_is_empty_or_an_error_as_the_surface_says(path: str) -> None:
    """C17, C18, B4.7: missing metadata is told, so that a key made from it can be refused."""
    text, missing = rendered(f"a-{{{{ {path} }}}}")
    assert text == "a-"
    assert [(one.source, one.line, one.column) for one in missing] == [(path, 1, 3)]
    with pytest.raises(Invalid, match=r"line 1, column 3: .* has no value") as error:
        rendered(f"a-{{{{ {path} }}}}", "error")
    assert error.value.details == {"line": 1, "column": 3}


def test_an_empty_text_is_not_missing() -> None:
    """C17, C19, B4.7: an absent variable that a surface defines as empty is fine, even where missing is an error."""
    assert rendered("[{{metadata.empty}}]", "error") == ("[]", ())


def test_memory_is_one_variable_among_others() -> None:
    """S4.12, S4.14, C19."""
    values = {BARE: {"user_id": "alice", "memory_context": "[2026-04-19] note: {{user_id}}"}}
    shown = rendered("For {{user_id}}:\n{{ memory_context }}", "error", values)
    assert shown.text == "For alice:\n[2026-04-19] note: {{user_id}}"


@pytest.mark.parametrize("missing", MODES)
def test_an_unknown_namespace_is_always_an_error_that_names_the_known_ones(missing: Missing) -> None:
    """C18."""
    with pytest.raises(Invalid) as error:
        rendered("x\n  {{metdata.user_id}}", missing)
    assert str(error.value) == (
        "Template, line 2, column 3: 'metdata.user_id' needs `metdata`, not known here. "
        "Known: bare names, `agent`, `metadata`, `step`."
    )
    with pytest.raises(Invalid, match=r"'input' needs bare names, not known here\. Known: `agent`"):
        rendered("{{input}}", missing, {"agent": {}})
    with pytest.raises(Invalid, match="Known: nothing"):
        rendered("{{input}}", missing, {})


@cases(
    ("text", "said"),
    [
        ("{{", "line 1, column 1: `{{` is never closed"),
        ("a\nbc {{input}", "line 2, column 4: `{{` is never closed"),
        ("a\n\n{{input}}\n }} {{ x }", "line 4, column 5: `{{` is never closed"),
        ("{{}}", "line 1, column 1: there is no name"),
        ("é {{ \n }}", "line 1, column 3: there is no name"),
        (
            "{{ {{ input }} }}",
            "line 1, column 4: `{{` inside another expression: close the one at line 1, column 1 first",
        ),
        ("{{ a\n {{ b }}", "line 2, column 2: `{{` inside another expression: close the one at line 1, column 1 first"),
        ("{{{input}}}", "line 1, column 1: '{input' is not a name"),
        ("{{attachments[*]}}", "'attachments[*]' is not a name"),
        ("{{attachments[*.pdf]}}", "is not a name"),
        ("{{a[-1]}}", "is not a name"),
        ("{{a[]}}", "is not a name"),
        ("{{[0]}}", "is not a name"),
        ("{{a[0]b}}", "is not a name"),
        ("{{a.}}", "is not a name"),
        ("{{.a}}", "is not a name"),
        ("{{a..b}}", "is not a name"),
        ("{{a . b}}", "is not a name"),
        ("{{a|upper}}", "is not a name"),
        ("{{#if a}}", "is not a name"),
        ("{{a[٣]}}", "is not a name"),
    ],
)
def test_what_cannot_be_read_says_what_and_where(text: str, said: str) -> None:
    """B4.7."""
    with pytest.raises(Invalid) as error:
        parse(text)
    assert said in str(error.value)


@cases("text", ["", "{", "}", "}}", "{ {input} }", "{ { input } }", '{"a": {"b": 1}}', "a }} b", "{input}"])
def test_single_braces_are_plain_text(text: str) -> None:
    assert text_of(text) == text


def test_json_may_stand_around_an_expression() -> None:
    assert text_of('{"a":{"b":{{metadata.tags}}}}') == '{"a":{"b":["new","vip"]}}'


def test_names_give_every_expression_with_its_place() -> None:
    template = parse("{{input}} and\n é{{ metadata.tags[0] }}{{attachments[0].name}}\n{{1 week  ago}}{{input}}")
    assert list_expressions(template) == (
        Expression("input", 1, 1, BARE, ("input",)),
        Expression("metadata.tags[0]", 2, 3, "metadata", ("tags", 0)),
        Expression("attachments[0].name", 2, 25, BARE, ("attachments", 0, "name")),
        Expression("1 week  ago", 3, 1, BARE, ()),
        Expression("input", 3, 16, BARE, ("input",)),
    )
    assert list_expressions(parse("nothing")) == ()


@cases(
    ("text", "shown"),
    [
        ("{{1 week ago}}", "2026-04-12T10:00:00Z"),
        ("since {{ Yesterday }}", "since 2026-04-18T00:00:00Z"),
        ("{{now}}", "2026-04-19T10:00:00Z"),
        ("{{in  2\ndays}}", "2026-04-21T10:00:00Z"),
        ("{{2026-01-01}}", "2026-01-01T00:00:00Z"),
        ("{{2026-01-01T00:00:00Z}}", "2026-01-01T00:00:00Z"),
        ("{{ 2026-01-01 02:30+02:00 }}", "2026-01-01T00:30:00Z"),
        ("{{2026-01-01t00:00:00,25z}}", "2026-01-01T00:00:00.250000Z"),
    ],
)
def test_times_are_replaced_where_they_are_allowed(text: str, shown: str) -> None:
    """S1.17: time substitutions, such as `{{1 week ago}}`."""
    assert render(parse(text), VALUES, missing="error", times=build_time_formatter(NOW)).text == shown
    assert render(parse(text), {}, missing="error", times=build_time_formatter(NOW)).text == shown


@pytest.mark.parametrize("missing", MODES)
def test_times_are_an_error_where_they_are_not_allowed(missing: Missing) -> None:
    with pytest.raises(Invalid, match="column 3: '1 week ago' is neither a name nor a time that is allowed here"):
        rendered("x {{1 week ago}}", missing)


@cases("missing", MODES)
@cases(
    ("words", "said"),
    [
        ("1 wek ago", "'1 wek ago' is neither a name nor a time that is allowed here"),
        ("2026-01-01T25:00", "'2026-01-01T25:00' is neither a name nor a time that is allowed here"),
        ("9999-12-31T23:59-01:00", "not within the years 1 to 9999"),
        ("9000 years ago", "not within the years 1 to 9999"),
        ("10001 days ago", "at most 10000 units"),
    ],
)
def test_a_time_that_cannot_be_is_an_error_with_its_place(words: str, said: str, missing: Missing) -> None:
    """S1.17."""
    with pytest.raises(Invalid, match=f"Template, line 2, column 1: .*{said}"):
        render(parse(f"\n{{{{{words}}}}}"), VALUES, missing=missing, times=build_time_formatter(NOW))


def test_a_name_of_the_surface_wins_over_a_time() -> None:
    """S1.17: even one without a value."""
    template = parse("{{today}} {{metadata.now}}")
    own: Lookup = {BARE: {"today": "Sunday"}, "metadata": {"now": "never"}}
    assert render(template, own, missing="error", times=build_time_formatter(NOW)).text == "Sunday never"
    unset: Lookup = {BARE: {"today": None}, "metadata": {}}
    shown = render(template, unset, missing="empty", times=build_time_formatter(NOW))
    assert (shown.text, [one.source for one in shown.missing]) == (" ", ["today", "metadata.now"])


def test_a_namespace_may_fetch_what_it_is_asked_for() -> None:
    class Stores(Mapping[str, Any]):
        def __getitem__(self, name: str) -> Any:
            return {"userPrefs": {"preferences": {"language": "pt"}, "recentOrders": [1, 2]}}[name]

        def __iter__(self) -> Iterator[str]:
            raise NotImplementedError

        def __len__(self) -> int:
            raise NotImplementedError

    text = "{{memory.userPrefs.preferences.language}} {{memory.userPrefs.recentOrders}} {{memory.other.x}}"
    assert rendered(text, values={"memory": Stores()}).text == "pt [1,2] "


def test_a_template_and_its_expressions_are_limited() -> None:
    parse("x" * MAX_TEMPLATE)
    parse("{{" + "x" * MAX_EXPRESSION + " " * 1000 + "}}")
    assert len(list_expressions(parse("{{x}}" * MAX_EXPRESSIONS))) == MAX_EXPRESSIONS
    for text in ("x" * (MAX_TEMPLATE + 1), "é" * (MAX_TEMPLATE // 2 + 1)):
        with pytest.raises(TooLarge, match="at most 1 MiB"):
            parse(text)
    with pytest.raises(Invalid, match="column 1: an expression has at most 500 characters, not 501"):
        parse("{{" + "x" * (MAX_EXPRESSION + 1) + "}}")
    with pytest.raises(Invalid, match="line 1, column 1: a template has at most 10000 expressions"):
        parse("{{x}}" * MAX_EXPRESSIONS + "{{x}}")


def test_a_result_is_refused_while_it_grows() -> None:
    """A template of some kilobytes that asks for 10 GiB stops at the fifth value, long before the last."""
    asked: list[str] = []

    class Watched(dict[str, Any]):
        def __getitem__(self, name: str) -> Any:
            asked.append(name)
            return super().__getitem__(name)

    bomb = parse("{{x}}" * MAX_EXPRESSIONS)
    for value in ("x" * (1 << 20), "é" * (1 << 19), ["x" * ((1 << 20) - 4)]):
        asked.clear()
        with pytest.raises(TooLarge, match="at most 4 MiB"):
            render(bomb, {BARE: Watched(x=value)}, missing="error")
        assert len(asked) == 5


def test_a_result_may_be_as_large_as_its_limit() -> None:
    values: Lookup = {BARE: {"x": "x" * (MAX_RESULT - 1)}}
    assert len(rendered("y{{x}}", values=values).text) == MAX_RESULT
    with pytest.raises(TooLarge):
        rendered("y{{x}}y", values=values)


@settings(max_examples=examples(200, chaos=10_000), deadline=None, database=None)
@given(HOSTILE.map(lambda text: text.replace("{{", "{")) | st.text())
def test_text_without_expressions_renders_to_itself(text: str) -> None:
    """B4.7."""
    while "{{" in text:
        text = text.replace("{{", "{")
    assert rendered(text, "error", {}) == (text, ())


@settings(max_examples=examples(200, chaos=10_000), deadline=None, database=None)
@given(HOSTILE, HOSTILE, st.lists(st.sampled_from(["{{a}}", "{{ ns.b }}", "-", "}}"]), max_size=6).map("".join))
@example("{{ns.b}}", "{{a}}", "{{a}}{{ ns.b }}")
@example("{{", "ns.b}}", "{{a}}{{ ns.b }}")
@example("{", "{a}}", "{{a}}{{ ns.b }}")
def test_values_are_never_expanded_again(first: str, second: str, text: str) -> None:
    """C18, B4.7: the pieces of a value cannot be put together to an expression either."""
    expected = second.join(part.replace("{{a}}", first) for part in text.split("{{ ns.b }}"))
    values: Lookup = {BARE: {"a": first}, "ns": {"b": second}}
    assert render(parse(text), values, missing="error", times=build_time_formatter(NOW)).text == expected


@settings(max_examples=examples(300, chaos=20_000), deadline=None, database=None)
@given(HOSTILE | st.text(), JSON, JSON, st.sampled_from(MODES), st.booleans())
def test_no_input_makes_anything_but_invalid(text: str, one: Any, other: Any, missing: Missing, timed: bool) -> None:
    values: Lookup = {BARE: {"a": one, "b": other}, "ns": {"a": other, "b": [one]}}
    with suppress(Invalid):
        template = parse(text)
        shown = render(template, values, missing=missing, times=build_time_formatter(NOW) if timed else None)
        assert set(shown.missing) <= set(list_expressions(template))
        assert missing == "empty" or not shown.missing


@settings(max_examples=examples(100, chaos=5_000), deadline=None, database=None)
@given(JSON.filter(lambda value: value is not None and not isinstance(value, str)))
def test_a_json_value_can_be_read_back(value: Any) -> None:
    try:
        text = rendered("{{a}}", values={BARE: {"a": value}}).text
    except Invalid:
        assert "NaN" in json.dumps(value) or "Infinity" in json.dumps(value)
    else:
        assert json.loads(text) == value


@cases(
    "piece",
    [
        "{{",
        "{{ ",
        "}}",
        "{",
        "{\n",
        "{{}",
        "\n",
        "\n\n{{a}}" + " " * 300,
        "{{a}}" + "x" * 300,
        "é",
        "{{a}}é" + "\n" * 300,
    ],
)
def test_a_mebibyte_is_rendered_in_linear_time(piece: str) -> None:
    taken = []
    for size in (1 << 18, 1 << 20):
        text = piece * (size // len(piece.encode()))
        taken.append(processor_time(partial(_render, text)))
    assert taken[1] < 12 * max(taken[0], 0.02)


def _render(text: str) -> None:
    with suppress(Invalid):
        rendered(text, values={BARE: {"a": "{{a}}" * 50}})


def test_a_value_is_cleaned_once_however_often_it_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """T2: planted text must not cost again for each place of a template."""
    cleaned: list[str] = []

    def clean(line: str) -> str:
        cleaned.append(line)
        return hide_marks(line)

    monkeypatch.setattr("memwell.context.template.hide_marks", clean)
    made = render(
        parse("{{memory.a}} {{memory.b}} " * 100),
        {"memory": {"a": "<", "b": {"c": 1}}},
        missing="error",
        on_one_line={"memory"},
    )
    assert made.text == '< {"c":1} ' * 100
    assert cleaned == ["<", '{"c":1}']
