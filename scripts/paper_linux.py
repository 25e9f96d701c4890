# SPDX-License-Identifier: Apache-2.0
"""Rows of the tables that need Linux: in virtual time, by the model and virtual time, and of single programs."""
import importlib.util
import re
import statistics
from pathlib import Path

from paper_runs import NAMES, SENDERS, groups, median, printed_rows, seconds, span, tenths_of_seconds, transfer_s


def outages_cell(runs):
    """The stall and the transfer time, medians."""
    broken = sum(not (run["finished"] and run["intact"]) for run in runs)
    text = f"{seconds([run['stalls_s'][0] if run['stalls_s'] else None for run in runs])}, "
    text += seconds([transfer_s(run) for run in runs])
    return text + (f" ({broken} of {len(runs)} broken)" if broken else "")


def outages(lines):
    cells = groups(lines, "outage_s", "sender", "packets", "remedy")
    remedies = ["plain", "hold", "mtcp-plus", "haproxy", "rto-max-1s"]
    return [
        [f"{outage} s", sender, packets, *(
            outages_cell(cells[outage, sender, packets, remedy]) for remedy in remedies)]
        for outage in (1, 3, 7, 15) for sender in SENDERS for packets in ("lost", "kept")
    ]


def outages_uploads(lines):
    cells = groups(lines, "outage_s", "sender", "remedy")
    remedies = ["plain", "auto", "keep", "gateway", "rto-max-1s"]
    return [
        [f"{outage} s", sender, *(outages_cell(cells[outage, sender, remedy]) for remedy in remedies)]
        for outage in (1, 3, 7, 15) for sender in SENDERS
    ]


def demo_runs(text):
    """Each row in the tables of demos: its name, and its cells without `SHA-256`."""
    for line in text.splitlines():
        if line.startswith("│") and ("download, " in line or "upload, " in line):
            run, *cells, equal = [cell.strip() for cell in line.strip("│").split("┆")]
            assert equal == "equal", line
            yield re.sub(r", (?!plain)(\S+)", r", `\1`", run), cells


def demo(text):
    """The tables of several demos as one, without the column `optimum`: median, least and greatest value."""
    runs = {}
    for run, (transfer, _, *others) in demo_runs(text):
        runs.setdefault(run, []).append([transfer, *others])
    return [[run, *map(median_and_range, zip(*rows, strict=True))] for run, rows in runs.items()]


def median_and_range(cells):
    """The median of cells with one number and a unit, or `never`, with their range."""
    ordered = sorted(cells, key=lambda cell: float("inf") if cell == "never" else float(cell.split()[0]))
    middle = ordered[len(ordered) // 2]
    if ordered[0] == ordered[-1]:
        return middle
    return f"{middle} ({ordered[0].split()[0]} to {ordered[-1].split()[0]})"


def observe(text):
    """The records of two gateways: one detects outages by the carrier, the other by silence alone."""
    found = re.findall(r"(\d+) outages, down (\S+ s), about (\S+ s) of stalls avoidable", text)
    names = ["the carrier of the link's device", "silence alone"]
    return [[name, *figures] for name, figures in zip(names, found, strict=True)]


def upload_designs(text):
    """For each design the cells of a sender and an outage: the stall, and the bytes of the 6 s after the outage."""
    names = {
        "plain": "plain", "drop": "drop at egress", "rto-max": "`TCP_RTO_MAX_MS` = 1000", "keep": "`keep`", "auto": "`auto`",
    }
    rows = {name: [] for name in names}
    for design, stall, bytes_after in re.findall(r"^(\S+) +\w+ +\S+ s +(\S+ ms|never) +(\S+ MB)$", text, re.MULTILINE):
        rows[design].append(f"{stall}, {bytes_after}")
    return [[names[design], *cells] for design, cells in rows.items()]


def packet_cost(text):
    """The table of the bench `packet_cost`, both directions in one row."""
    names = {
        "parsed": "parsed", "passed-through": "the engine leaves the flow alone", "hold": "`hold`", "auto": "`auto`",
        "snoop-1995": "`snoop`, `1995`", "snoop-today": "`snoop`, `today`", "mtcp": "`mtcp`",
        "mtcp-cell": "`mtcp` in a cell",
        "mtcp-cell, zstd, TLS": "the same, compression zstd, bytes that do not shrink",
        "mtcp-cell, zstd, text": "the same, text",
    }
    counts = {(name, direction): f"{int(none):,}, {int(lost):,}" for name, direction, none, lost, *_ in printed_rows(text)}
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
        # Samples after the first 5 s. A packet takes 0.6 ms.
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


def script_of_senders():
    """Loads the script that docs/senders.md names."""
    path = Path(__file__).parent.parent / "docs/scenarios/senders.py"
    spec = importlib.util.spec_from_file_location("senders", path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def senders(sender):
    """The rows of one preset, by the script of docs/senders.md."""
    script = script_of_senders()

    def rows(model, linux):
        model, linux = (groups(lines, "sender", "outage_s", "loss_percent") for lines in (model, linux))
        texts = [script.row(key[1], key[2], model[key], runs) for key, runs in linux.items() if key[0] == sender]
        return [[cell.strip() for cell in text.strip().strip("|").split("|")] for text in texts]

    return rows


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
    stall_of = script_of_senders().stall_of

    def cell(runs):
        def text(value):
            return "unfinished" if value == float("inf") else f"{value:.1f}"

        times = [float("inf") if transfer_s(run) is None else run["transfer_s"] for run in runs]
        middle, least, most = (text(value) for value in (median(times), min(times), max(times)))
        spread = f" ({least} to {most})" if least != most else ""
        longest = seconds(map(stall_of, runs)).removesuffix(" s")
        stall = f" [{longest}]" if runs[0]["outages"] and middle != "unfinished" else ""
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


def keep_cell(runs_after):
    """The stalls after outages of 1, 7 and 60 s."""
    stalls = [runs_after(outage)[0]["stalls_s"][0] for outage in ("1 s", "7 s", "60 s")]
    return ", ".join("none in 20 s" if stall is None else f"{stall:.2f}" for stall in stalls)


def keep_outages(lines):
    cells = groups(lines, "outage", "report", "sender", "scheme")
    columns = [("carrier", "none"), ("carrier", "keep"), ("none", "keep"), ("carrier", "hold")]
    return [
        [f"download, {name}", *(
            keep_cell(lambda outage: cells[outage, report, sender, scheme]) for report, scheme in columns)]
        for sender, name in NAMES.items()
    ]


def keep_upload(lines):
    cells = groups(lines, "outage", "sender", "scheme")
    return [
        [f"upload, {name}", *(
            keep_cell(lambda outage: cells[outage, sender, scheme])
            for scheme in ("none", "keep, carrier", "keep, silence"))]
        for sender, name in NAMES.items()
    ]


def stall_and_full_rate(run):
    """The stall of one flow, or of the first and the median of several flows; then the round trips to the full rate."""

    def time_of(stall):
        return "never" if stall is None or stall == float("inf") else f"{stall:.2f}"

    # With several flows `stalls_s` is that of the first flow.
    stalls = [run["stalls_s"][0]]
    if run["parameters"].get("flows", 1) > 1:
        of_flows = [of_flow[0] for of_flow in run["flow_stalls_s"]]
        stalls = [min((stall for stall in of_flows if stall is not None), default=None), median(of_flows)]
    if stalls == [None]:
        return "never"
    trips = run["full_rate_round_trips"][0]
    digits = 1 if trips is None or trips < 25 else 0
    return ", ".join([*map(time_of, stalls), "never" if trips is None else f"{trips:.{digits}f}"])


def upload_rows(cells, schemes, ratios):
    """A row for each outage and sender with the schemes' cells; then ratios of the bytes of two schemes."""
    rows = []
    for outage in ("0.3 s", "1 s", "7 s", "60 s"):
        for sender, name in NAMES.items():
            runs = {scheme: cells[outage, sender, scheme][0] for scheme in schemes}
            by = [f"{runs[scheme]['bytes'] / runs[other]['bytes']:.3f}" for scheme, other in ratios]
            row = [outage, name, *map(stall_and_full_rate, runs.values())]
            rows.append([*row, ", ".join(by)] if by else row)
    return rows


def mobile_auto(flows):
    """One flow with its download beside it, or several flows with their bytes divided by those of plain runs."""
    own = ["auto, carrier", "auto, silence"]
    if flows == 1:
        schemes, ratios = ["none", *own, "download, carrier", "download, silence"], []
    else:
        schemes, ratios = ["none", *own], [(scheme, "none") for scheme in own]

    def rows(lines):
        of_flows = [line for line in lines if line["parameters"]["flows"] == flows]
        of_radio = [line for line in of_flows if line["parameters"]["delay"] == "radio"]
        return upload_rows(groups(of_radio, "outage", "sender", "scheme"), schemes, ratios)

    return rows


def upload_gateway(lines):
    """The gateway alone, with and without a report of the outage, each beside plain runs."""
    ratios = [("auto, carrier", "none, carrier"), ("auto, silence", "none")]
    schemes = ["none, carrier", "none", "auto, carrier", "auto, silence"]
    rows = []
    for delay in ("radio", "wire"):
        of_delay = [line for line in lines if line["parameters"]["delay"] == delay]
        cells = groups(of_delay, "outage", "sender", "scheme")
        rows += [[delay, *row] for row in upload_rows(cells, schemes, ratios)]
    return rows


def snoop_handoff(model, linux):
    """Medians over the moves of a run; over several runs the least and the greatest median."""
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


def linux_mtcp(lines):
    cells = groups(lines, "disconnection_s", "scheme")
    return [
        [f"{length} s", f"{cells[length, 'none'][0]['optimal_s']:.1f}",
         *(tenths_of_seconds(cells[length, scheme]) for scheme in ("none", "mtcp-plus", "mtcp-2007"))]
        for length in (5, 10, 30, 180)
    ]


def snoop_long(lines):
    """Goodput, and its share of what a link with that loss can carry."""
    cells = groups(lines, "loss", "sender")

    def cell(loss, sender):
        goodput = median([run["goodput_mbps"] for run in cells[loss, sender]])
        return f"{goodput:.1f}, {100 * goodput / (20 * 1448 / 1500 * (1 - loss)):.0f} %"

    return [
        [f"{100 * loss:.0f} %", *(cell(loss, sender) for sender in ("cubic", "bbr", "reno"))]
        for loss in (0.01, 0.03, 0.1)
    ]


def auto_random_loss(lines):
    cells = groups(lines, "loss", "sender", "scheme")

    def row(loss, senders):
        texts = []
        for scheme in ("none", "hold", "snoop", "auto"):
            time = median(transfer_s(run) for sender in senders for run in cells[loss, sender, scheme])
            digits = 1 if time < 20 else 0
            texts.append("more than 120" if time == float("inf") else f"{time:.{digits}f}")
        return [f"{100 * loss:.0f} %" if loss else "0", ", ".join(NAMES[sender] for sender in senders), *texts]

    rows = [row(0.0, list(NAMES))]
    return rows + [row(loss, [sender]) for loss in (0.01, 0.03) for sender in NAMES]


# The radio of snoop-1995: a packet's header bytes, a frame's additional bytes, the payload, and the rate in Mb/s.
HEADERS, FRAME, PAYLOAD, RATE = 52, 203, 1448, 2


def snoop_today(throughput, low_errors):
    """Means, and their share of what the link can carry: half duplex, one ACK for two segments."""
    cells = groups(throughput + low_errors, "kbit_per_error", "congestion_control", "scheme")
    rows = []
    for kbit in dict.fromkeys(kbit for kbit, _, _ in cells):
        errors = cells[kbit, "cubic", "none"][0]["conditions"]["wireless.bit_error_rate"]
        packet = HEADERS + PAYLOAD + FRAME
        lost = 1 - (1 - errors) ** (8 * packet)
        most = RATE * PAYLOAD / (packet / (1 - lost) + (HEADERS + FRAME) / 2)
        row = [str(kbit), f"{100 * lost:.1f}%", f"{most:.2f}"]
        for sender in ("cubic", "reno", "bbr"):
            for scheme in ("none", "snoop-1995", "snoop-today"):
                mean = statistics.fmean(run["goodput_mbps"] for run in cells[kbit, sender, scheme])
                row.append(f"{mean:.2f} ({100 * mean / most:.0f}%)")
        rows.append(row)
    return rows


def wake(reported, silent, cases, upload):
    """Ranges over runs: time from link up to the first data, round trips to the full rate, bytes over `hold`'s."""
    with_wake = [run for run in reported if run["parameters"]["scheme"] == "wake"]
    of_case = groups(cases, "case", "scheme")
    recovery = of_case["recovery, 1 s", "wake"] + of_case["recovery, 6 s", "wake"]
    uploads = upload + of_case["upload", "wake"]
    without_sack = groups(cases, "case", "sender", "scheme")

    def stall(run):
        return never_is_long(run["stalls_s"][0])

    def stalls(runs):
        least, most = (number(find(map(stall, runs)), 2) for find in (min, max))
        return f"{least} s" if least == most else f"{least} to {most} s"

    def trips(runs):
        return sorted(never_is_long(run["full_rate_round_trips"][0]) for run in runs)

    def against_hold(lines):
        cells = groups(lines, "outage", *(["delay"] if "delay" in lines[0]["parameters"] else []), "sender", "scheme")
        least = min(
            cells[*key, "wake"][0]["bytes"] / cells[*key, "hold (gateway)"][0]["bytes"]
            for *key, scheme in cells if scheme == "wake")
        return f"{100 * least:.1f}% or more"

    def most(runs, digits):
        return f"{number(trips(runs)[-1], digits)} at most"

    without = [run for run in reported if run["parameters"]["scheme"] == "none"]
    silent_wake = [run for run in silent if run["parameters"]["scheme"] == "wake"]
    plain, own = (without_sack["no SACK", "cubic", scheme][0] for scheme in ("none", "wake"))
    own, plain = (number(stall(run), 2) for run in (own, plain))
    return [
        ["1 to 60 s, reported; Cubic, Reno, BBR", stalls(with_wake), most(with_wake, 0), against_hold(reported)],
        ["1.37 to 15.45 s, without a report", stalls(silent_wake), most(silent_wake, 1), against_hold(silent)],
        ["the same without `wake`, 1 to 60 s", stalls(without),
         f"{number(trips(without)[0], 0)} to {number(trips(without)[-1], 0)}", ""],
        ["7 s, amid a loss recovery", stalls(recovery), most(recovery, 0), ""],
        ["7 s, an upload in the same flow", stalls(uploads), slow_ones_apart(uploads), ""],
        ["7 s, no SACK, Cubic", f"{own}, as without `wake`" if own == plain else f"{own}, without {plain}", "", ""],
    ]


def never_is_long(value):
    return float("inf") if value is None else value


def number(value, digits):
    return "never" if value == float("inf") else f"{value:.{digits}f}"


def slow_ones_apart(runs):
    """Round trips to the full rate: their range, and by sender those above twenty."""
    trips = sorted((never_is_long(run["full_rate_round_trips"][0]), run["parameters"]["sender"]) for run in runs)
    usual = [count for count, _ in trips if count <= 20]
    text = f"{usual[0]:.0f} to {usual[-1]:.0f}"
    for sender, name in NAMES.items():
        slow = [number(count, 0) for count, of in trips if count > 20 and of == sender]
        if slow:
            text += f", {name} {' and '.join(slow)}"
    return text


def longest_uploads(lines):
    """The longest time of all runs, for any handoff: a median hides it."""
    times = {remedy: max(map(transfer_s, runs)) for (remedy,), runs in groups(lines, "remedy").items()}
    names = {"end-to-end SACK": "end-to-end SACK", "auto": "`auto`", "BBR": "BBR", "auto, BBR": "`auto`, BBR"}
    return [[name, f"{times[remedy]:.0f}"] for remedy, name in names.items()]


def mtcp_outages(lines):
    """`mtcp` beside `hold`: the difference of the medians of their times."""
    cells = groups(lines, "scheme", "outage_s", "sender")
    times = {key: median(map(transfer_s, runs)) for key, runs in cells.items()}

    def longer_s(scheme, lengths, senders=SENDERS):
        return [times[scheme, length, sender] - times["hold", length, sender] for length in lengths for sender in senders]

    def longer_percent(scheme, lengths):
        hold = [times["hold", length, sender] for length in lengths for sender in SENDERS]
        return [100 * more / time for more, time in zip(longer_s(scheme, lengths), hold, strict=True)]

    outages = (1, 3, 15, 60)
    published = longer_s("published", outages)
    bbr = longer_s("today", (15, 60), ["bbr"])
    return [
        ["`today`", f"{max(longer_percent('today', [0])):.1f}", f"{max(longer_percent('today', outages)):.1f}", "",
         span([-more for more in bbr], 1)],
        ["`published`", f"{max(longer_percent('published', [0])):.0f}", "", span(published, 1), ""],
    ]


def mtcp_two_mobiles(lines):
    """With Cubic: the rate of the mobile with one connection, and the queue. A packet takes 0.6 ms."""
    cells = groups(lines, "sender", "gateway")

    def row(gateway, name):
        runs = cells["cubic", gateway]
        queue = [statistics.median(run["series"]["queue_packets"]) * 0.6 for run in runs]
        return [name, f"{median([run['flow_goodputs_mbps'][0] for run in runs]):.1f}", f"{median(queue):.0f}"]

    return [row("hold", "`hold`"), row("cell", '`cells = ["* 18700"]`')]


def freeze_outage(lines):
    """Medians of the stall and of the bytes received."""
    cells = groups(lines, "sender", "scheme")

    def cell(runs):
        megabytes = statistics.median(run["bytes"] for run in runs) / 1e6
        return f"{seconds(run['stalls_s'][0] for run in runs)}, {megabytes:.1f} MB"

    return [
        [NAMES[sender], *(cell(cells[sender, scheme]) for scheme in ("none", "fast-retransmit", "2000", "today"))]
        for sender in SENDERS
    ]


def is_frozen(run):
    """The mobile has closed a window."""
    return (run.get("mobile") or {}).get("frozen", 0) > 0


def freeze_today(lines):
    """Times of runs with a closed window, compared with the same cell's without a scheme."""
    cells = groups(lines, "outage", "sender", "rtt_ms", "queue_packets", "warning_ms")
    more = [
        100 * (run["transfer_s"] / cells[*cell, "none"][0]["transfer_s"] - 1)
        for (*cell, _), runs in cells.items() for run in runs if is_frozen(run)
    ]
    return [
        ["runs with a closed window", str(len(more))],
        ["% more time, at most", f"{max(more):.1f}"],
        ["% less time, median", f"{-statistics.median(more):.0f}"],
    ]


# A probe of a closed window may pass while no data come.
PAUSE_BYTES_MAX = 6 * 1448


def pause_s(run):
    """The longest time in which the receiver gets no more than six segments, after the first second."""
    times, numbers = run["series"]["t_s"], run["series"]["rcv_nxt"]
    longest, begin = 0, next(index for index, time in enumerate(times) if time > 1)
    last = numbers.index(max(numbers))
    for end in range(begin, last):
        while numbers[end] - numbers[begin] > PAUSE_BYTES_MAX:
            begin += 1
        longest = max(longest, times[end] - times[begin])
    return longest


def freeze_false_alarm(lines):
    """The least and the largest pause, and how much longer the transfer takes, of runs with a closed window."""
    cells = groups(lines, "sender", "rtt_ms", "policy")

    def spans(label, round_trips):
        row = [label]
        for policies in (("today, 500 ms", "today, 1500 ms"), ("2000, 500 ms",)):
            runs = [
                (run, run["transfer_s"] - cells[sender, rtt, "none"][0]["transfer_s"])
                for (sender, rtt, policy), found in cells.items() if rtt in round_trips and policy in policies
                for run in found if is_frozen(run)
            ]
            row += [span([pause_s(run) for run, _ in runs], 2), span([longer for _, longer in runs], 2)]
        return row

    return [spans("20 to 250 ms", ("20", "100", "250")), spans("400 ms", ("400",))]
