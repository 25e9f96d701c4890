# SPDX-License-Identifier: Apache-2.0
"""The tables of the pages that `make paper` makes: for each its stages, and its rows from the stages' results.

A row is a list of cells as the page prints them. The first cells of a row, its labels, name it.
"""
import paper_linux as linux
import paper_model as model
import paper_prose as prose
from paper_runs import megabits, median, tenths_of_seconds

PAPERS = ["lc-cwe-2005", "snoop-1995", "mtcp-1997", "mtcp-plus-2007", "freeze-tcp-2000"]

# The table, its stages, its rows from the results of these stages in this order.
TABLES = {
    **{f"claims-{paper}": ([f"claims-{paper}"], model.claims) for paper in PAPERS},
    "claims-mtcp-1997": (["claims-mtcp-1997"], model.claims_mtcp),
    # In no page: text repeats their figures.
    **{f"verdicts-{paper}": ([f"claims-{paper}"], model.verdicts(paper)) for paper in PAPERS},
    "mtcp-queue-lost": (["mtcp-queue-lost"], prose.mtcp_queue_lost),
    "mtcp-deviation": (["mtcp-deviation"], prose.mtcp_deviation),
    "mtcp-plus-seventh": (["mtcp-plus-seventh"], prose.mtcp_plus_seventh),
    "mtcp-plus-timers": (["mtcp-plus-timers"], prose.mtcp_plus_timers),
    "mtcp-plus-supervisor": (["mtcp-plus-supervisor"], prose.mtcp_plus_supervisor),
    "freeze-III-short": (["freeze-III-short"], prose.freeze_short),
    "freeze-apart": (["freeze-III", "freeze-V", "freeze-VI"], prose.freeze_apart),
    "freeze-timers": (["freeze-timers"], prose.freeze_timers),
    "freeze-senders": (["freeze-senders"], prose.freeze_senders),
    "freeze-taken-times": (["freeze-taken"], prose.freeze_taken_times),
    "freeze-modem": (["freeze-modem"], prose.freeze_modem),
    "freeze-modem-orders": (["freeze-modem"], prose.freeze_modem_orders),
    "mtcp-longest": (["mtcp-disconnections"], prose.mtcp_longest),
    "mtcp-other-assumptions": (["mtcp-other-assumptions"], prose.mtcp_other_assumptions),
    "mtcp-long": (["mtcp-long", "mtcp-long-undisturbed"], prose.mtcp_long),
    "mtcp-undisturbed": (["mtcp-undisturbed"], prose.mtcp_undisturbed),
    "mtcp-undisturbed-200": (["mtcp-undisturbed-200"], prose.mtcp_undisturbed_200),
    "mtcp-buffers": (["mtcp-buffers"], prose.mtcp_buffers),
    "mtcp-four-segments": (["mtcp-four-segments"], prose.mtcp_four_segments),
    "mtcp-table-1-slow": (["mtcp-table-1-slow"], prose.mtcp_table_1_slow),
    "mtcp-today-costs": (["mtcp-today"], prose.mtcp_today_costs),
    "mobile-auto-model": (["mobile-auto-model"], prose.mobile_auto_model),
    "baselines-restart": (["baselines-restart"], prose.baselines_restart),
    "baselines-snoop-senders": (["baselines-snoop-senders"], model.baselines("kbit_per_error", megabits)),
    "baselines-mtcp-senders": (["baselines-mtcp-senders"], model.baselines("disconnection_s", model.whole_seconds)),
    "baselines-freeze-senders": (
        ["baselines-freeze", "baselines-freeze-senders"], prose.baselines_freeze_senders),
    "snoop-one-queue": (["snoop-queues", "snoop-today"], prose.snoop_one_queue),
    "snoop-today-percent": (["snoop-today", "snoop-today-low-errors"], prose.snoop_today_percent),
    "snoop-today-ratios": (["snoop-today", "snoop-today-low-errors"], prose.snoop_today_ratios),
    "snoop-today-half-lost": (["snoop-today-half-lost"], prose.snoop_today_half_lost),
    "snoop-today-sequence": (["snoop-today-sequence"], prose.snoop_today_sequence),
    "demo": (["demo"], linux.demo),
    "packet-cost": (["packet-cost"], linux.packet_cost),
    "observe": (["observe"], linux.observe),
    "upload-designs": (["upload-designs"], linux.upload_designs),
    "outages": (["outages"], linux.outages),
    "outages-uploads": (["outages-uploads"], linux.outages_uploads),
    "snoop": (["snoop"], linux.snoop),
    "snoop-cell": (["snoop-cell"], linux.snoop_cell),
    "snoop-uplink": (["snoop-uplink"], linux.snoop_uplink),
    "keep-outages": (["keep-outages"], linux.keep_outages),
    "keep-upload": (["keep-upload"], linux.keep_upload),
    "upload-gateway": (["upload-gateway"], linux.upload_gateway),
    "mobile-auto-one": (["mobile-auto"], linux.mobile_auto(1)),
    "mobile-auto-fifty": (["mobile-auto"], linux.mobile_auto(50)),
    "mtcp-today-disconnections": (["mtcp-today-disconnections"], linux.mtcp_today_disconnections),
    "mtcp-today": (["mtcp-today"], linux.mtcp_today),
    "mtcp-plus-today": (
        ["mtcp-plus-today", "mtcp-plus-today-undisturbed", "mtcp-plus-today-congestion"], linux.mtcp_plus_today),
    "senders-no-sack": (["senders-model", "senders"], linux.senders("no-sack")),
    "senders-sack": (["senders-model", "senders"], linux.senders("sack")),
    "senders-no-sack-plain": (["senders-model", "senders"], linux.senders("no-sack plain")),
    "senders-sack-plain": (["senders-model", "senders"], linux.senders("sack plain")),
    "senders-cubic": (["senders-model", "senders"], linux.senders("cubic")),
    "senders-bbr": (["senders-model", "senders"], linux.senders("bbr")),
    "lc-cwe": (["lc-cwe"], model.lc_cwe),
    "mtcp-disconnections": (["mtcp-disconnections"], model.mtcp_disconnections),
    "mtcp-table-1": (["mtcp-table-1"], model.mtcp_table_1),
    "mtcp-variants": (["mtcp-variants"], model.mtcp_variants),
    "split-idle": (["split-idle"], model.split_idle),
    "mtcp-statements": (["claims-mtcp-1997"], model.mtcp_statements),
    "freeze-II": (["freeze-II"], model.freeze("table-II")),
    "freeze-III": (["freeze-III"], model.freeze("table-III")),
    "freeze-IV": (["freeze-IV"], model.freeze("table-IV")),
    "freeze-V": (["freeze-V"], model.freeze("table-V")),
    "freeze-VI": (["freeze-VI"], model.freeze("table-VI")),
    "freeze-taken": (["freeze-taken"], model.freeze_taken),
    "freeze-statements": (["claims-freeze-tcp-2000"], model.freeze_statements),
    "freeze-causes": (["claims-freeze-tcp-2000"], model.freeze_causes),
    "snoop-cache": (["snoop-cache"], model.snoop_cache),
    "snoop-assumptions": (["snoop-assumptions"], model.snoop_assumptions),
    "snoop-handoff": (["snoop-handoff-model", "snoop-handoff"], linux.snoop_handoff),
    "baselines-bit-errors": (["baselines-snoop"], model.baselines("kbit_per_error", megabits)),
    "baselines-disconnections": (["baselines-mtcp"], model.baselines(
        "disconnection_s", model.whole_seconds,
        {"hold": "`hold`, no signals", "auto": "`auto`, no signals", "EBSN": "EBSN, the link loses"}, model.bound_s)),
    "baselines-freeze": (["baselines-freeze"], model.baselines(
        "disconnect_s", tenths_of_seconds, {"M-TCP": "M-TCP of today"})),
    "baselines-mtcp-plus": (["baselines-mtcp-plus"], model.baselines(
        "disconnection_s", model.tenths_or_unfinished, {"M-TCP of the slides": "`mtcp-2007`", "M-TCP+": "`mtcp-plus`"})),
    "baselines-lc-cwe": (["baselines-lc-cwe"], model.baselines("handoff_s", model.whole_seconds)),
    "baselines-encrypted": (["baselines-snoop-encrypted", "baselines-mtcp-encrypted"], model.encrypted),
    "handoff-state": (["snoop-handoff-model", "mtcp-handoff", "handoff-state"], model.handoff_state),
    "baselines-haproxy": (["baselines-haproxy"], linux.baselines_haproxy),
    "baselines-haproxy-mtcp": (["baselines-haproxy-mtcp"], model.baselines(
        "disconnection_s", model.whole_seconds, bound=model.bound_s)),
    "baselines-haproxy-mtcp-plus": (["baselines-haproxy-mtcp-plus"], model.baselines(
        "disconnection_s", model.tenths_or_unfinished, {"M-TCP+": "`mtcp-plus`"})),
    "baselines-haproxy-freeze": (["baselines-haproxy-freeze"], model.baselines("disconnect_s", tenths_of_seconds)),
    "slow": (["slow"], model.slow(
        {"reno43bsd": "without SACK", "sack": "with SACK"}, ("16", "32", "64", "128", "256"))),
    "very-slow": (["very-slow"], model.slow(
        {"reno43bsd": "without SACK", "sack": "with SACK", "linux-cubic": "Cubic of Linux"},
        ("2.4", "4.8", "9.6", "16"))),
    "upload-senders": (["upload-senders"], model.upload_senders),
    "mtcp-plus-linux-mtcp": (["mtcp-plus-linux-mtcp"], linux.linux_mtcp),
    "mtcp-plus-hypotheses": (["mtcp-plus-window"], model.mtcp_plus_hypotheses),
    "mtcp-plus-warning": (["mtcp-plus-supervisor", "mtcp-plus-supervisor-newreno"], model.mtcp_plus_warning),
    "lc-cwe-hit-ratio": (["lc-cwe-hit-ratio", "lc-cwe-hit-ratio-changes"], model.lc_cwe_hit_ratio),
    "lc-cwe-windows": (["lc-cwe-windows"], model.lc_cwe_windows),
    "snoop-long": (["snoop-long"], linux.snoop_long),
    "snoop-today": (["snoop-today", "snoop-today-low-errors"], linux.snoop_today),
    "auto-random-loss": (["auto-random-loss"], linux.auto_random_loss),
    "wake": (["wake", "wake-silent", "wake-cases", "wake-upload"], linux.wake),
    "recordings": (["recordings-core"], linux.recordings_shares(["none", "auto"], counts_cells=False)),
    "recordings-gaps": (["recordings-core"], linux.recordings_gaps),
    "recordings-uploads": (["recordings-uploads"], linux.recordings_shares(["none", "keep", "auto"], counts_cells=True)),
}
