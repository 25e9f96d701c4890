#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the tables of docs/notes/recordings.md.

    docs/recordings/run.py target/release/holdfast [SCENARIO]     carries the runs out, then prints
    docs/recordings/run.py RESULTS.jsonl...                       prints what was carried out before

Each cell: the share of the bytes that the recording offers; the ratio to no gateway, the median of pairs of
a seed; the share of packets that the link's queue dropped. Medians of the seeds.
"""
import collections
import json
import statistics
import subprocess
import sys
from pathlib import Path

SCENARIO = Path(__file__).with_name("recordings.toml")
BASE = "none"


def carried_out(holdfast, scenario):
    """Carries the scenario out; the file of its results."""
    results = Path("target/recordings.jsonl")
    results.parent.mkdir(exist_ok=True)
    command = [holdfast, "lab", "run", scenario, "--substrate", "linux", "--out", results]
    subprocess.run(command, check=True)
    return results


def read(files):
    """Runs by (conditions, sender), recording, scheme and seed."""
    groups = collections.defaultdict(lambda: collections.defaultdict(lambda: collections.defaultdict(dict)))
    for file in files:
        for line in Path(file).read_text().splitlines():
            run = json.loads(line)
            own = run["parameters"]
            if not run["intact"]:
                sys.exit(f"run.py: {run['variant']}: other bytes arrived than were sent")
            groups[own["conditions"], own["sender"]][own["recording"]][own["scheme"]][run["seed"]] = run
    return groups


def share(run):
    return run["bytes"] / run["link"]["capacity_bytes"]


def dropped(run):
    return run["link"]["dropped_by_queue"] / max(1, run["link"]["packets"])


def ratio(runs, base):
    """The median ratio to the base's run of the same seed."""
    pairs = [runs[seed]["bytes"] / max(1, base[seed]["bytes"]) for seed in runs if seed in base]
    return statistics.median(pairs) if pairs else None


def median(measure, runs):
    return statistics.median(measure(run) for run in runs.values())


def table(recordings):
    schemes = list(dict.fromkeys(scheme for runs in recordings.values() for scheme in runs))
    heads = [scheme if scheme == BASE else f"`{scheme}`" for scheme in schemes]
    print("| recording |", " | ".join(heads), "|")
    print("| --- |" + " --- |" * len(schemes))
    shares, ratios = collections.defaultdict(list), collections.defaultdict(list)
    for recording, by_scheme in recordings.items():
        row = []
        for scheme in schemes:
            runs = by_scheme.get(scheme)
            if not runs:
                row.append("")
                continue
            text = f"{median(share, runs):.2f}"
            shares[scheme].append(median(share, runs))
            by = ratio(runs, by_scheme.get(BASE, {}))
            if scheme != BASE and by is not None:
                ratios[scheme].append(by)
                text += f" (x{by:.2f})"
            row.append(f"{text}, {median(dropped, runs):.1%}")
        print(f"| {recording} |", " | ".join(row), "|")
    means = [f"{statistics.mean(shares[scheme]):.2f}" if shares[scheme] else "" for scheme in schemes]
    worst = [f", least x{min(ratios[scheme]):.2f}" if ratios[scheme] else "" for scheme in schemes]
    print("| **mean** |", " | ".join(map("".join, zip(means, worst))), "|")


def main(arguments):
    if not arguments or arguments[0] in ("-h", "--help"):
        sys.exit(__doc__)
    files = arguments
    if not arguments[0].endswith(".jsonl"):
        files = [carried_out(arguments[0], (arguments + [SCENARIO])[1])]
    for (conditions, sender), recordings in read(files).items():
        print(f"\n### {conditions}; {sender}\n")
        table(recordings)


main(sys.argv[1:])
