# SPDX-License-Identifier: Apache-2.0
"""The stages of `make paper`: the commands that make results."""


class Stage:
    """A stage has parts: each is a command with one file of results. `seconds`: its time on two idle processors.

    `needs`: a substrate, valgrind, recordings on Linux, `statistics` of recordings alone, or the `wall clock`.

    `uses`: the stages whose results each command gets, if the folder has them.
    """

    def __init__(self, seconds, needs, *commands, uses=()):
        self.seconds, self.needs, self.commands, self.uses = seconds, needs, commands, uses


def lab_run(seconds, scenario, substrate, parts=1):
    """A stage for one or several scenarios. It has several parts, so that an interruption loses little."""
    command = ["{holdfast}", "lab", "run", *scenario.split(), "--substrate", substrate, "--out", "{file}"]
    shards = [["--shard", f"{part}/{parts}"] for part in range(1, parts + 1)] if parts > 1 else [[]]
    return Stage(seconds, substrate, *(command + shard for shard in shards))


SENDERS, SENDERS_CAUSES = "docs/scenarios/senders.toml", "docs/scenarios/senders-causes.toml"
# Half of the processor seconds that the claims took. Pictures need the same runs.
CLAIMS_S = {"lc-cwe-2005": 38, "snoop-1995": 6, "mtcp-1997": 110, "mtcp-plus-2007": 43, "freeze-tcp-2000": 20}
# Scenarios of M-TCP whose opener's half is set up first, and those with the other order that no other stage has.
OPENER_FIRST = " ".join(f"papers/mtcp-1997/early-{name}.toml" for name in (
    "buffers", "compression", "disconnections", "handoff", "idle", "long", "table-1", "undisturbed", "variants"))
LOCK_STEP = " ".join(f"papers/mtcp-1997/{name}.toml" for name in (
    "two-segments-buffers", "two-segments-undisturbed", "compression", "idle"))
HANDOFFS = "papers/snoop-1995/handoff-2.toml papers/snoop-1995/handoff-4.toml"
STAGES = {
    **{
        f"claims-{paper}": Stage(seconds, "model", ["{holdfast}", "lab", "claims", "--paper", paper, "--json"])
        for paper, seconds in CLAIMS_S.items()
    },
    "lc-cwe": lab_run(5, "papers/lc-cwe-2005/throughput.toml", "model"),
    "lc-cwe-hit-ratio": lab_run(5, "papers/lc-cwe-2005/hit-ratio.toml", "model"),
    "lc-cwe-hit-ratio-changes": lab_run(20, "papers/lc-cwe-2005/hit-ratio-changes.toml", "model"),
    "lc-cwe-windows": lab_run(10, "papers/lc-cwe-2005/larger-windows.toml", "model"),
    "freeze-II": lab_run(5, "papers/freeze-tcp-2000/ethernet-near.toml", "model"),
    "freeze-III": lab_run(5, "papers/freeze-tcp-2000/ethernet-far.toml", "model"),
    "freeze-IV": lab_run(5, "papers/freeze-tcp-2000/fast-ethernet.toml", "model"),
    "freeze-V": lab_run(5, "papers/freeze-tcp-2000/modem-near.toml", "model"),
    "freeze-VI": lab_run(5, "papers/freeze-tcp-2000/modem-far.toml", "model"),
    "freeze-III-short": lab_run(5, "papers/freeze-tcp-2000/table-3-short.toml", "model"),
    "freeze-taken": lab_run(5, "papers/freeze-tcp-2000/table-2-taken.toml", "model"),
    "freeze-senders": lab_run(5, "papers/freeze-tcp-2000/senders.toml", "model"),
    "freeze-timers": lab_run(5, "papers/freeze-tcp-2000/table-4-timers.toml", "model"),
    "freeze-warning-near": lab_run(5, "papers/freeze-tcp-2000/warning-near.toml", "model"),
    "freeze-modem": lab_run(5, "docs/scenarios/freeze-modem.toml", "model"),
    "mtcp-disconnections": lab_run(5, "papers/mtcp-1997/disconnections.toml", "model"),
    "mtcp-two-segments": lab_run(5, "papers/mtcp-1997/two-segments-disconnections.toml", "model"),
    "mtcp-queue-lost": lab_run(5, "papers/mtcp-1997/queue-lost.toml", "model"),
    "mtcp-deviation": lab_run(5, "papers/mtcp-1997/deviation.toml", "model"),
    "mtcp-table-1": lab_run(5, "papers/mtcp-1997/table-1.toml", "model"),
    "mtcp-variants": lab_run(5, "papers/mtcp-1997/variants.toml", "model"),
    "mtcp-other-assumptions": lab_run(5, "papers/mtcp-1997/other-assumptions.toml", "model"),
    "mtcp-long": lab_run(15, "papers/mtcp-1997/long.toml", "model"),
    "mtcp-long-undisturbed": lab_run(10, "papers/mtcp-1997/long-undisturbed.toml", "model"),
    "mtcp-undisturbed": lab_run(5, "papers/mtcp-1997/undisturbed.toml", "model"),
    "mtcp-undisturbed-200": lab_run(10, "papers/mtcp-1997/undisturbed-200.toml", "model"),
    "mtcp-buffers": lab_run(10, "papers/mtcp-1997/buffers.toml", "model"),
    "mtcp-four-segments": lab_run(5, "papers/mtcp-1997/fh-four-segments.toml", "model"),
    "mtcp-table-1-slow": lab_run(5, "papers/mtcp-1997/table-1-slow.toml", "model"),
    "mtcp-plus-supervisor": lab_run(20, "papers/mtcp-plus-2007/supervisor.toml", "model"),
    "mtcp-plus-seventh": lab_run(5, "papers/mtcp-plus-2007/seventh.toml", "model"),
    "mtcp-plus-timers": lab_run(5, "papers/mtcp-plus-2007/timers.toml", "model"),
    "mtcp-plus-window": lab_run(5, "papers/mtcp-plus-2007/window.toml", "model"),
    "mtcp-plus-supervisor-newreno": lab_run(5, "papers/mtcp-plus-2007/supervisor-newreno.toml", "model"),
    "baselines-snoop": lab_run(5, "papers/snoop-1995/baselines.toml", "model"),
    "baselines-mtcp": lab_run(5, "papers/mtcp-1997/baselines.toml", "model"),
    "baselines-freeze": lab_run(5, "papers/freeze-tcp-2000/baselines.toml", "model"),
    "baselines-mtcp-plus": lab_run(5, "papers/mtcp-plus-2007/baselines.toml", "model"),
    "baselines-lc-cwe": lab_run(5, "papers/lc-cwe-2005/baselines.toml", "model"),
    "baselines-restart": lab_run(5, "papers/snoop-1995/baselines-restart.toml", "model"),
    "baselines-snoop-senders": lab_run(5, "papers/snoop-1995/baselines-senders.toml", "model"),
    "baselines-mtcp-senders": lab_run(5, "papers/mtcp-1997/baselines-senders.toml", "model"),
    "baselines-freeze-senders": lab_run(5, "papers/freeze-tcp-2000/baselines-senders.toml", "model"),
    "baselines-snoop-encrypted": lab_run(5, "papers/snoop-1995/baselines-encrypted.toml", "model"),
    "baselines-mtcp-encrypted": lab_run(5, "papers/mtcp-1997/baselines-encrypted.toml", "model"),
    "handoff-state": lab_run(5, "papers/snoop-1995/handoff-state.toml", "model"),
    "freeze-table-1": lab_run(15, "papers/freeze-tcp-2000/table-1-others.toml", "model"),
    "split-idle": lab_run(5, "papers/mtcp-1997/split-idle.toml", "model"),
    "header-compression": lab_run(5, "papers/mtcp-1997/header-compression.toml", "model"),
    "mtcp-handoff": lab_run(5, "papers/mtcp-1997/handoff.toml", "model"),
    "mtcp-opener-first": lab_run(35, OPENER_FIRST, "model"),
    "mtcp-lock-step": lab_run(25, LOCK_STEP, "model"),
    "slow": lab_run(5, "docs/scenarios/slow.toml", "model"),
    "upload-senders": lab_run(40, "docs/scenarios/upload-senders.toml", "model"),
    "upload-losses": lab_run(15, "docs/scenarios/upload-losses.toml", "model"),
    "very-slow": lab_run(5, "docs/scenarios/very-slow.toml", "model"),
    "snoop-cache": lab_run(5, "papers/snoop-1995/cache.toml", "model"),
    "snoop-queues": lab_run(5, "papers/snoop-1995/queues.toml", "model"),
    "snoop-ahead": lab_run(5, "papers/snoop-1995/ahead-throughput.toml", "model"),
    "snoop-assumptions": lab_run(
        10, "papers/snoop-1995/assumptions.toml papers/snoop-1995/assumptions-segments.toml", "model"),
    "snoop-handoff-model": lab_run(5, HANDOFFS, "model"),
    "senders-model": lab_run(10, SENDERS, "model"),
    "senders-causes-model": lab_run(5, SENDERS_CAUSES, "model"),
    "mobile-auto-model": lab_run(10, "docs/scenarios/mobile-auto-model.toml", "model"),
    "demo": Stage(170, "linux", *(
        ["{holdfast}", "lab", "exec", "--", "{holdfast}", "demo", "--seed", str(seed)] for seed in range(1, 6))),
    "observe": Stage(10, "linux", *(
        ["{holdfast}", "lab", "exec", "--env", "HOLDFAST={holdfast}", "--", "{root}/scripts/observe.sh", source]
        for source in ("carrier", "silence"))),
    "upload-designs": Stage(90, "linux", *(
        ["{holdfast}", "lab", "exec", "--env", "HOLDFAST={holdfast}", "--",
         "{root}/scripts/upload_designs.py", design, control, outage_s]
        for design in ("plain", "drop", "rto-max", "keep", "auto")
        for control in ("cubic", "bbr", "reno") for outage_s in ("1", "7"))),
    "outages": lab_run(250, "docs/scenarios/outages.toml", "linux", 20),
    "outages-uploads": lab_run(75, "docs/scenarios/outages-uploads.toml", "linux", 4),
    "snoop-handoff": lab_run(45, HANDOFFS, "linux"),
    "senders": lab_run(110, SENDERS, "linux", 5),
    "senders-causes": lab_run(55, SENDERS_CAUSES, "linux"),
    "baselines-linux-snoop": lab_run(65, "papers/snoop-1995/baselines-linux.toml", "linux"),
    "baselines-linux-mtcp": lab_run(50, "papers/mtcp-1997/baselines-linux.toml", "linux"),
    "baselines-linux-mtcp-plus": lab_run(235, "papers/mtcp-plus-2007/baselines-linux.toml", "linux", 4),
    "baselines-linux-freeze": lab_run(80, "papers/freeze-tcp-2000/baselines-linux.toml", "linux", 2),
    "baselines-linux-lc-cwe": lab_run(215, "papers/lc-cwe-2005/baselines-linux.toml", "linux", 8),
    "mtcp-plus-linux-mtcp": lab_run(25, "papers/mtcp-plus-2007/linux-mtcp.toml", "linux"),
    "snoop": lab_run(180, "docs/scenarios/snoop.toml", "linux", 10),
    "snoop-cell": lab_run(245, "docs/scenarios/snoop-cell.toml", "linux", 6),
    "snoop-uplink": lab_run(260, "docs/scenarios/snoop-uplink.toml", "linux", 15),
    "snoop-long": lab_run(85, "docs/scenarios/snoop-long.toml", "linux", 3),
    "snoop-today": lab_run(205, "papers/snoop-1995/today-throughput.toml", "linux", 10),
    "snoop-today-low-errors": lab_run(65, "papers/snoop-1995/today-low-errors.toml", "linux", 4),
    "snoop-today-half-lost": lab_run(55, "papers/snoop-1995/today-half-lost.toml", "linux", 4),
    "snoop-today-sequence": lab_run(10, "papers/snoop-1995/today-sequence.toml", "linux"),
    "auto-random-loss": lab_run(190, "docs/scenarios/auto-random-loss.toml", "linux", 4),
    "wake": lab_run(485, "docs/scenarios/wake.toml", "linux", 10),
    "wake-silent": lab_run(75, "docs/scenarios/wake-silent.toml", "linux", 3),
    "wake-cases": lab_run(45, "docs/scenarios/wake-cases.toml", "linux", 2),
    "wake-upload": lab_run(40, "docs/scenarios/wake-upload.toml", "linux"),
    "keep-outages": lab_run(245, "docs/scenarios/keep-outages.toml", "linux", 4),
    "keep-upload": lab_run(60, "docs/scenarios/keep-upload.toml", "linux", 2),
    "upload-gateway": lab_run(105, "docs/scenarios/upload-gateway.toml", "linux", 3),
    "mobile-auto": lab_run(570, "docs/scenarios/mobile-auto.toml", "linux", 8),
    "freeze-today": lab_run(420, "docs/scenarios/freeze-today.toml", "linux", 12),
    "freeze-outage": lab_run(45, "docs/scenarios/freeze-outage.toml", "linux"),
    "freeze-false-alarm": lab_run(40, "docs/scenarios/freeze-false-alarm.toml", "linux"),
    "mtcp-today": lab_run(35, "papers/mtcp-1997/today.toml", "linux"),
    "mtcp-today-disconnections": lab_run(65, "papers/mtcp-1997/today-disconnections.toml", "linux", 3),
    "mtcp-outages": lab_run(70, "docs/scenarios/mtcp.toml", "linux", 2),
    "mtcp-cell": lab_run(60, "docs/scenarios/mtcp-cell.toml", "linux"),
    "mtcp-plus-today": lab_run(215, "papers/mtcp-plus-2007/today.toml", "linux", 6),
    "mtcp-plus-today-undisturbed": lab_run(55, "papers/mtcp-plus-2007/today-undisturbed.toml", "linux", 2),
    "mtcp-plus-today-congestion": lab_run(55, "papers/mtcp-plus-2007/today-congestion.toml", "linux", 2),
    # These stages need all processors.
    "packet-cost": Stage(50, "valgrind", [
        "cargo", "bench", "--locked", "--quiet", "--package", "holdfast-core", "--bench", "packet_cost"]),
    "link-distances": Stage(10, "statistics", ["{root}/docs/recordings/link_statistics.py", "distances"]),
    "demo-live": Stage(90, "wall clock", ["{holdfast}", "demo"]),
    "throughput": Stage(180, "wall clock", [
        "cargo", "bench", "--locked", "--quiet", "--package", "holdfast", "--bench", "cost", "--", "--scheme", "hold",
        "--pairs", "20", "--each-ms", "400"]),
    "lc-cwe-senders": Stage(440, "wall clock", [
        "{holdfast}", "lab", "run", "docs/scenarios/lc-cwe-senders.toml", "--substrate", "live", "--out", "{file}"]),
    "lab-speed": Stage(60, "wall clock", ["{root}/scripts/lab_speed.py"]),
    "link-exactness": Stage(90, "wall clock", [
        "cargo", "bench", "--locked", "--quiet", "--package", "holdfast", "--bench", "link", "--", "--json", "{file}"]),
    "uplink-cost": Stage(90, "wall clock", [
        "cargo", "bench", "--locked", "--quiet", "--package", "holdfast", "--bench", "uplink", "--", "--pairs", "9"]),
    "compression": Stage(60, "wall clock", [
        "cargo", "bench", "--locked", "--quiet", "--package", "holdfast-core", "--bench", "compression"]),
    "simulator-speed": Stage(60, "wall clock", [
        "cargo", "bench", "--locked", "--quiet", "--package", "holdfast-sim", "--bench", "speed"]),
    **{
        name: Stage(seconds, "recordings", ["{root}/docs/recordings/bench.py", name.removeprefix("recordings-")])
        for name, seconds in (("recordings-core", 1850), ("recordings-uploads", 330))
    },
}


def beside(paper):
    """The stages with the paper's baselines and with today's senders: they make parts of its page."""
    kinds = tuple(f"papers/{paper}/{kind}" for kind in ("baselines", "today"))
    return [name for name, stage in STAGES.items() if any(word.startswith(kinds) for word in stage.commands[0])]


STAGES |= {
    f"pictures-{paper}": Stage(seconds + 5, "model", [
        "{holdfast}", "lab", "report", "--paper", paper, "--out", "{folder}"], uses=beside(paper))
    for paper, seconds in CLAIMS_S.items()
}
