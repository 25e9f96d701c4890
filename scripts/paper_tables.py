# SPDX-License-Identifier: Apache-2.0
"""The tables of the pages that `make paper` makes: for each its stages, and its rows from the stages' results.

A row is a list of cells as the page prints them. The first cells of a row, its labels, name it.
"""
import importlib.util
import json
import re
import statistics
import tomllib
from collections import Counter
from pathlib import Path

PAPERS = ["lc-cwe-2005", "snoop-1995", "mtcp-1997", "mtcp-plus-2007", "freeze-tcp-2000"]
SENDERS = ["cubic", "reno", "bbr"]
NAMES = {"cubic": "Cubic", "bbr": "BBR", "reno": "Reno"}
# Student's t for 95% and ten values.
T_OF_TEN = 2.262


def groups(lines, *names):
    """Runs by the values of these parameters, in the order of the runs."""
    found = {}
    for line in lines:
        found.setdefault(tuple(line["parameters"][name] for name in names), []).append(line)
    return found


def median(values):
    """The median; a value that is missing counts as longer than any other."""
    return statistics.median(float("inf") if value is None else value for value in values)


def seconds(values):
    middle = median(values)
    return "never" if middle == float("inf") else f"{middle:.2f} s"


def transfer_s(run):
    return run["transfer_s"] if run["finished"] else None


def claims(entries):
    names = ["holds", "differs", "not comparable"]

    def row(label, verdicts):
        counts = Counter(verdicts)
        assert set(counts) <= set(names), counts
        return [label, *(str(counts[name]) for name in names)]

    printed = [entry.get("verdict_as_printed", entry["verdict"]) for entry in entries]
    return [
        row("with the assumptions that decide", [entry["verdict"] for entry in entries]),
        row("printed conditions alone", printed),
    ]


def outages(lines):
    cells = groups(lines, "outage_s", "sender", "packets", "remedy")

    def cell(runs):
        broken = sum(not (run["finished"] and run["intact"]) for run in runs)
        text = f"{seconds([run['stalls_s'][0] if run['stalls_s'] else None for run in runs])}, "
        text += seconds([transfer_s(run) for run in runs])
        return text + (f" ({broken} of {len(runs)} broken)" if broken else "")

    remedies = ["plain", "hold", "mtcp-plus", "haproxy", "rto-max-1s"]
    return [
        [f"{outage} s", sender, packets, *(cell(cells[outage, sender, packets, remedy]) for remedy in remedies)]
        for outage in (1, 3, 7, 15) for sender in SENDERS for packets in ("lost", "kept")
    ]


def demo(text):
    """The tables of several demos as one, without the columns `optimum` and `SHA-256`: median, least and most."""
    runs = {}
    for line in text.splitlines():
        if line.startswith("│") and ("download, " in line or "upload, " in line):
            run, transfer, _, *others, equal = [cell.strip() for cell in line.strip("│").split("┆")]
            assert equal == "equal", line
            runs.setdefault(run, []).append([transfer, *others])
    return [
        [re.sub(r", (?!plain)(\S+)", r", `\1`", run), *map(median_and_range, zip(*rows, strict=True))]
        for run, rows in runs.items()
    ]


def median_and_range(cells):
    """Of cells with one number and a unit, or `never`."""
    ordered = sorted(cells, key=lambda cell: float("inf") if cell == "never" else float(cell.split()[0]))
    middle = ordered[len(ordered) // 2]
    if ordered[0] == ordered[-1]:
        return middle
    return f"{middle} ({ordered[0].split()[0]} to {ordered[-1].split()[0]})"


def packet_cost(text):
    """The table of the bench `packet_cost`, both directions in one row."""
    names = {
        "parsed": "parsed", "passed-through": "the engine leaves the flow alone", "hold": "`hold`", "auto": "`auto`",
        "snoop-1995": "`snoop`, `1995`", "snoop-today": "`snoop`, `today`", "mtcp": "`mtcp`",
        "mtcp-cell": "`mtcp` in a cell",
        "mtcp-cell, zstd, TLS": "the same, compression zstd, bytes that do not shrink",
        "mtcp-cell, zstd, text": "the same, text",
    }
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[2:]]
    counts = {(name, direction): f"{int(none):,}, {int(lost):,}" for name, direction, none, lost, *_ in lines}
    return [[label, counts[name, "downlink"], counts[name, "uplink"]] for name, label in names.items()]


def snoop(lines):
    cells = groups(lines, "loss", "sender", "snoop")
    rows = []
    for loss in (0.0, 0.01, 0.03, 0.1):
        ceiling = 20 * 1448 / 1500 * (1 - loss)
        for sender in SENDERS:
            row, middle = [], 0
            for scheme in ("none", "1995", "today"):
                runs = cells[loss, sender, scheme]
                goodputs = [run["goodput_mbps"] for run in runs]
                middle = statistics.median(goodputs)
                late = sum(not run["finished"] for run in runs)
                row.append(
                    f"{middle:.1f} ({min(goodputs):.1f} to {max(goodputs):.1f}), "
                    f"{median([run['retransmission_ratio_percent'] for run in runs]):.2f} %"
                    + (f", {late} of {len(runs)} not in time" if late else ""))
            share = f"{100 * middle / ceiling:.0f} %"
            rows.append([f"{100 * loss:.0f} %", sender, *row, f"{ceiling:.1f}", share])
    return rows


def snoop_cell(lines):
    cells = groups(lines, "queue_packets", "loss", "flows", "snoop")

    def row(queue, loss, flows, scheme):
        runs = cells[queue, loss, flows, scheme]
        shares = [run["flow_goodputs_mbps"] for run in runs] if flows > 1 else []
        jain = [sum(of_run) ** 2 / len(of_run) / sum(share ** 2 for share in of_run) for of_run in shares]
        all_shares = [share for of_run in shares for share in of_run]
        # After the first 5 s; a packet takes 0.6 ms.
        queues = [run["series"]["queue_packets"][250:] for run in runs]
        waits = [statistics.quantiles([packets * 0.6 for packets in packets_of_run], n=20) for packets_of_run in queues]
        return [
            str(queue), f"{100 * loss:.0f} %", str(flows), "none" if scheme == "none" else f"`{scheme}`",
            f"{median([run['goodput_mbps'] for run in runs]):.2f}",
            f"{median(jain):.3f}" if jain else "",
            f"{min(all_shares):.2f}, {max(all_shares):.2f}" if jain else "",
            f"{median([wait[9] for wait in waits]):.0f}, {median([wait[18] for wait in waits]):.0f}",
            f"{median([run['retransmission_ratio_percent'] for run in runs]):.2f} %",
        ]

    return [
        row(queue, loss, flows, scheme)
        for queue in (50, 200, 1000) for loss in (0.0, 0.01) for flows in (1, 10)
        for scheme in ("none", "1995", "today")
    ]


def snoop_uplink(lines):
    cells = groups(lines, "wired_rtt_ms", "loss", "sender", "snoop")

    def cell(rtt, loss, sender):
        none, old, today = (
            f"{median([run['goodput_mbps'] for run in cells[rtt, loss, sender, scheme]]):.1f}"
            for scheme in ("none", "1995", "today"))
        return f"{none}, {old}, {today}"

    return [
        [f"{rtt} ms, {loss * 100:g} %", *(cell(rtt, loss, sender) for sender in SENDERS)]
        for rtt in (20, 100) for loss in (0.0, 0.001, 0.01, 0.03, 0.1)
    ]


def senders(sender):
    """The rows of one preset, by the script that the page names."""
    path = Path(__file__).parent.parent / "docs/scenarios/senders.py"
    spec = importlib.util.spec_from_file_location("senders", path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)

    def rows(model, linux):
        model, linux = (groups(lines, "sender", "outage_s", "loss_percent") for lines in (model, linux))
        texts = [script.row(key[1], key[2], model[key], runs) for key, runs in linux.items() if key[0] == sender]
        return [[cell.strip() for cell in text.strip().strip("|").split("|")] for text in texts]

    return rows


def lc_cwe(lines):
    cells = groups(lines, "handoff_s", "sender")
    order = ["nothing", "lc", "cwe", "lc-cwe", "freeze-fast-retransmit"]
    lengths = dict.fromkeys(handoff for handoff, _ in cells)
    return [
        [f"{handoff:g}", *(f"{median(map(transfer_s, cells[handoff, sender])):,.0f}" for sender in order)]
        for handoff in lengths
    ]


def mean_with_interval(runs):
    times = [transfer_s(run) for run in runs]
    half = T_OF_TEN * statistics.stdev(times) / len(times) ** 0.5
    return f"{statistics.fmean(times):.0f} ± {half:.0f}"


def mtcp_disconnections(lines):
    cells = groups(lines, "bytes", "hops", "disconnection_s", "distribution", "scheme")
    rows = []
    for hops in (5, 15):
        for length in (0.5, 1.5, 2.5, 3.5, 4.5):
            row = [f"{hops} hops, {length} s"]
            for distribution in ("normal", "exponential"):
                mtcp, tcp = (cells[500_000, hops, length, distribution, scheme] for scheme in ("m-tcp", "tcp"))
                optimum = statistics.fmean(run["optimal_s"] for run in mtcp)
                row += [f"{optimum:.0f}", mean_with_interval(mtcp), mean_with_interval(tcp)]
            rows.append(row)
    return rows


def mtcp_variants(lines):
    cells = groups(lines, "scheme", "bytes", "disconnection_s")

    def times_optimum(scheme, size, length):
        runs = cells[scheme, size, length]
        return f"{statistics.fmean(run['transfer_s'] / run['optimal_s'] for run in runs):.2f}"

    schemes = dict.fromkeys(scheme for scheme, _, _ in cells)
    return [
        [scheme.replace("told", "signals"),
         *(", ".join(times_optimum(scheme, size, length) for length in (0.5, 2.5, 4.5))
           for size in (10_000, 100_000, 1_000_000))]
        for scheme in schemes
    ]


def mtcp_today_disconnections(lines):
    cells = groups(lines, "congestion_control", "scheme", "disconnection_s")

    def cell(runs):
        times = [run["transfer_s"] / run["optimal_s"] if run["finished"] else float("inf") for run in runs]
        return f"{median(times):.2f} ({min(times):.2f} to {max(times):.2f})"

    schemes = ["none", "hold", "m-tcp published", "m-tcp today"]
    return [
        [sender, scheme, *(cell(cells[sender, scheme, length]) for length in (0.5, 2.5, 4.5))]
        for sender in SENDERS for scheme in schemes
    ]


def mtcp_today(lines):
    cells = groups(lines, "scheme", "outage_s", "congestion_control")
    names = {scheme: scheme for scheme, _, _ in cells}
    names["m-tcp published, share"] = "m-tcp published, a share of 19 Mbit/s"
    columns = [(length, sender) for length in (1, 7) for sender in SENDERS]
    return [
        [name, *(f"{median(map(transfer_s, cells[scheme, *column])):.1f}" for column in columns)]
        for scheme, name in names.items()
    ]


def mtcp_plus_today(disconnected, undisturbed, congested):
    by_length = groups(disconnected, "congestion_control", "disconnection_s", "scheme")
    without, congestion = (groups(lines, "congestion_control", "scheme") for lines in (undisturbed, congested))

    def cell(runs):
        def text(value):
            return "unfinished" if value == float("inf") else f"{value:.1f}"

        times = [float("inf") if transfer_s(run) is None else run["transfer_s"] for run in runs]
        middle, least, most = (text(value) for value in (median(times), min(times), max(times)))
        spread = f" ({least} to {most})" if least != most else ""
        stalls = [max((stall for stall in run["stalls_s"] if stall is not None), default=0) for run in runs]
        stall = f" [{median(stalls):.2f}]" if runs[0]["outages"] and middle != "unfinished" else ""
        return (middle if middle == "unfinished" else f"{middle} s") + spread + stall

    rows = []
    for sender in SENDERS:
        cases = [("none", lambda scheme: without[sender, scheme])]
        for length in (5, 10, 30, 180):
            cases.append((f"{length} s", lambda scheme, length=length: by_length[sender, length, scheme]))
        cases += [("10 s, congestion", lambda scheme: congestion[sender, scheme])]
        for name, runs in cases:
            optimum = f"{median([run['optimal_s'] for run in runs('none')]):.1f} s"
            rows.append([sender, name, optimum, *(cell(runs(scheme)) for scheme in ("none", "mtcp-plus", "hold"))])
    return rows


def keep_outages(lines):
    cells = groups(lines, "outage", "report", "sender", "scheme")

    def cell(report, sender, scheme):
        stalls = [cells[outage, report, sender, scheme][0]["stalls_s"][0] for outage in ("1 s", "7 s", "60 s")]
        return ", ".join("none in 20 s" if stall is None else f"{stall:.2f}" for stall in stalls)

    columns = [("carrier", "none"), ("carrier", "keep"), ("none", "keep"), ("carrier", "hold")]
    return [
        [f"download, {name}", *(cell(report, sender, scheme) for report, scheme in columns)]
        for sender, name in NAMES.items()
    ]


def mobile_auto(flows):
    """With one flow the times of its stall, with several of the first and of the median flow."""
    schemes = ["none", "auto, carrier", "auto, silence", "download, carrier", "download, silence"]

    def time_of(stall):
        return "never" if stall is None or stall == float("inf") else f"{stall:.2f}"

    def cell(run):
        stalls = [run["stalls_s"][0]]
        if flows > 1:
            stalls.append(median(of_flow[0] for of_flow in run["flow_stalls_s"]))
        if stalls == [None]:
            return "never"
        trips = run["full_rate_round_trips"][0]
        digits = 1 if trips is None or trips < 25 else 0
        return ", ".join([*map(time_of, stalls), "never" if trips is None else f"{trips:.{digits}f}"])

    def rows(lines):
        cells = groups(lines, "flows", "delay", "outage", "sender", "scheme")
        found = []
        for outage in ("0.3 s", "1 s", "7 s", "60 s"):
            for sender, name in NAMES.items():
                runs = [cells[flows, "radio", outage, sender, scheme][0] for scheme in schemes]
                if flows == 1:
                    found.append([outage, name, *map(cell, runs)])
                else:
                    by_plain = ", ".join(f"{run['bytes'] / runs[0]['bytes']:.3f}" for run in runs[1:3])
                    found.append([outage, name, *map(cell, runs[:3]), by_plain])
        return found

    return rows


def freeze_tables():
    return tomllib.loads(Path("papers/freeze-tcp-2000/claims.toml").read_text())["table"]


def freeze_taken(lines):
    """How many cells of table II are within 10% of the printed ones, under each assumption."""
    printed = next(entry for entry in freeze_tables() if entry["id"] == "table-II")
    cells = groups(lines, "taken", "scheme", "disconnect_s")
    labels = [
        "0: as `ethernet-near.toml`: 1 MB/s, timeouts of 0.2 s at least, ACKs delayed",
        "1: **0.77 MB/s** while connected",
        "2: 0.77 MB/s, timeouts of 0.4 s at least",
        "2: 0.77 MB/s, timeouts of 0.5 s at least",
        "3: 0.77 MB/s, and each segment acknowledged (which takes time on that medium)",
    ]
    rows = []
    for label, taken in zip(labels, dict.fromkeys(taken for taken, _, _ in cells), strict=True):
        counts = []
        for column, scheme in enumerate(printed["columns"]):
            here = [cells[taken, scheme, row["where"]["disconnect_s"]] for row in printed["row"]]
            means = [statistics.fmean(map(transfer_s, runs)) for runs in here]
            values = [row["printed"][column] for row in printed["row"]]
            counts.append(sum(abs(mean / value - 1) <= 0.1 for mean, value in zip(means, values)))
        rows.append([label, *map(str, counts), str(sum(counts))])
    return rows


def freeze(table):
    """A table of Freeze-TCP: the mean of ten runs, and the printed value in brackets."""
    def rows(lines):
        entries = [entry for entry in freeze_tables() if entry["id"] in (table, f"{table}-without-its-last-columns")]
        cells = groups(lines, "disconnect_s", "scheme")
        found = []
        for columns, row in ((entry["columns"], row) for entry in entries for row in entry["row"]):
            length = row["where"]["disconnect_s"]
            cells_of_row = []
            for scheme, value in zip(columns, row["printed"]):
                times = [transfer_s(run) for run in cells[length, scheme]]
                digits = 2 if table == "table-IV" and statistics.fmean(times) < 9.995 else 1
                cells_of_row.append(f"{statistics.fmean(times):.{digits}f} ({value:g})" if None not in times else "-")
            found.append([f"{length:g}", *cells_of_row] + ["-"] * (len(entries[0]["columns"]) - len(columns)))
        return found

    return rows


def snoop_cache(lines):
    cells = groups(lines, "high_water_mark_kib", "kbit_per_error", "scheme")

    def goodput(mark, errors, scheme):
        return median([run["goodput_mbps"] for run in cells[mark, errors, scheme]])

    return [
        ["above the window" if mark == 64 else f"{mark} KiB", f"{goodput(mark, 16384, 'snoop'):.2f}",
         f"{goodput(mark, 256, 'snoop'):.2f}", f"{goodput(mark, 64, 'snoop') / goodput(mark, 64, 'reno'):.0f}"]
        for mark in (8, 10, 12, 16, 24, 32, 64)
    ]


def snoop_handoff(model, linux):
    """Medians over a run's moves; of several runs the least and the most."""
    rows = []
    for stations in (2, 4):
        for lines, place in ((model, "model"), (linux, "Linux")):
            lines = [line for line in lines if line["scenario"].endswith(f"handoff-{stations}")]
            kernel = lines[0]["kernel"] if place == "Linux" and lines else ""
            name = f"Linux {kernel} Reno" if (stations, place) == (2, "Linux") else place
            multicast = [line for line in lines if line["parameters"]["handoff"] != "none"]
            none = [line for line in lines if line["parameters"]["handoff"] == "none"]
            rows.append([f"{stations}, {name}, multicast, announced or not", *handoff_cells(multicast)])
            rows.append([f"{stations}, {place}, none", *handoff_cells(none)])
    return rows


def handoff_cells(lines):
    handoffs = [line["handoff"] for line in lines]

    def spread(values, text=lambda value: f"{value:,.0f}"):
        least, most = text(min(values)), text(max(values))
        return least if least == most else f"{least} to {most}"

    def of(key, *text):
        return spread([handoff[key] for handoff in handoffs], *text)

    packet = of("first_packet_ms_median", lambda value: f"{value:.1f}" if value < 50 else f"{value:,.0f}")
    buffered = ""
    if "buffered_bytes_max" in handoffs[0]:
        packet += f" (longest {max(handoff['first_packet_ms_max'] for handoff in handoffs):.1f})"
        buffered = of("buffered_bytes_max", lambda value: f"{value / 1e6:.2f}") + " MB"
    return [
        packet, of("new_byte_ms_median"), of("lost_packets_median", lambda value: f"{value:g}"),
        of("duplicate_packets_median", lambda value: f"{value:g}"),
        spread([line["retransmitted_segments"] for line in lines]), buffered,
        spread([line["transfer_s"] for line in lines], lambda value: f"{value:.1f}"),
    ]


def recordings_shares(schemes, counts_cells):
    """Means over the cells of what each cell's three windows used of the link, in the median."""
    return lambda lines: shares_of(lines, schemes, counts_cells)


def shares_of(lines, schemes, counts_cells):
    cells = {}
    for run in lines:
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


def recordings_gaps(lines):
    """After gaps that lose packets: times to the first new byte, also from the link's first packet on."""
    rows = [["first new byte, median"], ["first new byte, 90th percentile"],
            ["after the first packet over the link, median"], ["after the first packet over the link, 90th percentile"],
            ["gaps with a new byte before the next gap"]]
    for scheme in ("none", "auto"):
        runs = [run for run in lines if run["scheme"] == scheme and run["cell"]["conditions"] != "kept"]
        gaps = [gap for run in runs for gap in zip(run["stalls_s"], run["link"]["first_packet_s"])]
        stalls = sorted(stall for stall, _ in gaps if stall is not None)
        after = sorted(stall - packet for stall, packet in gaps if stall is not None and packet is not None)
        figures = [times[len(times) * percent // 100] for times in (stalls, after) for percent in (50, 90)]
        for row, figure in zip(rows, figures):
            row.append(f"{figure:.2f} s" if figure < 1 else f"{figure:.1f} s")
        rows[-1].append(f"{len(stalls)} of {len(gaps)}")
    return rows


# Remedies of a scenario, as the pages name them.
REMEDIES = {
    "M-TCP": "M-TCP (1997)", "hold": "`hold`", "auto": "`auto`", "link that keeps its packets": "a link that keeps its packets",
    "the same, delayed duplicate ACKs": "link without order, delayed duplicate ACKs",
}


def baselines(parameter, cell, names=(), bound=None):
    """A row a remedy, a column a value of the parameter, and the most bytes acknowledged ahead. `bound`: the last row."""
    names = {**REMEDIES, **dict(names)}

    def rows(lines):
        cells = groups(lines, "remedy", parameter)
        values = list(dict.fromkeys(value for _, value in cells))
        found = []
        for remedy in dict.fromkeys(remedy for remedy, _ in cells):
            runs = [cells[remedy, value] for value in values]
            ahead = max(run["acknowledged_ahead_bytes"] for cell_runs in runs for run in cell_runs)
            found.append([names.get(remedy, remedy), *map(cell, runs), f"{ahead:,}"])
        if bound:
            found.append(["the bound", *(bound(cells["none", value]) for value in values), ""])
        return found

    return rows


def megabits(runs):
    return f"{median([run['goodput_mbps'] for run in runs]):.2f}"


def whole_seconds(runs):
    middle = median(map(transfer_s, runs))
    return "not finished" if middle == float("inf") else f"{middle:,.0f}"


def tenths_of_seconds(runs):
    return f"{median(map(transfer_s, runs)):.1f}"


def baselines_haproxy(lines):
    cells = groups(lines, "remedy", "kbit_per_error")
    return [
        [sender, scheme, *(megabits(cells[f"{scheme}, {sender}", kbit]) for kbit in (128, 1024))]
        for sender in ("Cubic", "BBR") for scheme in ("none", "Snoop of today", "HAProxy")
    ]


def slow(lines):
    """Seconds, and bytes that the MH receives again for each byte."""
    cells = groups(lines, "sender", "kbit_per_s", "scheme")

    def cell(runs):
        again = statistics.fmean(run["duplicates_per_byte"] for run in runs)
        return f"{tenths_of_seconds(runs)}, {again:.2f}"

    senders = {"reno43bsd": "without SACK", "sack": "with SACK"}
    return [
        [name, kbit, *(cell(cells[sender, kbit, scheme]) for scheme in ("none", "hold", "auto"))]
        for sender, name in senders.items() for kbit in ("16", "32", "64", "128", "256")
    ]


def linux_mtcp(lines):
    cells = groups(lines, "disconnection_s", "scheme")
    return [
        [f"{length} s", f"{cells[length, 'none'][0]['optimal_s']:.1f}",
         *(tenths_of_seconds(cells[length, scheme]) for scheme in ("none", "mtcp-plus", "mtcp-2007"))]
        for length in (5, 10, 30, 180)
    ]


# The table, its stages, its rows from the results of these stages in this order.
TABLES = {
    **{f"claims-{paper}": ([f"claims-{paper}"], claims) for paper in PAPERS},
    "demo": (["demo"], demo),
    "packet-cost": (["packet-cost"], packet_cost),
    "outages": (["outages"], outages),
    "snoop": (["snoop"], snoop),
    "snoop-cell": (["snoop-cell"], snoop_cell),
    "snoop-uplink": (["snoop-uplink"], snoop_uplink),
    "keep-outages": (["keep-outages"], keep_outages),
    "mobile-auto-one": (["mobile-auto"], mobile_auto(1)),
    "mobile-auto-fifty": (["mobile-auto"], mobile_auto(50)),
    "mtcp-today-disconnections": (["mtcp-today-disconnections"], mtcp_today_disconnections),
    "mtcp-today": (["mtcp-today"], mtcp_today),
    "mtcp-plus-today": (
        ["mtcp-plus-today", "mtcp-plus-today-undisturbed", "mtcp-plus-today-congestion"], mtcp_plus_today),
    "senders-no-sack": (["senders-model", "senders"], senders("no-sack")),
    "senders-sack": (["senders-model", "senders"], senders("sack")),
    "senders-no-sack-plain": (["senders-model", "senders"], senders("no-sack plain")),
    "senders-sack-plain": (["senders-model", "senders"], senders("sack plain")),
    "senders-cubic": (["senders-model", "senders"], senders("cubic")),
    "lc-cwe": (["lc-cwe"], lc_cwe),
    "mtcp-disconnections": (["mtcp-disconnections"], mtcp_disconnections),
    "mtcp-variants": (["mtcp-variants"], mtcp_variants),
    "freeze-II": (["freeze-II"], freeze("table-II")),
    "freeze-III": (["freeze-III"], freeze("table-III")),
    "freeze-IV": (["freeze-IV"], freeze("table-IV")),
    "freeze-V": (["freeze-V"], freeze("table-V")),
    "freeze-VI": (["freeze-VI"], freeze("table-VI")),
    "freeze-taken": (["freeze-taken"], freeze_taken),
    "snoop-cache": (["snoop-cache"], snoop_cache),
    "snoop-handoff": (["snoop-handoff-model", "snoop-handoff"], snoop_handoff),
    "baselines-bit-errors": (["baselines-snoop"], baselines("kbit_per_error", megabits)),
    "baselines-disconnections": (["baselines-mtcp"], baselines(
        "disconnection_s", whole_seconds,
        {"hold": "`hold`, no signals", "auto": "`auto`, no signals", "EBSN": "EBSN, the link loses"},
        lambda runs: f"{median([run['optimal_s'] for run in runs]):.0f}")),
    "baselines-freeze": (["baselines-freeze"], baselines(
        "disconnect_s", tenths_of_seconds, {"M-TCP": "M-TCP of today"})),
    "baselines-haproxy": (["baselines-haproxy"], baselines_haproxy),
    "slow": (["slow"], slow),
    "mtcp-plus-linux-mtcp": (["mtcp-plus-linux-mtcp"], linux_mtcp),
    "recordings": (["recordings-core"], recordings_shares(["none", "auto"], counts_cells=False)),
    "recordings-gaps": (["recordings-core"], recordings_gaps),
    "recordings-uploads": (["recordings-uploads"], recordings_shares(["none", "keep", "auto"], counts_cells=True)),
}
