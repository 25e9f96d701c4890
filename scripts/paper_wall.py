# SPDX-License-Identifier: Apache-2.0
"""Rows of the tables that are measured by the wall clock: they differ from machine to machine and from run to run."""
import json
import re

from paper_linux import demo_runs

SPEED = re.compile(
    r"^(plain|gateway|ns-3)(?: \S+)? +transfer +(\S+) s +goodput +(\S+) Mb/s +wall +(\S+) s +(\S+) times real time +(\d+) events$", re.M)


def demo_live(text):
    """The table of one demo, without the column `SHA-256`."""
    return [[run, *cells] for run, cells in demo_runs(text)]


def gateway_cost(text):
    """What the bench `cost` prints first."""
    return json.loads(text.splitlines()[0])


def throughput(text):
    cost = gateway_cost(text)

    def row(label, pairs, quantity):
        medians = (quantity(pairs[f"{way}_median"]) for way in ("plain", "gateway"))
        return [label, *medians, f"{pairs['ratio_median']:.2f}"]

    def gigabits(mbit_per_s):
        return f"{mbit_per_s / 1000:.1f} Gb/s"

    def hundreds(per_s):
        return f"{round(per_s, -2):,.0f} a second"

    times = {way: (cost[f"{way}_median_us"], cost[f"{way}_p99_us"]) for way in ("plain", "gateway")}
    added = (with_it - without for with_it, without in zip(times["gateway"], times["plain"], strict=True))
    return [
        row("bulk to the MH", cost["downlink_mbit_per_s"], gigabits),
        row("bulk from the MH", cost["uplink_mbit_per_s"], gigabits),
        row("connections", cost["connections_per_s"], hundreds),
        ["1-byte request-response, median (p99)",
         *("{:.0f} us ({:.0f})".format(*both) for both in times.values()), "{:.0f} us ({:.0f}) added".format(*added)],
    ]


def throughput_pairs(text):
    """The least and the largest ratio of a pair, either direction."""
    cost = gateway_cost(text)
    ratios = [
        gateway / plain for way in ("downlink", "uplink")
        for plain, gateway in cost[f"{way}_mbit_per_s"]["plain_and_gateway"]
    ]
    return [["single pairs", f"{min(ratios):.1f} to {max(ratios):.1f}"]]


def simulator_speed(text):
    names = {"plain": "model", "ns-3": "ns-3", "gateway": "model, with the gateway's engine"}
    return [
        [names[name], f"{float(transfer):.2f} s", f"{float(goodput):.2f} Mb/s", f"{float(wall):.3g} s", times,
         f"{int(events):,}"]
        for name, transfer, goodput, wall, times, events in SPEED.findall(text)
    ]


def simulator_threads(text):
    seeds, one, two = re.search(r"^(\d+) seeds +one thread (\S+) s +two threads (\S+) s", text, re.M).groups()
    return [[f"{seeds} seeds", f"{one} s", f"{two} s"]]
