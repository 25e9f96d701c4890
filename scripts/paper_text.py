# SPDX-License-Identifier: Apache-2.0
"""Figures in a page's text that repeat those of a table.

    <!-- of TABLE; ROW; COLUMN -->0.3 to 6.0 s<!-- / -->

Each number between the marks is one of that cell of docs/figures.json, rounded to the digits in the text.

Columns may have the same name in different groups. The first column of a group has the group's name before a colon:
`C: alone`, `Snoop 1995`, `R: alone`, `Snoop 1995`. The mark then has that name too: `R: Snoop 1995`.
"""
import re
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal

MARKED = re.compile(r"<!-- of (?P<table>[^;>]+);\s+(?P<row>[^;>]+);\s+(?P<column>[^;>]+) -->(?P<text>.*?)<!-- / -->", re.S)
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def rows_named(text, table):
    """The rows of a table that the marks in a page's text name."""
    found = MARKED.finditer(text)
    return {" ".join(match["row"].split()) for match in found if " ".join(match["table"].split()) == table}


def names_of(columns):
    """The names by which marks refer to columns."""
    group, names = "", []
    for column in columns:
        group = column.partition(": ")[0] if ": " in column else group
        names.append(f"{group}: {column}" if columns.count(column) > 1 else column)
    return names


def numbers(text):
    return [Decimal(number.replace(",", "")) for number in NUMBER.findall(text)]


def is_rounded(short, full):
    """Whether a number is a rounded one; a tie may be rounded up or down."""
    digit = Decimal(1).scaleb(short.as_tuple().exponent)
    return short in [full.quantize(digit, rounding) for rounding in (ROUND_HALF_EVEN, ROUND_HALF_UP)]


def wrong_figures(page, text, tables):
    """The errors in the marked figures of a page: a line for each."""
    found = list(MARKED.finditer(text))
    if not text.count("<!-- of ") == text.count("<!-- / -->") - text.count("<!-- given -->") == len(found):
        yield f"{page}: <!-- of TABLE; ROW; COLUMN -->, figures and <!-- / --> belong together"
    for match in re.finditer(r"^ *<!-- (?:of|given) ", text, re.M):
        line = text.count("\n", 0, match.start()) + 1
        yield f"{page}:{line}: a line that begins with a mark ends the paragraph in Markdown: begin it with a word"
    for match in found:
        line = text.count("\n", 0, match.start()) + 1
        name, row, column = (" ".join(match[part].split()) for part in ("table", "row", "column"))
        table = tables.get(name, {"columns": [], "rows": [], "labels": 0})
        cells = [cells for cells in table["rows"] if ", ".join(filter(None, cells[:table["labels"]])) == row]
        columns = names_of(table["columns"])
        if len(cells) != 1 or columns.count(column) != 1:
            yield f"{page}:{line}: docs/figures.json has no single cell {name}; {row}; {column}"
            continue
        cell = cells[0][columns.index(column)]
        written = numbers(match["text"])
        if not written:
            yield f"{page}:{line}: no figure between the marks of {name}; {row}; {column}"
        for number in written:
            if not any(is_rounded(number, full) for full in numbers(cell)):
                yield f"{page}:{line}: {number} is no figure of {name}; {row}; {column}: {cell}"
