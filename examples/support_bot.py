"""A support flow: the turns of a session, and the facts that all sessions share."""

import tempfile

from memwell import Memory

with tempfile.TemporaryDirectory() as folder, Memory(folder) as memory:
    flow = memory.flow("support")
    flow.write("Ships to the EU only", importance=0.8)

    session = flow.session("alice-42")
    session.history.append(role="user", content="Do you ship to Norway?", name="Alice")
    session.history.append(
        role="assistant",
        tool_calls=[{"id": "c1", "type": "function", "function": {"name": "zones", "arguments": "{}"}}],
    )
    session.history.append(role="tool", content='["EU"]', tool_name="zones", tool_call_id="c1")
    session.history.append(role="assistant", content="Only to the EU, I am afraid.")
    session.write("Lives in Norway")
    session.end()

    view = session.show()
    print(f"{view.turn_count} turns, ended {view.ended_at:%Y-%m-%d}")
    for turn in view.turns:
        print(f"  {turn.role}: {turn.content or turn.tool_calls}")
    print("known to the session:", [found.content for found in view.memories])
    print("known to the flow:", [found.content for found in flow.memories()])
