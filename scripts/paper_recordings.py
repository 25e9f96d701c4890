# SPDX-License-Identifier: Apache-2.0
"""Rows of the tables about recordings of real links, from the runs of docs/recordings/bench.py and its tables."""
import statistics
from typing import NamedTuple

from paper_runs import NAMES, printed_rows


class RecordingResults(NamedTuple):
    """Results of a stage of recordings. Figures that need the recordings themselves are only in its printed tables."""

    runs: list
    printed: str


def recordings_shares(schemes, counts_cells):
    """For each cell the median share of the link in its three windows; means of these shares over the cells."""
    return lambda results: shares_of(results.runs, schemes, counts_cells)


def shares_of(runs, schemes, counts_cells):
    cells = {}
    for run in runs:
        cell = run["cell"]
        key = (cell["conditions"], cell["sender"], run["scheme"])
        cells.setdefault(key, {}).setdefault(cell["recording"], []).append(run["bytes"] / run["link"]["capacity_bytes"])

    def mean(conditions, sender, scheme):
        return f"{statistics.fmean(map(statistics.median, cells[conditions, sender, scheme].values())):.2f}"

    conditions = {"lost": "lost", "kept": "kept", "lost, 1 % loss": "lost, and 1 % of all packets"}
    rows = []
    for condition, text in conditions.items():
        for sender, name in NAMES.items():
            if (condition, sender, "none") in cells:
                number = [str(len(cells[condition, sender, "none"]))] if counts_cells else []
                rows.append([text, name, *number, *(mean(condition, sender, scheme) for scheme in schemes)])
    return rows


def lossy_gaps(runs, scheme):
    """For gaps that lose packets: the times to the first new byte and to the first packet over the link."""
    lossy = [run for run in runs if run["scheme"] == scheme and run["cell"]["conditions"] != "kept"]
    return [gap for run in lossy for gap in zip(run["stalls_s"], run["link"].get("first_packet_s", []))]


def median_and_nine_of_ten(times):
    """The median and the 90th percentile, in seconds."""
    figures = [sorted(times)[len(times) * percent // 100] for percent in (50, 90)]
    return [f"{figure:.2f} s" if figure < 1 else f"{figure:.1f} s" for figure in figures]


def recordings_gaps(results):
    """For gaps that lose packets: times to the first new byte, from link up and from the first packet over the link."""
    rows = [["first new byte, median"], ["first new byte, 90th percentile"],
            ["after the first packet over the link, median"], ["after the first packet over the link, 90th percentile"],
            ["gaps with a new byte before the next gap"]]
    for scheme in ("none", "auto"):
        gaps = lossy_gaps(results.runs, scheme)
        stalls = [stall for stall, _ in gaps if stall is not None]
        after = [stall - packet for stall, packet in gaps if stall is not None and packet is not None]
        figures = median_and_nine_of_ten(stalls) + median_and_nine_of_ten(after)
        for row, figure in zip(rows, [*figures, f"{len(stalls)} of {len(gaps)}"], strict=True):
            row.append(figure)
    return rows


def least_by_plain(runs, scheme):
    """The least ratio of all cells: bytes over those without Holdfast in the same window, as the windows' median."""
    bytes_of = {(*run["cell"].values(), run["parameters"]["start_s"], run["scheme"]): run["bytes"] for run in runs}
    ratios = {}
    for *cell, start, remedy in bytes_of:
        if remedy == scheme:
            ratio = bytes_of[*cell, start, scheme] / max(1, bytes_of[*cell, start, "none"])
            ratios.setdefault(tuple(cell), []).append(ratio)
    return f"{min(map(statistics.median, ratios.values())):.3f}"


def printed_by_scheme(results, column):
    """The rows of the printed table with this column, by scheme and then by column; of equal columns the last."""
    tables = (text for text in results.printed.split("\n\n") if f"| {column} |" in text.partition("\n")[0])
    text = next(tables, None)
    if text is None:
        raise LookupError(f"the bench printed no table with the column {column}")
    head = [cell.strip() for cell in text.partition("\n")[0].strip("|").split("|")]
    return {row[0]: dict(zip(head, row, strict=True)) for row in printed_rows(text)}


def recordings_summary(results):
    """The summary of all cells of downloads."""
    summary = printed_by_scheme(results, "floods")

    def row(scheme, name):
        figures = summary[scheme]
        counts = [f"{figures[column]} of {figures['cells']}" for column in ("at least 0.98", "floods")]
        return [name, counts[0], least_by_plain(results.runs, scheme), counts[1], figures["wait p95"]]

    return [row("none", "no gateway"), row("auto", "auto")]


def recordings_goals(results):
    """The goals for bytes, and the share of answers within two round trips, which are 0.10 s."""
    shares = printed_by_scheme(results, "packets, on recordings that a sender fills")
    answers = printed_by_scheme(results, "the link carried an answer")
    within = [answers[scheme]["within 0.10 s"].replace("%", " %") for scheme in ("none", "auto")]

    def row(conditions, text, goal):
        of_conditions = shares[conditions]
        return [f"{text}, {of_conditions['cells']} cells", goal, of_conditions["none"], of_conditions["auto"]]

    return [
        row("lost", "share of the offer less headers, lost in gaps", "0.95"),
        row("lost, 1 % loss", "the same with 1 % loss", "0.90"),
        ["first new byte within two round trips of the first packet over the link, if the link carried an answer by then",
         "90 %", *within],
    ]


def uploads_summary(results):
    """The summary of all cells of uploads; times after gaps that lose packets. Two round trips are 0.10 s."""
    summary, answers = (printed_by_scheme(results, column) for column in ("floods", "the link carried an answer"))

    def row(scheme, name):
        stalls = [stall for stall, _ in lossy_gaps(results.runs, scheme) if stall is not None]
        within = answers[scheme]["within 0.10 s"].replace("%", " %")
        least = least_by_plain(results.runs, scheme)
        return [name, summary[scheme]["cells"], least, *median_and_nine_of_ten(stalls), within]

    return [row("none", "plain"), row("auto", "auto")]
