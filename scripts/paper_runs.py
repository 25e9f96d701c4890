# SPDX-License-Identifier: Apache-2.0
"""Selects and reduces the runs of a stage, for the tables of the pages."""
import statistics

SENDERS = ["cubic", "reno", "bbr"]
NAMES = {"cubic": "Cubic", "bbr": "BBR", "reno": "Reno"}


def groups(lines, *names):
    """Runs grouped by the values of these parameters, in the order of the runs."""
    found = {}
    for line in lines:
        found.setdefault(tuple(line["parameters"][name] for name in names), []).append(line)
    return found


def median(values):
    """The median; a missing value counts as infinite."""
    return statistics.median(float("inf") if value is None else value for value in values)


def seconds(values):
    middle = median(values)
    return "never" if middle == float("inf") else f"{middle:.2f} s"


def span(values, digits):
    """The range from the least to the greatest value; one value if both print the same."""
    least, most = (f"{find(values):,.{digits}f}" for find in (min, max))
    return least if least == most else f"{least} to {most}"


def transfer_s(run):
    return run["transfer_s"] if run["finished"] else None


def megabits(runs):
    return f"{median([run['goodput_mbps'] for run in runs]):.2f}"


def tenths_of_seconds(runs):
    return f"{median(map(transfer_s, runs)):.1f}"


def printed_rows(text):
    """The rows of a table that a command prints, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
