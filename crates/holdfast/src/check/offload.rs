// SPDX-License-Identifier: Apache-2.0
//! Functions by which flows bypass the daemon, or segments are changed before it: flowtables, and
//! functions of the hardware.

use std::process::Command;

use serde_json::Value;

use super::interface::Subject;
use super::{Finding, tool_json};

/// Checks flowtables and the hardware's functions.
pub(crate) fn check(subject: &Subject) -> Vec<Finding> {
    let name = &subject.interface.name;
    let mut findings = match tool_json("nft", &["-j", "list", "ruleset"]) {
        Some(ruleset) => judge_flowtables(&ruleset, name),
        None => vec![Finding::note(
            "nft is not there or may not list the rules: flowtables were not looked for",
            "install nftables, or see that no flowtable has flags offload",
        )],
    };
    let output = Command::new("ethtool").args(["-k", name]).output();
    match output {
        Ok(output) => findings.extend(judge_features(
            &String::from_utf8_lossy(&output.stdout),
            name,
        )),
        Err(_) => findings.push(Finding::note(
            "ethtool is not there: functions of the hardware were not looked for",
            "install ethtool",
        )),
    }
    if let Some(master) = &subject.master
        && subject.link.is_switch_port
    {
        findings.push(Finding::note(
            format!(
                "{name} is a port of a hardware switch: what the hardware switches to it goes round the \
                 daemon"
            ),
            format!("use the interface behind which all mobiles are, or route between {name} and {}", master.name),
        ));
    }
    findings
}

/// Judges the flowtables that have the interface among their devices.
fn judge_flowtables(ruleset: &Value, wireless: &str) -> Vec<Finding> {
    let objects = ruleset.get("nftables").and_then(Value::as_array);
    let tables = objects
        .into_iter()
        .flatten()
        .filter_map(|object| object.get("flowtable"));
    let mut findings = Vec::new();
    for table in tables {
        let text = |key: &str| table.get(key).and_then(Value::as_str).unwrap_or("?");
        let named = |value: &Value, name: &str| match value {
            Value::String(one) => one == name,
            Value::Array(many) => many.iter().any(|one| one == name),
            _ => false,
        };
        if !table
            .get("dev")
            .is_some_and(|devices| named(devices, wireless))
        {
            continue;
        }
        let name = format!(
            "flowtable {} {} {}",
            text("family"),
            text("table"),
            text("name")
        );
        if table
            .get("flags")
            .is_some_and(|flags| named(flags, "offload"))
        {
            findings.push(Finding::problem(
                format!(
                    "{name} offloads flows of {wireless} to hardware, which go round the daemon"
                ),
                format!("take {wireless} out of its devices, or remove 'flags offload'"),
            ));
        } else {
            findings.push(Finding::note(
                format!("{name} shortens the way of flows of {wireless} (in software)"),
                format!("that passes the daemon's hooks, unless {wireless} is a bridge or a VLAN"),
            ));
        }
    }
    if findings.is_empty() {
        findings.push(Finding::fine(format!(
            "no nft flowtable has {wireless} among its devices"
        )));
    }
    findings
}

/// Judges the output of `ethtool -k`. Super-segments of hardware GRO stay whole in the data path. LRO
/// loses the segment boundaries.
fn judge_features(features: &str, name: &str) -> Vec<Finding> {
    let is_on = |feature: &str| {
        let state = features
            .lines()
            .find_map(|line| line.trim().strip_prefix(feature)?.strip_prefix(": "));
        state.is_some_and(|state| state.starts_with("on"))
    };
    let mut findings = Vec::new();
    if is_on("hw-tc-offload") {
        findings.push(Finding::note(
            format!(
                "{name} can offload tc rules to hardware (hw-tc-offload): such flows go round the daemon"
            ),
            format!("ethtool -K {name} hw-tc-offload off"),
        ));
    }
    if is_on("large-receive-offload") {
        findings.push(Finding::problem(
            format!(
                "{name} merges segments on reception (LRO): what is forwarded has other boundaries and \
                 checksums"
            ),
            format!("ethtool -K {name} lro off"),
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::*;
    use serde_json::json;

    fn ruleset(flags: &Value) -> Value {
        json!({"nftables": [
            {"metainfo": {"version": "1.0.6"}},
            {"table": {"family": "inet", "name": "filter", "handle": 1}},
            {"flowtable": {"family": "inet", "name": "fast", "table": "filter", "handle": 2,
                "hook": "ingress", "prio": 0, "dev": ["eth0", "wlan0"], "flags": flags}},
        ]})
    }

    #[test]
    fn a_hardware_flowtable_with_the_wireless_interface_is_a_problem() {
        for flags in [json!("offload"), json!(["offload", "counter"])] {
            let findings = judge_flowtables(&ruleset(&flags), "wlan0");
            assert_eq!(findings.len(), 1);
            assert_eq!(findings[0].severity(), Severity::Problem);
            assert!(
                findings[0]
                    .to_string()
                    .contains("flowtable inet filter fast")
            );
        }
    }

    #[test]
    fn a_software_flowtable_is_noted_and_one_of_others_is_not() {
        let findings = judge_flowtables(&ruleset(&Value::Null), "wlan0");
        assert_eq!(findings[0].severity(), Severity::Note);
        let findings = judge_flowtables(&ruleset(&json!("offload")), "wlan1");
        assert_eq!(findings[0].severity(), Severity::Fine);
    }

    #[test]
    fn hardware_that_merges_segments_is_a_problem_and_its_gro_is_none() {
        let severities = |features: &str| -> Vec<_> {
            let findings = judge_features(features, "eth0");
            findings.iter().map(Finding::severity).collect()
        };
        let usual = "Features for eth0:\nrx-gro-hw: on\nlarge-receive-offload: off [fixed]\n\
            hw-tc-offload: off [fixed]\n";
        assert_eq!(severities(usual), []);
        assert_eq!(
            severities("large-receive-offload: on\n"),
            [Severity::Problem]
        );
        assert_eq!(
            severities("hw-tc-offload: on [requested on]\n"),
            [Severity::Note]
        );
    }
}
