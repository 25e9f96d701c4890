# SPDX-License-Identifier: Apache-2.0
"""Figures that only a page's text has, in the form of tables that no page prints (`in-text`)."""
import statistics

from paper_runs import NAMES, SENDERS, groups, median, transfer_s


def span(values, digits):
    """From the least to the most; once if both have the same digits."""
    least, most = (f"{find(values):,.{digits}f}" for find in (min, max))
    return least if least == most else f"{least} to {most}"


def mean_s(runs):
    """Of the transfers that completed, as in the claims."""
    return statistics.fmean(transfer_s(run) for run in runs if run["finished"])


def times_optimum(runs):
    return mean_s(runs) / statistics.fmean(run["optimal_s"] for run in runs)


def mtcp_queue_lost(lost):
    """TCP and M-TCP if a disconnection loses the link's queue: means of the transfers that completed."""
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
    """Times the optimum, over the deviations and lengths."""
    cells = groups(lines, "scheme", "deviation_s", "disconnection_s")

    def of_scheme(scheme, digits):
        return span([times_optimum(runs) for key, runs in cells.items() if key[0] == scheme], digits)

    return [["deviations of 0.1 to 2 s", of_scheme("m-tcp", 2), of_scheme("tcp", 1)]]


def mtcp_plus_seventh(lines):
    """Seconds, and how many disconnections a transfer had; a row for each sender and first disconnection."""
    cells = groups(lines, "tcp", "first_at_s", "disconnection_s")

    def cell(runs):
        time = median(map(transfer_s, runs))
        return "unfinished" if time == float("inf") else f"{time:.1f}, {runs[0]['outages']} disconnections"

    rows = dict.fromkeys((tcp, first) for tcp, first, _ in cells)
    return [[f"{tcp}, {first} s", *(cell(cells[tcp, first, length]) for length in (10, 30))] for tcp, first in rows]


def freeze_short(lines):
    """Means of ten, in seconds, by the length of the disconnections of table III's first row."""
    cells = groups(lines, "disconnect_s", "scheme")
    return [
        [f"{length * 1000:g} ms", *(f"{mean_s(cells[length, scheme]):.1f}" for scheme in ("std-tr", "freeze-tr"))]
        for length in dict.fromkeys(length for length, _ in cells)
    ]


def baselines_restart(lines):
    """What the MH has if the base station loses its state after 10 s, and what was acknowledged ahead."""
    cells = groups(lines, "remedy", "restart")

    def cell(run):
        return "all" if run["finished"] else f"{run['bytes'] / 1e6:.2f} MB"

    return [
        [remedy, cell(runs[0]), f"{runs[0]['acknowledged_ahead_bytes']:,}"]
        for (remedy, restart), runs in cells.items() if restart != "never"
    ]


def snoop_today_half_lost(lines):
    """Without Snoop what arrived, with Snoop the seconds of all seeds."""
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
    """Mb/s of one run each, and Snoop against the plain sender."""
    cells = groups(lines, "congestion_control", "scheme")

    def row(sender):
        alone, old, today = (
            cells[sender, scheme][0]["goodput_mbps"] for scheme in ("none", "snoop-1995", "snoop-today"))

        def against(goodput):
            change = 100 * (goodput / alone - 1)
            return f"{abs(change):.1f}% {'below' if change < 0 else 'above'}"

        return [NAMES[sender], f"{alone:.2f}", f"{old:.2f}, {against(old)}", f"{today:.2f}, {against(today)}"]

    return [row(sender) for sender in SENDERS]


def snoop_today_ratios(throughput, low_errors):
    """Snoop's means by those of the plain sender: over the rates of errors, and below 5e-7 the largest loss in percent."""
    def ratios(lines, sender, scheme):
        cells = groups(lines, "congestion_control", "scheme", "kbit_per_error")

        def goodput(name, kbit):
            return statistics.fmean(run["goodput_mbps"] for run in cells[sender, name, kbit])

        return [goodput(scheme, kbit) / goodput("none", kbit) for kbit in {kbit for _, _, kbit in cells}]

    return [
        [f"{NAMES[sender]}, {name}", span(ratios(throughput, sender, scheme), 2),
         f"{100 * (1 - min(1, *ratios(low_errors, sender, scheme))):.1f}"]
        for scheme, name in (("snoop-1995", "Snoop 1995"), ("snoop-today", "Snoop today")) for sender in SENDERS
    ]
