// SPDX-License-Identifier: Apache-2.0
//! The command line from outside: what it prints, and its exit status.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

fn holdfast(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_holdfast"))
        .args(arguments)
        .output()
        .expect("the binary was built for this test")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("it prints text")
}

#[track_caller]
fn expect_usage_error(arguments: &[&str], expected: &str) {
    let output = holdfast(arguments);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{arguments:?}: {error}");
    assert!(
        error.contains(expected),
        "{arguments:?}: {expected:?} is not in {error}"
    );
    assert!(output.stdout.is_empty());
}

#[test]
fn every_command_has_help_with_examples() {
    let overview = text(&holdfast(&["--help"]).stdout);
    for command in [
        "demo", "setup", "gateway", "mobile", "link", "status", "top",
    ] {
        assert!(
            overview.contains(&format!("  {command}")),
            "{command} is not in {overview}"
        );
        let output = holdfast(&[command, "--help"]);
        assert_eq!(output.status.code(), Some(0), "{command}");
        let help = text(&output.stdout);
        let (_, examples) = help
            .split_once("Examples:")
            .unwrap_or_else(|| panic!("{command}: no examples in {help}"));
        assert!(
            examples.contains(&format!("holdfast {command}")),
            "{command}: {examples}"
        );
    }
    assert!(!overview.contains("generate"), "for packagers only");
}

#[test]
fn the_version_is_printed() {
    let expected = concat!("holdfast ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(text(&holdfast(&["--version"]).stdout), expected);
}

#[test]
fn bad_usage_ends_with_64() {
    expect_usage_error(&[], "Usage");
    expect_usage_error(&["gatway"], "gateway");
    expect_usage_error(&["gateway", "--wirless", "wlan0"], "--wireless");
    expect_usage_error(
        &["gateway", "--wireless", "wlan0", "--scheme", "mtcp-2"],
        "mtcp-plus",
    );
    expect_usage_error(&["gateway", "--wireless", "a/b"], "1 to 15 characters");
    expect_usage_error(
        &["gateway", "--wireless", "w", "--signal-listen", "x"],
        "--signal-listen",
    );
    expect_usage_error(&["mobile", "signal", "sideways"], "going-down-soon");
    expect_usage_error(
        &["mobile", "--keepalive", "0"],
        "a number of seconds from 1 to 3600",
    );
    expect_usage_error(&["status", "--flows", "many"], "--flows");
}

#[test]
fn bad_settings_end_with_64_and_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("hf.toml");
    let path = file.to_str().expect("a plain name");
    std::fs::write(
        &file,
        "[gateway]\nwireless = \"w\"\ncache_bytes_max = \"abc\"\n",
    )
    .expect("written");
    let output = holdfast(&["gateway", "--config", path]);
    assert_eq!(output.status.code(), Some(64));
    assert_eq!(
        text(&output.stderr),
        format!(
            "holdfast: {path}: key `gateway.cache_bytes_max`: got \"abc\", takes a number of bytes \
             from 1 MiB to 64 GiB, for example \"256 MiB\"\n"
        )
    );
    expect_usage_error(&["gateway"], "key `gateway.wireless`: missing");
    expect_usage_error(
        &["gateway", "--config", "/nonexistent/x"],
        "/nonexistent/x: cannot be read",
    );
    expect_usage_error(
        &[
            "mobile",
            "--interface",
            "w",
            "--gateway",
            "192.0.2.1",
            "--key-file",
            "/nonexistent/key",
        ],
        "make it with `holdfast mobile keygen /nonexistent/key`",
    );
}

#[test]
fn keygen_makes_a_key_of_its_own_each_time_and_overwrites_none() {
    let [one, other] = [(); 2].map(|()| text(&holdfast(&["mobile", "keygen"]).stdout));
    assert!(
        one.starts_with("hf1:") && one.trim_end().len() == 77,
        "{one:?}"
    );
    assert_ne!(one, other);

    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("mobile.key");
    let path = file.to_str().expect("a plain name");
    let output = holdfast(&["mobile", "keygen", path]);
    assert!(output.status.success());
    let key = std::fs::read_to_string(&file).expect("it was written");
    assert!(
        text(&output.stdout).contains(&key[4..12]),
        "the name of the key is shown"
    );
    assert!(
        !text(&output.stdout).contains(key[13..].trim_end()),
        "the secret is not"
    );
    let mode = std::fs::metadata(&file)
        .expect("it is there")
        .permissions()
        .mode();
    // The group of the units may read it, where there is that group.
    assert!([0o600, 0o640].contains(&(mode & 0o777)), "{mode:o}");

    let again = holdfast(&["mobile", "keygen", path]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains(path));
    assert_eq!(std::fs::read_to_string(&file).expect("still there"), key);
}

#[test]
fn without_a_daemon_status_and_signals_fail_and_name_the_socket() {
    for arguments in [
        &["status", "--socket", "/nonexistent/hf.sock"][..],
        &["status", "--json", "--socket", "/nonexistent/hf.sock"],
        &["mobile", "signal", "up", "--socket", "/nonexistent/hf.sock"],
        &[
            "gateway",
            "signal",
            "10.9.0.2",
            "down",
            "--socket",
            "/nonexistent/hf.sock",
        ],
    ] {
        let output = holdfast(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let error = text(&output.stderr);
        assert!(
            error.starts_with("holdfast: /nonexistent/hf.sock: no daemon answers;"),
            "{error}"
        );
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

/// Runs the program with a daemon at `socket` that answers with `reply`; what it printed, and its request.
/// Again, if this daemon was too late for the few seconds that the program waits.
fn holdfast_answered(arguments: &[&str], socket: &Path, reply: &'static str) -> (Output, String) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let daemon = answer_once(socket, reply);
        let output = holdfast(arguments);
        let request = daemon.join().expect("it answered");
        std::fs::remove_file(socket).expect("it is there");
        if !text(&output.stderr).contains("no answer within") || Instant::now() >= deadline {
            return (output, request);
        }
    }
}

/// Answers one caller with `reply`; returns its request.
fn answer_once(socket: &Path, reply: &'static str) -> std::thread::JoinHandle<String> {
    let listener = UnixListener::bind(socket).expect("a fresh folder");
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a caller");
        let mut line = String::new();
        BufReader::new(&stream)
            .read_line(&mut line)
            .expect("a line");
        // A caller that had to wait for too long has left.
        let _ = (&stream).write_all(reply.as_bytes());
        line
    })
}

#[test]
fn status_prints_a_daemons_reply_for_people_and_for_scripts() {
    const REPLY: &str = concat!(
        r#"{"reply":"mobile","version":"9.9","pid":1,"interface":"wwan0","#,
        r#""gateway":"192.0.2.1:4848","link":"going-down-soon","epoch":7,"acknowledged":true,"#,
        r#""refused":null,"addresses":["10.9.0.2"],"counters":{"sent":5}}"#,
        "\n"
    );
    let folder = tempfile::tempdir().expect("a folder");
    for json in [false, true] {
        let socket = folder.path().join(format!("{json}.sock"));
        let path = socket.to_str().expect("a plain name");
        let mut arguments = vec!["status", "--socket", path, "--flows", "3"];
        arguments.extend(json.then_some("--json"));
        let (output, request) = holdfast_answered(&arguments, &socket, REPLY);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(
            request,
            "{\"command\":\"status\",\"flows_max\":3,\"outages_max\":0}\n"
        );
        let printed = text(&output.stdout);
        if json {
            let value: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
            assert_eq!(
                (&value["link"], &value["epoch"]),
                (&"going-down-soon".into(), &7.into())
            );
        } else {
            assert!(
                printed.contains("link going-down-soon, epoch 7, acknowledged"),
                "{printed}"
            );
            assert!(printed.contains("sent 5"), "{printed}");
        }
    }
}

#[test]
fn a_daemons_refusal_is_the_callers_failure() {
    let folder = tempfile::tempdir().expect("a folder");
    for (reply, status, shown) in [
        ("{\"reply\":\"done\"}\n", 0, ""),
        (
            "{\"reply\":\"error\",\"message\":\"not today\"}\n",
            1,
            "not today",
        ),
        ("nonsense\n", 1, "not one of this version"),
        ("", 1, "without an answer"),
    ] {
        let socket = folder.path().join("hf.sock");
        let path = socket.to_str().expect("a plain name");
        let arguments = ["mobile", "signal", "down", "--socket", path];
        let (output, request) = holdfast_answered(&arguments, &socket, reply);
        assert_eq!(
            request,
            "{\"command\":\"signal\",\"event\":\"down\",\"lead_ms\":0}\n"
        );
        assert_eq!(output.status.code(), Some(status), "{reply}");
        assert!(
            text(&output.stderr).contains(shown),
            "{}",
            text(&output.stderr)
        );
    }
}

#[test]
fn pages_and_completions_are_made_for_every_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a plain name");
    for what in ["man", "completions", "settings", "examples"] {
        assert!(
            holdfast(&["generate", what, path]).status.success(),
            "{what}"
        );
    }
    for file in [
        "holdfast.1",
        "holdfast-gateway.8",
        "holdfast-mobile-keygen.8",
        "holdfast-top.1",
        "holdfast.toml.5",
        "holdfast.bash",
        "holdfast.fish",
        "_holdfast",
        "settings.md",
        "holdfast.toml",
        "mobile.toml",
    ] {
        let length = std::fs::metadata(folder.path().join(file))
            .expect(file)
            .len();
        assert!(length > 100, "{file} is empty");
    }
    let overview = std::fs::read_to_string(folder.path().join("holdfast.1")).expect("it is there");
    assert!(
        overview.contains("gateway(8)") && overview.contains("status(1)"),
        "{overview}"
    );
    assert_eq!(
        holdfast(&["generate", "man", "/nonexistent/x"])
            .status
            .code(),
        Some(1)
    );
}

#[test]
fn top_without_a_terminal_is_one_line_of_error() {
    let output = holdfast(&["top"]);
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(
        error.starts_with("holdfast: top: needs a terminal"),
        "{error}"
    );
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(output.stdout.is_empty());
}

/// Answers every caller until the folder of the socket is removed; counts them.
fn answer_all(socket: &Path, reply: &'static str) -> Arc<AtomicUsize> {
    let answered = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&answered);
    let listener = UnixListener::bind(socket).expect("a fresh folder");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            let mut line = String::new();
            // A caller may have left.
            let _ = BufReader::new(&stream).read_line(&mut line);
            let _ = (&stream).write_all(reply.as_bytes());
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    answered
}

#[test]
fn top_shows_the_daemon_again_and_again_and_gives_the_terminal_back() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
    use std::io::Read as _;
    use std::os::fd::AsFd as _;

    const REPLY: &str = concat!(
        r#"{"reply":"mobile","version":"9.9","pid":1,"interface":"wwan0","#,
        r#""gateway":"192.0.2.1:4848","link":"up","epoch":7,"acknowledged":true,"#,
        r#""refused":null,"addresses":["10.9.0.2"],"counters":{"sent":5}}"#,
        "\n"
    );
    for key in [b"q", b"\x03"] {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("hf.sock");
        let answered = answer_all(&socket, REPLY);
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&master).expect("it is ours");
        unlockpt(&master).expect("it is ours");
        let size = Winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&master, size).expect("it is ours");
        let name = ptsname(&master, Vec::new()).expect("it has a name");
        let name = text(name.as_bytes());
        let terminal = std::fs::File::options()
            .read(true)
            .write(true)
            .open(name)
            .expect("it is there");
        let modes = || {
            let modes = tcgetattr(terminal.as_fd()).expect("a terminal").local_modes;
            modes & (LocalModes::ICANON | LocalModes::ECHO)
        };
        let before = modes();
        let mut child = Command::new(env!("CARGO_BIN_EXE_holdfast"))
            .args(["top", "--interval", "0.1", "--socket"])
            .arg(&socket)
            .stdin(terminal.try_clone().expect("a descriptor"))
            .stdout(terminal.try_clone().expect("a descriptor"))
            .spawn()
            .expect("the binary was built for this test");
        let mut master = std::fs::File::from(master);
        let (mut shown, mut buffer) = (String::new(), [0; 4096]);
        // What has changed is drawn alone.
        while !shown.contains("interface wwan0") || answered.load(Ordering::Relaxed) < 3 {
            let len = master.read(&mut buffer).expect("it shows something");
            shown.push_str(&text(&buffer[..len]));
        }
        assert_ne!(modes(), before, "keys are not taken one by one");
        master.write_all(key).expect("it reads keys");
        assert!(child.wait().expect("it was started").success());
        assert_eq!(modes(), before);
        while !shown.contains("\x1b[?1049l") {
            let len = master.read(&mut buffer).expect("its last output");
            shown.push_str(&text(&buffer[..len]));
        }
        assert!(shown.starts_with("\x1b[?1049h"), "{shown}");
    }
}
