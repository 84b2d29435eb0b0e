"""An online shop that remembers: memory stores of an app, from their definition to its export."""

import tempfile
from datetime import UTC, datetime
from typing import Any

from memwell import Forbidden, Invalid, Memory, function

STORES = """
userPrefs:
  name: User preferences
  access: user
  retention: 1_month
  schema:
    type: object
    properties:
      preferences:
        type: object
        properties:
          language: {type: string}
          notifications: {type: boolean}
      recentOrders: {type: array, items: {type: string}}
      lastVisit: {type: string, format: date-time}
cart:
  access: session
  retention: session_only
featureFlags:
  access: application
  retention: 1_week
tempProcessingData:
  access: session
  retention: session_only
"""
PROFILE = {
    "type": "object",
    "required": ["userId"],
    "properties": {"userId": {"type": "string"}, "preferences": {"type": "object", "default": {}}},
}
PROMPT = """Welcome back, {{memory.sessionMeta.metadata.userName}} on {{memory.sessionMeta.metadata.channel}}!
Language: {{memory.userPrefs.preferences.language}}; orders: {{memory.userPrefs.recentOrders}}"""
METADATA = {"userId": "user_456", "userName": "John", "customerTier": "premium", "channel": "mobile_app"}


@function
def reply(message: str, memory: Any) -> str:
    """Answer a message: read the session, store temporary data, write the cart, and clean up."""
    session = memory.get_content("sessionMeta")
    try:
        memory.set_content("sessionMeta", {"metadata": {"customerTier": "gold"}})
    except Forbidden:
        print("  code cannot change the session's meta")
    memory.set_content("tempProcessingData", {"letters": len(message)})
    memory.set_content("cart", {"items": ["A-1"]})
    letters = memory.get_content("tempProcessingData")["letters"]
    memory.delete_content("tempProcessingData")
    return f"{session['metadata']['userName']} ({session['metadata']['customerTier']}) sent {letters} letters"


def define(memory: Memory) -> None:
    shop = memory.app("shop")
    for store in shop.stores.define(STORES):
        print(f"{store.technical_name}: {store.access}, {store.retention}")
    shop.stores.create("customerProfile", schema=PROFILE, strict=True)
    vague = shop.stores.create("store1").warnings or []
    print("warned of a vague name:", bool(vague))
    shop.stores.delete("store1")


def read_and_write(memory: Memory) -> None:
    john = memory.app("shop").scope(user_id="user_456")
    prefs = john.get_content("userPrefs")
    print("nothing yet:", prefs, "- so:", ((prefs or {}).get("preferences") or {}).get("language") or "en")

    now = datetime.now(UTC).isoformat()
    john.set_content("userPrefs", {"preferences": {"language": "en", "notifications": True}, "lastVisit": now})
    john.set_content("userPrefs", {"preferences": {"language": "pt"}, "recentOrders": ["A-1", "B-2"]})
    prefs = john.get_content("userPrefs")
    print("language:", prefs["preferences"]["language"], "- notifications stay:", prefs["preferences"]["notifications"])
    partial = john.get_content("userPrefs", {"preferences.language": 1, "lastVisit": 1})
    print("only these fields:", partial["preferences"], sorted(partial))

    john.set_content("customerProfile", {"userId": "user_456"})
    print("with its default:", john.get_content("customerProfile"))
    try:
        john.set_content("customerProfile", {"userId": 456})
    except Invalid as error:
        print("refused:", [problem["path"] for problem in error.details["problems"]])


def talk(memory: Memory) -> None:
    shop = memory.app("shop")
    shop.configure(function="reply")
    done = shop.execute(message="Hello", session_id="sess_123", metadata=METADATA)
    print("answered:", done.output)

    here = shop.scope(session_id="sess_123")
    meta = here.get_content("sessionMeta")
    print("meta:", meta["metadata"]["channel"], meta["sessionInfo"]["sessionId"], meta["sessionInfo"]["userId"])
    print(here.render(PROMPT))
    print("cleaned up:", here.get_content("tempProcessingData"), "- in the cart:", here.get_content("cart"))


def scopes(memory: Memory) -> None:
    shop = memory.app("shop")
    later = shop.scope(user_id="user_456", session_id="sess_124")
    jane = shop.scope(user_id="user_789", session_id="sess_900")
    shop.scope().set_content("featureFlags", {"newCheckout": True})
    print("another session:", later.get_content("cart"), later.get_content("userPrefs", {"preferences.language": 1}))
    print("another user:", jane.get_content("userPrefs"), jane.get_content("featureFlags"))
    shop.sessions.end("sess_123")
    print("after the session:", shop.scope(session_id="sess_123").get_content("cart"))
    print("deleted:", later.delete_content("userPrefs"), later.get_content("userPrefs"))


def move(memory: Memory, folder: str) -> None:
    document = memory.app("shop").export()
    print("exported:", sorted(document["stores"]), "- with data:", "user_456" in str(document))
    with Memory(f"{folder}/elsewhere") as elsewhere:
        planned = elsewhere.app("shop").import_document(document, dry_run=True)
        print("would make:", len([part for part in planned.parts if part.action == "create"]), "parts")
        elsewhere.app("shop").import_document(document)
        print("imported:", [store.technical_name for store in elsewhere.app("shop").stores.list()])


with tempfile.TemporaryDirectory() as folder, Memory(f"{folder}/here") as memory:
    define(memory)
    read_and_write(memory)
    talk(memory)
    scopes(memory)
    move(memory, folder)
