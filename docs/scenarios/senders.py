#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# The model's TCP beside Linux's, as the tables of docs/senders.md.
#
#     docs/scenarios/senders.py PROGRAM [SCENARIO]        such as: target/release/holdfast
#     docs/scenarios/senders.py --lines MODEL LINUX       of results that are there already
#
# The first form runs the scenario (docs/scenarios/senders.toml unless given) on both substrates; `linux` needs
# `holdfast lab setup` before. The standard output gets Markdown: medians over the repetitions, model / Linux; what differs by
# more than a tenth in goodput is bold.

import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

DIFFERS = 0.10
MSS = 1460
SCENARIO = pathlib.Path(__file__).with_name("senders.toml")


def lines_of(path):
    """Result lines by their parameters."""
    runs = {}
    with open(path, encoding="utf-8") as file:
        for text in file:
            line = json.loads(text)
            if not line["intact"]:
                sys.exit(f"senders.py: {path}: {line['variant']}, seed {line['seed']}: bytes arrived that were not sent")
            parameters = line["parameters"]
            key = (parameters["sender"], parameters["outage_s"], parameters["loss_percent"])
            runs.setdefault(key, []).append(line)
    return runs


def deciles_of_window(lines):
    """First decile, median, ninth decile and mean of cwnd in segments, over all points of all repetitions."""
    segments = []
    for line in lines:
        payload = MSS - (12 if timestamps(line) else 0)
        segments += [cwnd / payload for cwnd in line["series"]["cwnd"]]
    deciles = statistics.quantiles(segments, n=10)
    return deciles[0], statistics.median(segments), deciles[8], statistics.fmean(segments)


def timestamps(line):
    sender = line["parameters"]["sender"]
    return not ("plain" in sender or "timestamps off" in sender)


def median_of(lines, value):
    return statistics.median(value(line) for line in lines)


def stall_of(line):
    """The longest stall, as `holdfast lab run` prints it. One that the next outage cut short has no length.

    >>> stall_of({"finished": False, "stalls_s": [0.5, None]})
    inf
    >>> stall_of({"finished": True, "stalls_s": [0.2, None, 0.5]})
    0.5
    >>> stall_of({"finished": True, "stalls_s": []})
    0.0
    """
    stalls = line["stalls_s"]
    never_ended = bool(stalls) and stalls[-1] is None and not line["finished"]
    return math.inf if never_ended else max((stall for stall in stalls if stall is not None), default=0.0)


def seconds(value):
    """
    >>> seconds(math.inf), seconds(0.5)
    ('never', '0.50 s')
    """
    return "never" if value == math.inf else f"{value:.2f} s"


def row(outage, loss, model, linux):
    goodputs = [median_of(lines, lambda line: line["goodput_mbps"]) for lines in (model, linux)]
    ratio = goodputs[0] / goodputs[1]
    shown = f"{ratio:.2f}"
    if abs(round(ratio, 2) - 1) > DIFFERS + 1e-9:
        shown = f"**{shown}**"
    windows = [deciles_of_window(lines) for lines in (model, linux)]
    window = " / ".join(f"{low:.0f} · {median:.0f} · {high:.0f}" for low, median, high, _ in windows)
    mean = " / ".join(f"{mean:.1f}" for _, _, _, mean in windows)
    again = " / ".join(f"{median_of(lines, lambda line: line['retransmitted_segments']):.0f}" for lines in (model, linux))
    stall = " / ".join(seconds(median_of(lines, stall_of)) for lines in (model, linux)) if outage else ""
    unfinished = sum(not line["finished"] for line in model + linux)
    return (
        f"| {outage} s | {loss} % | {goodputs[0]:.2f} / {goodputs[1]:.2f} | {shown} | {mean} | {window} | {again} | {stall} |"
        + (f" {unfinished} unfinished" if unfinished else "")
    )


def print_tables(model, linux):
    senders = list(dict.fromkeys(sender for sender, _, _ in linux))
    for sender in senders:
        print(f"### {sender}\n")
        print("| outage | loss | goodput, Mb/s | ratio | cwnd, mean | cwnd, 10 · 50 · 90 % | retransmitted | stall |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- |")
        for key in linux:
            if key[0] != sender:
                continue
            if key not in model:
                sys.exit(f"senders.py: {key}: on linux and not on the model")
            print(row(key[1], key[2], model[key], linux[key]))
        print()


def run(program, scenario, substrate, folder):
    out = pathlib.Path(folder) / f"{substrate}.jsonl"
    command = [program, "lab", "run", scenario, "--substrate", substrate, "--out", out]
    if subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode != 0:
        sys.exit(f"senders.py: {' '.join(map(str, command))}: failed")
    return lines_of(out)


def main(arguments):
    if len(arguments) == 3 and arguments[0] == "--lines":
        print_tables(lines_of(arguments[1]), lines_of(arguments[2]))
    elif len(arguments) in (1, 2) and not arguments[0].startswith("-"):
        scenario = arguments[1] if len(arguments) == 2 else SCENARIO
        with tempfile.TemporaryDirectory() as folder:
            print_tables(*(run(arguments[0], scenario, substrate, folder) for substrate in ("model", "linux")))
    else:
        sys.exit("usage: senders.py PROGRAM [SCENARIO] | senders.py --lines MODEL LINUX")


if __name__ == "__main__":
    main(sys.argv[1:])
