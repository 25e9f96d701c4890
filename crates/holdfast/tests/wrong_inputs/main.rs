// SPDX-License-Identifier: Apache-2.0
//! Wrong arguments, files and variables: one line names what is wrong and what is right, the exit
//! status is the documented one, nothing is left behind and nothing is overwritten.
//!
//! Each row runs the program once, in a folder of its own that has files of many kinds, and in a
//! network namespace with an interface that is up (`w0`) and one that is down (`d0`).
#![allow(missing_docs, reason = "a test")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use holdfast_net::netns::{NetNs, available_or_skip};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, socket};

mod arguments;
mod files;
mod surroundings;

const HOLDFAST: &str = env!("CARGO_BIN_EXE_holdfast");
/// A wrong input that is not refused at once starts a daemon, or waits for something.
const LIMIT: Duration = Duration::from_secs(60);
/// The longest line that an operator has to read.
const LINE_CHARS_MAX: usize = 700;
const THREADS: usize = 4;
const KEY: &str = "hf1:0000000a:1111111111111111111111111111111111111111111111111111111111111111";

/// What makes a process one of a user without rights.
const NO_RIGHTS: [&str; 3] = ["--reuid=65534", "--regid=65534", "--clear-groups"];

/// One wrong input.
#[derive(Clone, Copy)]
struct Row {
    /// The arguments, apart by spaces. `{d}` is the row's folder, `''` nothing, `{long}` 5,000 characters,
    /// `{nl}` an end of line.
    command: &'static str,
    /// What is in `{d}/given.toml`, after the two lines that each such file needs.
    file: Option<&'static str>,
    /// A variable of the environment.
    variable: Option<(&'static str, &'static str)>,
    /// It runs as a user without rights.
    is_unprivileged: bool,
    status: i32,
    /// Parts of the line.
    parts: &'static [&'static str],
}

/// A row without anything.
const ROW: Row = Row {
    command: "",
    file: None,
    variable: None,
    is_unprivileged: false,
    status: 64,
    parts: &[],
};

/// A row of the command line alone.
const fn row(command: &'static str, status: i32, parts: &'static [&'static str]) -> Row {
    Row {
        command,
        status,
        parts,
        ..ROW
    }
}

/// Files of all kinds.
fn make_files(folder: &Path) {
    let path = |name: &str| folder.join(name);
    let gateway = "[gateway]\nwireless = \"nope0\"\n";
    let modem = "[mobile]\ninterface = \"w0\"\n[sources]\nmodem = \"auto\"\n";
    let scenario = "[transfer]\nbytes = 1000\n[wireless]\nrate_mbit_per_s = 1\n";
    for (name, content) in [
        ("text", b"precious\n".to_vec()),
        ("binary", (0..=255).collect()),
        ("latin1", b"# caf\xe9\n".to_vec()),
        ("huge", b"#\n".repeat(1 << 20)),
        (
            "bom.toml",
            [b"\xef\xbb\xbf".as_slice(), gateway.as_bytes()].concat(),
        ),
        ("crlf.toml", gateway.replace('\n', "\r\n").into_bytes()),
        ("hf.toml", gateway.into()),
        ("mobile.toml", b"[mobile]\ninterface = \"nope0\"\n".to_vec()),
        ("scenario.toml", scenario.into()),
        ("modem.toml", modem.into()),
        ("key", KEY.into()),
        ("locked", b"secret\n".to_vec()),
    ] {
        fs::write(path(name), content).unwrap();
    }
    for name in ["key", "locked"] {
        fs::set_permissions(path(name), Permissions::from_mode(0o600)).unwrap();
    }
    // Users without rights may look, and write nothing.
    fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(path("dir")).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(path("fifo"))
        .status();
    assert!(made.unwrap().success());
    // It never listened: a caller is refused even while another row's child has its descriptor.
    let socket = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddrUnix::new(path("sock")).unwrap()).unwrap();
    symlink(path("loop"), path("loop")).unwrap();
}

/// All that is in a folder: kind, mode and content of each.
fn inventory(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            let kind = metadata.file_type();
            let mut shown = format!("{:o}", metadata.permissions().mode());
            if kind.is_file() {
                let content = fs::read(&path).unwrap();
                let sum = content.iter().fold(7_u64, |sum, octet| {
                    sum.wrapping_mul(31).wrapping_add(u64::from(*octet))
                });
                write!(shown, " {} {sum}", content.len()).unwrap();
            } else if kind.is_dir() {
                folders.push(path.clone());
            } else {
                write!(
                    shown,
                    " fifo {} socket {}",
                    kind.is_fifo(),
                    kind.is_socket()
                )
                .unwrap();
            }
            found.insert(path, shown);
        }
    }
    found
}

/// The names of a namespace's devices.
fn devices(ns: &NetNs) -> Vec<String> {
    let read = || fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let text = ns.run(read).unwrap();
    let names = text.lines().filter_map(|line| line.split_once(':'));
    names.map(|(name, _)| name.trim().to_owned()).collect()
}

fn namespace() -> NetNs {
    let ns = NetNs::new().unwrap();
    let script = "ip link add w0 type veth peer name w1 && ip link set w0 up && ip link set w1 up
        ip address add 10.2.0.1/24 dev w0
        ip link add d0 type ifb";
    let status = ns.command("sh").args(["-e", "-c", script]).status();
    assert!(status.unwrap().success());
    ns
}

/// An argument, without its placeholders.
fn filled_in(word: &str, folder: &str) -> String {
    let long = "x".repeat(5_000);
    let word = if word == "''" { "" } else { word };
    word.replace("{d}", folder)
        .replace("{long}", &long)
        .replace("{nl}", "\n")
        .replace("{key}", KEY)
}

/// What the program did.
struct Answer {
    status: ExitStatus,
    output: String,
    error: String,
}

/// Runs the program in `folder`'s parent, where nothing of the project is.
fn answer(row: &Row, ns: &NetNs, folder: &Path) -> Result<Answer, String> {
    let shown = folder.to_str().unwrap();
    let parent = folder.parent().unwrap();
    let mut command = ns.command(if row.is_unprivileged {
        "setpriv"
    } else {
        HOLDFAST
    });
    if row.is_unprivileged {
        command.args(NO_RIGHTS).arg(HOLDFAST);
    }
    let arguments = row.command.split_whitespace();
    command.args(arguments.map(|argument| filled_in(argument, shown)));
    if let Some((name, value)) = row.variable {
        command.env(name, filled_in(value, shown));
    }
    let [output, error] = ["output", "error"].map(|name| parent.join(name));
    let create = |path: &Path| File::create(path).unwrap();
    command.current_dir(parent).stdin(Stdio::null());
    command.stdout(create(&output)).stderr(create(&error));
    let mut child = ns.spawn_guarded(command).unwrap();
    let status = child.wait_at_most(LIMIT).unwrap();
    let read = |path: &Path| String::from_utf8(fs::read(path).unwrap()).unwrap();
    let (output, error) = (read(&output), read(&error));
    match status {
        Some(status) => Ok(Answer {
            status,
            output,
            error,
        }),
        None => Err(format!("it goes on: {error}")),
    }
}

/// What is wrong with the program's answer to a row.
fn judge(row: &Row, ns: &NetNs) -> Result<(), String> {
    let scratch = tempfile::tempdir().unwrap();
    fs::set_permissions(&scratch, Permissions::from_mode(0o755)).unwrap();
    let folder = scratch.path().join("d");
    fs::create_dir(&folder).unwrap();
    make_files(&folder);
    let shown = folder.to_str().unwrap();
    if let Some(text) = row.file {
        let head = if row.command.starts_with("mobile") {
            "[mobile]\ninterface = \"w0\"\n"
        } else {
            "[gateway]\nwireless = \"w0\"\n"
        };
        let text = format!("{head}{}\n", filled_in(text, shown));
        fs::write(folder.join("given.toml"), text).unwrap();
    }
    let before = (inventory(&folder), devices(ns));
    let answer = answer(row, ns, &folder)?;
    let mut problems = Vec::new();
    if answer.status.code() != Some(row.status) {
        problems.push(answer.status.to_string());
    }
    let line = answer.error.strip_suffix('\n').unwrap_or_default();
    // What a variable spoils, and what a user without rights lacks, has lines of its own before it.
    let has_more = row.variable.is_some() || row.is_unprivileged;
    let log = line.rfind('\n').filter(|_| has_more);
    let line = log.map_or(line, |end| &line[end + 1..]);
    let is_line = line.starts_with("holdfast: ") && !line.contains(char::is_control);
    if !is_line || line.chars().count() > LINE_CHARS_MAX {
        problems.push("not one line".to_owned());
    }
    // Findings of a check are output.
    let is_check = row.command.contains("--check") || row.command.starts_with("setup");
    if !answer.output.is_empty() && !is_check {
        problems.push("it prints something".to_owned());
    }
    let printed = format!("{}{line}", answer.output).replace(shown, "{d}");
    let missing = row.parts.iter().filter(|part| !printed.contains(**part));
    problems.extend(missing.map(|part| format!("{part:?} is missing")));
    if (inventory(&folder), devices(ns)) != before {
        problems.push("it has left or changed something".to_owned());
    }
    if problems.is_empty() && !row.parts.is_empty() {
        return Ok(());
    }
    let Answer { output, error, .. } = answer;
    Err(format!("{}: {output}{error}", problems.join(", ")))
}

#[test]
fn each_wrong_input_is_refused_in_one_line_and_changes_nothing() {
    if !available_or_skip("each_wrong_input_is_refused_in_one_line_and_changes_nothing") {
        return;
    }
    let mut rows = [arguments::ROWS, surroundings::ROWS].concat();
    rows.extend(files::rows());
    let may_be_another = std::process::Command::new("setpriv")
        .args(NO_RIGHTS)
        .args([HOLDFAST, "--version"])
        .stdout(Stdio::null())
        .status();
    if !may_be_another.is_ok_and(|status| status.success()) {
        // Without root there is one user.
        rows.retain(|row| !row.is_unprivileged);
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let ns = namespace();
        let mut failures = String::new();
        while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(problem) = judge(row, &ns) {
                let file = row
                    .file
                    .map_or(String::new(), |file| format!(" with {file:?}"));
                writeln!(failures, "`{}`{file}: {problem}", row.command).unwrap();
            }
        }
        failures
    };
    let failures: String = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    println!("{} wrong inputs", rows.len());
    let failed = failures.lines().count();
    assert!(
        failures.is_empty(),
        "{failed} of {}:\n{failures}",
        rows.len()
    );
}
