# SPDX-License-Identifier: Apache-2.0
"""Figures that only a page's text has, as rows of tables that no page prints (`in-text`)."""
import statistics
from itertools import combinations

from paper_model import as_printed, freeze_tables
from paper_runs import NAMES, SENDERS, groups, median, span, transfer_s

# Student's t for 95%, by the number of values.
T_OF = {10: 2.262, 20: 2.093, 200: 1.972}


def mean_s(runs):
    """The mean time of the transfers that completed, as in the claims."""
    return statistics.fmean(transfer_s(run) for run in runs if run["finished"])


def times_optimum(runs):
    return mean_s(runs) / statistics.fmean(run["optimal_s"] for run in runs)


def interval(runs, digits):
    """The mean, and half the width of its 95% confidence interval."""
    times = [transfer_s(run) for run in runs]
    half = T_OF[len(times)] * statistics.stdev(times) / len(times) ** 0.5
    return f"{statistics.fmean(times):,.{digits}f} ± {half:,.{digits}f}"


def apart_percent(one, other):
    """How much longer the longer time is, in percent of the shorter one."""
    return 100 * (max(one, other) / min(one, other) - 1)


def mtcp_queue_lost(lost):
    """TCP and M-TCP if a disconnection empties the link's queue: means of the transfers that completed."""
    cells = groups(lost, "distribution", "bytes", "disconnection_s", "scheme")
    names = list(dict.fromkeys(key[:3] for key in cells))
    ratios = [mean_s(cells[*name, "tcp"]) / mean_s(cells[*name, "m-tcp"]) for name in names]
    by_scheme = {scheme: [cells[*name, scheme] for name in names] for scheme in ("m-tcp", "tcp")}

    def incomplete(scheme):
        runs = [run for of_cell in by_scheme[scheme] for run in of_cell]
        return f"{sum(not run['finished'] for run in runs)} of {len(runs)}"

    def receives(scheme):
        return span([1 + statistics.fmean(run["duplicates_per_byte"] for run in runs) for runs in by_scheme[scheme]], 2)

    def seconds(length):
        tcp, mtcp = (mean_s(cells["normal", 500_000, length, scheme]) for scheme in ("tcp", "m-tcp"))
        return f"{tcp:,.0f} for {mtcp:,.0f}"

    return [
        ["TCP, times M-TCP's time", span(ratios, 1)],
        ["three times as long or more", f"{sum(ratio >= 3 for ratio in ratios)} of {len(ratios)}"],
        ["500 KB, normal, 0.5 s", seconds(0.5)],
        ["500 KB, normal, 4.5 s", seconds(4.5)],
        ["M-TCP, times the optimum", span(list(map(times_optimum, by_scheme["m-tcp"])), 2)],
        ["not complete, M-TCP", incomplete("m-tcp")],
        ["not complete, TCP", incomplete("tcp")],
        ["receives for each byte, M-TCP", receives("m-tcp")],
        ["receives for each byte, TCP", receives("tcp")],
    ]


def mtcp_deviation(lines):
    """Times over the optimum, as ranges over deviations and lengths."""
    cells = groups(lines, "scheme", "deviation_s", "disconnection_s")

    def of_scheme(scheme, digits):
        return span([times_optimum(runs) for key, runs in cells.items() if key[0] == scheme], digits)

    return [["deviations of 0.1 to 2 s", of_scheme("m-tcp", 2), of_scheme("tcp", 1)]]


def seconds_or_unfinished(runs):
    time = median(map(transfer_s, runs))
    return "unfinished" if time == float("inf") else f"{time:.1f}"


def mtcp_plus_seventh(lines):
    """Seconds, and the number of disconnections in a transfer; a row for each sender and first disconnection."""
    cells = groups(lines, "tcp", "first_at_s", "disconnection_s")

    def cell(runs):
        time = seconds_or_unfinished(runs)
        return time if time == "unfinished" else f"{time}, {runs[0]['outages']} disconnections"

    rows = dict.fromkeys((tcp, first) for tcp, first, _ in cells)
    return [[f"{tcp}, {first} s", *(cell(cells[tcp, first, length]) for length in (10, 30))] for tcp, first in rows]


def mtcp_plus_timers(lines):
    """Seconds of NewReno without delayed ACKs, for each timer; last the effect of the timer's phase on the first."""
    cells = groups(lines, "timer", "disconnection_s")
    timers = list(dict.fromkeys(timer for timer, _ in cells))

    def change(length):
        times = [mean_s(cells[timer, length]) for timer in timers if timer == "none" or timer.startswith("phase")]
        return f"{max(times) - min(times):.1f}"

    lengths = (5, 10, 30)
    rows = [[timer, *(seconds_or_unfinished(cells[timer, length]) for length in lengths)] for timer in timers]
    return [*rows, ["phases apart", *map(change, lengths)]]


def mtcp_plus_supervisor(lines):
    """M-TCP's seconds by the MH's ACKs, the SH, the segments of a window, and the warning."""
    cells = groups(lines, "delayed_ack", "tcp", "segments", "warning_ms", "disconnection_s")
    return [
        [f"{delayed_ack}, {tcp}, {segments}, {warning} ms", *(
            seconds_or_unfinished(cells[delayed_ack, tcp, segments, warning, length]) for length in (5, 10, 30, 180))]
        for delayed_ack, tcp, segments, warning in dict.fromkeys(key[:4] for key in cells)
    ]


def freeze_short(lines):
    """Means of ten runs in seconds, by the length of the disconnections in the first row of table III."""
    cells = groups(lines, "disconnect_s", "scheme")
    return [
        [f"{length * 1000:g} ms", *(f"{mean_s(cells[length, scheme]):.1f}" for scheme in ("std-tr", "freeze-tr"))]
        for length in dict.fromkeys(length for length, _ in cells)
    ]


def baselines_restart(lines):
    """The bytes at the MH if the base station loses its state after 10 s, and the bytes acknowledged ahead."""
    cells = groups(lines, "remedy", "restart")

    def cell(run):
        return "all" if run["finished"] else f"{run['bytes'] / 1e6:.2f} MB"

    return [
        [remedy, cell(runs[0]), f"{runs[0]['acknowledged_ahead_bytes']:,}"]
        for (remedy, restart), runs in cells.items() if restart != "never"
    ]


def snoop_today_half_lost(lines):
    """Without Snoop the bytes that arrived, with Snoop the seconds of all seeds."""
    cells = groups(lines, "congestion_control", "scheme")

    def seconds(runs):
        late = sum(not run["finished"] for run in runs)
        times = [run["transfer_s"] for run in runs if run["finished"]]
        return ", ".join(([span(times, 0)] if times else []) + ([f"{late} of {len(runs)} not complete"] if late else []))

    return [
        [NAMES[sender], f"{max(run['bytes'] for run in cells[sender, 'none']) / 1e6:.2f} MB",
         *(seconds(cells[sender, scheme]) for scheme in ("snoop-1995", "snoop-today"))]
        for sender in SENDERS
    ]


def snoop_today_sequence(lines):
    """Mb/s of single runs, and Snoop compared with the plain sender."""
    cells = groups(lines, "congestion_control", "scheme")

    def row(sender):
        alone, old, today = (
            cells[sender, scheme][0]["goodput_mbps"] for scheme in ("none", "snoop-1995", "snoop-today"))

        def against(goodput):
            change = 100 * (goodput / alone - 1)
            return f"{abs(change):.1f}% {'below' if change < 0 else 'above'}"

        return [NAMES[sender], f"{alone:.2f}", f"{old:.2f}, {against(old)}", f"{today:.2f}, {against(today)}"]

    return [row(sender) for sender in SENDERS]


# Both parameter sets of Snoop, with each sender.
SNOOPS = [
    (sender, scheme, f"{NAMES[sender]}, {name}")
    for scheme, name in (("snoop-1995", "Snoop 1995"), ("snoop-today", "Snoop today")) for sender in SENDERS]


def by_plain_sender(lines, sender, scheme):
    """Means of a scheme divided by the plain sender's, in the order of the rates of errors."""
    cells = groups(lines, "congestion_control", "scheme", "kbit_per_error")

    def goodput(name, kbit):
        return statistics.fmean(run["goodput_mbps"] for run in cells[sender, name, kbit])

    return [goodput(scheme, kbit) / goodput("none", kbit) for kbit in sorted({kbit for _, _, kbit in cells})]


def snoop_today_ratios(throughput, low_errors):
    """Snoop's means over the plain sender's: range over the error rates; below 5e-7 the largest loss in percent."""
    return [
        [name, span(by_plain_sender(throughput, sender, scheme), 2),
         f"{100 * (1 - min(1, *by_plain_sender(low_errors, sender, scheme))):.1f}"]
        for sender, scheme, name in SNOOPS
    ]


def mtcp_longest(lines):
    """Hours of the longest transfer of plain TCP."""
    times = [run["transfer_s"] for run in lines if run["parameters"]["scheme"] == "tcp" and run["finished"]]
    return [["TCP", f"{max(times) / 3600:.1f}"]]


def mtcp_other_assumptions(lines):
    """TCP's means divided by M-TCP's, as ranges over the lengths."""
    cells = groups(lines, "assumption", "disconnection_s", "scheme")

    def ratios(name):
        lengths = dict.fromkeys(length for of, length, _ in cells if of == name)
        return [mean_s(cells[name, length, "tcp"]) / mean_s(cells[name, length, "m-tcp"]) for length in lengths]

    names = list(dict.fromkeys(name for name, _, _ in cells))
    others = [ratio for name in names if name != "none" for ratio in ratios(name)]
    return [*([name, span(ratios(name), 1)] for name in names), ["all but none", span(others, 1)]]


def mtcp_long(long, undisturbed):
    """For each sender: means without disconnections, TCP's additional cost of a disconnection, its additional time."""
    cells, without = groups(long, "hops", "distribution", "scheme"), groups(undisturbed, "hops", "scheme")

    def cost(hops, distribution):
        mtcp, tcp = (cells[hops, distribution, scheme] for scheme in ("m-tcp", "tcp"))
        more = mean_s(tcp) - mean_s(mtcp) - mean_s(without[hops, "tcp"]) + mean_s(without[hops, "m-tcp"])
        return f"{more / statistics.fmean(run['outages'] for run in mtcp + tcp):.0f}"

    def row(hops, name):
        mtcp, tcp = (without[hops, scheme] for scheme in ("m-tcp", "tcp"))
        behind = 100 * (mean_s(mtcp) / mean_s(tcp) - 1)
        longer = [
            f"{100 * (mean_s(cells[hops, distribution, 'tcp']) / mean_s(cells[hops, distribution, 'm-tcp']) - 1):.0f}"
            for distribution in ("normal", "exponential")]
        costs = [cost(hops, distribution) for distribution in ("normal", "exponential")]
        return [name, interval(mtcp, 0), interval(tcp, 0), f"{behind:.1f}", *costs, *longer]

    return [row(5, "near"), row(15, "far")]


def mtcp_undisturbed(lines):
    """Means of twenty runs in seconds, and M-TCP's additional time: a row for each sender, MH's ACKs and size."""
    cells = groups(lines, "hops", "delayed_ack", "bytes", "scheme")
    rows = []
    for hops, delayed_ack, size in dict.fromkeys(key[:3] for key in cells):
        mtcp, tcp = (cells[hops, delayed_ack, size, scheme] for scheme in ("m-tcp", "tcp"))
        digits, more = (2, mean_s(mtcp) - mean_s(tcp)) if hops == 5 else (0, 0)
        name = f"{'near' if hops == 5 else 'far'}, delayed ACKs {delayed_ack}, {size // 1000:,} KB"
        rows.append([name, interval(mtcp, digits), interval(tcp, digits),
                     f"{more:.1f} s, {100 * more / mean_s(tcp):.0f}%" if hops == 5 else ""])
    return rows


def mtcp_undisturbed_200(lines):
    cells = groups(lines, "bytes", "scheme")

    def row(size):
        mtcp, tcp = (cells[size, scheme] for scheme in ("m-tcp", "tcp"))
        return [f"{size // 1000:,} KB", interval(mtcp, 1), interval(tcp, 1), f"{100 * (1 - mean_s(mtcp) / mean_s(tcp)):.0f}"]

    return [row(size) for size in dict.fromkeys(size for size, _ in cells)]


def mtcp_buffers(lines):
    """M-TCP's means over TCP's: a row for each send buffer, a column for delayed ACKs or not."""
    cells = groups(lines, "send_buffer_bytes", "delayed_ack", "scheme")

    def ratio(size, delayed_ack):
        times = mean_s(cells[size, delayed_ack, "m-tcp"]) / mean_s(cells[size, delayed_ack, "tcp"])
        return f"{times:.2f}" if times < 10 else f"{times:.0f}"

    sizes = dict.fromkeys(size for size, _, _ in cells)
    return [[f"{size / 1024:g} KB", ratio(size, "on"), ratio(size, "off")] for size in sizes]


def mtcp_four_segments(lines):
    """Means in seconds, with and without a window at the SH."""
    cells = groups(lines, "disconnection_s", "scheme")

    def row(length):
        window, none = (mean_s(cells[length, scheme]) for scheme in ("m-tcp", "m-tcp no window"))
        return [f"{length} s", f"{window:.2f}", f"{none:.2f}", f"{100 * (1 - none / window):.0f}"]

    return [row(length) for length in dict.fromkeys(length for length, _ in cells)]


def mtcp_table_1_slow(lines):
    """Means in seconds, and how many transfers completed within two hours."""
    cells = groups(lines, "scheme", "condition")

    def cell(runs):
        finished = sum(run["finished"] for run in runs)
        times = f"{mean_s(runs):,.0f} s, " if finished else ""
        return f"{times}{finished} of {len(runs)}"

    schemes = dict.fromkeys(scheme for scheme, _ in cells)
    return [[scheme, *(cell(cells[scheme, condition]) for condition in ("long", "frequent"))] for scheme in schemes]


def mtcp_today_costs(lines):
    """Without an outage the seconds of each sender, and the difference from those without M-TCP; then the stalls."""
    cells = groups(lines, "scheme", "outage_s", "congestion_control")

    def row(scheme):
        times = [cells[scheme, 0, sender][0]["transfer_s"] for sender in SENDERS]
        plain = [cells["none", 0, sender][0]["transfer_s"] for sender in SENDERS]
        more = [round(100 * (time / other - 1)) for time, other in zip(times, plain)]
        stalls = [run["stalls_s"][0] for length in (1, 7) for sender in SENDERS for run in cells[scheme, length, sender]]
        return [scheme, span(times, 2), span(more, 0), span(stalls, 2)]

    return [row(scheme) for scheme in dict.fromkeys(scheme for scheme, _, _ in cells)]


def snoop_today_percent(throughput, low_errors):
    """Snoop's means compared with the plain sender's, in percent: a column for each rate of errors."""
    return [
        [name, *(f"{100 * (ratio - 1):+.1f}" for ratio in by_plain_sender(throughput + low_errors, sender, scheme))]
        for sender, scheme, name in SNOOPS
    ]


def snoop_one_queue(queues, today):
    """Plain senders of today compared with the paper's sender, Snoop and one queue: means, in percent."""
    paper, plain = groups(queues, "queues", "kbit_per_error"), groups(today, "congestion_control", "scheme", "kbit_per_error")

    def change(sender, kbit):
        ours, theirs = (
            statistics.fmean(run["goodput_mbps"] for run in runs)
            for runs in (plain[sender, "none", kbit], paper["one", kbit]))
        return f"{100 * (ours / theirs - 1):+.1f}"

    return [[NAMES[sender], *(change(sender, kbit) for kbit in (64, 128, 256, 512, 1024, 2048))] for sender in SENDERS]


FREEZE_SCHEMES = ("std-tr", "freeze-tr", "std", "freeze")
SHORT_S = (0.0026, 0.03, 0.1)


def freeze_timers(lines):
    """Table IV without an ACK after a disconnection: means in seconds by length, from 0.4 ms to 2 s.

    Last, by how many percent that of 10 ms is apart from the printed one.
    """
    cells = groups(lines, "sender", "disconnect_s")
    printed = {
        row["where"]["disconnect_s"]: dict(zip(entry["columns"], row["printed"]))["std-tr"]
        for entry in freeze_tables() if entry["id"] == "table-IV" for row in entry["row"]}

    def text(seconds):
        return f"{seconds:.{2 if seconds < 9.995 else 1}f}"

    return [
        [sender, ", ".join(text(mean_s(runs)) for (of, _), runs in cells.items() if of == sender),
         f"{100 * abs(mean_s(cells[sender, 0.01]) / printed[0.01] - 1):.0f}"]
        for sender in dict.fromkeys(sender for sender, _ in cells)
    ]


def freeze_senders(lines):
    """Table II by sender: means at disconnections of up to 100 ms with TR-ACKs, and how many cells are as printed."""
    cells = groups(lines, "sender", "scheme", "disconnect_s")

    def short(sender, scheme):
        return span([mean_s(cells[sender, scheme, length]) for length in SHORT_S], 1)

    return [
        [sender, short(sender, "std-tr"), short(sender, "freeze-tr"), f"{sum(as_printed(cells, sender))} of 32"]
        for sender in dict.fromkeys(sender for sender, _, _ in cells)
    ]


def freeze_taken_times(lines):
    """Means in seconds by length, from 2.6 ms to 10 s; then the differences of columns in percent."""
    cells = groups(lines, "taken", "scheme", "disconnect_s")
    lengths = list(dict.fromkeys(length for _, _, length in cells))

    def row(taken):
        times = {(scheme, length): mean_s(cells[taken, scheme, length]) for scheme in FREEZE_SCHEMES for length in lengths}
        acks = [apart_percent(times["std-tr", length], times["std", length]) for length in SHORT_S[1:]]
        return [
            taken, *(", ".join(f"{times[scheme, length]:.1f}" for length in lengths) for scheme in FREEZE_SCHEMES),
            ", ".join(f"{apart:.0f}" for apart in acks), f"{apart_percent(times['std', 2], times['freeze', 2]):.0f}"]

    return [row(taken) for taken in dict.fromkeys(taken for taken, _, _ in cells)]


def freeze_apart(third, fifth, sixth):
    """Differences of the times of tables III, V and VI from the printed ones; tables V and VI are fitted."""
    def row(table, lines):
        cells = groups(lines, "scheme", "disconnect_s")
        entries = [entry for entry in freeze_tables() if entry["id"] in (table, f"{table}-without-its-last-columns")]
        apart = {scheme: [] for scheme in FREEZE_SCHEMES}
        for columns, printed_row in ((entry["columns"], row) for entry in entries for row in entry["row"]):
            for scheme, printed in zip(columns, printed_row["printed"]):
                ours = mean_s(cells[scheme, printed_row["where"]["disconnect_s"]])
                apart[scheme].append(100 * abs(ours / printed - 1))
        values = [value for of_scheme in apart.values() for value in of_scheme]
        return [
            table.replace("-", " "), f"{sum(value <= 10 for value in values)} of {len(values)}",
            f"{statistics.fmean(values):.0f}",
            span(apart["freeze-tr"], 1), span(apart["std-tr"], 1),
            f"{apart_percent(mean_s(cells['std-tr', 5]), mean_s(cells['freeze-tr', 5])):.1f}"]

    return [row("table-III", third), row("table-V", fifth), row("table-VI", sixth)]


def freeze_modem(lines):
    """Table V with other windows and ACKs: seconds at 2.6 ms, over all queues and schemes."""
    cells = groups(lines, "window_bytes", "delayed_ack", "sender", "disconnect_s")
    windows = dict.fromkeys(window for window, _, _, _ in cells)

    def row(window, delayed_ack):
        times = {sender: [transfer_s(run) for run in cells[window, delayed_ack, sender, 0.0026]]
                 for sender in ("linux21", "solaris26", "reno43bsd")}
        every = [time for of_sender in times.values() for time in of_sender]
        name = f"{window // 1000} segments, {'delayed ACKs' if delayed_ack else 'each acknowledged'}"
        return [name, span(times["linux21"] + times["solaris26"], 0), span(times["reno43bsd"], 0), span(every, 0)]

    return [row(window, delayed_ack) for window in windows for delayed_ack in (False, True)]


def freeze_modem_orders(lines):
    """Runs, configurations, and the most of a row's six pairs as printed in one configuration. Below 3% is equal."""
    cells = groups(lines, "sender", "window_bytes", "delayed_ack", "room", "disconnect_s", "scheme")
    printed = {
        row["where"]["disconnect_s"]: dict(zip(entry["columns"], row["printed"]))
        for entry in freeze_tables() if entry["id"] == "table-V" for row in entry["row"]}

    def order(one, other):
        return 0 if apart_percent(one, other) < 3 else 1 if one > other else -1

    configurations = list(dict.fromkeys(key[:4] for key in cells))

    def pairs(configuration, length):
        ours = {scheme: mean_s(cells[*configuration, length, scheme]) for scheme in FREEZE_SCHEMES}
        theirs = printed[length]
        return sum(order(ours[a], ours[b]) == order(theirs[a], theirs[b]) for a, b in combinations(FREEZE_SCHEMES, 2))

    return [
        ["runs", f"{len(lines):,}"],
        ["configurations", f"{len(configurations)}"],
        *([f"pairs as printed at {name}, at most", f"{max(pairs(configuration, length) for configuration in configurations)}"]
          for name, length in (("2.6 ms", 0.0026), ("2 s", 2))),
    ]


def baselines_freeze_senders(own, paper):
    """Medians in seconds with the paper's windows, and their difference in percent from those with own windows."""
    def medians(lines):
        return {key: median(map(transfer_s, runs)) for key, runs in groups(lines, "remedy", "disconnect_s").items()}

    with_own, with_paper = medians(own), medians(paper)
    rows = []
    for remedy in ("end-to-end SACK", "BBR"):
        times = {length: with_paper[remedy, length] for length in (0.5, 2, 10)}
        most = max(apart_percent(time, with_own[remedy, length]) for length, time in times.items())
        rows.append([remedy, *(f"{time:.1f}" for time in times.values()), f"{most:.1f}"])
    return rows


def mobile_auto_model(lines):
    """One flow on the model, both delays: seconds from link up to the first byte, round trips to the full rate."""
    def cells(scheme, outages, senders=tuple(NAMES)):
        return [
            run for run in lines if run["parameters"]["scheme"] == scheme and run["parameters"]["outage"] in outages
            and run["parameters"]["sender"].removeprefix("linux-") in senders]

    def first(runs, digits):
        stalls = [run["stalls_s"][0] for run in runs]
        late = sum(stall is None for stall in stalls)
        known = [stall for stall in stalls if stall is not None]
        texts = ([span(known, digits)] if known else []) + ([f"{late} of {len(stalls)} never"] if late else [])
        return ", ".join(texts)

    def trips(runs):
        return span([run["full_rate_round_trips"][0] for run in runs], 1)

    short, long = ("0.3 s", "1 s"), ("7 s", "60 s")
    rows = [["plain, 0.3 and 1 s", first(cells("none", short), 2), "", ""],
            ["plain, 7 s", first(cells("none", ("7 s",)), 1), "", ""]]
    for scheme in ("auto, carrier", "auto, silence"):
        bbr = cells(scheme, long, ("bbr",))
        others = cells(scheme, short) + cells(scheme, long, ("cubic", "reno"))
        rows.append([scheme, first(bbr + others, 3), trips(others), trips(bbr)])
    return rows
