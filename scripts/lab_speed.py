#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast `linux` is (docs/lab.md): virtual seconds of a transfer for each second of processor time, with the boot.

    scripts/lab_speed.py        prints a table: medians of five runs, one run at a time

HOLDFAST names the program (target/release/holdfast).
"""
import json
import os
import resource
import statistics
import subprocess

HOLDFAST = os.environ.get("HOLDFAST", "target/release/holdfast")
SCENARIO = "docs/scenarios/speed.toml"
# Each run of the scenario is a shard.
SHARDS, REPETITIONS = 4, 5
CASES = {"outage": "10 MB, one outage of 7 s", "busy": "40 MB, the link always busy"}


def processor_seconds():
    """Of the commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


speeds = {}
for shard in range(1, SHARDS + 1):
    for _ in range(REPETITIONS):
        before = processor_seconds()
        output = subprocess.run(
            [HOLDFAST, "lab", "run", SCENARIO, "--substrate", "linux", "--jobs", "1", "--shard", f"{shard}/{SHARDS}",
             "--out", "-"], check=True, stdout=subprocess.PIPE)
        run = json.loads(output.stdout)
        case = run["parameters"]["link"], run["parameters"]["scheme"]
        speeds.setdefault(case, []).append(run["transfer_s"] / (processor_seconds() - before))
print("| case | plain | `hold` |\n| --- | --- | --- |")
for link, name in CASES.items():
    print(f"| {name} |", " | ".join(f"{statistics.median(speeds[link, scheme]):.1f}" for scheme in ("none", "hold")), "|")
