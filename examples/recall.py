"""Search by words, by meaning and with filters, and explain why an entry was not found."""

import tempfile

from memwell import Memory

with tempfile.TemporaryDirectory() as folder, Memory(folder) as memory:
    flow = memory.flow("travel")
    flow.write("Alice prefers aisle seats on long flights", metadata={"about": "seats", "sure": 0.9})
    flow.write("Bob is allergic to peanuts", metadata={"about": "food", "sure": 1})
    hotel = flow.write("The hotel in Lisbon has a rooftop pool", metadata={"about": "hotels", "sure": 0.7})

    for hit in flow.search("a seat near the aisle for her flight", explain=True):
        print(f"{hit.score:.2f}  {hit.content}  {hit.arms}")

    print([hit.content for hit in flow.search("what about food?", filter={"sure": {"$gte": 0.9}})])

    reason = flow.why_not(hotel, "aisle seats", limit=1, filter={"about": "seats"})
    print(f"The hotel was not found because of the {reason.gate}: {reason.detail}")
