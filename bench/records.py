"""Records: reading, merging into and deleting one, and filling a template from them."""

from __future__ import annotations

from pathlib import Path

from memwell import Memory

from .bare_records import USER, bare_records
from .measure import alternate, median_ratio
from .sizes import Sizes
from .table import Row, at_most, duration, spread, verdict

GET_LIMIT = 3.0
SET_LIMIT = 1.5
RENDER_LIMIT_S = 0.0002
VALUES = 20
FIELDS = {f"field_{number}": f"value {number}" for number in range(VALUES)}
TEMPLATE = "\n".join(f"Field {number}: {{{{memory.prefs.field_{number}}}}}" for number in range(VALUES))
SCHEMA = {"type": "object", "properties": {name: {"type": "string"} for name in FIELDS}}


def rows(folder: Path, sizes: Sizes) -> list[Row]:
    """Alternate between Memwell and the bare limit, on records of the same value."""
    contract = {"access": "user", "schema": SCHEMA, "strict": True}
    with Memory(folder / "records", worker=False) as memory, bare_records(folder / "records.db", contract) as bare:
        records = memory.user(USER).records
        records.set("profile", FIELDS)
        bare.merge("profile", FIELDS)
        shop = memory.app("shop").scope(user_id=USER)
        memory.app("shop").stores.create("prefs", access="user", schema=SCHEMA, strict=True)
        shop.set_content("prefs", FIELDS)
        change = {"field_3": "another value"}
        found = []
        pairs = (
            ("get a record", GET_LIMIT, lambda: records.get("profile"), lambda: bare.get("profile")),
            ("get_content of a store", GET_LIMIT, lambda: shop.get_content("prefs"), lambda: bare.get_held("profile")),
        )
        for what, most, ours, limit in pairs:
            found.append(_beside(what, most, *alternate(sizes.reads, ours, limit)))
        writes = (
            ("merge into a record", lambda: records.update("profile", change), lambda: bare.merge("profile", change)),
            (
                "set_content of a store",
                lambda: shop.set_content("prefs", change),
                lambda: bare.merge_held("profile", change),
            ),
        )
        for what, ours_write, limit_write in writes:
            found.append(_beside(what, SET_LIMIT, *alternate(sizes.appends, ours_write, limit_write)))
        found.append(_deleted(memory, bare, sizes))
        found.append(_rendered(memory, sizes))
    return found


def _deleted(memory, bare, sizes: Sizes) -> Row:  # type: ignore[no-untyped-def]
    records = memory.user(USER).records
    count = (sizes.appends.rounds + 1) * sizes.appends.block
    for number in range(count):
        records.set(f"gone_{number}", FIELDS)
        bare.merge(f"gone_{number}", FIELDS)
    ours_left, bare_left = iter(range(count)), iter(range(count))
    ours, limit = alternate(
        sizes.appends,
        lambda: records.delete(f"gone_{next(ours_left)}"),
        lambda: bare.delete(f"gone_{next(bare_left)}"),
    )
    return _beside("delete a record", SET_LIMIT, ours, limit)


def _rendered(memory: Memory, sizes: Sizes) -> Row:
    """The renderer alone, and the whole operation through the SDK."""
    from memwell.context.template import parse, render

    parsed = parse(TEMPLATE)
    shop = memory.app("shop").scope(user_id=USER)
    assert shop.render(TEMPLATE).count("value") == VALUES
    values = {"memory": {"prefs": FIELDS}}
    whole, alone = alternate(
        sizes.reads,
        lambda: shop.render(TEMPLATE),
        lambda: render(parsed, values, missing="empty", on_one_line=("memory",)),
    )
    what = f"a template with {VALUES} values, read and rendered"
    target = f"<= {duration(RENDER_LIMIT_S)}"
    return Row(what, spread(whole), spread(alone), "-", target, verdict(whole.median <= RENDER_LIMIT_S))


def _beside(what: str, most: float, ours, limit) -> Row:  # type: ignore[no-untyped-def]
    return at_most(what, spread(ours), spread(limit), median_ratio(ours.blocks, limit.blocks), most)
