// SPDX-License-Identifier: Apache-2.0
//! A headless Chromium, by its DevTools protocol over two pipes: messages are JSON, with a 0 at the end.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, ChildStdout, Stdio};

use holdfast_net::netns::{ChildGuard, NetNs, available_or_skip, report_skipped};
use serde_json::{Value, json};

/// The program's package installs it under this name.
const CHROMIUM: &str = "chromium";

/// Its descriptors 3 and 4 are the pipes.
const SHELL: &str = r#"exec "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#;

const ARGUMENTS: [&str; 10] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
];

/// Whether namespaces and the browser can be had. Otherwise the test is reported as skipped.
pub(crate) fn can_browse(test: &str) -> bool {
    if !available_or_skip(test) {
        return false;
    }
    let version = std::process::Command::new(CHROMIUM)
        .arg("--version")
        .output();
    if let Err(error) = &version {
        report_skipped(test, format!("{CHROMIUM}: {error}"));
    }
    version.is_ok()
}

/// Whether the browser logs that the daemon had no status yet. On a busy machine it may be late.
fn is_late_answer(entry: &Value) -> bool {
    let part = |name: &str| entry[name].as_str().unwrap_or_default();
    part("url").ends_with("/status.json") && part("text").contains("503")
}

/// A browser with one page.
pub(crate) struct Browser {
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    session: String,
    last_id: u64,
    /// The addresses that the page has loaded something from.
    pub(crate) loaded: Vec<String>,
    /// What its console shows: errors, and exceptions that were not handled.
    pub(crate) complaints: Vec<String>,
    _child: ChildGuard,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts it in a namespace.
    pub(crate) fn start(ns: &NetNs) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut command = ns.command("sh");
        command.args(["-c", SHELL, "sh", CHROMIUM]).args(ARGUMENTS);
        let folder = profile.path().display();
        command.arg(format!("--user-data-dir={folder}"));
        command.env("HOME", profile.path()).arg("about:blank");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = ns.spawn_guarded(command).unwrap();
        let mut browser = Self {
            requests: child.child().stdin.take().unwrap(),
            answers: BufReader::new(child.child().stdout.take().unwrap()),
            session: String::new(),
            last_id: 0,
            loaded: Vec::new(),
            complaints: Vec::new(),
            _child: child,
            _profile: profile,
        };
        let page = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let target = &page["targetId"];
        let attach = json!({"targetId": target, "flatten": true});
        let attached = browser.call("Target.attachToTarget", attach);
        let session = attached["sessionId"].as_str().unwrap();
        session.clone_into(&mut browser.session);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Calls a method of the protocol, and notes the events that come meanwhile.
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last_id += 1;
        let mut message = json!({"id": self.last_id, "method": method, "params": parameters});
        if !self.session.is_empty() {
            message["sessionId"] = self.session.clone().into();
        }
        write!(self.requests, "{message}\0").unwrap();
        self.requests.flush().unwrap();
        loop {
            let mut answer = Vec::new();
            self.answers.read_until(0, &mut answer).unwrap();
            assert_eq!(answer.pop(), Some(0), "{method}: the browser has ended");
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            if answer["id"] == self.last_id {
                assert_eq!(answer["error"], Value::Null, "{method}");
                return answer["result"].clone();
            }
            self.note(&answer);
        }
    }

    fn note(&mut self, event: &Value) {
        let parameters = &event["params"];
        match event["method"].as_str().unwrap_or_default() {
            "Network.requestWillBeSent" => {
                let address = parameters["request"]["url"].as_str().unwrap();
                self.loaded.push(address.to_owned());
            }
            // The page looks again after it.
            "Log.entryAdded" if is_late_answer(&parameters["entry"]) => {}
            "Runtime.exceptionThrown" | "Runtime.consoleAPICalled" | "Log.entryAdded" => {
                self.complaints.push(parameters.to_string());
            }
            _ => {}
        }
    }

    /// Opens an address on a screen of that width.
    pub(crate) fn open(&mut self, address: &str, width: u32) {
        let screen =
            json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500});
        self.call("Emulation.setDeviceMetricsOverride", screen);
        self.call("Page.navigate", json!({"url": address}));
    }

    /// The value of an expression of JavaScript in the page.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let parameters = json!({"expression": expression, "returnByValue": true});
        let result = self.call("Runtime.evaluate", parameters);
        assert_eq!(result["exceptionDetails"], Value::Null, "{expression}");
        result["result"]["value"].clone()
    }

    /// Waits until the expression is true.
    pub(crate) fn await_that(&mut self, expression: &str) {
        holdfast_testbed::stop::StopFlag::default()
            .wait_for(expression, super::LIMIT, || {
                Ok((self.value(expression) == true).then_some(()))
            })
            .unwrap_or_else(|error| {
                let page = self.value("document.body.innerText");
                panic!("{error}; {:?}; the page: {page}", self.complaints)
            });
    }
}
