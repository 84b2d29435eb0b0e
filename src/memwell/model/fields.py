"""The types of request fields, with their limits.

A description is used four times: in the OpenAPI document, in the help of the command line, in the reference, and in the
sentence that a caller is told when a value does not fit.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

MAX_ID = 256
MAX_CONTENT = 1024 * 1024
MAX_METADATA = 64 * 1024
MAX_DEPTH = 16
MAX_REQUEST_DEPTH = 128
"""Of a request as a whole; each of its fields says how deep it may be."""
MAX_BATCH = 1000
MAX_KEY = 256

ID_PATTERN = r"^[^\x00-\x1f\x7f-\x9f]*$(?!\n)"
"""`$` alone lets a line break pass at the very end."""
ID_ADVICE = f"An id has 1 to {MAX_ID} characters, no control characters, and is not '.' or '..'."


def named(pattern: str, longest: int, description: str) -> Meta:
    """What is asked of a field of `operation.NAMED`, which sees to its pattern: msgspec is only to tell of it, since to match one
    takes it as long as to make the rest of a small request. Below a request's own fields nobody would see to it."""
    return Meta(min_length=1, max_length=longest, description=description, extra_json_schema={"pattern": pattern})


Flow = Annotated[str, named(ID_PATTERN, MAX_ID, f"The flow. {ID_ADVICE}")]
User = Annotated[str, named(ID_PATTERN, MAX_ID, f"The user. {ID_ADVICE}")]
SessionId = Annotated[str, named(ID_PATTERN, MAX_ID, f"The session. {ID_ADVICE}")]
AnyId = Annotated[str, Meta(min_length=1, max_length=MAX_ID, pattern=ID_PATTERN, description=f"The id. {ID_ADVICE}")]
TenantId = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$(?!\n)",
        description="A tenant's name has 1 to 63 lower-case letters, digits, '-' or '_', and begins with a letter or digit.",
    ),
]
Label = Annotated[
    str, Meta(min_length=1, max_length=100, pattern=ID_PATTERN, description="A name of 1 to 100 printable characters.")
]
Role = Annotated[
    Literal["user", "assistant", "tool", "system"],
    Meta(description="Who speaks: 'user', 'assistant', 'tool' or 'system'."),
]
Kind = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        pattern=r"^[A-Za-z][A-Za-z0-9_.:-]*$(?!\n)",
        description="What kind of entry: 1 to 64 letters, digits or '_.:-', such as 'observation', 'tool_call', 'decision'.",
    ),
]
Content = Annotated[
    str, Meta(description="Text of 1 byte to 1 MiB in UTF-8, kept exactly as given. It cannot hold the NUL character.")
]
Importance = Annotated[float, Meta(ge=0, le=1, description="Importance is a number from 0 to 1.")]
Confidence = Annotated[float, Meta(ge=0, le=1, description="Confidence is a number from 0 to 1.")]
Limit = Annotated[int, Meta(ge=1, le=1000, description="How many to return, from 1 to 1000.")]
Cursor = Annotated[
    str, Meta(max_length=1000, description="Where to go on: the `next_cursor` of the page before, or nothing.")
]
Metadata = Annotated[
    dict[str, Any],
    Meta(description="A JSON object of at most 64 KiB and 16 levels, stored with the entry."),
]
FilterField = Annotated[
    dict[str, Any],
    Meta(
        description='Conditions on metadata, such as {"topic": "travel", "stars": {"$gte": 4}}; see the guide to search.'
    ),
]
After = Annotated[int, Meta(ge=0, le=2**62, description="Only what has a `seq` above this one.")]
Timeout = Annotated[float, Meta(ge=0, le=10, description="How many seconds to wait, from 0 to 10.")]
