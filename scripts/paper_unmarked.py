# SPDX-License-Identifier: Apache-2.0
"""Figures in text without a mark (paper_text.py), in sections with a table of figures or about what was measured.

Each has to be in a table of its page, or in a scenario that the commands of these tables name. Any other condition is
between marks, so that a reader can see and judge it:

    <!-- given -->60 s<!-- / -->
"""
import re
import tomllib
from decimal import Decimal
from pathlib import Path

from paper_text import MARKED, NUMBER, numbers

UNITS = ("%|s|ms|us|ns|minutes|[kMG]?b/s|[kM]bit/s|[KM]B/s|KiB/s|[KMG]i?B|bytes|packets|segments|times|round trips|"
         "seconds|instructions")
# The number of a section, a table or a kernel is not a figure.
NAMED = r"(?<!section )(?<!sections )(?<!table )(?<!tables )(?<!figure )(?<!figures )(?<!Linux )(?<!RFC )(?<!version )"
FIGURE = re.compile(rf"{NAMED}(?<![\w.,/]){NUMBER.pattern}(?=\**\s?(?:{UNITS})(?![\w/])|,? (?:of|to|and|or)\s\d)")
SCENARIO = re.compile(r"\S+\.toml")
# Text without figures, or with figures that another check reads. A figure in a code span counts.
UNREAD = re.compile(rf"```.*?```|<!-- given -->.*?<!-- / -->|<!--.*?-->|`(?!{NUMBER.pattern} )[^`\n]*`|^ *\|.*?$", re.S | re.M)
HEADING = re.compile(r"^#+ .*$", re.M)
ABOUT_RESULTS = re.compile(r"\b(measured|measurements|results?)\b", re.I)


def unmarked_figures(page, text, tables):
    """Figures that are in no table of the page and in no scenario of its commands: a line for each."""
    own = [table for table in tables.values() if table["page"] == str(page)]
    known = {number for table in own for row in [table["columns"], *table["rows"]] for number in numbers(" ".join(row))}
    for file in scenarios_of(own):
        known |= settings_of(file)
    read = without_unread(text)
    for begin, end in sections(text):
        for match in FIGURE.finditer(read, begin, end):
            figure = numbers(match[0])[0]
            if figure not in known:
                line = text.count("\n", 0, match.start()) + 1
                yield f"{page}:{line}: {match[0]}: neither marked, nor in a table of this page or a scenario of its commands"


def sections(text):
    """Begin and end of each section to check: it has a table of figures, or its heading or one above is on results."""
    headings = [*HEADING.finditer(text)]
    above = {}
    for heading, end in zip(headings, [*(heading.start() for heading in headings[1:]), len(text)]):
        level = len(heading[0]) - len(heading[0].lstrip("#"))
        above = {higher: title for higher, title in above.items() if higher < level} | {level: heading[0]}
        if any(map(ABOUT_RESULTS.search, above.values())) or "<!-- figures: " in text[heading.start():end]:
            yield heading.start(), end


def without_unread(text):
    """The text with spaces instead of the parts that are not read."""
    for pattern in (MARKED, UNREAD):
        text = pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    return text


def scenarios_of(tables):
    """The scenarios that the tables' commands name."""
    names = {name.strip("`,;") for table in tables for name in SCENARIO.findall(table["command"] or "")}
    folders = ("", "docs/scenarios/", "papers/*/")
    return {file for name in names for folder in folders for file in Path().glob(folder + name)}


def settings_of(file):
    """The numbers that a scenario sets, and its round trip, in ms."""
    scenario = tomllib.loads(file.read_text())
    delays = [scenario.get(hop, {}).get("delay_ms", 0) for hop in ("wired", "wireless")]
    return {*values(scenario), Decimal(str(2 * sum(delays)))}


def values(item):
    """All numbers in a setting, except those in a list of outages."""
    if isinstance(item, dict):
        return [value for key, inner in item.items() if key != "list" for value in values(inner)]
    if isinstance(item, list):
        return [value for inner in item for value in values(inner)]
    return [Decimal(str(item))] if isinstance(item, (int, float)) and not isinstance(item, bool) else []
