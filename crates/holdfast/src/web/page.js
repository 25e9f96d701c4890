// SPDX-License-Identifier: Apache-2.0
// The live page: gets the status each second and draws it. It changes nothing. Each text of a status
// becomes a text node, never HTML.
"use strict";

const PERIOD_MS = 1000;
/** The time that charts and timelines show, in seconds. */
const SPAN_S = 300;

// --- Elements

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function html(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

/** Shows `content` in the section `id`, which is made once: what has the focus stays. */
function put(id, title, ...content) {
  let section = document.getElementById(id);
  if (!section) {
    const attributes = { id, "aria-labelledby": `${id}-title` };
    const heading = { id: `${id}-title` };
    section = id === "counters"
      ? html("details", { id }, html("summary", {}, title), html("div"))
      : html("section", attributes, html("h2", heading, title), html("div"));
    document.getElementById("main").append(section);
  }
  section.lastElementChild.replaceChildren(...content);
}

/** A table. A column is its title, its class, and what makes the cell of a row. */
function table(caption, columns, rows) {
  const head = columns.map(([title, kind]) =>
    html("th", { role: "columnheader", scope: "col", class: kind }, title));
  const cells = (row) => columns.map(([title, kind, cell]) =>
    html("td", { role: "cell", class: kind, "data-title": title }, cell(row)));
  return html("table", { role: "table" },
    html("caption", {}, caption),
    html("thead", { role: "rowgroup" }, html("tr", { role: "row" }, ...head)),
    html("tbody", { role: "rowgroup" }, ...rows.map((row) => html("tr", { role: "row" }, ...cells(row)))));
}

/** Facts with their names: `[name, value, remark or element]`. */
function tiles(facts) {
  return html("dl", { class: "tiles" }, ...facts.map(([name, value, remark]) =>
    html("div", {}, html("dt", {}, name),
      html("dd", {}, value, ...(remark ? [html("small", {}, remark)] : [])))));
}

// --- Numbers

/** The unit stays on the line of the number. */
const withUnit = (number, unit) => `${number}\u00a0${unit}`;

function scaled(value, base, units) {
  let unit = 0;
  for (; value >= base && unit < units.length - 1; unit += 1) value /= base;
  return withUnit(unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1), units[unit]);
}

const bits = (perSecond) => perSecond === null ? "-" : scaled(perSecond, 1000, ["b/s", "kb/s", "Mb/s", "Gb/s"]);
const megabytes = (count) => withUnit((count / 1e6).toFixed(1), "MB");
const bytes = (count) => scaled(count, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);

function seconds(s) {
  if (s === null || s === undefined) return "never";
  if (s < 1) return withUnit(Math.round(s * 1000), "ms");
  if (s < 120) return withUnit(s.toFixed(1), "s");
  return s < 7200 ? withUnit(Math.round(s / 60), "min") : withUnit((s / 3600).toFixed(1), "h");
}

const clock = (ms) => new Date(ms).toLocaleTimeString("en-GB");

/** Bits a second between two counts of bytes; null where there are not two. */
function rate(now, before, elapsedS) {
  return elapsedS > 0 && now >= before ? (now - before) * 8 / elapsedS : null;
}

// --- Charts

const WIDTH = 1000;

/** Bands of outages within `from` to `to`: `{kind, beginS, endS, text}`. */
function bands(outages, from, to, height) {
  const x = (s) => (Math.min(Math.max(s, from), to) - from) / (to - from) * WIDTH;
  return outages.filter((outage) => outage.endS > from && outage.beginS < to).map((outage) =>
    svg("rect", {
      class: outage.kind, x: x(outage.beginS), y: 0, height,
      width: Math.max(x(outage.endS) - x(outage.beginS), 2),
    }, svg("title", {}, outage.text)));
}

function picture(kind, label, height, ...children) {
  return svg("svg", {
    class: kind, role: "img", "aria-label": label,
    viewBox: `0 0 ${WIDTH} ${height}`, preserveAspectRatio: "none",
  }, ...children);
}

/** A link's timeline: a line while it is up, a band for each outage. */
function timeline(name, outages, from, to) {
  const seen = outages.filter((outage) => outage.kind !== "unknown" && outage.endS > from);
  const label = `${name}: ${seen.length} outages in the last ${SPAN_S / 60} minutes`;
  const line = svg("rect", { class: "up", x: 0, y: 8, width: WIDTH, height: 4 });
  return picture("band", label, 20, line, ...bands(outages, from, to, 20));
}

/** The largest rate from then on, of `[[s, rate], ...]`. */
const largest = (points, from) =>
  points.reduce((most, point) => point[0] >= from ? Math.max(most, point[1]) : most, 1000);

/** A chart of rates up to `most`, in bits a second: `lines` are `[class, name, [[s, rate], ...]]`. */
function rateChart(title, lines, outages, [from, to], most) {
  const at = ([s, value]) =>
    `${((s - from) / (to - from) * WIDTH).toFixed(1)} ${(100 - value / most * 96).toFixed(1)}`;
  const paths = lines.map(([kind, , all]) => {
    const shown = all.filter((point) => point[0] >= from).map(at);
    const attributes = { class: kind, "vector-effect": "non-scaling-stroke" };
    return svg("path", { ...attributes, d: shown.length ? `M${shown.join("L")}` : "" });
  });
  const keys = lines.map(([kind, name]) => html("span", { class: `key ${kind}` }, name));
  return html("figure", {},
    picture("plot", `${title}, at most ${bits(most)}`, 100, ...bands(outages, from, to, 100), ...paths),
    html("figcaption", {}, html("span", {}, `top: ${bits(most)}`), ...keys,
      html("span", {}, `${from === 0 ? "" : "the last "}${seconds(to - from)}`)));
}

/** The path of a segment. On a narrow screen from top to bottom. */
function pathOf(nodes, edges) {
  const isTall = window.innerWidth <= 700;
  const [width, height] = [isTall ? 340 : 190, 74];
  const step = isTall ? height + 62 : 325;
  const corner = (i) => isTall ? [0, i * step] : [i * step, 14];
  const text = (x, y, kind, content) => svg("text", { x, y, class: kind }, content);
  const boxes = nodes.flatMap(([name, ...lines], i) => {
    const [x, y] = corner(i);
    return [
      svg("rect", { x: x + 1, y: y + 1, width: width - 2, height: height - 2, rx: 8 }),
      text(x + width / 2, y + 24, "name", name),
      ...lines.map((line, row) => text(x + width / 2, y + 44 + row * 18, "faint", line)),
    ];
  });
  const links = edges.flatMap(([kind, above, below], i) => {
    const [x, y] = corner(i);
    if (isTall) {
      const [top, end] = [y + height, y + step];
      return [
        svg("line", { class: kind, x1: 40, y1: top, x2: 40, y2: end }),
        text(195, top + 26, "", above), text(195, top + 45, "faint", below),
      ];
    }
    const [left, end, middle] = [x + width, x + step, y + height / 2];
    return [
      svg("line", { class: kind, x1: left, y1: middle, x2: end, y2: middle }),
      text((left + end) / 2, middle - 12, "", above), text((left + end) / 2, middle + 24, "faint", below),
    ];
  });
  const last = corner(nodes.length - 1);
  const label = [...nodes, ...edges.map(([, ...texts]) => texts)].map((all) => all.join(" ")).join("; ");
  return svg("svg", {
    class: "path", role: "img", "aria-label": label,
    viewBox: `0 0 ${last[0] + width} ${last[1] + height + (isTall ? 0 : 14)}`,
  }, ...boxes, ...links);
}

// --- What daemons and the demo show

/** Most rows of a table. */
const ROWS_MAX = 100;

/** Rates of the whole link over time, `[s, bits a second]`. */
const measured = { downlink: [], uplink: [] };

function remember(reply, before, nowS, elapsedS) {
  const [now, then] = [reply.link_bytes, before?.link_bytes];
  for (const [name, points] of Object.entries(measured)) {
    const value = now && then ? rate(now[name], then[name], elapsedS) : null;
    if (value !== null) points.push([nowS, value]);
    while (points.length > 0 && points[0][0] < nowS - SPAN_S) points.shift();
  }
}

const newest = (points) => points.length > 0 ? bits(points.at(-1)[1]) : "-";

/** The outages that are over and those that last; `beginS` and `endS` are seconds since 1970. */
function outagesOf(status, nowS) {
  const over = status.outages.newest.map((record) => ({
    record, kind: record.source === "silence" ? "silence" : "down", address: record.mobile,
    beginS: record.begin_unix_s, endS: record.begin_unix_s + record.length_s,
    text: `down for ${seconds(record.length_s)}, noticed by ${record.source}`,
  }));
  const down = (status.mobiles ?? []).filter((mobile) => mobile.link === "down");
  return [...over, ...down.flatMap((mobile) => mobile.addresses.map((address) => ({
    kind: mobile.source === "silence" ? "silence" : "down", address,
    beginS: nowS - mobile.since_s, endS: nowS,
    text: `down since ${seconds(mobile.since_s)}, noticed by ${mobile.source}`,
  })))];
}

const isOf = (mobile) => (outage) => mobile.addresses.includes(outage.address);
const isSame = (mobile) => (other) => mobile.addresses.some((one) => other.addresses.includes(one));
const nameOf = (mobile) => mobile.name ?? mobile.addresses.join(" ");

function throughput(reply, outages, nowS) {
  if (!reply.link_bytes) return;
  const lines = [["downlink", "toward the MH", measured.downlink], ["uplink", "from the MH", measured.uplink]];
  const points = [...measured.downlink, ...measured.uplink];
  const chart = rateChart("Throughput of the link", lines, outages, [nowS - SPAN_S, nowS], largest(points, 0));
  put("throughput", "Throughput of the link", chart);
}

function countersOf(reply) {
  const counted = Object.entries(reply.counters).filter(([, count]) => count > 0);
  const columns = [["counter", "", (one) => one[0]], ["value", "number", (one) => one[1].toLocaleString("en")]];
  put("counters", "Counters", table("Since the daemon's start; those that are 0 are not listed", columns, counted));
}

function gatewayView(status, before, nowS, elapsedS) {
  const { mobiles, cache, flows } = status;
  const outages = outagesOf(status, nowS);
  const down = mobiles.filter((mobile) => mobile.link === "down").length;
  const total = Math.max(status.mobiles_total, mobiles.length);
  const [toMh, fromMh] = [newest(measured.downlink), newest(measured.uplink)];
  heading(`Holdfast gateway, ${status.wireless}`,
    `version ${status.version}, scheme ${status.scheme}, data path ${status.data_path}, ` +
    `up ${seconds(status.uptime_s)}`);
  put("path", "Path of a segment", pathOf([
    ["FH", "fixed hosts", `flows: ${flows.tracked}`],
    ["gateway", status.attached ? `caches ${bytes(cache.bytes)}` : "NOT attached", `scheme ${status.scheme}`],
    ["MH", `mobile hosts: ${total}`, down > 0 ? `link down: ${down}` : "all links up"],
  ], [
    ["wired", status.wired ?? "internet", ""],
    [down > 0 ? "down" : "link", `to MH ${toMh}`, `from MH ${fromMh}`],
  ]));
  put("figures", "Now", tiles([
    ["to the MHs", toMh], ["from the MHs", fromMh],
    ["flows", flows.tracked.toLocaleString("en"), `${flows.in_outage} in an outage`],
    ["cache", bytes(cache.bytes), html("span", {}, `of ${bytes(cache.bytes_max)}`, html("meter", {
      min: 0, max: cache.bytes_max, value: cache.bytes, "aria-label": "share of the cache in use",
    }))],
    ["outages", status.outages.count.toLocaleString("en"), `down for ${seconds(status.outages.down_s)} in all`],
    savedTile(status.outages),
  ]));
  // Bands of several links would hide each other.
  throughput(status, mobiles.length === 1 ? outages : [], nowS);
  mobileTable(status, before, outages, nowS, elapsedS);
  outageTable(status);
  countersOf(status);
}

function mobileTable(status, before, outages, nowS, elapsedS) {
  const last = (mobile) => before?.mobiles.find(isSame(mobile));
  const speed = (name) => (mobile) => bits(rate(mobile[name], last(mobile)?.[name], elapsedS));
  const stopped = { kind: "unknown", beginS: 0, endS: nowS - status.uptime_s, text: "the gateway did not run" };
  const silent = { kind: "unknown", beginS: 0, endS: nowS, text: "not known now" };
  const unknown = (mobile) => mobile.link === "unknown" ? silent : stopped;
  const line = (mobile) =>
    timeline(nameOf(mobile), [unknown(mobile), ...outages.filter(isOf(mobile))], nowS - SPAN_S, nowS);
  const shown = status.mobiles.slice(0, ROWS_MAX);
  const others = Math.max(status.mobiles_total - shown.length, 0);
  const caption = `Links over the last ${SPAN_S / 60} minutes${others > 0 ? `; ${others} mobiles more` : ""}`;
  put("mobiles", "Mobiles", table(caption, [
    ["mobile", "", nameOf],
    ["link", "", (mobile) => html("span", { class: `word-${mobile.link}` }, mobile.link)],
    ["by", "", (mobile) => `${mobile.source}, since ${seconds(mobile.since_s)}`],
    ["timeline", "line", line],
    ["to the MH", "number", speed("delivered_bytes")],
    ["from the MH", "number", speed("received_bytes")],
    ["flows", "number", (mobile) => mobile.flows],
    ["cached", "number", (mobile) => bytes(mobile.cached_bytes)],
    ["outages", "number", (mobile) => mobile.outages],
  ], shown), html("p", { class: "faint" },
    html("span", { class: "key up" }, "up "), html("span", { class: "key down" }, "down, by a report "),
    html("span", { class: "key silence" }, "down, by silence "),
    html("span", { class: "key unknown" }, "unknown, or the gateway did not run")));
}

const savedTile = (outages) => outages.only_observed
  ? ["stall that another scheme would save", seconds(outages.stall_saved_s), "estimated"]
  : ["stall saved", seconds(outages.stall_saved_s), "estimated"];

function outageTable(status) {
  const { newest, count } = status.outages;
  const caption = count === 0
    ? "None has ended since the daemon's start" : `The newest ${newest.length} of ${count} that are over`;
  put("outages", "Outages", table(caption, [
    ["began", "", (outage) => clock(outage.begin_unix_s * 1000)],
    ["mobile", "", (outage) => outage.name ?? outage.mobile ?? "this one"],
    ["length", "number", (outage) => seconds(outage.length_s)],
    ["noticed by", "", (outage) => outage.source],
    ["flows", "number", (outage) => outage.flows],
    ["cached", "number", (outage) => bytes(outage.cached_bytes)],
    savedColumn(status.outages),
  ], newest.slice(0, ROWS_MAX)));
}

const savedColumn = (outages) => [
  outages.only_observed ? "would save" : "stall saved", "number", (outage) => seconds(outage.stall_saved_s),
];

function mobileView(status, before, nowS) {
  heading(`Holdfast mobile, ${status.interface}`,
    `version ${status.version}, gateway ${status.gateway ?? "none"}, scheme ${status.scheme}`);
  put("figures", "Now", tiles([
    ["link", html("span", { class: `word-${status.link}` }, status.link), `epoch ${status.epoch}`],
    ["from the gateway", newest(measured.downlink)], ["to the gateway", newest(measured.uplink)],
    ["outages", status.outages.count.toLocaleString("en")], savedTile(status.outages),
    ["gateway", status.refused ?? (status.acknowledged ? "acknowledged" : "not acknowledged")],
  ]));
  throughput(status, outagesOf(status, nowS), nowS);
  outageTable(status);
  put("sources", "Link sources", table("What reports the link's state", [
    ["source", "", (source) => source.name],
    ["runs", "", (source) => source.runs ? "yes" : `no: ${source.problem ?? ""}`],
    ["events", "number", (source) => source.events],
  ], status.sources));
  countersOf(status);
}

function demoView(demo) {
  const nowS = Math.max(...demo.runs.map((run) => run.elapsed_s), 1);
  const outages = demo.outages.filter((outage) => outage.at_s < nowS).map((outage) => ({
    kind: "down", beginS: outage.at_s, endS: Math.min(outage.at_s + outage.for_s, nowS),
    text: `outage of ${seconds(outage.for_s)}`,
  }));
  heading("Holdfast demo", demo.about);
  const groups = Map.groupBy(demo.runs, (run) => run.name.split(", ")[0]);
  for (const [name, runs] of groups) {
    const most = largest(runs.flatMap((run) => run.rates), 0);
    const cards = runs.map((run) => runOf(run, demo, outages, nowS, most));
    put(name.replaceAll(" ", "-"), name, html("div", { class: "runs" }, ...cards));
  }
}

function runOf(run, demo, outages, nowS, most) {
  const scheme = run.name.split(", ")[1];
  const stalled = run.stall_s >= 0.2 ? `stalled for ${seconds(run.stall_s)}` : "";
  const going = demo.link_up ? stalled || newest(run.rates) : "link down";
  const state = run.is_complete ? `complete after ${seconds(run.elapsed_s)}` : going;
  return html("article", {},
    html("h3", {}, scheme === "plain" ? "without Holdfast" : `with ${scheme}`),
    html("p", {}, html("span", { class: "share" }, `${(run.share * 100).toFixed(1)} %`), " of the link used"),
    html("p", { class: stalled && !run.is_complete ? "stalled" : "" }, state),
    html("progress", { max: demo.bytes, value: run.bytes, "aria-label": `${run.name}: what has arrived` }),
    html("p", { class: "faint" }, `${megabytes(run.bytes)}, stalls ${seconds(run.stalled_s)} in all`),
    rateChart(run.name, [["downlink", "rate", run.rates], ["down", "outage", []]], outages, [0, nowS], most));
}

// --- The page

const views = { gateway: gatewayView, mobile: mobileView, demo: demoView };
let [last, lastMs] = [null, 0];

function heading(title, about) {
  document.title = title;
  document.getElementById("title").textContent = title;
  document.getElementById("about").textContent = about;
}

function state(text, isBad) {
  const node = document.getElementById("state");
  if (node.textContent !== text) node.textContent = text;
  node.className = isBad ? "bad" : "";
}

async function look() {
  const answer = await fetch("status.json", { cache: "no-store", signal: AbortSignal.timeout(5000) });
  if (!answer.ok) throw new Error(await answer.text());
  const reply = await answer.json();
  // The button may have been pressed meanwhile.
  if (isPaused) return;
  // Times are those of the daemon's machine, whose clock may be another.
  const aheadMs = Date.parse(answer.headers.get("date")) - Date.now();
  const nowMs = Date.now() + (Math.abs(aheadMs) > 2000 ? aheadMs : 0);
  // Another process counts from 0.
  const before = last?.pid === reply.pid ? last : null;
  const elapsedS = before ? reply.uptime_s - before.uptime_s : 0;
  remember(reply, before, nowMs / 1000, elapsedS);
  views[reply.reply](reply, before, nowMs / 1000, elapsedS);
  [last, lastMs] = [reply, nowMs];
  document.getElementById("export").disabled = false;
  state(reply.is_over ? "The demo is over" : "Live", false);
}

let isPaused = false;

async function poll() {
  if (!isPaused) {
    try {
      await look();
    } catch (error) {
      const since = lastMs > 0 ? `; data of ${clock(lastMs)}` : "";
      if (!isPaused) state(`No answer${since} (${error.message})`, true);
    }
  }
  setTimeout(poll, PERIOD_MS);
}

/** The page as one file without scripts, which needs nothing from elsewhere. */
function exported() {
  const page = document.documentElement.cloneNode(true);
  for (const node of page.querySelectorAll("script, link, noscript, .buttons")) node.remove();
  for (const node of page.querySelectorAll("details")) node.setAttribute("open", "");
  const rules = [...document.styleSheets[0].cssRules].map((rule) => rule.cssText);
  const policy = { "http-equiv": "Content-Security-Policy", content: "default-src 'none'; style-src 'unsafe-inline'" };
  page.querySelector("head").append(html("meta", policy), html("style", {}, rules.join("\n")));
  page.querySelector("#state").textContent = `Saved ${new Date(lastMs).toISOString().slice(0, 19)}Z`;
  return `<!DOCTYPE html>\n${page.outerHTML}\n`;
}

document.getElementById("pause").addEventListener("click", (event) => {
  isPaused = !isPaused;
  event.target.setAttribute("aria-pressed", isPaused);
  state(isPaused ? `Paused; data of ${clock(lastMs)}` : "Live", false);
});

document.getElementById("export").addEventListener("click", () => {
  const address = URL.createObjectURL(new Blob([exported()], { type: "text/html" }));
  const time = new Date(lastMs).toISOString().slice(0, 19).replaceAll(":", "");
  html("a", { href: address, download: `holdfast-${time}.html` }).click();
  setTimeout(() => URL.revokeObjectURL(address), PERIOD_MS);
});

poll();
