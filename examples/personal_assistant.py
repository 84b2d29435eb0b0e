"""The memory of one user, separate from that of all others."""

import tempfile

from memwell import Memory

with tempfile.TemporaryDirectory() as folder, Memory(folder) as memory:
    alice, bob = memory.user("alice"), memory.user("bob")
    alice.add("I'm vegetarian and moved to Porto.")
    alice.add([{"role": "assistant", "content": "Noted!"}])
    bob.add("I live in Lisbon.")

    print("alice:", [turn.content for turn in alice.history(10)])
    print("bob:", [turn.content for turn in bob.history(10)])

    receipt = alice.forget()
    print(f"forgotten: {receipt.layers}, traces left: {receipt.residual}")
    print("alice:", alice.history(10))
