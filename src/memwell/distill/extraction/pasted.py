"""Lines that nobody says: code without a fence, tracebacks, logs. They are blanked; offsets stay.

Held back are only statements: whoever looks for planted instructions reads these lines all the same.
"""

from __future__ import annotations

import re

from .sentences import blanked

LONGEST = 2000
"""Characters of a line that is looked at; a longer one is no statement anyway."""
_HINT = re.compile(r"[=;{}$_()\[]|\b(?:import|Traceback|Error|Exception|ERROR|FATAL|WARN|WARNING)\b")
"""Without any of these, a text has no such line."""
_KEYWORDS = (
    "def|class|func|fn|function|public|private|static|const|let|var|int|void|return|elif|else|if|for|while|with|switch|try|"
    "except|catch"
)
_STAMP = r"[\d:.,TZ/+-]+\s"
_FORMS = (
    r"(?:SELECT\b.*\bFROM|INSERT\s+INTO|UPDATE\s.*\bSET|DELETE\s+FROM|(?:CREATE|ALTER|DROP)\s+(?:TABLE|INDEX|VIEW|DATABASE))\b.*",
    rf"(?:{_KEYWORDS})\b(?=.*(?:[={{}}]|\w\(|\w_\w|;\Z)).*[:;{{}})\]\w]",
    r"from\s+[\w.]+\s+import\b.*|import\s+[\w.]+(?:\s+as\s+\w+)?;?|#include\b.*|using\s+[\w.]+;",
    r"\w[\w.\[\]]*\s*(?:[-+*/|&]?=|:=)\s*[^\s=].*[;)\]}]",
    r"(?=.*(?:[={}]|\w\()).*[;{]|[{}()\[\];,]+",
    r"(?=[^:,]*[:,])[{\[].*[}\]][,;]?",
    r"\$\s[a-z].*|>>>.*",
    rf"(?:{_STAMP}){{0,3}}\[?(?:ERROR|FATAL|WARN|WARNING)\]?[:\s].*|(?:{_STAMP}){{1,2}}\[?(?:INFO|DEBUG|TRACE)\]?[:\s].*",
    r"(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception)\b:.*|at\s[\w.$<>]+\(.*|File\s\".*\",\sline\s\d+.*|Traceback\s\(most\srecent.*",
)
_PASTED = re.compile("|".join(f"(?:{form})" for form in _FORMS))
_TRACEBACK = "Traceback (most recent call last):"


def without_pasted(text: str) -> str:
    """The text with such lines blank, and with what is indented below the head of a traceback."""
    if _HINT.search(text) is None:
        return text
    spans, at, traced = [], 0, False
    for line in text.split("\n"):
        said = line.strip()
        traced = said == _TRACEBACK or (traced and line[:1] in " \t" and bool(said))
        if traced or (said and len(said) <= LONGEST and _PASTED.fullmatch(said)):
            spans.append((at, at + len(line)))
        at += len(line) + 1
    return blanked(text, spans)
