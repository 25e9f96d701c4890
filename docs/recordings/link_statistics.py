#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The statistics of recordings, for the links of docs/scenarios/real-*.toml.

    docs/recordings/link_statistics.py fit          prints each link's rate_model
    docs/recordings/link_statistics.py distances    how far each link is from its recordings

HOLDFAST_TRACES names the folder of the recordings. A distance is that of Kolmogorov and
Smirnov: the largest difference of two distribution functions, 0 to 1.
"""
import bisect
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path

# For each link: the recordings of its rate, downlink and uplink; the outages of all recordings of its kind.
LINKS = {
    "3g-subway": ("nyc_3g_subway_tunnel.down.mm", "nyc_3g_subway_tunnel.up.mm", "nyc18_3g_subway"),
    "umts-car": ("tmobile_umts_drive.down.mm", "tmobile_umts_drive.up.mm", "us_3g_lte_drive_down"),
    "lte-car": ("att_lte_drive.down.mm", "att_lte_drive.up.mm", "us_3g_lte_drive_down"),
    "train": ("nyc_lte_train.rate", None, "nyu_rail_tcp"),
    "ferry": ("nyc_lte_ferry_b.rate", None, "nyu_ferry_tcp"),
    "5g-car": ("irish_5g_car_a.rate", None, "irish5g_car"),
    "satellite": ("us_city_starlink_mob.rate", None, "us_starlink_udp"),
    "wifi": ("wifi_restaurant_a.rate", None, "wifi_rest1"),
}
SCENARIOS = Path(__file__).parents[1] / "scenarios"
# Below this rate in Mb/s a link counts as stalled.
STALLED = 0.05
# The uplink where none was recorded: this share of the downlink, with the correlation of the recordings that have both.
UPLINK_SHARE, CORRELATION = 0.2, 0.45
SEEDS = range(1, 11)


def traces():
    folder = os.environ.get("HOLDFAST_TRACES")
    if not folder:
        sys.exit("link_statistics.py: HOLDFAST_TRACES is not set; set it to the folder of the recordings")
    return Path(folder)


def rates(lines, opportunities):
    """The rate in each second, in Mb/s."""
    carried = {}
    if opportunities:
        for ms in map(int, lines):
            carried[ms // 1000] = carried.get(ms // 1000, 0) + 0.012
    else:
        begin = 0.0
        for end, rate in (map(float, line.split()) for line in lines):
            while begin < end - 1e-9:
                second = math.floor(begin + 1e-9)
                until = min(end, second + 1)
                carried[second] = carried.get(second, 0) + rate * (until - begin)
                begin = until
    return [carried.get(second, 0.0) for second in range(max(carried))]


def read(path):
    lines = [line for line in path.read_text().splitlines() if line.strip() and line[0] != "#"]
    return rates(lines, path.suffix == ".mm")


def opportunities(path):
    """The times in seconds at which a recording carries a packet of 1,500 bytes."""
    lines = [line for line in path.read_text().splitlines() if line.strip() and line[0] != "#"]
    if path.suffix == ".mm":
        return [int(line) / 1000 for line in lines]
    times, begin, carried = [], 0.0, 0.0
    for end, rate in (map(float, line.split()) for line in lines):
        packets_per_s = rate / 0.012
        until = carried + packets_per_s * (end - begin)
        times += [begin + (number - carried) / packets_per_s for number in range(math.floor(carried) + 1, math.floor(until) + 1)]
        begin, carried = end, until - math.floor(until)
    return times


def stalls(series):
    """Begin and end of each stretch of seconds in which nothing is delivered."""
    found, begin = [], None
    for second, rate in enumerate(series + [math.inf]):
        if rate <= STALLED and begin is None:
            begin = second
        if rate > STALLED and begin is not None:
            found.append((begin, second))
            begin = None
    return found


def family(name):
    """Times between outages and lengths of outages, in seconds, of all recordings of a kind."""
    rows = (traces() / "outage_stats" / "empirical" / f"{name}.tsv").read_text().splitlines()[1:]
    pairs = [(float(up), float(down)) for _, _, down, up in (row.split("\t") for row in rows)]
    return [max(up, 0.05) for up, _ in pairs], [min(down, 120.0) for _, down in pairs]


def quantiles(values):
    values = sorted(values)
    return [values[round(i / 10 * (len(values) - 1))] for i in range(11)]


def memory(series):
    """A time constant in seconds, from the rank correlation of rates two seconds apart, while the link is up."""
    ranked = sorted(rate for rate in series if rate > STALLED)
    normal = statistics.NormalDist()
    state = [
        normal.inv_cdf((bisect.bisect(ranked, rate) - 0.5) / (len(ranked) + 1)) if rate > STALLED else None
        for rate in series
    ]
    pairs = [(a, b) for a, b in zip(state, state[2:]) if a is not None and b is not None]
    return -2 / math.log(statistics.correlation(*zip(*pairs)))


def fade(series):
    """How long the rate is below 0.7 of its mean before an outage, and the share to which it falls."""
    mean = statistics.mean(math.log(rate) for rate in series if rate > STALLED)
    shares = []
    for back in range(1, 6):
        before = [series[begin - back] for begin, _ in stalls(series) if begin >= back]
        before = [math.log(rate) - mean for rate in before if rate > STALLED]
        shares.append(math.exp(statistics.mean(before)) if before else 1.0)
    length = next((back for back, share in enumerate(shares) if share > 0.7), len(shares))
    return (length, min(1.0, shares[0])) if length else (0, 1.0)


def trains(path):
    """The share of outages longer than a second in which single packets are delivered."""
    if path.suffix != ".mm":
        return 0.0
    times = sorted({int(line) for line in path.read_text().split()})
    gaps = [(a, b) for a, b in zip(times, times[1:]) if b - a > 900]
    joined = []
    for begin, end in gaps:
        if joined and begin - joined[-1][1] < 50:
            joined[-1] = (joined[-1][0], end, joined[-1][2] + 1)
        else:
            joined.append((begin, end, 1))
    return sum(1 for gap in joined if gap[2] > 1) / len(joined) if joined else 0.0


def fit():
    for name, (down, up, kind) in LINKS.items():
        series = read(traces() / down)
        rate = quantiles([value for value in series if value > STALLED])
        times_up, times_down = map(quantiles, family(kind))
        fade_s, fade_to = fade(series)
        uplink = [UPLINK_SHARE * value for value in rate]
        if up:
            uplink = quantiles([value for value in read(traces() / up) if value > STALLED])
        shown = lambda values: "[" + ", ".join(f"{value:.3g}" for value in values) + "]"
        print(f"# {name}")
        print("[wireless.rate_model]")
        print(f"rate_mbit_per_s = {shown(rate)}")
        print(f"memory_s = {memory(series):.1f}")
        print(f"up_s = {shown(times_up)}")
        print(f"down_s = {shown(times_down)}")
        print(f"fade_s = {fade_s}\nfade_to = {fade_to:.2f}\ntrains = {trains(traces() / down):.2f}")
        print("\n[wireless.uplink.rate_model]")
        print(f"rate_mbit_per_s = {shown(uplink)}\ncorrelation = {CORRELATION}\n")


def distance(a, b):
    a, b = sorted(a), sorted(b)
    below = lambda values, x: bisect.bisect_right(values, x) / len(values)
    return max(abs(below(a, x) - below(b, x)) for x in a + b)


def drawn(name):
    """The rate in each second, outages and times between them, for all seeds."""
    series, times_up, times_down = [], [], []
    for seed in SEEDS:
        command = ["cargo", "run", "--quiet", "--locked", "--release", "-p", "holdfast-link"]
        command += ["--example", "rate", "--", SCENARIOS / f"real-{name}.toml", str(seed)]
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        series += rates(lines, False)
        begin, ended = 0.0, 0.0
        steps = [tuple(map(float, line.split())) for line in lines]
        for i, (end, rate) in enumerate(steps):
            # A single packet in a train does not end an outage, as in the recordings' statistics.
            if rate == 0 or 0 < i < len(steps) - 1 and end - begin < 0.002 and steps[i - 1][1] == 0:
                if i == 0 or steps[i - 1][1] > 0 and begin > ended:
                    times_up.append(begin - ended)
                    times_down.append(0.0)
                times_down[-1] += end - begin
                ended = end
            begin = end
    long = [(up, down) for up, down in zip(times_up, times_down) if down >= 0.5]
    return series, [up for up, _ in long], [down for _, down in long]


def distances():
    print("| link | rate | outage | time between | outages drawn, recorded |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, (down, _, kind) in LINKS.items():
        series, times_up, times_down = drawn(name)
        recorded = read(traces() / down)
        recorded_up, recorded_down = family(kind)
        up = lambda values: [value for value in values if value > STALLED]
        rate = distance(up(series), up(recorded))
        row = [rate, distance(times_down, recorded_down), distance(times_up, recorded_up)]
        counts = f"{len(times_down)}, {len(recorded_down)}"
        print(f"| `real-{name}` |", " | ".join(f"{value:.2f}" for value in row), f"| {counts} |")


def main(arguments):
    chosen = {"fit": fit, "distances": distances}.get(arguments[0] if len(arguments) == 1 else "")
    if not chosen:
        sys.exit(__doc__)
    chosen()


if __name__ == "__main__":
    main(sys.argv[1:])
