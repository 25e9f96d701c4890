# SPDX-License-Identifier: Apache-2.0
"""Figures in a page's text that compare or count single runs."""
import re
import statistics
import tomllib
from pathlib import Path

from paper_linux import script_of_senders
from paper_model import claims, freeze_tables, printed_verdict
from paper_prose import SHORT_S, mean_s, times_optimum
from paper_runs import groups, median, seconds, span, transfer_s
from paper_text import rows_named

# Prefixes of M-TCP's scenarios: the opener's half is set up first, or a window begins with two segments.
OPENER_FIRST, TWO_SEGMENTS = "early-", "two-segments-"


def senders_causes(model, linux):
    """Medians on the model and on Linux: a row for each sender, outage and loss rate."""
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
    """Runs with M-TCP for each order of set-up, by scenario, parameters and seed."""
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
    """How many runs of M-TCP take the same time (within 0.01 s) with both orders of set-up."""
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


def mtcp_quotients(lines, metric):
    """A metric of M-TCP's runs, divided by that of TCP's runs, by hops, distribution, size and length."""
    cells = groups(lines, "hops", "distribution", "bytes", "disconnection_s", "scheme")
    return {key[:4]: metric(cells[*key[:4], "m-tcp"]) / metric(cells[*key[:4], "tcp"]) for key in cells}


def mtcp_limit(name):
    """The value that a statement of M-TCP expects."""
    statements = tomllib.loads(Path("papers/mtcp-1997/claims.toml").read_text())["statement"]
    return next(statement for statement in statements if statement["id"] == name)["rule"][0]["expect"]["value"]


def mtcp_third(lines):
    """For each length: how many combinations of the near sender take a third of TCP's time or less."""
    limit = mtcp_limit("third-of-tcp")
    near = {key: times for key, times in mtcp_quotients(lines, mean_s).items() if key[0] == 5}
    lengths = dict.fromkeys(length for _, _, _, length in near)
    return [[f"{wanted} s", of_all(times <= limit for (*_, length), times in near.items() if length == wanted)]
            for wanted in lengths]


def of_all(verdicts):
    """How many verdicts are true: `5 of 6`."""
    verdicts = list(verdicts)
    return f"{sum(verdicts)} of {len(verdicts)}"


def mtcp_two_segments(printed, assumed):
    """Statements on disconnections without `first-window`: with the printed windows, and with that assumption."""
    def receives(runs):
        return 1 + statistics.fmean(run["duplicates_per_byte"] for run in runs)

    third, gap_limit, least = map(mtcp_limit, ("third-of-tcp", "far-sender-gap", "duplicates"))

    def counts(lines):
        times, again = (mtcp_quotients(lines, metric) for metric in (mean_s, receives))
        near = [key for key in times if key[0] == 5]
        gaps = [times[key] / times[15, *key[1:]] for key in near]
        return [
            of_all(times[key] <= third for key in near),
            of_all(gap < gap_limit for gap in gaps), f"{statistics.geometric_mean(gaps):.2f}",
            of_all(again[key] < least for key in near)]

    names = ["`third-of-tcp`", "`far-sender-gap`", "`far-sender-gap`, geometric mean", "`duplicates`"]
    return [list(row) for row in zip(names, counts(printed), counts(assumed))]


def baselines_mtcp(lines):
    """Over all lengths: EBSN's unfinished runs, the effect of delayed duplicate ACKs, bytes that the MH gets again."""
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
    """Time from the last link up to the first new byte, over all starts and as a median; and timeouts."""
    cells = groups(lines, "remedy", "disconnect_s")

    def row(remedy):
        short, long = cells[remedy, 2], cells[remedy, 10]
        return [remedy, span(list(map(last_stall, short)), 0), f"{median(map(last_stall, long)):.0f}",
                span([run["timeouts"] for run in long], 0)]

    return [row(remedy) for remedy in ("none", "end-to-end SACK", "BBR", "MTCP")]


def baselines_mtcp_plus(lines):
    """Stalls with BBR."""
    cells = groups(lines, "remedy", "disconnection_s")
    return [["BBR", *(span(cells["BBR", length][0]["stalls_s"], digits) for length, digits in ((30, 1), (180, 0)))]]


def claims_mtcp_plus(entries):
    """Counts of cells as printed, under the printed conditions and under assumptions; and of ratios and claims."""
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


def verdict_figures(paper):
    """For the statements that marks in the paper's page name: single figures from the output of `holdfast lab claims`.

    The figures: the combinations in which it holds; the difference of a cell from the printed one; the result under an
    assumption that does not decide, with the first and the last of its pairs.
    """
    def row(entry):
        so_in = re.search(r"so in (\d+ of \d+)", entry["reason"])
        are_numbers = all(isinstance(entry[key], float | int) for key in ("printed", "model"))
        apart = f"{100 * abs(entry['model'] / entry['printed'] - 1):.1f}" if are_numbers else ""
        beside = re.search(r"with assumption \S+: ([\d.]+(?: to [\d.]+)?)[^;(]*(?:\(([^)]*)\))?", entry["reason"])
        pairs = (beside[2] or "").split(", ") if beside else [""]
        return [entry["id"], so_in[1] if so_in else "", apart, beside[1] if beside else "", pairs[0], pairs[-1]]

    def rows(entries):
        named = rows_named(Path("papers", paper, "README.md").read_text(), f"figures-{paper}")
        return [row(entry) for entry in entries if entry["id"] in named]

    return rows


def mtcp_plus_printed(table):
    """The printed values in a table of M-TCP+, by delayed ACK, sender and length; none: unfinished."""
    claimed = tomllib.loads(Path("papers/mtcp-plus-2007/claims.toml").read_text())["table"]
    entry = next(entry for entry in claimed if entry["id"] == table)
    return {(row["where"]["delayed_ack"], row["where"]["tcp"], length): value or None
            for row in entry["row"] for length, value in zip(entry["columns"], row["printed"])}


def mtcp_plus_text(supervisor, window):
    """M-TCP with 250 ms warning and 45 segments; distance of ratios (larger windows) and timeouts from the printed."""
    times = mtcp_plus_printed("disconnections-response-time-s")
    ratios = mtcp_plus_printed("disconnections-retransmission-ratio-percent")
    warned = {key: runs[0] for key, runs in groups(
        supervisor, "delayed_ack", "disconnection_s", "tcp", "segments", "warning_ms").items()
        if key[2:] == ("mtcp", "odd", 250)}
    near = []
    for (delayed_ack, length, *_), run in warned.items():
        printed, ours = times[delayed_ack, "mtcp", length], transfer_s(run)
        near.append(printed == ours if None in (printed, ours) else abs(ours / printed - 1) <= 0.05)
    factors, timeouts = {True: [], False: []}, []
    for (delayed_ack, length, size), runs in groups(window, "delayed_ack", "disconnection_s", "window_bytes").items():
        printed, run = ratios[delayed_ack, "newreno", length], runs[0]
        if size > 65535:
            factors[length == 180].append(printed / run["retransmission_ratio_percent"])
        elif run["finished"]:
            timeouts.append(100 * abs(run["timeouts"] * 100 / run["transfer_s"] / printed - 1))
    again = [run["retransmission_ratio_percent"] for (delayed_ack, *_), run in warned.items() if delayed_ack == "off"]
    return [
        ["M-TCP's times, within 5%", of_all(near)],
        ["ratios with larger windows too small, factor, up to 30 s", span(factors[False], 1)],
        ["ratios with larger windows too small, factor, 180 s", span(factors[True], 0)],
        ["timeouts, % apart from the printed ratio, at most", f"{max(timeouts):.0f}"],
        ["M-TCP without delayed ACK retransmits, %, at most", f"{max(again):.3f}"],
    ]


# The column of table II to which the assumption `clock` is fitted.
FITTED = "scheme=freeze-tr"


def is_cell_of_table_2(entry):
    return entry["id"].startswith("table-II/disconnect")


def claims_freeze_counts(entries):
    """The figures of `claims`, and last those without the cells that the deciding assumption is fitted to."""
    others = [entry for entry in entries if not (is_cell_of_table_2(entry) and entry["id"].endswith(FITTED))]
    left_out = len(entries) - len(others)
    names = {"with the assumptions that decide": "with `clock`", "printed conditions alone": "printed conditions alone"}
    without = [[f"{names[row[0]]}, without the {left_out} cells that `clock` is fitted to", *row[1:]]
               for row in claims(others) if row[0] in names]
    return [*claims(entries), *without]


def claims_freeze(entries):
    """Cells of table II as printed: in all columns, in those that `clock` is not fitted to; and TCP under `clock`."""
    cells = [entry for entry in entries if is_cell_of_table_2(entry)]
    others = [entry for entry in cells if not entry["id"].endswith(FITTED)]
    verdicts = {"printed conditions": printed_verdict, "clock": lambda entry: entry["verdict"]}
    short = [f"table-II/disconnect_s={length}/scheme=std" for length in SHORT_S]
    too_fast = [entry["printed"] - entry["model"] for entry in cells if entry["id"] in short]
    return [
        *([f"{name}{suffix}", f"{sum(verdict(entry) == 'holds' for entry in of_cells)} of {len(of_cells)}"]
          for name, verdict in verdicts.items() for suffix, of_cells in (("", cells), (", columns not fitted", others))),
        ["TCP at short disconnections under clock, too fast, s", span(too_fast, 1)],
    ]


def freeze_short_times(lines):
    """Printed times of table II minus the means here, in seconds, at short disconnections."""
    cells = groups(lines, "scheme", "disconnect_s")
    entry = next(entry for entry in freeze_tables() if entry["id"] == "table-II")
    more = [printed - mean_s(cells[scheme, row["where"]["disconnect_s"]])
            for row in entry["row"] if row["where"]["disconnect_s"] in SHORT_S
            for scheme, printed in zip(entry["columns"], row["printed"])]
    return [["printed times of up to 100 ms, s more", span(more, 1)]]


def freeze_taken_apart(lines):
    """For two likenesses in table II: the largest difference from a printed cell, and the cells within 10%."""
    cells = groups(lines, "taken", "scheme", "disconnect_s")
    entry = next(entry for entry in freeze_tables() if entry["id"] == "table-II")

    def row(taken, scheme, printed_scheme):
        column = entry["columns"].index(printed_scheme)
        apart = [100 * abs(mean_s(cells[taken, scheme, row["where"]["disconnect_s"]]) / row["printed"][column] - 1)
                 for row in entry["row"]]
        return [f"{taken}: {scheme} for {printed_scheme}", f"{max(apart):.1f}",
                f"{sum(percent <= 10 for percent in apart)} of {len(apart)}"]

    return [row("0.77 MB/s", "freeze-tr", "freeze-tr"), row("0.77 MB/s, timeouts of 0.5 s at least", "std", "std-tr")]


def freeze_warning_near(lines):
    """In how many combinations a warning of one round trip takes as long as one of two, and the most that it is longer.

    Means of ten starts, as in the claims.
    """
    cells = groups(lines, "warning_round_trips", "tr_acks", "disconnect_s")
    times = [(mean_s(runs), mean_s(cells[2, *key])) for (warning, *key), runs in cells.items() if warning == 1]
    longer = [100 * (one / two - 1) for one, two in times if one != two]
    assert all(percent > 0 for percent in longer), "a warning of one round trip is better than one of two"
    return [["one round trip against two", f"{len(times) - len(longer)} of {len(times)}", f"{max(longer, default=0):.2f}"]]


def snoop_queues(lines):
    """The gain of the second queue in percent of the means: at the highest rate of errors, and at the others."""
    cells = groups(lines, "queues", "kbit_per_error")

    def gain(kbit):
        two, one = (statistics.fmean(run["goodput_mbps"] for run in cells[queues, kbit]) for queues in ("two", "one"))
        return 100 * (two / one - 1)

    highest, *others = sorted({kbit for _, kbit in cells})
    return [["gain, %", f"{gain(highest):.0f}", span(list(map(gain, others)), 0)]]


def snoop_two_queues(lines):
    """Means with one queue at the link and with two, for each rate of errors."""
    cells = groups(lines, "queues", "kbit_per_error")
    rates = sorted({kbit for _, kbit in cells})
    return [
        [queues, *(f"{statistics.fmean(run['goodput_mbps'] for run in cells[queues, kbit]):.2f}" for kbit in rates)]
        for queues in ("one", "two")
    ]


def snoop_timeouts(lines):
    """Timeouts per 100 retransmitted segments with Snoop: means over the error rates, and those of at most five."""
    cells = groups(lines, "scheme", "kbit_per_error")
    means = [
        statistics.fmean(100 * run["timeouts"] / run["retransmitted_segments"] for run in runs if run["retransmitted_segments"])
        for (scheme, _), runs in cells.items() if scheme == "snoop"]
    return [["of 100 retransmitted segments", span(means, 1), f"{sum(mean <= 5 for mean in means)} of {len(means)}"]]


def lc_cwe_windows_printed(lines):
    """For each sender: how many transfers with larger windows complete by the printed rule."""
    cells = groups(lines, "on_neither", "sender")
    return [[sender, f"{sum(run['finished'] for run in runs)} of {len(runs)}"]
            for (rule, sender), runs in cells.items() if rule == "handoff"]


def claims_lc_cwe(entries):
    """For each set of conditions: the hit ratio, and LC with CWE compared with LC alone."""
    named = {entry["id"]: entry for entry in entries}
    hits, together = named["hit-ratio"], named["parts-together"]

    def beside(entry, conditions):
        """The part of a reason that is about conditions that do not decide."""
        found = re.search(rf"(?:^|; ){conditions}: (.*?), (?:holds|differs)", entry["reason"])
        return found[1]

    def row(label, result, hit_ratio=""):
        pairs = re.findall(r"([\d.]+) for ([\d.]+)", result)
        return [label, hit_ratio, re.match(r"[\d.]+(?: to [\d.]+)?", result)[0],
                f"{sum(both == alone for both, alone in pairs)} of {len(pairs)}"]

    return [
        row("printed conditions", together["model"], str(hits["model"])),
        row("window-and-loss", beside(together, "with assumption window-and-loss")),
        row("window-without-loss", beside(together, "with assumption window-without-loss")),
        row("both", beside(together, "with assumption both"), beside(hits, "with assumption both")),
    ]


def lc_cwe_nothing_lost(unchanged, changed):
    """The most judgements "congestion" in one run although nothing was lost."""
    return [[name, f"{max(run['lc_cwe']['false_as_congestion'] for run in runs)}"]
            for name, runs in (("unchanged", unchanged), ("changed", changed))]


def wake_bytes(lines):
    """MB that Cubic received through an outage of 7 s, with the delay on the wired hop: the README's figures."""
    cells = groups(lines, "outage", "delay", "sender", "scheme")
    schemes = ("none", "wake", "hold (gateway)")
    return [["Cubic, 7 s", *(f"{cells['7 s', 'wire', 'cubic', scheme][0]['bytes'] / 1e6:.1f}" for scheme in schemes)]]


def outages_runs(lines):
    """The optimum less the outage; the longest stall of a single run, and its longest time beyond the optimum."""
    helped = [run for run in lines if run["parameters"]["remedy"] in ("hold", "mtcp-plus")]
    return [
        ["optimum", span([run["optimal_s"] - run["parameters"]["outage_s"] for run in lines], 2)],
        ["hold and mtcp-plus: longest stall", f"{max(run['stalls_s'][0] for run in helped):.2f}"],
        ["hold and mtcp-plus: most over the optimum",
         f"{max(run['transfer_s'] - run['optimal_s'] for run in helped):.2f}"],
    ]


def stalls_by_flow(runs):
    """For each run the shortest stall of a flow, the median one and the longest one."""
    stalls = [[of_flow[0] for of_flow in run.get("flow_stalls_s", [run["stalls_s"]])] for run in runs]
    return [list(map(find, stalls)) for find in (min, median, max)]


def mobile_auto_row(cells, flows, reports):
    """Ranges over single runs of `auto`, with both delays. With one flow there is one stall."""
    keys = [
        (*key, report) for *key, scheme in cells for report in reports
        if (key[0], scheme) == (flows, f"auto, {report}")]
    own, downloads = ([cells[*key, f"{side}, {report}"][0] for *key, report in keys] for side in ("auto", "download"))
    plain = [cells[*key, "none"][0] for *key, _ in keys]
    first, *others = [span(stalls, 3) for stalls in stalls_by_flow(own)]
    after = [run["after_outage_bytes"][0] / other["after_outage_bytes"][0] for run, other in zip(own, downloads)]
    return [
        str(len(own)), first, *(others if flows > 1 else ["", ""]),
        span([run["full_rate_round_trips"][0] for run in own], 1), span(after, 3),
        span([run["bytes"] / other["bytes"] for run, other in zip(own, plain)], 3),
        span([100 * run["duplicates_per_byte"] for run in own], 2),
    ]


def mobile_auto_both(lines):
    """Uploads with `auto` on the mobile, by number of flows and by the source of the report."""
    cells = groups(lines, "flows", "outage", "delay", "sender", "scheme")
    return [
        ["one flow", *mobile_auto_row(cells, 1, ("carrier", "silence"))],
        ["fifty flows", *mobile_auto_row(cells, 50, ("carrier", "silence"))],
        ["fifty flows, carrier", *mobile_auto_row(cells, 50, ("carrier",))],
        ["fifty flows, silence", *mobile_auto_row(cells, 50, ("silence",))],
    ]
