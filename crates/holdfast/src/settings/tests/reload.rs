// SPDX-License-Identifier: Apache-2.0
//! Files that are read again while the daemon runs.

use std::path::PathBuf;

use clap::CommandFactory as _;

use super::super::reload::{GATEWAY_LIVE, MOBILE_LIVE};
use super::*;

/// A file that a daemon runs with, and its flags.
struct Running {
    path: PathBuf,
    args: GatewayArgs,
    settings: GatewaySettings,
    _folder: tempfile::TempDir,
}

fn running(text: &str) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hf.toml");
    std::fs::write(&path, text).unwrap();
    let flags = ["holdfast", "--wireless", "wlan0", "--config"];
    let flags = flags.map(str::to_owned).into_iter();
    let flags = Flags::parse_from(flags.chain([path.display().to_string()]));
    Running {
        settings: flags.gateway.settings().unwrap(),
        args: flags.gateway,
        path,
        _folder: folder,
    }
}

impl Running {
    /// After the file was replaced: the keys that were applied, and those that were left.
    fn reload(&mut self, text: &str) -> Result<[String; 2], String> {
        std::fs::write(&self.path, text).unwrap();
        let reloaded = self.args.reload(&self.settings);
        let reloaded = reloaded.map_err(|error| error.to_string())?;
        self.settings = reloaded.settings;
        Ok([reloaded.applied, reloaded.left].map(|keys| keys.join(" ")))
    }
}

#[test]
fn limits_and_mobiles_are_applied_and_all_else_is_named_and_stays() {
    let mut running = running("[gateway]\nscheme = \"hold\"\ncache_bytes_max = \"64 MiB\"\n");
    let mobile = format!("[[mobile]]\nname = \"a\"\nkey = \"{KEY}\"\naddresses = [\"10.9.0.2\"]\n");
    let text = format!(
        "[gateway]\nscheme = \"snoop\"\nflows_max = 100\ncache_bytes_max = \"32 MiB\"\n\
         drain_s = 1\n[keep]\nflow_packets_max = 8\n[signals]\nlisten = \"192.0.2.1:99\"\n{mobile}"
    );
    let [applied, left] = running.reload(&text).unwrap();
    assert_eq!(
        applied,
        "gateway.drain_s gateway.cache_bytes_max keep.flow_packets_max mobile"
    );
    assert_eq!(left, "gateway.scheme gateway.flows_max signals.listen");
    let settings = &running.settings;
    assert_eq!(settings.core.scheme, Scheme::Hold);
    assert_eq!(settings.core.flows_max, Settings::default().flows_max);
    assert_eq!(settings.core.cache_bytes_max, 32 << 20);
    assert_eq!(settings.daemon.drain, Duration::from_secs(1));
    assert_eq!(settings.keep.flow_packets_max, 8);
    assert_eq!(settings.keep.flow_bytes_max, 8 * (16 << 10));
    assert_eq!(settings.signals.listen.port(), 4848);
    assert_eq!(settings.mobiles.len(), 1);
    // What was left is named again, and a key that was removed has its default again.
    let [applied, left] = running.reload("[gateway]\nscheme = \"snoop\"\n").unwrap();
    assert!(
        applied.ends_with("mobile") && left == "gateway.scheme",
        "{applied}; {left}"
    );
    assert_eq!(running.settings.core.cache_bytes_max, 256 << 20);
    assert!(running.settings.mobiles.is_empty());
    let same = "[gateway]\nscheme = \"hold\"\n";
    assert_eq!(running.reload(same), Ok([String::new(), String::new()]));
}

#[test]
fn a_wrong_file_changes_nothing_also_where_only_a_restart_would_apply_it() {
    let mut running = running("[gateway]\ncache_bytes_max = \"64 MiB\"\n");
    for (text, error) in [
        (
            "[gateway]\ncache_bytes_max = 5\n",
            "key `gateway.cache_bytes_max`: got 5",
        ),
        (
            "[gateway]\ncache_bytes_max = \"32 MiB\"\nscheme = \"holt\"\n",
            "key `gateway.scheme`: got",
        ),
        (
            "[gateway]\nlog_filter = \"debgu\"\n",
            "key `gateway.log_filter`: got",
        ),
        ("[gateway\n", "hf.toml"),
    ] {
        let shown = running.reload(text).unwrap_err();
        assert!(
            shown.contains(error) && shown.lines().count() == 1,
            "{shown}"
        );
        assert_eq!(running.settings.core.cache_bytes_max, 64 << 20);
    }
}

#[test]
fn a_key_file_that_was_replaced_is_applied_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let key_file = folder.path().join("a.key");
    let write = |octet| {
        let key = holdfast_core::signal::MobileKey::from_random([octet; 36]);
        std::fs::write(&key_file, key.to_secret_text()).unwrap();
        key
    };
    write(1);
    let text =
        format!("[[mobile]]\nname = \"a\"\nkey_file = {key_file:?}\naddresses = [\"10.9.0.2\"]\n");
    let mut running = running(&text);
    assert_eq!(running.reload(&text), Ok([String::new(), String::new()]));
    let key = write(2);
    assert_eq!(
        running.reload(&text),
        Ok(["mobile".to_owned(), String::new()])
    );
    assert_eq!(running.settings.mobiles[0].key, key);
}

#[test]
fn the_key_of_a_gateway_that_stays_stays_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let [config, old, new] = ["m.toml", "old.key", "new.key"].map(path);
    for (octet, file) in [(1, &old), (2, &new)] {
        let key = holdfast_core::signal::MobileKey::from_random([octet; 36]);
        std::fs::write(file, key.to_secret_text()).unwrap();
    }
    let write = |rest: &str| {
        let text = format!("[mobile]\ninterface = \"lo\"\n{rest}");
        std::fs::write(&config, text).unwrap();
    };
    write(&format!("gateway = \"192.0.2.1\"\nkey_file = {old:?}\n"));
    let flags = ["holdfast", "--config", config.to_str().unwrap()];
    let args = MobileFlags::parse_from(flags).mobile;
    let running = args.settings().unwrap();
    for (text, is_left) in [
        // The default key file is not there, and the file needs none.
        ("scheme = \"wake\"\n".to_owned(), "mobile.scheme"),
        (
            format!("gateway = \"192.0.2.2\"\nkey_file = {new:?}\n"),
            "mobile.gateway",
        ),
    ] {
        write(&text);
        let reloaded = args.reload(&running).unwrap();
        assert!(reloaded.applied.is_empty(), "{:?}", reloaded.applied);
        for key in ["mobile.gateway", "mobile.key_file", is_left] {
            assert!(reloaded.left.iter().any(|left| left == key), "{key}");
        }
        assert_eq!(reloaded.settings.key, running.key);
    }
    write(&format!("gateway = \"192.0.2.1\"\nkey_file = {new:?}\n"));
    let reloaded = args.reload(&running).unwrap();
    assert_eq!(reloaded.applied, ["mobile.key_file"]);
    assert_ne!(reloaded.settings.key, running.key);
    // The same file with another key, for another gateway.
    let next = holdfast_core::signal::MobileKey::from_random([3; 36]);
    std::fs::write(&old, next.to_secret_text()).unwrap();
    write(&format!("gateway = \"192.0.2.2\"\nkey_file = {old:?}\n"));
    let reloaded = args.reload(&running).unwrap();
    assert_eq!(reloaded.left, ["mobile.gateway", "mobile.key_file"]);
    assert_eq!(reloaded.settings.key, running.key);
    // Another interface with the same gateway.
    let text =
        format!("[mobile]\ninterface = \"lo2\"\ngateway = \"192.0.2.1\"\nkey_file = {new:?}\n");
    std::fs::write(&config, text).unwrap();
    let reloaded = args.reload(&running).unwrap();
    assert_eq!(reloaded.applied, ["mobile.key_file"]);
    // The flag names the gateway: the file's does not count, and its key is that of the flag's gateway.
    let flags = flags.into_iter().chain(["--gateway", "192.0.2.1"]);
    let args = MobileFlags::parse_from(flags.clone()).mobile;
    write(&format!("gateway = \"192.0.2.2\"\nkey_file = {new:?}\n"));
    let reloaded = args.reload(&running).unwrap();
    assert_eq!(reloaded.applied, ["mobile.key_file"]);
    assert!(reloaded.left.is_empty(), "{:?}", reloaded.left);
    assert_eq!(
        reloaded.overridden,
        [("mobile.gateway".to_owned(), "--gateway")]
    );
    assert_ne!(reloaded.settings.key, running.key);
    // A flag names the key file, too: of that one the contents count.
    let flags = flags.chain(["--key-file", new.to_str().unwrap()]);
    let args = MobileFlags::parse_from(flags).mobile;
    let running = args.settings().unwrap();
    let next = holdfast_core::signal::MobileKey::from_random([4; 36]);
    std::fs::write(&new, next.to_secret_text()).unwrap();
    write(&format!("gateway = \"192.0.2.2\"\nkey_file = {old:?}\n"));
    let reloaded = args.reload(&running).unwrap();
    assert_eq!(reloaded.applied, ["--key-file"]);
    assert_eq!(
        reloaded.overridden,
        [("mobile.key_file".to_owned(), "--key-file")]
    );
    assert_eq!(reloaded.settings.key, Some(next));
}

/// A key of `[gateway]`'s file, another value of it, and flags: the first one stands over the key.
const GATEWAY_FLAGS: [(&str, &str, &str); 8] = [
    ("gateway.wireless", "\"wlan7\"", "--wireless wlan0"),
    ("gateway.wired", "\"eth7\"", "--wired eth0"),
    ("gateway.scheme", "\"snoop\"", "--scheme hold"),
    ("gateway.control_socket", "\"/a\"", "--control-socket /b"),
    ("gateway.state_file", "\"/a\"", "--state-file /b"),
    ("snoop.set", "\"1995\"", "--snoop-set today"),
    (
        "signals.listen",
        "\"192.0.2.1:7\"",
        "--signal-listen 192.0.2.1:8",
    ),
    ("web.listen", "\"127.0.0.1:7\"", "--web 127.0.0.1:8"),
];

/// The same for `holdfast mobile`.
const MOBILE_FLAGS: [(&str, &str, &str); 9] = [
    ("mobile.interface", "\"lo7\"", "--interface lo"),
    ("mobile.gateway", "\"192.0.2.7\"", "--gateway 192.0.2.8"),
    ("mobile.cells", "[\"lo 192.0.2.7\"]", "--gateway 192.0.2.8"),
    ("mobile.key_file", "\"/a\"", "--key-file KEY"),
    ("mobile.control_socket", "\"/a\"", "--control-socket /b"),
    ("mobile.keepalive_s", "7", "--keepalive 8"),
    ("mobile.scheme", "\"keep\"", "--scheme wake"),
    (
        "mobile.freeze_set",
        "\"2000\"",
        "--freeze-set today --scheme freeze",
    ),
    ("web.listen", "\"127.0.0.1:7\"", "--web 127.0.0.1:8"),
];

/// The keys that a reload names: those that were applied, those that were left, and those without effect.
type Named = (Vec<String>, Vec<String>, Vec<(String, &'static str)>);

fn named<T>(reloaded: Result<Reloaded<T>, SettingsError>) -> (T, Named) {
    let reloaded = reloaded.unwrap();
    let named = (reloaded.applied, reloaded.left, reloaded.overridden);
    (reloaded.settings, named)
}

#[test]
fn a_key_under_a_flag_is_named_with_the_flag_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (config, key_file) = (path("hf.toml"), path("key"));
    std::fs::write(&key_file, KEY).unwrap();
    let arguments = |flags: &str, needed: [&str; 2], more: &[&str]| -> Vec<String> {
        let flags = flags.replace("KEY", &key_file);
        let mut arguments = vec!["holdfast".to_owned(), "--config".to_owned(), config.clone()];
        arguments.extend(flags.split(' ').map(str::to_owned));
        for pair in [needed.as_slice(), more]
            .into_iter()
            .filter(|pair| !pair.is_empty())
        {
            if !arguments.iter().any(|argument| argument == pair[0]) {
                arguments.extend(pair.iter().map(|part| (*part).to_owned()));
            }
        }
        arguments
    };
    let change = |key: &str, value: &str| {
        let (section, key) = key.split_once('.').unwrap();
        std::fs::write(&config, format!("[{section}]\n{key} = {value}\n")).unwrap();
    };
    let nothing = Named::default();
    for (key, value, flags) in GATEWAY_FLAGS {
        std::fs::write(&config, "").unwrap();
        let args = Flags::parse_from(arguments(flags, ["--wireless", "wlan0"], &[])).gateway;
        let running = args.settings().unwrap();
        change(key, value);
        let (running, shown) = named(args.reload(&running));
        let flag = flags.split(' ').next().unwrap();
        assert_eq!(shown, (vec![], vec![], vec![(key.to_owned(), flag)]));
        assert_eq!(named(args.reload(&running)).1, nothing, "{key}");
    }
    for (key, value, flags) in MOBILE_FLAGS {
        std::fs::write(&config, "").unwrap();
        let arguments = arguments(flags, ["--interface", "lo"], &["--key-file", &key_file]);
        let args = MobileFlags::parse_from(arguments).mobile;
        let running = args.settings().unwrap();
        change(key, value);
        let (running, shown) = named(args.reload(&running));
        let flag = flags.split(' ').next().unwrap();
        assert_eq!(shown, (vec![], vec![], vec![(key.to_owned(), flag)]));
        assert_eq!(named(args.reload(&running)).1, nothing, "{key}");
    }
}

/// A flag that is new stands over a key, or is one of the few that stand over none.
#[test]
fn each_flag_is_known_to_stand_over_a_key_or_over_none() {
    for (command, known) in [
        (Flags::command(), GATEWAY_FLAGS.as_slice()),
        (MobileFlags::command(), MOBILE_FLAGS.as_slice()),
    ] {
        for flag in command.get_arguments().filter_map(clap::Arg::get_long) {
            let flag = format!("--{flag}");
            let mut above = known.iter().map(|(_, _, flags)| flags.split(' ').next());
            let is_above_none = ["--config", "--check", "--log-format"].contains(&flag.as_str());
            let is_known = above.any(|above| above == Some(flag.as_str()));
            assert_ne!(is_known, is_above_none, "{flag}");
        }
    }
}

#[test]
fn a_filter_of_the_environment_stands_over_the_files() {
    const VARIABLE: &str = crate::settings::FILTER_VARIABLE;
    if std::env::var_os(VARIABLE).is_none() {
        // The environment of this process is that of the other tests, too.
        let test = "settings::tests::reload::a_filter_of_the_environment_stands_over_the_files";
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        let output = again.args(["--exact", test]).env(VARIABLE, "info").output();
        let shown = String::from_utf8(output.unwrap().stdout).unwrap();
        assert!(shown.contains("1 passed"), "{shown}");
        return;
    }
    let running = running("");
    std::fs::write(&running.path, "[gateway]\nlog_filter = \"debug\"\n").unwrap();
    let (_, shown) = named(running.args.reload(&running.settings));
    let overridden = vec![("gateway.log_filter".to_owned(), VARIABLE)];
    assert_eq!(shown, (vec![], vec![], overridden));
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("m.toml");
    std::fs::write(&config, "").unwrap();
    let flags = [
        "holdfast",
        "--interface",
        "lo",
        "--config",
        config.to_str().unwrap(),
    ];
    let args = MobileFlags::parse_from(flags).mobile;
    let running = args.settings().unwrap();
    std::fs::write(&config, "[mobile]\nlog_filter = \"debug\"\n").unwrap();
    let (_, shown) = named(args.reload(&running));
    let overridden = vec![("mobile.log_filter".to_owned(), VARIABLE)];
    assert_eq!(shown, (vec![], vec![], overridden));
}

#[test]
fn what_did_not_reach_the_workers_is_an_error() {
    let running = running("[gateway]\ndrain_s = 1\n");
    let reloaded = running.args.reload(&running.settings).unwrap();
    assert!(reloaded.announce(true).is_ok());
    let error = reloaded.announce(false).unwrap_err().to_string();
    assert!(
        error.contains("keeps its limits of before; restart"),
        "{error}"
    );
}

#[test]
fn a_new_value_may_contradict_one_that_stays() {
    let mut running = running("[gateway]\nscheme = \"hold\"\n[snoop]\nset = \"1995\"\n");
    // Right as a whole; of it only the limit is live.
    let text = "[gateway]\nscheme = \"hold\"\nflow_cache_bytes_max = \"1 MiB\"\n";
    let [applied, left] = running.reload(text).unwrap();
    assert_eq!(
        (applied.as_str(), left.as_str()),
        ("gateway.flow_cache_bytes_max", "snoop.set")
    );
}

#[test]
fn filters_of_the_log_are_levels_of_all_or_of_parts() {
    for filter in ["debug", "info,holdfast::mobile=trace", "warn,a=off"] {
        let text = format!("[gateway]\nlog_filter = \"{filter}\"");
        settings(&text).unwrap();
    }
    let shown = error("[gateway]\nlog_filter = \"holdfast=loud\"");
    assert!(
        shown.contains("takes a level of the log such as `debug`"),
        "{shown}"
    );
}

#[test]
fn the_live_keys_are_keys() {
    for (live, file) in [(GATEWAY_LIVE, &GATEWAY_FILE), (MOBILE_LIVE, &MOBILE_FILE)] {
        for name in live {
            let is_known = match name.split_once('.') {
                None => file.iter().any(|one| one.is_repeated && one.name == *name),
                Some((section, key)) => {
                    let named = file.iter().find(|one| one.name == section);
                    named.is_some_and(|one| one.keys.iter().any(|known| known.name == key))
                }
            };
            assert!(is_known, "{name}");
        }
    }
}
