# SPDX-License-Identifier: Apache-2.0
"""Rows of the tables that are measured by the wall clock: they differ from machine to machine and from run to run."""
import json
import re
import statistics

from paper_linux import demo_runs
from paper_runs import groups, tenths_of_seconds

SPEED = re.compile(
    r"^(plain|gateway|ns-3)(?: \S+)? +transfer +(\S+) s +goodput +(\S+) Mb/s +wall +(\S+) s +(\S+) times real time +(\d+) events$", re.M)


def demo_live(text):
    """The table of one demo, without the column `SHA-256`."""
    return [[run, *cells] for run, cells in demo_runs(text)]


def gateway_cost(text):
    """The first line that the bench `cost` prints."""
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
    """The least and the greatest ratio of the pairs, over both directions."""
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


def link_exactness(text):
    report = json.loads(text)

    def values(name):
        return [run[name] for run in report["runs"]]

    def span(name, form):
        return " to ".join(form.format(find(values(name))) for find in (min, max))

    rate = statistics.median(values("rate_mbit_per_s"))
    return [
        ["rate", f"{rate:.3f} Mb/s, error {report['rate_error_percent']:.3f}%",
         f"at most {max(map(abs, values('rate_error_percent'))):.3f}%"],
        ["delay, median", f"{report['delay_error_median_ms']:+.3f} ms", f"{span('delay_error_median_ms', '{:+.3f}')} ms"],
        ["delay, 99th percentile", f"{report['delay_error_p99_ms']:.2f} ms", f"{span('delay_error_p99_ms', '{:.2f}')} ms"],
        ["delay, largest", f"{statistics.median(values('delay_error_max_ms')):.1f} ms",
         f"{span('delay_error_max_ms', '{:.1f}')} ms"],
    ]


def uplink_cost(text):
    """The bench prints its pairs first: without the daemon, and with it."""
    pairs = json.loads(text.splitlines()[0])

    def medians(name, form, scale=1):
        return [form.format(statistics.median(pair[side][name] for pair in pairs) / scale) for side in (0, 1)]

    def ratio(name):
        return f"{statistics.median(auto[name] / plain[name] for plain, auto in pairs):.3f}"

    return [
        ["throughput", *medians("mbit_per_s", "{:.0f} Mb/s"), ratio("mbit_per_s")],
        ["round trip, by the sender's socket", *medians("round_trip_us", "{:.1f} ms", 1000), ratio("round_trip_us")],
        ["queue in the device", *medians("queue_bytes", "{:.0f} KB", 1000), ratio("queue_bytes")],
        ["processor time of the machine, the receiver included", *medians("machine", "{:.2f} of one"), ""],
        ["the daemon's part of it", "", medians("daemon", "{:.2f} of one")[1], ""],
    ]


def compression_time(text):
    """Microseconds for compression and decompression of a packet: levels in rows, sizes in columns."""
    rows = []
    for name, title in (("deflate", "deflate"), ("zstd", "zstd, dictionary")):
        lines = text.split(f"{title}: text, ")[1].splitlines()[1:11]
        sizes = lines[0].split()[1:]
        for line in lines[1:]:
            level, *cells = re.split(r" {2,}", line.strip())
            if level in ("1", "3", "6", "9"):
                rows.append([f"{name}, {level}", *(cells[sizes.index(size)] for size in ("100", "400", "800", "1400"))])
    return rows


def compression_size(text):
    """Percent of the payload that is left, by method, level, kind of data and size."""
    left = {
        (name, level, kind, size): percent
        for size, name, level, rest in re.findall(r"^ *(512|1448) +(deflate|zstd) (\d):(.*)$", text, re.M)
        for kind, percent in re.findall(r"  (\w+) ([\d.]+) %", rest)
    }
    return [
        [f"{name}, {level}", *(left[name, level, kind, size] for kind in ("text", "program") for size in ("512", "1448"))]
        for name in ("deflate", "zstd") for level in ("1", "3", "9")
    ]


def lc_cwe_senders(text):
    """Medians of the transfer's time, and of the time that no transfer can beat."""
    cells = groups(map(json.loads, text.splitlines()), "handoff_s", "sender")
    rows = []
    for handoff_s in (0.2, 1, 3):
        runs = [cells[handoff_s, sender] for sender in ("reno", "cubic", "bbr", "holdfast_lccwe")]
        optimum = statistics.median(run["optimal_s"] for run in runs[0])
        rows.append([f"{handoff_s:g} s", f"{optimum:.1f}", *map(tenths_of_seconds, runs)])
    return rows
