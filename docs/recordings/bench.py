#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Plays windows of recordings with and without Holdfast, on Linux in virtual time.

    docs/recordings/bench.py core [SCHEME...]         the core: 96 cells, without a gateway and with `auto`
    docs/recordings/bench.py uploads [SCHEME...]      48 cells of uploads, plain and with `keep` and `auto` on the mobile
    docs/recordings/bench.py draw COUNT SEED [SCHEME...]    COUNT cells of the whole product, drawn from SEED
    docs/recordings/bench.py tables RESULTS.jsonl...  the tables of results that are there; of draws also draw-SEED-others

HOLDFAST names the program (target/release/holdfast), HOLDFAST_TRACES the folder of the recordings.
Results, tables and pictures go to target/recordings, and the scenario of a cell that failed. A bench that was stopped
goes on where it was.

A cell: a recording, what an outage does to packets, random loss, the sender, the queue, the flows.
Its runs: three windows of 60 s of the recording, with outages. No signal reports the outages.
"""
import bisect
import collections
import functools
import json
import os
import random
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from link_statistics import opportunities, read, stalls, traces

FOLDER = Path("target/recordings")
BASE = "none"
SCHEMES = [BASE, "auto"]
ALL_SCHEMES = [BASE, "hold", "snoop", "mtcp-plus", "keep", "haproxy", "wake", "freeze", "auto"]
UPLOAD_SCHEMES = [BASE, "keep", "auto"]
ON_MOBILE = {"wake", "freeze"}
WINDOW_S, WINDOWS = 60, 3
GAP_MIN_S, DELAY_S = 0.3, 0.025
# A packet of 1,500 bytes has 52 bytes of headers.
PAYLOAD_SHARE = 1448 / 1500
# Runs over faster recordings take minutes.
MBIT_PER_S_MAX = 150
# One recording of each kind of link.
CORE = {
    "3G, subway": "nyc_3g_subway_tunnel.down.mm",
    "UMTS, car": "tmobile_umts_drive.down.mm",
    "LTE, car": "att_lte_drive.down.mm",
    "LTE, ferry": "nyc_lte_ferry_b.rate",
    "LTE, subway": "nyc_lte_subway7_a.rate",
    "LTE, train": "nyc_lte_train.rate",
    "LTE, walk": "nyc_lte_walk.down.mm",
    "5G, car": "irish_5g_car_a.rate",
    "satellite, city": "us_city_starlink_mob.rate",
    "satellite, roaming": "us_city_starlink_roam.rate",
    "Wi-Fi, busy": "wifi_restaurant_a.rate",
    "Wi-Fi, shipyard": "wifi_shipyard_24ghz.rate",
}
# Recordings of uplinks.
UPLINKS = {
    "3G, subway, uplink": "nyc_3g_subway_tunnel.up.mm",
    "EV-DO, car, uplink": "verizon_evdo_drive.up.mm",
    "UMTS, car, uplink": "tmobile_umts_drive.up.mm",
    "LTE, car, uplink": "att_lte_drive.up.mm",
    "LTE, car 2016, uplink": "att_lte_drive_2016.up.mm",
    "satellite, motorway, uplink": "autobahn_starlink_up.rate",
}
SENDERS = ["cubic", "bbr", "reno"]
CONDITIONS = {"lost": ("lose", 0.0), "kept": ("keep", 0.0), "lost, 1 % loss": ("lose", 0.01)}
# The other effect of outages on the same recording.
OTHER_OUTAGES = {"lost": "kept", "kept": "lost"}
QUEUES = [50, 200, 1000]
FLOWS = ["1 flow", "8 flows", "1 flow and a call"]
# A call: 50 datagrams of 200 bytes a second toward the mobile.
CALL = """
[[cross_traffic]]
over = "wireless"
rate_mbit_per_s = 0.08
packet_bytes = 200
"""
SCENARIO = """
description = "recordings of links that come and go"
repetitions = 1

[transfer]
bytes = 2_000_000_000
limit_s = {limit_s}
{transfer}
flows = {flows}

[wireless]
delay_ms = {delay_ms}
queue_packets_max = {queue}
outages = {{ kind = "trace", file = "$HOLDFAST_TRACES/{file}", gap_min_s = {gap_min_s} }}
outage_effect = "{effect}"
loss = {loss}
rate_trace = "$HOLDFAST_TRACES/{file}"
{acks} = {{ rate_mbit_per_s = 5, loss = 0 }}

[hosts]
congestion_control = "{sender}"

[gateway]
signal = "none"

[mobile]
signal = "none"
{call}
[[sweep]]
name = "start_s"
key = "wireless.trace_start_s"
values = {starts}

[[sweep]]
name = "scheme"
points = [
{points}
]
"""

Cell = collections.namedtuple("Cell", "conditions sender queue flows recording")


def windows(file, generator):
    """Starts of windows with outages, drawn from the windows whose outages take half of the time at most."""
    series = read(traces() / file)
    last = max(0, len(series) - WINDOW_S)
    found = stalls(series)
    fitting = [
        start
        for start in range(0, last + 1, 10)
        if 1 <= sum(max(0, min(end, start + WINDOW_S) - max(begin, start)) for begin, end in found) <= WINDOW_S / 2
    ]
    fitting = fitting or list(range(0, last + 1, 10))
    generator.shuffle(fitting)
    apart = []
    for start in fitting:
        if all(abs(start - other) >= WINDOW_S for other in apart):
            apart.append(start)
    # The windows of a short recording overlap.
    return sorted((apart + [start for start in fitting if start not in apart])[:WINDOWS])


def core(recordings):
    return [
        (Cell(conditions, sender, 200, FLOWS[0], recording), file)
        for conditions in CONDITIONS
        for sender in (SENDERS if conditions != "lost, 1 % loss" else SENDERS[:2])
        for recording, file in recordings.items()
    ]


def drawn(count, seed):
    generator = random.Random(seed)
    files = sorted(path.name for path in traces().iterdir() if path.name.endswith((".down.mm", ".rate")))
    files = [file for file in files if not file.endswith("_up.rate")]
    files = [file for file in files if statistics.mean(read(traces() / file)) <= MBIT_PER_S_MAX]
    cells = {}
    while len(cells) < count:
        file = generator.choice(files)
        cell = Cell(*map(generator.choice, (list(CONDITIONS), SENDERS, QUEUES, FLOWS)), file)
        cells[cell] = file
    return list(cells.items())


def points(schemes, is_upload):
    set_by = lambda scheme: "mobile.scheme" if is_upload or scheme in ON_MOBILE else "gateway.scheme"
    return "\n".join(f'  {{ name = "{scheme}", set = {{ "{set_by(scheme)}" = "{scheme}" }} }},' for scheme in schemes)


def run_cell(scenario, cell, file, seed, schemes):
    """Executes a cell's runs one after the other, and returns the results. The file `scenario` stays if a run fails."""
    effect, loss = CONDITIONS[cell.conditions]
    is_upload = cell.recording in UPLINKS
    scenario.write_text(
        SCENARIO.format(
            limit_s=WINDOW_S, delay_ms=DELAY_S * 1000, gap_min_s=GAP_MIN_S, flows=8 if cell.flows == "8 flows" else 1, queue=cell.queue, effect=effect,
            loss=loss, file=file, starts=windows(file, random.Random(f"{seed} {file}")),
            sender=cell.sender, call=CALL if cell.flows.endswith("call") else "", points=points(schemes, is_upload),
            transfer='direction = "uplink"' if is_upload else "request_bytes = 84",
            acks="downlink" if is_upload else "uplink",
        )
    )
    holdfast = os.environ.get("HOLDFAST", "target/release/holdfast")
    command = [holdfast, "lab", "run", scenario, "--substrate", "linux", "--jobs", "1", "--out", "-"]
    output = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if output.returncode:
        raise RuntimeError(f"{scenario}: {output.stderr.strip()}")
    scenario.unlink()
    runs = [json.loads(line) for line in output.stdout.splitlines()]
    for run in runs:
        run["cell"], run["scheme"] = cell._asdict(), run["parameters"]["scheme"]
    return runs


def carry_out(name, cells, seed, schemes):
    """Executes the runs without results, with one cell on each processor. Returns the file of all results."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    results = FOLDER / f"{name}.jsonl"
    there = set()
    if results.exists():
        runs = map(json.loads, results.read_text().splitlines())
        there = {(Cell(**run["cell"]), run["scheme"]) for run in runs}
    pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))
    futures = {}
    for number, (cell, file) in enumerate(cells, 1):
        missing = [scheme for scheme in schemes if (cell, scheme) not in there]
        if missing:
            scenario = FOLDER / f"{name}-{number}.toml"
            futures[pool.submit(run_cell, scenario, cell, file, seed, missing)] = cell
    try:
        for number, future in enumerate(as_completed(futures), 1):
            # A cell's runs are written all at once: a stopped bench continues with whole cells.
            with results.open("a") as file_of_results:
                file_of_results.write("".join(json.dumps(run) + "\n" for run in future.result()))
            print(f"\r{number} of {len(futures)} cells: {', '.join(map(str, futures[future]))}\033[K", end="", file=sys.stderr)
    except RuntimeError as error:
        sys.exit(f"\nbench.py: {error}")
    except KeyboardInterrupt:
        sys.exit("\nbench.py: stopped; the same command goes on from here")
    finally:
        pool.shutdown(cancel_futures=True)
    print(file=sys.stderr)
    in_order_of([cell for cell, _ in cells], results)
    return results


def in_order_of(cells, results):
    """Sorts the results: the tables are in the order of the results."""
    order = {cell: number for number, cell in enumerate(cells)}
    lines = results.read_text().splitlines()
    lines.sort(key=lambda line: order.get(Cell(**json.loads(line)["cell"]), len(order)))
    ordered = results.with_suffix(".ordered")
    ordered.write_text("".join(line + "\n" for line in lines))
    ordered.rename(results)


def share(run):
    return run["bytes"] / run["link"]["capacity_bytes"]


def dropped(run):
    return run["link"]["dropped_by_queue"] / max(1, run["link"]["packets"])


def of_other_outages(cell):
    return cell._replace(conditions=OTHER_OUTAGES.get(cell.conditions, cell.conditions))


def without_gateway(name, cells, seed):
    """Runs without a gateway and with the other effect of outages, for drawn cells that may be floods."""
    results = Results([FOLDER / f"{name}.jsonl"])
    others = [scheme for scheme in results.schemes if scheme != BASE]
    missing = [
        (of_other_outages(cell), file)
        for cell, file in cells
        if cell in results.bases
        and of_other_outages(cell) not in results.bases
        and any(results.floods(cell, scheme) for scheme in others if scheme in results.cells[cell])
    ]
    return [carry_out(f"{name}-others", missing, seed, [BASE])] if missing else []


class Results:
    """Runs by cell, scheme and window."""

    def __init__(self, files):
        self.cells = collections.defaultdict(lambda: collections.defaultdict(dict))
        for file in files:
            for line in Path(file).read_text().splitlines():
                run = json.loads(line)
                if not run["intact"]:
                    sys.exit(f"bench.py: {run['variant']}: other bytes arrived than were sent")
                self.cells[Cell(**run["cell"])][run["scheme"]][run["parameters"]["start_s"]] = run
        found = {scheme for by_scheme in self.cells.values() for scheme in by_scheme}
        self.schemes = [scheme for scheme in ALL_SCHEMES if scheme in found]
        self.bases = {cell: by_scheme[BASE] for cell, by_scheme in self.cells.items() if BASE in by_scheme}
        # A cell that only serves for comparison is in no table.
        for cell in [cell for cell, by_scheme in self.cells.items() if set(by_scheme) == {BASE} != found]:
            del self.cells[cell]

    def median(self, measure, cell, scheme):
        runs = self.cells[cell].get(scheme)
        return statistics.median(map(measure, runs.values())) if runs else None

    def ratio(self, cell, scheme):
        """The median ratio of bytes to those of the same window without a gateway."""
        runs, base = self.cells[cell].get(scheme, {}), self.cells[cell].get(BASE, {})
        pairs = [run["bytes"] / max(1, base[start]["bytes"]) for start, run in runs.items() if start in base]
        return statistics.median(pairs) if pairs else None

    def floods(self, cell, scheme):
        """Whether the queue drops over 0.5 %, and over 1.5 times the larger share without a gateway (lost or kept)."""
        bases = [self.bases[c].values() for c in (cell, of_other_outages(cell)) if c in self.bases]
        shares = [statistics.median(map(dropped, runs)) for runs in bases]
        return self.median(dropped, cell, scheme) > max(0.005, 1.5 * max(shares))


def of_cell(results, cell, scheme):
    if results.median(share, cell, scheme) is None:
        return ""
    text = f"{results.median(share, cell, scheme):.2f}"
    if scheme != BASE and results.ratio(cell, scheme) is not None:
        text += f" (x{results.ratio(cell, scheme):.2f})"
    return f"{text}, {results.median(dropped, cell, scheme):.1%}"


def of_cells(results):
    """A table for each combination of a cell's properties, with a row for each recording."""
    heads = [scheme if scheme == BASE else f"`{scheme}`" for scheme in results.schemes]
    groups = collections.defaultdict(list)
    for cell in results.cells:
        groups[cell._replace(recording="")].append(cell)
    for group, cells in groups.items():
        print(f"\n### {group.conditions}; {group.sender}; queue of {group.queue} packets; {group.flows}\n")
        print("| recording |", " | ".join(heads), "|")
        print("| --- |" + " --- |" * len(heads))
        for cell in cells:
            row = [of_cell(results, cell, scheme) for scheme in results.schemes]
            print(f"| {cell.recording} |", " | ".join(row), "|")


def gaps_s(runs):
    """The time from each outage to the first new byte; infinite if none came before the next outage."""
    return [float("inf") if stall is None else stall for run in runs for stall in run["stalls_s"]]


def after_packet_s(runs):
    """The time from the first packet over the link after an outage to the first new byte, if both came."""
    pairs = [pair for run in runs for pair in zip(run["stalls_s"], run["link"].get("first_packet_s", []))]
    return [stall - packet for stall, packet in pairs if stall is not None and packet is not None]


def percentile(values, percent):
    values = sorted(values)
    return values[min(len(values) - 1, len(values) * percent // 100)] if values else float("nan")


def summary(results):
    print("\n| scheme | share, mean | cells | at least 0.98 | least | floods | gaps answered | p50 | p90 | after a packet p50 | p90 | twice | wait p95 |")
    print("| --- |" + " ---: |" * 12)
    for scheme in results.schemes:
        cells = [cell for cell, by_scheme in results.cells.items() if scheme in by_scheme]
        runs = [run for cell in cells for run in results.cells[cell][scheme].values()]
        ratios = [results.ratio(cell, scheme) for cell in cells]
        ratios = [ratio for ratio in ratios if ratio is not None]
        gaps = gaps_s(runs)
        after_packet = after_packet_s(runs)
        answered = [gap for gap in gaps if gap != float("inf")]
        again = [run["duplicates_per_byte"] for run in runs if run.get("duplicates_per_byte") is not None]
        row = [
            f"{statistics.mean(results.median(share, cell, scheme) for cell in cells):.2f}",
            str(len(cells)),
            str(sum(ratio >= 0.98 for ratio in ratios)),
            f"{min(ratios, default=float('nan')):.2f}",
            str(sum(results.floods(cell, scheme) for cell in cells if BASE in results.cells[cell])),
            f"{len(answered)} of {len(gaps)}",
            f"{percentile(answered, 50):.2f} s",
            f"{percentile(answered, 90):.2f} s",
            f"{percentile(after_packet, 50):.2f} s",
            f"{percentile(after_packet, 90):.2f} s",
            f"{statistics.mean(again):.1%}" if again else "",
            f"{statistics.median(run['link']['wait_p95_ms'] for run in runs):.0f} ms",
        ]
        print(f"| {scheme} |", " | ".join(row), "|")


@functools.cache
def offers_s(recording):
    """The times at which a recording can carry a packet."""
    return opportunities(traces() / {**CORE, **UPLINKS}.get(recording, recording))


def offered_answer(run, number, packet_s):
    """Whether the link could carry a packet when the answer to its first packet after this gap was due: between the
    arrival of the MH's ACK and one round trip later."""
    offers, start = offers_s(run["cell"]["recording"]), run["parameters"]["start_s"]
    window = [start, *offers[bisect.bisect(offers, start) : bisect.bisect(offers, start + WINDOW_S)]]
    ends = [end for begin, end in zip(window, window[1:]) if end - begin >= GAP_MIN_S]
    if number >= len(ends):
        return True
    first = ends[number] + packet_s + DELAY_S
    return bisect.bisect(offers, first) < bisect.bisect(offers, first + 2 * DELAY_S)


def after_packets(results):
    """For gaps that lose packets: time from the first packet over the link to the first new byte. The last two columns
    leave out gaps after which the link could carry nothing when the answer was due."""
    print("\n| scheme | gaps answered, lost | after a packet p50 | p90 | within 0.10 s | the link carried an answer | within 0.10 s |")
    print("| --- |" + " ---: |" * 6)
    for scheme in results.schemes:
        by_scheme = [results.cells[cell].get(scheme, {}) for cell in results.cells if cell.conditions != "kept"]
        times, possible = [], []
        for run in (run for runs in by_scheme for run in runs.values()):
            for number, (stall, packet) in enumerate(zip(run["stalls_s"], run["link"].get("first_packet_s", []))):
                if stall is None or packet is None:
                    continue
                times.append(stall - packet)
                if times[-1] <= 0.1 or offered_answer(run, number, packet):
                    possible.append(times[-1])
        if times:
            within = [f"{sum(time <= 0.1 for time in some) / len(some):.0%}" for some in (times, possible)]
            figures = [f"{percentile(times, 50):.2f} s", f"{percentile(times, 90):.2f} s", within[0], str(len(possible)), within[1]]
            print(f"| {scheme} | {len(times)} |", " | ".join(figures), "|")


def goals(results):
    """Shares of the link's capacity for payload, on recordings that a sender fills: it reaches 0.95 without a gateway
    if gaps keep their packets."""
    best = collections.defaultdict(float)
    for cell in results.cells:
        if cell.conditions == "kept":
            best[cell.recording] = max(best[cell.recording], (results.median(share, cell, BASE) or 0) / PAYLOAD_SHARE)
    groups = collections.defaultdict(list)
    for cell in results.cells:
        if best[cell.recording] >= 0.95:
            groups[cell.conditions].append(cell)
    print("\n| packets, on recordings that a sender fills | cells |", " | ".join(results.schemes), "|")
    print("| --- | ---: |" + " ---: |" * len(results.schemes))
    for conditions, cells in groups.items():
        means = []
        for scheme in results.schemes:
            shares = [results.median(share, cell, scheme) for cell in cells if results.cells[cell].get(scheme)]
            means.append(f"{statistics.mean(shares) / PAYLOAD_SHARE:.2f}" if shares else "")
        print(f"| {conditions} | {len(cells)} |", " | ".join(means), "|")


def calls(results):
    """The call beside one flow: its losses and its delays."""
    cells = [cell for cell in results.cells if cell.flows.endswith("call")]
    if not cells:
        return
    print("\n| scheme | cells | call lost, mean | against no gateway | delay p95, median ratio |")
    print("| --- |" + " ---: |" * 4)
    for scheme in results.schemes:
        runs, ratios, more = [], [], []
        for cell in cells:
            for start, run in results.cells[cell].get(scheme, {}).items():
                call, base = run["cross_traffic"][0], results.cells[cell].get(BASE, {}).get(start)
                runs.append(1 - call["arrived"] / call["sent"])
                if base and call.get("delay_p95_ms") and base["cross_traffic"][0].get("delay_p95_ms"):
                    ratios.append(call["delay_p95_ms"] / base["cross_traffic"][0]["delay_p95_ms"])
                    more.append(runs[-1] - 1 + base["cross_traffic"][0]["arrived"] / base["cross_traffic"][0]["sent"])
        if ratios:
            figures = [f"{statistics.mean(runs):.1%}", f"{statistics.mean(more):+.1%}", f"{statistics.median(ratios):.2f}"]
            print(f"| {scheme} | {len(cells)} |", " | ".join(figures), "|")


def pictures(results, name):
    """Draws the shares of each cell, and the times after gaps, as SVG."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    matplotlib.rcParams.update({"svg.hashsalt": "holdfast", "font.size": 9})
    names = ["black", "tab:blue", "tab:orange", "tab:olive", "tab:green", "tab:brown", "tab:purple", "tab:pink", "tab:red"]
    colours = dict(zip(ALL_SCHEMES, names))
    figure, (shares, gaps) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    order = sorted(results.cells, key=lambda cell: results.median(share, cell, BASE) or 0)
    for scheme in results.schemes:
        points = [(place, results.median(share, cell, scheme)) for place, cell in enumerate(order)]
        points = [point for point in points if point[1] is not None]
        shares.plot(*zip(*points), "." if scheme != BASE else "-", color=colours[scheme], label=scheme)
        times = sorted(gaps_s(run for cell in order for run in results.cells[cell].get(scheme, {}).values()))
        gaps.step(times, [(i + 1) / len(times) for i in range(len(times))], color=colours[scheme], label=scheme)
    shares.set(xlabel="cells, in the order of no gateway", ylabel="share of the link", ylim=(0, 1))
    gaps.set(xlabel="from the end of a gap to the first new byte, s", ylabel="share of gaps", xscale="log", ylim=(0, 1))
    gaps.set_xlim(0.01, 30)
    gaps.set_xticks([0.01, 0.1, 1, 10], labels=["0.01", "0.1", "1", "10"])
    shares.legend()
    file = FOLDER / f"{name}.svg"
    figure.savefig(file, metadata={"Date": None})
    print(f"\n{file}", file=sys.stderr)


def main(arguments):
    match arguments:
        case ["core", *schemes]:
            files = [carry_out("core", core(CORE), 1, schemes or SCHEMES)]
        case ["uploads", *schemes]:
            files = [carry_out("uploads", core(UPLINKS), 1, schemes or UPLOAD_SCHEMES)]
        case ["draw", count, seed, *schemes] if count.isdigit():
            cells = drawn(int(count), seed)
            files = [carry_out(f"draw-{seed}", cells, seed, schemes or ALL_SCHEMES)]
            files += without_gateway(f"draw-{seed}", cells, seed)
        case ["tables", *files] if files:
            pass
        case _:
            sys.exit(__doc__)
    results = Results(files)
    of_cells(results)
    summary(results)
    after_packets(results)
    goals(results)
    calls(results)
    pictures(results, Path(files[0]).stem)


if __name__ == "__main__":
    main(sys.argv[1:])
