#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Repeats what the pages report, and ties the pages' tables to docs/figures.json (docs/reproduce.md).

    scripts/paper.py run [FOLDER [STAGE...]]    carry out the stages into FOLDER (target/paper); `make paper`
    scripts/paper.py take [FOLDER]              write FOLDER's figures into docs/figures.json and into the pages
    scripts/paper.py write                      write the pages' tables from docs/figures.json
    scripts/paper.py --check                    find figures in the pages that no result has; runs nothing

HOLDFAST names the program (target/release/holdfast), HOLDFAST_TRACES the folder of recordings.
"""
import html
import json
import os
import re
import signal
import sys
from datetime import date
from pathlib import Path

# The lints read every file of this folder.
sys.dont_write_bytecode = True

from paper_parts import FAILED, START, carry_out, complete, part_file
from paper_recordings import RecordingResults
from paper_stages import STAGES
from paper_tables import TABLES
from paper_text import wrong_figures
from paper_unmarked import unmarked_figures

RESULTS = Path("docs/figures.json")
PAGES = [
    Path("README.md"),
    *(Path("docs", f"{name}.md") for name in (
        "measurements", "senders", "data-path", "mobile-data-path", "lab", "link-models", "link-signals", "testing")),
    *sorted(Path("docs/schemes").glob("*.md")), Path("docs/notes/uploads.md"),
    *sorted(Path("papers").glob("*/README.md")),
]

# --- figures -------------------------------------------------------------------------------


def results_of(folder, name):
    """The results of a stage: JSON lines, one JSON list, or text; of recordings the runs and the printed tables."""
    files = [part_file(folder / name, number + 1) for number in range(len(STAGES[name].commands))]
    text = "".join(file.read_text() for file in files)
    if STAGES[name].needs == "recordings":
        runs = folder / name / f"target/recordings/{name.removeprefix('recordings-')}.jsonl"
        return RecordingResults(json_lines(runs.read_text()), text)
    if name.startswith("claims-"):
        return json.loads(text)
    if STAGES[name].needs == "wall clock" or name in (
            "demo", "packet-cost", "observe", "upload-designs", "link-distances"):
        return text
    return json_lines(text)


def json_lines(text):
    """Runs in the order of their seeds."""
    return sorted(map(json.loads, text.splitlines()), key=lambda line: line["seed"])


def rows_of(folder, table):
    """The table's rows from the folder, or None and why it failed; no reason if a stage was not carried out."""
    stages, make = TABLES.get(table, ([], None))
    if not stages or not all(complete(folder, stage) for stage in stages):
        reasons = [folder / stage / FAILED for stage in stages]
        return None, next((f"{file.parent.name}: {file.read_text()}" for file in reasons if file.exists()), "")
    try:
        return make(*(results_of(folder, stage) for stage in stages)), ""
    except (ArithmeticError, AssertionError, LookupError, OSError, TypeError, ValueError) as error:
        # An unfinished run has no time: only this table cannot be made.
        return None, f"{type(error).__name__}: {error}".splitlines()[0]


NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
# A count in a cell: `4 of 5 not in time`, `394 of 790`.
COUNTED = re.compile(r"\d[\d,]* of \d[\d,]*")


def same(old, new, is_exact):
    """Whether cells are equal, or each number but counts is within one unit of its last digit. Bold does not count."""
    old, new = old.replace("**", ""), new.replace("**", "")
    if old == new or is_exact:
        return old == new
    if NUMBER.sub("#", old) != NUMBER.sub("#", new) or COUNTED.findall(old) != COUNTED.findall(new):
        return False
    return all(
        len(a.partition(".")[2]) == len(b.partition(".")[2])
        and abs(int(re.sub(r"\D", "", a)) - int(re.sub(r"\D", "", b))) <= 1
        for a, b in zip(NUMBER.findall(old), NUMBER.findall(new)))


def is_exact(table, row, column):
    """Whether no difference is allowed: in counts, and in results of the model."""
    return table["kind"] == "model" or "model" in row.split(", ") or column in table.get("counts", [])


def of_model(table, text):
    """The model's half of a cell `model / Linux`."""
    return text.partition(" / ")[0] if table["kind"] == "model and virtual time" and " / " in text else ""


def figures(table, rows):
    """The figures by row and number of the column: two columns may have the same name."""
    labels = table["labels"]
    return {
        (", ".join(filter(None, row[:labels])), column): row[column]
        for row in rows for column in range(labels, len(row))
    }


# Figures by the wall clock are not compared.
VERDICTS = ["same", "other", "timing", "failed", "not repeated"]


def compare(folder, made):
    """Each figure of the pages: (table, row, column, old figure, new figure, verdict). `made`: `rows_of` each table."""
    for name, table in read_results().items():
        new, failure = made[name]
        found = figures(table, new) if new else {}
        for (row, column), written in figures(table, table["rows"]).items():
            repeated = found.get((row, column))
            if not any(map(str.isalnum, written)) or row in table.get("from-paper", []):
                continue
            is_same = repeated is not None and of_model(table, written) == of_model(table, repeated) and same(
                written, repeated, is_exact(table, row, table["columns"][column]))
            lacking = "failed" if failure else "not repeated"
            verdict = lacking if repeated is None else "same" if is_same else "other"
            is_timed = table["tolerance"].startswith("timing") and table["columns"][column] not in table.get("exact", [])
            if verdict == "other" and is_timed:
                verdict = "timing"
            yield name, row, table["columns"][column], written, repeated or "", verdict


def take(folder):
    results = read_results()
    for name, table in results.items():
        new, failure = rows_of(folder, name)
        if new is None:
            if failure:
                print(f"failed: {name}: {failure}", file=sys.stderr)
            continue
        labels = table["labels"]
        if table.get("in-text"):
            # No page has the rows of such a table: they are those of the results.
            table["rows"] = []
        # A table that is new has no rows yet.
        rows = {tuple(row[:labels]): row for row in table["rows"] or new}
        for row in new:
            if tuple(row[:labels]) not in rows:
                sys.exit(f"paper.py: {name}: the page has no row {row[:labels]}")
            rows[tuple(row[:labels])] = row
        table["rows"] = [rows[tuple(row[:labels])] for row in table["rows"] or new]
        table["repeated"] = str(date.today())
    write_results(results)
    return write()


def read_results():
    return json.loads(RESULTS.read_text())["tables"]


def write_results(tables):
    """The text of docs/figures.json, with a line for each row: a diff shows each changed row as one line."""
    blocks = []
    for name, table in tables.items():
        keys = [key for key in table if key != "rows"]
        head = [f"  {json.dumps(key)}: {json.dumps(table[key], ensure_ascii=False)}" for key in keys]
        rows = ",\n".join(f"   {json.dumps(row, ensure_ascii=False)}" for row in table["rows"])
        blocks.append(f" {json.dumps(name)}: {{\n" + ",\n".join(head) + f',\n  "rows": [\n{rows}]}}')
    RESULTS.write_text('{"tables": {\n' + ",\n".join(blocks) + "\n}}\n")


# --- pages ---------------------------------------------------------------------------------

GENERATED = re.compile(
    r"(?P<before>^(?P<indent> *)<!-- figures: (?P<name>\S+) -->\n\n?)"
    r"(?P<table>(?: *\|.*\n)*)"
    r"(?P<after>\n? *<!-- end -->\n)", re.M)


def table_text(table, indent=""):
    lines = [table["columns"], table["rule"], *table["rows"]]
    def text(line):
        return line if isinstance(line, str) else "|" + "".join(f" {cell} |" if cell else " |" for cell in line)

    return "".join(f"{indent}{text(line)}\n" for line in lines)


def generated(page, text, tables):
    def table(match):
        if tables.get(match["name"], {}).get("page") != str(page):
            sys.exit(f"{page}: docs/figures.json has no table {match['name']} of this page")
        return match["before"] + table_text(tables[match["name"]], match["indent"]) + match["after"]

    return GENERATED.sub(table, text)


def write():
    tables = read_results()
    for page in PAGES:
        page.write_text(generated(page, page.read_text(), tables))
    return 0


def unmarked(page, text):
    """Tables with a digit that are neither generated between marks nor in a section `not measured`."""
    inside = False
    lines = [GENERATED.sub(lambda match: "\n" * match[0].count("\n"), text), ""]
    lines = "\n".join(lines).split("\n")
    number = 0
    while number < len(lines):
        first = number
        while lines[number].lstrip().startswith("|"):
            number += 1
        if number > first:
            before = next((line for line in reversed(lines[:first]) if line.strip()), "")
            marked = re.match(r" *<!-- not measured: .+ -->$", before)
            if not marked and re.search(r"\d", "".join(lines[first + 2:number])):
                yield (f"{page}:{first + 1}: this table has figures and no mark: "
                       "<!-- figures: NAME --> or <!-- not measured: REASON -->")
        number += 1


def unnamed_counts(name, table):
    """Checks that each column of whole numbers is declared as counts or as rounded values."""
    columns, named = table["columns"], [*table.get("counts", []), *table.get("rounded", [])]
    for column in named:
        if columns.count(column) != 1:
            yield f"docs/figures.json: {name}: counts, rounded: {column}: no single column"
    if table["kind"] == "model" or not table["stages"]:
        return
    for index in range(table["labels"], len(columns)):
        numbers = [number for row in table["rows"] for number in NUMBER.findall(row[index])]
        if numbers and not any("." in number for number in numbers) and columns[index] not in named:
            yield f"docs/figures.json: {name}: {columns[index]}: whole numbers; add it to `counts` or to `rounded`"


def check():
    tables, wrong, seen = read_results(), [], set()
    for page in PAGES:
        text = page.read_text()
        seen |= {match["name"] for match in GENERATED.finditer(text)}
        if text.count("<!-- figures: ") != len(GENERATED.findall(text)):
            wrong.append(f"{page}: <!-- figures: NAME -->, a table and <!-- end --> belong together")
        if generated(page, text, tables) != text:
            wrong.append(f"{page}: a figure is not that of docs/figures.json: scripts/paper.py write")
        wrong += unmarked(page, text)
        wrong += wrong_figures(page, text, tables)
        wrong += unmarked_figures(page, text, tables)
    wrong += [f"docs/figures.json: {name}: no page has this table"
              for name, table in tables.items() if name not in seen and not table.get("in-text")]
    wrong += [f"scripts/paper_tables.py: {name}: not in docs/figures.json" for name in TABLES if name not in tables]
    for name, table in tables.items():
        stages = TABLES[name][0] if name in TABLES else None
        if table["stages"] != stages:
            wrong.append(f"docs/figures.json: {name}: stages: got {table['stages']}, paper_tables.py has {stages}")
        if table["repeated"] and not stages:
            wrong.append(f"docs/figures.json: {name}: repeated, and no stage makes it")
        wrong += unnamed_counts(name, table)
    print("\n".join(wrong), end="\n" if wrong else "", file=sys.stderr)
    return 1 if wrong else 0


# --- index ---------------------------------------------------------------------------------

STYLE = """body{font:16px/1.5 sans-serif;margin:2em auto;max-width:70em;padding:0 1em;color:#222}
table{border-collapse:collapse;margin:1em 0}td,th{border:1px solid #ccc;padding:.2em .6em;text-align:left}
th{background:#f4f4f4}td:last-child{white-space:nowrap}summary{cursor:pointer}"""


def html_table(head, rows):
    """Rows of cells; a cell that begins with `<` is HTML."""
    def cell(text):
        return f"<td>{text if text.startswith('<a ') else html.escape(text)}</td>"

    body = "".join("<tr>" + "".join(map(cell, row)) + "</tr>\n" for row in rows)
    return "<table><tr>" + "".join(f"<th>{html.escape(text)}</th>" for text in head) + f"</tr>\n{body}</table>\n"


def stage_row(folder, name, notes):
    stage, own = STAGES[name], folder / name
    there = sum(part_file(own, number + 1).exists() for number in range(len(stage.commands)))
    state = notes.get(name) or f"{there} of {len(stage.commands)} parts"
    if (own / FAILED).exists():
        state = f"failed: {(own / FAILED).read_text()}"
    pictures = sorted(own.glob("*.html")) + sorted(own.glob("target/recordings/*.svg"))
    target = pictures[0] if pictures else own
    link = f'<a href="{target.relative_to(folder)}">{name}</a>' if own.exists() else name
    lines = (own / "times").read_text().splitlines() if (own / "times").exists() else []
    times = [list(map(float, line.split())) for line in lines]
    took = "{:.0f} s, {:.0f} s".format(*map(sum, zip(*times))) if times else ""
    shown = " ".join(stage.commands[0]).replace("{holdfast}", "holdfast").replace("{root}/", "")
    return [link, state, took, re.sub(r" --(out|shard) \S+", "", shown)]


def write_index(folder, notes):
    tables = read_results()
    made = {name: rows_of(folder, name) for name in tables}
    rows = list(compare(folder, made))
    other = [row for row in rows if row[5] == "other"]
    counts = [sum(row[5] == verdict for row in rows) for verdict in VERDICTS]
    total = ("{} figures are the same, {} differ, {} are of the wall clock and not compared, {} failed, "
             "{} were not repeated").format(*counts)
    for name, row, column, written, repeated, _ in other:
        print(f"differs: {tables[name]['page']}: {name}: {row}: {column}: page {written}, now {repeated}")
    for name, (_, failure) in made.items():
        if failure:
            print(f"failed: {tables[name]['page']}: {name}: {failure}")
    print(f"{total}; {folder}/index.html")
    by_table = []
    for name, table in tables.items():
        own = [row for row in rows if row[0] == name]
        verdicts = [str(sum(row[5] == verdict for row in own)) for verdict in VERDICTS]
        stages = ", ".join(TABLES[name][0]) if name in TABLES else f"no stage: {table['command']}"
        if made[name][1]:
            stages += f"; failed: {made[name][1]}"
        by_table.append([table["page"], name, *verdicts, stages, table["repeated"] or "not repeated yet"])
    parts = [
        f"<!doctype html><meta charset=utf-8><title>Holdfast: figures repeated</title><style>{STYLE}</style>",
        "<h1>Holdfast: figures repeated</h1>",
        f"<p><b>{html.escape(total)}.</b> A figure is one cell of a table on a page. It is the same if each of its "
        f"numbers is at most one unit of the last printed digit away. Counts and figures of the model are the same if "
        f"they are equal. {date.today()}, Linux {os.uname().release}, "
        f"{os.cpu_count()} processors.</p>",
        "<h2>What differs</h2>",
        html_table(["page", "table", "row", "column", "on the page", "now"],
                   [[tables[row[0]]["page"], *row[:5]] for row in other]) if other else "<p>Nothing.</p>",
        "<h2>Stages</h2>",
        html_table(["stage", "state", "took, processor", "command"],
                   [stage_row(folder, name, notes) for name in STAGES]),
        "<h2>Tables</h2>",
        html_table(["page", "table", "same", "differ", "not compared", "failed", "not repeated", "made by",
                    "page's figures are of"],
                   by_table),
        "<details><summary>Each figure</summary>",
        html_table(["table", "row", "column", "on the page", "now", ""], rows),
        "</details>",
    ]
    (folder / "index.html").write_text("\n".join(parts))


def main(arguments):
    match arguments:
        case ["run", *rest]:
            folder = START / rest[0] if rest else Path("target/paper")
            unknown = [name for name in rest[1:] if name not in STAGES]
            if unknown:
                sys.exit(f"paper.py: no stage {unknown[0]}; there are: {', '.join(STAGES)}")
            folder.mkdir(parents=True, exist_ok=True)
            status, notes = carry_out(folder, rest[1:] or list(STAGES))
            write_index(folder, notes)
            return status
        case ["take"] | ["take", _]:
            return take(START / arguments[1] if len(arguments) > 1 else Path("target/paper"))
        case ["write"]:
            return write()
        case ["--check"]:
            return check()
    print(__doc__ + "\nStages: " + ", ".join(STAGES), file=sys.stderr)
    return 0 if arguments in (["-h"], ["--help"]) else 2


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("paper.py: interrupted; the same command continues")
