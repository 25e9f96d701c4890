#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the Grafana board and the alert rules with a real Prometheus and real daemons, as root.

    scripts/board_test.py HOLDFAST [PAGE PICTURE]

FH, gateway and MH are network namespaces. A gateway with `auto`, one with `observe` and a mobile serve
metrics, Prometheus scrapes them during a download with outages. Then it evaluates each query of the board,
and reports the health of each rule. With PAGE, made by scripts/board_view/build.sh, Chromium shows the board:
the screenshot is PICTURE, and each panel has to have its title and its data. The mobile ends, and the alert
about that has to be pending. The last line is `N passed, N failed`.
"""

import html
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse

BOARD = "dist/grafana/holdfast.json"
RULES = "dist/prometheus/holdfast.rules.yml"
PROMETHEUS = "127.0.0.1:9090"
TARGETS = ["127.0.0.1:9848", "127.0.0.1:9849", "10.2.0.2:9848"]
LIMIT_S = 120
VARIABLES = {"$job": "holdfast", "$gateway": "127.*", "$mobile": "10.*", "$__range": "2m", "$__rate_interval": "20s"}
CHROMIUM = "chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1600,2260"
# Chromium's virtual time for loading the page: it skips time in which the page is idle.
BUDGET_MS = 30000
NETWORK = """
    ip -n {gw} link add wired0 type veth peer name eth0 netns {fh}
    ip -n {gw} link add wireless0 type veth peer name eth0 netns {mh}
    ip -n {gw} address add 10.1.0.1/24 dev wired0
    ip -n {gw} address add 10.2.0.1/24 dev wireless0
    ip -n {fh} address add 10.1.0.2/24 dev eth0
    ip -n {mh} address add 10.2.0.2/24 dev eth0
    ip -n {gw} link set wired0 up
    ip -n {gw} link set wireless0 up
    ip -n {fh} link set eth0 up
    ip -n {mh} link set eth0 up
    ip -n {fh} route add default via 10.1.0.1
    ip -n {mh} route add default via 10.2.0.1
    ip netns exec {gw} sysctl -q -w net.ipv4.ip_forward=1"""


def run(command):
    subprocess.run(command.split(), check=True)


class Test:
    def __init__(self, holdfast, folder, page=None, picture=None):
        self.holdfast, self.folder, self.page, self.picture = holdfast, folder, page, picture
        self.names = {end: f"hfb-{end}-{os.getpid()}" for end in ("fh", "gw", "mh")}
        self.processes = []
        self.passed = self.failed = 0

    def start(self, end, *command):
        log = open(os.path.join(self.folder, f"{len(self.processes)}.log"), "wb")
        command = ["ip", "netns", "exec", self.names[end], *command]
        process = subprocess.Popen(command, stdout=log, stderr=log)
        self.processes.append(process)
        return process

    def daemon(self, end, name, text, *command):
        config = os.path.join(self.folder, f"{name}.toml")
        with open(config, "w") as file:
            file.write(text)
        socket = os.path.join(self.folder, f"{name}.sock")
        return self.start(end, self.holdfast, *command, "--config", config, "--control-socket", socket)

    def check(self, name, is_good, shown=""):
        self.passed += is_good
        self.failed += not is_good
        print(f"{'ok     ' if is_good else 'FAILED '} {name} {shown}".rstrip(), flush=True)

    def api(self, path, **parameters):
        """Queries Prometheus, which runs in the gateway's namespace."""
        url = f"http://{PROMETHEUS}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        command = ["ip", "netns", "exec", self.names["gw"], "curl", "-s", "-S", "-m", "10", url]
        answer = subprocess.run(command, capture_output=True, text=True)
        if answer.returncode != 0:
            return {"status": "error", "error": answer.stderr.strip()}
        return json.loads(answer.stdout)

    def wait_for(self, what, condition):
        deadline = time.monotonic() + LIMIT_S
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"not in {LIMIT_S} s: {what}")
            time.sleep(0.5)

    def value(self, query):
        found = self.api("query", query=query).get("data", {}).get("result", [])
        return sum(float(series["value"][1]) for series in found)

    def start_all(self):
        for name in self.names.values():
            run(f"ip netns add {name}")
            run(f"ip -n {name} link set lo up")
        for line in NETWORK.format(**self.names).strip().splitlines():
            run(line)
        for name, interface, scheme, port in [
            ("gateway", "wireless0", "auto", 9848),
            ("observer", "wired0", "observe", 9849),
        ]:
            state = os.path.join(self.folder, f"{name}.state")
            text = f'[gateway]\nwireless = "{interface}"\nscheme = "{scheme}"\nstate_file = "{state}"\n'
            self.daemon("gw", name, f'{text}[metrics]\nlisten = "127.0.0.1:{port}"\n', "gateway")
        text = '[mobile]\ninterface = "eth0"\nscheme = "auto"\n[metrics]\nlisten = "10.2.0.2:9848"\n'
        mobile = self.daemon("mh", "mobile", text, "mobile")
        config = os.path.join(self.folder, "prometheus.json")
        with open(config, "w") as file:
            # A JSON file is also a YAML file.
            json.dump(
                {
                    "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                    "rule_files": [os.path.abspath(RULES)],
                    "scrape_configs": [{"job_name": "holdfast", "static_configs": [{"targets": TARGETS}]}],
                },
                file,
            )
        data = os.path.join(self.folder, "data")
        flags = [f"--config.file={config}", f"--storage.tsdb.path={data}", f"--web.listen-address={PROMETHEUS}"]
        if self.page:
            flags.append(f"--web.user-assets={self.page}")
        self.start("gw", "prometheus", *flags)
        self.wait_for("all targets are scraped", lambda: self.value('sum(up{job="holdfast"})') == len(TARGETS))
        return mobile

    def download_with_outages(self):
        """Sets the MH's end of the link down: then the gateway's wireless interface loses its carrier."""
        end, progress = (os.path.join(self.folder, name) for name in ("end", "progress"))
        open(progress, "wb").close()
        self.start("fh", "scripts/package_transfer.py", "fh", end)
        time.sleep(1)
        self.start("mh", "scripts/package_transfer.py", "mh", progress)
        outages = 'sum(holdfast_outage_seconds_count{instance="127.0.0.1:9848"})'
        for number in (1, 2, 3):
            size = os.path.getsize(progress)
            self.wait_for("bytes arrive", lambda: os.path.getsize(progress) > size)
            run(f"ip -n {self.names['mh']} link set eth0 down")
            time.sleep(3)
            run(f"ip -n {self.names['mh']} link set eth0 up")
            run(f"ip -n {self.names['mh']} route replace default via 10.2.0.1")
            self.wait_for("the outage is counted", lambda: self.value(outages) >= number)
        open(end, "wb").close()

    def evaluate(self):
        with open(BOARD) as file:
            board = json.load(file)
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                metric = re.search(r"label_values\((.*), (\w+)\)", variable["query"]["query"])
                query = metric[1].replace("$job", "holdfast")
                self.check_query(f"variable {variable['name']}", f"count by ({metric[2]}) ({query})")
        for panel in board["panels"]:
            for target in panel.get("targets", []):
                self.check_query(f"panel {panel['title']}", target["expr"])
        groups = self.api("rules")["data"]["groups"]
        for rule in (rule for group in groups for rule in group["rules"]):
            self.check(f"rule {rule['name']}", rule["health"] == "ok", rule.get("lastError", ""))

    def check_query(self, name, query):
        for variable, value in VARIABLES.items():
            query = query.replace(variable, value)
        answer = self.api("query", query=query)
        series = answer.get("data", {}).get("result", [])
        values = [one["value"][1] for one in series][:4]
        shown = answer.get("error") or f"{len(series)} series: {' '.join(values)}"
        self.check(f"{name}:", answer["status"] == "success" and bool(series), f"{query}: {shown}")

    def view(self):
        """Renders the page, which Prometheus serves. A panel's text has its title, its value or legend, and errors."""
        if os.path.exists(self.picture):
            os.remove(self.picture)
        url = f"http://{PROMETHEUS}/user/index.html"
        profile = os.path.join(self.folder, "chromium")
        flags = [f"--user-data-dir={profile}", f"--screenshot={self.picture}", "--dump-dom"]
        chromium = self.start("gw", *CHROMIUM.split(), *flags, f"--virtual-time-budget={BUDGET_MS}", url)
        chromium.wait(LIMIT_S)
        self.check(f"screenshot: {self.picture}", os.path.exists(self.picture))
        with open(os.path.join(self.folder, f"{self.processes.index(chromium)}.log"), errors="replace") as log:
            shown = [part.partition(">")[2] for part in log.read().split('data-testid="panel"')[1:]]
        with open(BOARD) as file:
            panels = [panel for panel in json.load(file)["panels"] if panel["type"] != "row"]
        self.check("number of panels shown:", len(shown) == len(panels), f"{len(shown)} of {len(panels)}")
        for panel, part in zip(panels, shown):
            text = " ".join(html.unescape(re.sub("<[^>]*>?", " ", part)).split())
            bad = [mark for mark in ('role="alert"', "panel errors", "No data") if mark in part]
            if not text.startswith(panel["title"]):
                bad.append("another title")
            # Legend lines that do not fit are not in the document, and bars are pictures without text.
            if panel["type"] == "timeseries":
                legends = [target["legendFormat"] for target in panel["targets"]]
                bad += [f"no legend {name}" for name in legends if name.split("}}")[-1] not in text]
            self.check(f"view of {panel['title']}:", not bad, f"{text[:90]} {bad or ''}")

    def run(self):
        rules = subprocess.run(["promtool", "check", "rules", RULES], capture_output=True, text=True)
        self.check("promtool check rules", rules.returncode == 0, rules.stderr.strip())
        mobile = self.start_all()
        for target in TARGETS:
            end = "mh" if target.startswith("10.2") else "gw"
            curl = ["ip", "netns", "exec", self.names[end], "curl", "-s", f"http://{target}/metrics"]
            page = subprocess.run(curl, capture_output=True, check=True).stdout
            lint = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True)
            self.check(f"promtool check metrics of {target}", lint.returncode == 0, lint.stderr.decode())
        self.download_with_outages()
        time.sleep(3)
        self.evaluate()
        if self.page:
            self.view()
        mobile.send_signal(signal.SIGTERM)
        down = 'ALERTS{alertname="HoldfastDown",alertstate="pending"}'
        self.wait_for("HoldfastDown is pending", lambda: self.value(down) == 1)
        self.check("HoldfastDown is pending after the mobile has ended", True)

    def leave(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
        for name in self.names.values():
            subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL)


def main():
    # A signal ends the test like an exception: everything that was started is removed.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda number, _: sys.exit(128 + number))
    with tempfile.TemporaryDirectory() as folder:
        test = Test(*map(os.path.abspath, [sys.argv[1], folder, *sys.argv[2:]]))
        try:
            test.run()
        except Exception as error:
            test.check("the run", False, str(error))
            for number, _ in enumerate(test.processes):
                with open(os.path.join(folder, f"{number}.log"), errors="replace") as log:
                    print(f"--- {number}", log.read()[-1500:], sep="\n")
        finally:
            test.leave()
    print(f"{test.passed} passed, {test.failed} failed")
    return test.failed > 0


sys.exit(main())
