"""A sealed log: entries in order, exactly as recorded, and separate for each session."""

import json
import tempfile

from memwell import Memory

with tempfile.TemporaryDirectory() as folder, Memory(folder) as memory:
    log = memory.log("run-7")
    log.append(entry_type="observation", content="The report has 3 rows too many.")
    log.append(entry_type="tool_call", content=json.dumps({"tool": "query", "rows": 3}))
    log.append(entry_type="decision", content="Ask for a new export.")
    for entry in log.entries():
        print(f"{entry.seq}. {entry.entry_type}: {entry.content}")
    print("active sessions:", [session.id for session in memory.logs()])
