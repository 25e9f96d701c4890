# SPDX-License-Identifier: Apache-2.0
"""Figures in text that compare runs one by one, or count them."""
import statistics
from pathlib import Path

from paper_linux import script_of_senders
from paper_model import printed_verdict
from paper_prose import span, times_optimum
from paper_runs import groups, median, seconds

# What a scenario of M-TCP has before its name if the opener's half is set up first, or a window begins with two segments.
OPENER_FIRST, TWO_SEGMENTS = "early-", "two-segments-"


def senders_causes(model, linux):
    """Of the model and of Linux, medians: a row a sender, an outage and a rate of losses."""
    model, linux = (groups(lines, "sender", "outage_s", "loss_percent") for lines in (model, linux))
    stall_of = script_of_senders().stall_of

    def row(key):
        sender, outage, loss = key
        both = model[key], linux[key]
        goodputs = [median([run["goodput_mbps"] for run in runs]) for runs in both]
        again = [f"{median([run['retransmitted_segments'] for run in runs]):.0f}" for runs in both]
        stalls = [seconds(map(stall_of, runs)) for runs in both] if outage else []
        return [
            sender, f"{outage} s", f"{loss} %", " / ".join(f"{goodput:.2f}" for goodput in goodputs),
            f"{goodputs[0] / goodputs[1]:.2f}", " / ".join(again), " / ".join(stalls)]

    return [row(key) for key in model]


def by_order(of_stages):
    """Runs with M-TCP by what they have in common, of each order of set-up; and the file without the order's prefix."""
    orders = {True: {}, False: {}}
    for line in (line for lines in of_stages for line in lines):
        file = Path(line["scenario"]).name
        parameters = line["parameters"]
        if line["conditions"].get("gateway.scheme") != "mtcp":
            continue
        name = file.removeprefix(OPENER_FIRST).removeprefix(TWO_SEGMENTS).removesuffix(".toml")
        key = name, tuple(sorted(parameters.items())), line["seed"]
        runs = orders[file.startswith(OPENER_FIRST)]
        assert key not in runs, key
        runs[key] = line
    return orders[True], orders[False]


def mtcp_set_up(*of_stages):
    """How many runs of M-TCP take the same time to 0.01 s whichever half is set up first."""
    early, lock_step = by_order(of_stages)
    found = {"near": [], "far": [], "small send buffers": [], "handoffs, idle senders, small transfers, table 1": []}
    for key, run in early.items():
        name, parameters, _ = key
        times = [run["transfer_s"], lock_step[key]["transfer_s"]]
        is_same = times[0] == times[1] if None in times else abs(times[0] - times[1]) <= 0.01
        row = {5: "near", 15: "far"}.get(dict(parameters).get("hops"), "handoffs, idle senders, small transfers, table 1")
        found["small send buffers" if name == "buffers" else row].append(is_same)
    return [[name, f"{sum(of_runs)} of {len(of_runs)}"] for name, of_runs in found.items()]


def mtcp_handoff(*of_stages):
    """Moves, the most bytes of a connection's state, the time by the optimum, and the first packet after the gap."""
    rows = []
    for order, runs in zip(("the opener's half first", "lock-step"), by_order(of_stages)):
        cells = {}
        for (name, parameters, _), run in runs.items():
            if name == "handoff":
                cells.setdefault(dict(parameters)["buffers"], []).append(run)
        for buffers, moved in cells.items():
            first = [
                move["first_packet_ms"] - move["gap_ms"] for run in moved for move in run["handoffs"]
                if move["first_packet_ms"] is not None]
            rows.append([
                f"{order}, buffers {buffers}", f"{sum(run['handoff']['count'] for run in moved)}",
                span([run["handoff"]["state_bytes_max"] for run in moved], 0),
                f"{times_optimum(moved):.2f}", f"{statistics.median(first):.0f}"])
    return rows


def baselines_mtcp(lines):
    """Of all lengths: what EBSN does not finish, what delayed duplicate ACKs change, what the MH receives again."""
    cells = groups(lines, "remedy")

    def by_run(remedy):
        return {(run["parameters"]["disconnection_s"], run["seed"]): run["transfer_s"] for run in cells[remedy,]}

    plain, delayed = by_run("none"), by_run("delayed duplicate ACKs")
    changes = [100 * (delayed[run] / plain[run] - 1) for run in plain if delayed[run] != plain[run]]
    return [
        ["EBSN, not finished", f"{sum(not run['finished'] for run in cells['EBSN',])} of {len(cells['EBSN',])}"],
        ["delayed duplicate ACKs, as long as without", f"{len(plain) - len(changes)} of {len(plain)}"],
        ["the others, % less and % more", f"{-min(changes):.0f} to {max(changes):.0f}"],
        *([f"bytes again for each byte, {remedy}", f"{statistics.fmean(run['duplicates_per_byte'] for run in cells[remedy,]):.2f}"]
          for remedy in ("auto", "hold")),
    ]


def last_stall(run):
    return run["stalls_s"][-1]


def baselines_freeze(lines):
    """From the last link up to the first new byte, of all starts and the median; and timeouts."""
    cells = groups(lines, "remedy", "disconnect_s")

    def row(remedy):
        short, long = cells[remedy, 2], cells[remedy, 10]
        return [remedy, span(list(map(last_stall, short)), 0), f"{median(map(last_stall, long)):.0f}",
                span([run["timeouts"] for run in long], 0)]

    return [row(remedy) for remedy in ("none", "end-to-end SACK", "BBR", "MTCP")]


def baselines_mtcp_plus(lines):
    """Stalls of BBR."""
    cells = groups(lines, "remedy", "disconnection_s")
    return [["BBR", *(span(cells["BBR", length][0]["stalls_s"], digits) for length, digits in ((30, 1), (180, 0)))]]


def claims_mtcp_plus(entries):
    """Cells as printed, with the printed conditions and with assumptions beside; and what the ratios have of the rest."""
    def cells(metric, *senders):
        found = [entry for entry in entries if entry["id"].startswith(f"{metric}/") and "/order/" not in entry["id"]]
        return [entry for entry in found if not senders or any(f"tcp={sender}/" in entry["id"] for sender in senders)]

    def beside(assumption):
        return lambda entry: entry.get("verdicts_beside", {}).get(assumption, entry["verdict"]) == "holds"

    def as_printed(entry):
        return printed_verdict(entry) == "holds"

    def count(of_entries, *wanted):
        return sum(all(is_so(entry) for is_so in wanted) for entry in of_entries)

    def other(is_so):
        return lambda entry: not is_so(entry)

    times = cells("disconnections-response-time-s")
    ratios = cells("disconnections-retransmission-ratio-percent", "newreno", "sack")
    differ = [entry for entry in entries if printed_verdict(entry) == "differs" and "retransmission-ratio" in entry["id"]]
    phase, seconds_of = beside("phase"), beside("ratio-in-seconds")
    return [
        ["times, printed conditions", f"{count(times, as_printed)} of {len(times)}"],
        *([f"times, {name}", f"{count(times, beside(name))} of {len(times)}"] for name in ("phase", "supervisor")),
        ["times, phase, more", f"{count(times, phase, other(as_printed))}"],
        ["times, phase, less", f"{count(times, as_printed, other(phase))}"],
        ["ratios of NewReno and SACK, ratio-in-seconds", f"{count(ratios, seconds_of)} of {len(ratios)}"],
        ["claims, ratio-in-seconds, more", f"{count(entries, seconds_of) - count(entries, as_printed)}"],
        ["ratios and their orders that differ", f"{len(differ)}"],
    ]


def claims_freeze(entries):
    """Cells of table II as printed, with the printed conditions and with `clock`."""
    cells = [entry for entry in entries if entry["id"].startswith("table-II/disconnect")]
    verdicts = {"printed conditions": printed_verdict, "clock": lambda entry: entry["verdict"]}
    return [[name, f"{sum(verdict(entry) == 'holds' for entry in cells)} of {len(cells)}"]
            for name, verdict in verdicts.items()]


def freeze_warning_near(lines):
    """In how many combinations a warning of one round trip takes as long as one of two, and the most that it is longer."""
    cells = groups(lines, "warning_round_trips", "tr_acks", "run", "disconnect_s")
    times = [(runs[0]["transfer_s"], cells[2, *key][0]["transfer_s"])
             for (warning, *key), runs in cells.items() if warning == 1]
    longer = [100 * (one / two - 1) for one, two in times if one != two]
    assert all(percent > 0 for percent in longer), "a warning of one round trip is better than one of two"
    return [["one round trip against two", f"{len(times) - len(longer)} of {len(times)}", f"{max(longer, default=0):.2f}"]]


def snoop_queues(lines):
    """What the second queue gains, in percent of the means: at the highest rate of errors, and at the others."""
    cells = groups(lines, "queues", "kbit_per_error")

    def gain(kbit):
        two, one = (statistics.fmean(run["goodput_mbps"] for run in cells[queues, kbit]) for queues in ("two", "one"))
        return 100 * (two / one - 1)

    highest, *others = sorted({kbit for _, kbit in cells})
    return [["gain, %", f"{gain(highest):.0f}", span(list(map(gain, others)), 0)]]


def lc_cwe_nothing_lost(unchanged, changed):
    """The most judgements of one run that were "congestion" although nothing was lost."""
    return [[name, f"{max(run['lc_cwe']['false_as_congestion'] for run in runs)}"]
            for name, runs in (("unchanged", unchanged), ("changed", changed))]


def wake_bytes(lines):
    """MB that Cubic's download received through an outage of 7 s, with the delay on the wire: the README's figures."""
    cells = groups(lines, "outage", "delay", "sender", "scheme")
    schemes = ("none", "wake", "hold (gateway)")
    return [["Cubic, 7 s", *(f"{cells['7 s', 'wire', 'cubic', scheme][0]['bytes'] / 1e6:.1f}" for scheme in schemes)]]
