# SPDX-License-Identifier: Apache-2.0
"""Rows of the tables that the model's results give."""
import re
import statistics
import tomllib
from collections import Counter
from pathlib import Path

from paper_runs import NAMES, groups, median, megabits, tenths_of_seconds, transfer_s
from paper_text import rows_named

LC_CWE_SENDERS = ["nothing", "lc", "cwe", "lc-cwe", "freeze-fast-retransmit"]
# Student's t for 95% and ten values.
T_OF_TEN = 2.262


def printed_verdict(entry):
    return entry.get("verdict_as_printed", entry["verdict"])


def claims(entries):
    """Counts of verdicts: overall, under the printed conditions, and with each assumption that decides nothing."""
    names = ["holds", "differs", "not comparable"]

    def row(label, verdicts):
        counts = Counter(verdicts)
        assert set(counts) <= set(names), counts
        return [label, *(str(counts[name]) for name in names)]

    beside = sorted({name for entry in entries for name in entry.get("verdicts_beside", {})})
    rows = [row("printed conditions alone", map(printed_verdict, entries))]
    if any("assumption" in entry for entry in entries):
        rows.insert(0, row("with the assumptions that decide", [entry["verdict"] for entry in entries]))
    for name in beside:
        verdicts = [entry.get("verdicts_beside", {}).get(name, entry["verdict"]) for entry in entries]
        rows.append(row(f"with `{name}`, not counted", verdicts))
    return rows


def verdicts(paper):
    """The output of `holdfast lab claims` for the statements that marks in the paper's page name."""
    def rows(entries):
        named = rows_named(Path("papers", paper, "README.md").read_text(), f"verdicts-{paper}")
        return [
            [entry["id"], "" if entry["model"] is None else str(entry["model"]), entry["reason"]]
            for entry in entries if entry["id"] in named
        ]

    return rows


# Statements of M-TCP that were added to the first 25.
MTCP_ADDED = [
    "optimum-gap-grows", "exponential-varies-more", "table-1-high-ber", "table-1-long", "table-1-frequent",
    "split-idle", "no-idle", "i-tcp-handoff-state", "i-tcp-handoff-time",
    "header-compression", "header-compression-lost"]


def claims_mtcp(entries):
    """The figures of `claims`, and how many of the first 25 statements hold: that count stays comparable."""
    first = [entry for entry in entries if entry["id"] not in MTCP_ADDED]
    label = "with the assumptions that decide"
    decided = next(row for row in claims(first) if row[0] == label)
    return [*claims(entries), [f"{label}, without the eleven statements added later", *decided[1:]]]


def lc_cwe(lines):
    cells = groups(lines, "handoff_s", "sender")
    lengths = dict.fromkeys(handoff for handoff, _ in cells)
    return [
        [f"{handoff:g}", *(f"{median(map(transfer_s, cells[handoff, sender])):,.0f}" for sender in LC_CWE_SENDERS)]
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


def mtcp_table_1(lines):
    """A row for each column of the paper's table and for plain TCP: means in seconds, the most bytes ahead."""
    cells = groups(lines, "scheme", "condition")
    names = {
        "fast-retransmit": "fast retransmissions", "snoop": "Snoop of 1995", "i-tcp": "I-TCP", "mtcp-1994": "MTCP",
        "m-tcp": "M-TCP", "tcp": "plain TCP",
    }

    def row(scheme, name):
        runs = [cells[scheme, condition] for condition in ("errors", "long", "frequent")]
        ahead = max(run["acknowledged_ahead_bytes"] for of_condition in runs for run in of_condition)
        return [name, *(f"{statistics.fmean(map(transfer_s, of_condition)):,.0f}" for of_condition in runs), f"{ahead:,}"]

    return [row(scheme, name) for scheme, name in names.items()]


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


def freeze_tables():
    return tomllib.loads(Path("papers/freeze-tcp-2000/claims.toml").read_text())["table"]


def as_printed(cells, name):
    """For each column of table II the number of cells within 10% of the printed ones."""
    printed = next(entry for entry in freeze_tables() if entry["id"] == "table-II")
    counts = []
    for column, scheme in enumerate(printed["columns"]):
        here = [cells[name, scheme, row["where"]["disconnect_s"]] for row in printed["row"]]
        means = [statistics.fmean(map(transfer_s, runs)) for runs in here]
        values = [row["printed"][column] for row in printed["row"]]
        counts.append(sum(abs(mean / value - 1) <= 0.1 for mean, value in zip(means, values)))
    return counts


# Table I of Freeze-TCP as printed: properties, the runs that show them, and the remedies' marks.
FREEZE_TABLE_I = [
    ("long disconnections", "long", ["no", "buffers", "buffers", "yes", "no", "yes", "yes"]),
    ("frequent disconnections", "frequent", ["no", "handoff", "handoff", "handoff", "no", "yes", "yes"]),
    ("high BER", "errors", ["yes", "yes", "yes", "yes", "no", "no", "no"]),
    ("encrypted headers", None, ["no", "no", "no", "no", "yes", "no", "yes"]),
    ("bytes acknowledged ahead", None, ["yes", "no", "no", "no", "yes", "no", "yes"])]
FREEZE_REMEDIES = ["Snoop of 1995", "I-TCP", "MTCP", "M-TCP", "delayed duplicate ACKs", "EBSN", "Freeze-TCP"]


def freeze_table_i(lines):
    """Times over those without a remedy, times with encrypted headers over plain ones, bytes ahead; printed marks."""
    cells = groups(lines, "remedy", "headers", "condition")

    def times(cell, other):
        of_cell, of_other = (statistics.fmean(map(transfer_s, cells[key])) for key in (cell, other))
        return of_cell / of_other

    def result(name, condition, remedy):
        if condition:
            return f"{times((remedy, 'plain', condition), ('none', 'plain', condition)):.2f}"
        if name == "encrypted headers":
            conditions = ("long", "frequent", "errors")
            by_plain = [times((remedy, "encrypted", item), (remedy, "plain", item)) for item in conditions]
            return f"{max(by_plain):.2f}"
        return f"{max(run['acknowledged_ahead_bytes'] for key in cells if key[0] == remedy for run in cells[key]):,}"

    def row(name, condition, marks):
        pairs = zip(FREEZE_REMEDIES, marks, strict=True)
        return [name, *(f"{result(name, condition, remedy)} ({mark})" for remedy, mark in pairs)]

    return [row(*item) for item in FREEZE_TABLE_I]


def freeze_taken(lines):
    """How many cells of table II are within 10% of the printed ones, under each assumption."""
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
        counts = as_printed(cells, taken)
        rows.append([label, *map(str, counts), str(sum(counts))])
    return rows


# Claims of Freeze-TCP that differ: the beginning of their names, a description, and the cause.
FREEZE_CAUSES = [
    ("table-II/disconnect", "table II, times", "the rate and the client's clock (`clock`); the rest is not explained"),
    ("table-II/order", "table II, orders", "with TR-ACKs TCP and Freeze-TCP are equal from 0.5 s on; not explained"),
    ("table-I[IV]-percent", "tables II and IV, percentages", "they follow from the times"),
    ("table-III/order", "table III, orders", "2.6 ms: no packet is on the link; 5 s: less than 3% apart"),
    ("table-IV/disconnect", "table IV, times", "a row with a misprint; standard TCP from 0.1 s on, not explained"),
    ("table-IV/order", "table IV, orders", "from 0.4 s on TCP takes as long as Freeze-TCP, not explained"),
    ("table-VI?/order", "tables V and VI, orders", "not explained by the parameters that were varied"),
    ("table-VI?-rarely", "tables V and VI, rarely worse", "without TR-ACKs Freeze-TCP is slower here; fitted sender"),
    ("table-I-", "table I", "a gain of less than the third that a mark is taken as"),
    ("warning-period", "one round trip against two, near path, and a half, far path", "equal in the mean, or in most combinations"),
    ("win-no-loss", "no loss above 3.2%, without TR-ACKs", "printed: the sender's probe is later than its retransmission; `clock`: not examined"),
]


def freeze_causes(entries):
    """How many claims differ, under the printed conditions and with `clock`, by cause."""
    def count(pattern, verdict):
        return sum(verdict(entry) == "differs" and bool(re.match(pattern, entry["id"])) for entry in entries)

    verdicts = [printed_verdict, lambda entry: entry["verdict"]]
    for entry in entries:
        causes = [name for pattern, name, _ in FREEZE_CAUSES if re.match(pattern, entry["id"])]
        differs = "differs" in (verdict(entry) for verdict in verdicts)
        assert len(causes) == 1 or not differs, f"{entry['id']} differs: {causes}"
    counts = [[count(pattern, verdict) for verdict in verdicts] for pattern, _, _ in FREEZE_CAUSES]
    all_of_them = [count("", verdict) for verdict in verdicts]
    rows = [[name, *map(str, found), cause] for (_, name, cause), found in zip(FREEZE_CAUSES, counts)]
    return [*rows, ["all", *map(str, all_of_them), ""]]


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
    """Means of ten runs, as in figure 4."""
    cells = groups(lines, "high_water_mark_kib", "kbit_per_error", "scheme")

    def goodput(mark, errors, scheme):
        return statistics.fmean(run["goodput_mbps"] for run in cells[mark, errors, scheme])

    return [
        ["above the window" if mark == 64 else f"{mark} KiB", f"{goodput(mark, 16384, 'snoop'):.2f}",
         f"{goodput(mark, 256, 'snoop'):.2f}", f"{goodput(mark, 64, 'snoop') / goodput(mark, 64, 'reno'):.0f}"]
        for mark in (8, 10, 12, 16, 24, 32, 64)
    ]


def snoop_assumptions(lines):
    """Means of ten runs with Snoop: a row for each assumption, a column for each rate of errors."""
    cells = {}
    for line in lines:
        parameters = line["parameters"]
        # Smaller segments have other error rates: one sweep has the assumption and the rate.
        both = parameters.get("assumption and errors", "").split("; ")
        key = tuple(both) if len(both) > 1 else (parameters["assumption"], parameters["errors"])
        cells.setdefault(key, []).append(line)
    rates = dict.fromkeys(errors for _, errors in cells)
    return [
        [name, *(f"{statistics.fmean(run['goodput_mbps'] for run in cells[name, errors]):.2f}" for errors in rates)]
        for name in dict.fromkeys(name for name, _ in cells)
    ]


# Remedies of a scenario, as the pages name them.
REMEDIES = {
    "M-TCP": "M-TCP (1997)", "hold": "`hold`", "auto": "`auto`", "link that keeps its packets": "a link that keeps its packets",
    "the same, delayed duplicate ACKs": "link without order, delayed duplicate ACKs",
}


def baselines(parameter, cell, names=(), bound=None):
    """A row for each remedy, a column for each value of the parameter; on the model also the most bytes acknowledged
    ahead.

    `bound`: the function that gives the cells of the last row.
    """
    names = {**REMEDIES, **dict(names)}

    def rows(lines):
        cells = groups(lines, "remedy", parameter)
        # The results of several parts are not sorted.
        values = sorted({value for _, value in cells})
        found = []
        for remedy in dict.fromkeys(remedy for remedy, _ in cells):
            runs = [cells[remedy, value] for value in values]
            found.append([names.get(remedy, remedy), *map(cell, runs)])
            if "acknowledged_ahead_bytes" in lines[0]:
                ahead = max(run["acknowledged_ahead_bytes"] for cell_runs in runs for run in cell_runs)
                found[-1].append(f"{ahead:,}")
        if bound:
            first = next(iter(cells))[0]
            row = ["the bound", *(bound(cells[first, value]) for value in values)]
            found.append(row + [""] * (len(found[0]) - len(row)))
        return found

    return rows


def whole_seconds(runs):
    middle = median(map(transfer_s, runs))
    return "not finished" if middle == float("inf") else f"{middle:,.0f}"


def tenths_or_unfinished(runs):
    return "not finished" if median(map(transfer_s, runs)) == float("inf") else tenths_of_seconds(runs)


def bound_s(runs):
    """The least possible time: no transfer can be faster."""
    return f"{median([run['optimal_s'] for run in runs]):.0f}"


def encrypted(snoop, mtcp):
    """For each remedy, with plain and encrypted headers: Mb/s with bit errors, then seconds with disconnections."""
    kinds = [(groups(snoop, "remedy", "headers"), megabits), (groups(mtcp, "remedy", "headers"), whole_seconds)]
    rows = []
    for remedy in dict.fromkeys(remedy for cells, _ in kinds for remedy, _ in cells):
        row = [REMEDIES.get(remedy, remedy)]
        for cells, cell in kinds:
            figures = [cell(cells[remedy, headers]) if (remedy, headers) in cells else ""
                       for headers in ("readable", "encrypted")]
            row += figures
        rows.append(row)
    return rows


# The rate of the wired hop in all of these scenarios.
WIRED_BIT_PER_S = 10e6


def handoff_state(snoop, mtcp, split):
    """The most bytes of a connection's state that a base station sends to another, and their time on the wired hop."""
    def longest(lines, **wanted):
        lines = [line for line in lines if wanted.items() <= line["parameters"].items()]
        return max(line["handoff"].get("state_bytes_max", 0) for line in lines)

    multicast = [line for line in snoop if line["parameters"]["handoff"] != "none"]
    moved = {
        "Snoop, by multicast": longest(multicast),
        "M-TCP": longest(mtcp, buffers="discarded"),
        **{f"I-TCP, {kib} KiB": max(run["acknowledged_ahead_bytes"] for run in runs)
           for (kib,), runs in groups(split, "buffer_kib").items()},
    }
    rate = {line["conditions"]["wired.rate_mbit_per_s"] * 1e6 for line in [*multicast, *mtcp, *split]}
    assert rate == {WIRED_BIT_PER_S}, rate
    return [[name, f"{count:,}", f"{count * 8e3 / WIRED_BIT_PER_S:.2f}"] for name, count in moved.items()]


def slow(senders, rates_kbit_per_s):
    """Seconds, and bytes that the MH receives again for each byte, for the senders in the table."""

    def cell(runs):
        again = statistics.fmean(run["duplicates_per_byte"] for run in runs)
        return f"{tenths_of_seconds(runs)}, {again:.2f}"

    def rows(lines):
        cells = groups(lines, "sender", "kbit_per_s", "scheme")
        return [
            [name, rate, *(cell(cells[sender, rate, scheme]) for scheme in ("none", "hold", "auto"))]
            for sender, name in senders.items() for rate in rates_kbit_per_s
        ]

    return rows


def mtcp_plus_hypotheses(lines):
    """NewReno: ratios in percent by windows in bytes, and timeouts per 100 s. The printed rows are not made here."""
    cells = groups(lines, "delayed_ack", "window_bytes", "disconnection_s")
    windows = dict.fromkeys(window for _, window, _ in cells)

    def ratio(run):
        return f"{run['retransmission_ratio_percent']:.2f}"

    def timeouts(run):
        # A transfer that the sender gave up has no time.
        return f"{run['timeouts'] * 100 / run['transfer_s']:.1f}" if run["transfer_s"] else "-"

    def row(delayed_ack, window, label, figure):
        name = "delayed ACK" if delayed_ack == "on" else "no delayed ACK"
        return [f"{name}: {label}", *(figure(cells[delayed_ack, window, length][0]) for length in (5, 10, 30, 180))]

    return [
        found for delayed_ack in ("on", "off") for found in (
            *(row(delayed_ack, window, f"ratio here, {window:,} bytes", ratio) for window in windows),
            row(delayed_ack, 65535, "timeouts here, 65,535 bytes", timeouts))
    ]


def mtcp_plus_warning(supervisor, newreno):
    """Seconds with a warning of 250 ms and 45 segments. The printed rows are not made here."""
    cells = groups(supervisor, "delayed_ack", "tcp", "segments", "warning_ms", "disconnection_s")
    plain = groups(newreno, "disconnection_s")

    def cell(runs):
        time = median(map(transfer_s, runs))
        return "unfinished" if time == float("inf") else f"{time:.1f}"

    lengths = (5, 10, 30, 180)
    return [
        ["delayed ACK: here", *(cell(cells["on", "mtcp", "odd", 250, length]) for length in lengths)],
        ["NewReno, 45 segments, here", *(cell(plain[length,]) for length in lengths)],
        ["no delayed ACK: here", *(cell(cells["off", "mtcp", "odd", 250, length]) for length in lengths)],
    ]


def lc_cwe_hit_ratio(unchanged, changed):
    """Medians of five runs in percent, by the seconds of bad state in each 10 s."""
    cells = {("unchanged", *key): runs for key, runs in groups(unchanged, "bad_s").items()}
    cells.update(groups(changed, "change", "bad_s"))
    names = {
        "unchanged": "unchanged: a bad state begins with each second handoff",
        "first_at_s = 2.5": "`first_at_s = 2.5`", "first_at_s = 5": "`first_at_s = 5`",
        "first_at_s = 7.5": "`first_at_s = 7.5`",
        "on_neither": 'unchanged, `on_neither = "congestion"`: a loss with P_C = P_H = 0 is congestion',
        "timeout_rtt": 'unchanged, `timeout_rtt = "timeout"`',
    }

    def cell(runs):
        return f"{median([run['lc_cwe']['hit_ratio_percent'] for run in runs]):.0f}"

    return [[label, *(cell(cells[name, bad]) for bad in range(6))] for name, label in names.items()]


def lc_cwe_windows(lines):
    """Runs in which a loss with both probabilities 0 counts as congestion."""
    cells = groups([line for line in lines if line["parameters"]["on_neither"] == "congestion"], "segments", "handoff_s", "sender")
    return [
        [str(segments), f"{handoff:g}",
         *(f"{median(map(transfer_s, cells[segments, handoff, sender])):,.0f}" for sender in LC_CWE_SENDERS)]
        for segments in (64, 250) for handoff in (0.25, 1, 2, 3)
    ]


def split_idle(lines):
    """The longest time without a new byte at the MH, over ten runs; and how many runs had five minutes or more."""
    def longest_s(run):
        series = run["series"]
        arrivals = [at for at, before, after in zip(series["t_s"][1:], series["rcv_nxt"], series["rcv_nxt"][1:])
                    if after != before]
        return max(late - early for early, late in zip(arrivals, arrivals[1:]))

    cells = groups(lines, "remedy", "disconnection_s")

    def cell(runs):
        lengths = list(map(longest_s, runs))
        return f"{max(lengths):.0f} s, {sum(length >= 300 for length in lengths)} of {len(lengths)}"

    return [
        [REMEDIES.get(remedy, remedy), *(cell(cells[remedy, length]) for length in (0.5, 1.5, 2.5, 3.5, 4.5))]
        for remedy in ("none", "I-TCP", "MTCP", "M-TCP")
    ]


def header_compression(lines):
    """Mean seconds with whole and with compressed headers, and their ratio."""
    cells = groups(lines, "packet_bytes", "loss", "headers")

    def row(packet_bytes, loss):
        whole, compressed = (
            statistics.fmean(map(transfer_s, cells[packet_bytes, loss, headers])) for headers in ("whole", "compressed"))
        times = f"{compressed / whole:.3f}"
        return [f"{packet_bytes:,} bytes, {loss * 100:g} %", f"{whole:.1f} s", f"{compressed:.1f} s", times]

    return [row(packet_bytes, loss) for packet_bytes in (1500, 552) for loss in (0, 0.001, 0.01, 0.051)]


def upload_senders(lines):
    """Milliseconds from link up to the first new byte at the FH: the median and the largest value."""
    names = {"linux-cubic": "Linux, Cubic", "linux-bbr": "Linux, BBR", "macos-like": "macOS-like", "windows-like": "Windows-like"}
    cells = groups(lines, "sender", "outage_s", "scheme")

    def cell(runs):
        stalls = sorted(float("inf") if stall is None else stall for run in runs for stall in run["stalls_s"])
        return ", ".join(
            "never" if stall == float("inf") else f"{stall * 1000:,.0f}" for stall in (median(stalls), stalls[-1]))

    schemes = ("none", "hold, carrier", "hold, silence", "auto, carrier", "auto, silence")
    return [
        [name, f"{outage} s", *(cell(cells[sender, outage, scheme]) for scheme in schemes)]
        for sender, name in names.items() for outage in (1, 3, 7)
    ]


def upload_losses(lines):
    """Mb/s, and the share of the packets that the link's queue dropped."""
    cells = groups(lines, "sender", "delay", "queue_packets", "loss", "scheme")

    def cell(runs):
        dropped = median([100 * run["link"]["dropped_by_queue"] / run["link"]["packets"] for run in runs])
        return f"{megabits(runs)}, {dropped:.2f} %"

    return [
        [name, delay, str(queue), *(
            cell(cells[f"linux-{sender}", delay, queue, loss, scheme])
            for loss in (0, 0.001, 0.01) for scheme in ("none", "auto"))]
        for sender, name in NAMES.items() for delay in ("radio", "wired") for queue in (2, 10, 50, 200)
    ]


def mtcp_statements(entries):
    """A row for each statement: the verdicts, what is expected, what came out, in how many combinations it holds."""
    rows = []
    for entry in entries:
        asked = dict.fromkeys(rule.rpartition(": ")[2] for rule in entry["printed"].split("; "))
        came = re.sub(r" \([^)]*\)|, median [^;(]*[^;( ]", "", str(entry["model"]))
        so_in = re.findall(r"so in (\d+ of \d+) combinations", entry["reason"])
        rows.append([f"`{entry['id']}`", entry["verdict"], printed_verdict(entry), ", ".join(asked), came, ", ".join(so_in)])
    return rows


# The statements beside Freeze-TCP's tables of times.
FREEZE_STATEMENTS = re.compile(r"table-[IV]+-percent|fast-ethernet-gains-more|table-VI?-rarely-worse|table-I-[dho]")


def freeze_statements(entries):
    """A row for each statement: the verdict, what is expected or printed, what came out."""
    rows = mtcp_statements([entry for entry in entries if FREEZE_STATEMENTS.match(entry["id"])])
    return [[row[0], row[1], row[3], row[4]] for row in rows]
