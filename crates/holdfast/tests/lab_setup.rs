// SPDX-License-Identifier: Apache-2.0
//! `holdfast lab setup` with sources that only look like a kernel's: what it does is the
//! same, and takes a second.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const PATCHES: [&str; 2] = [
    include_str!("../../lab/virtual-kernel/random-seed.patch"),
    include_str!("../../lab/virtual-kernel/vdso-clock.patch"),
];

/// The first build hangs, with a child of its own, the second one is done at once; the
/// kernel "boots" and "runs" `uname -r`.
const MAKEFILE: &str = r"VERSION = 7
PATCHLEVEL = 2
allnoconfig:
	cp $(KCONFIG_ALLCONFIG) .config
linux:
	@if [ -e hung ]; then cp kernel linux; chmod +x linux; else \
	touch hung; sleep 1000 & echo $$! > sleeper.new; mv sleeper.new sleeper; wait; fi
";
const KERNEL: &str = r#"#!/bin/sh
echo 7.2.0-looks-like-it > stdout
echo '{"exit_code":0,"signal":null,"virtual_s":0.0,"error":null}' > virtual-outcome.json
"#;

/// No wait lasts longer.
const LIMIT: Duration = Duration::from_secs(60);

/// A test's folder: a cache, sources, and the tools that are missing here, as far as they
/// are only looked for.
struct Workshop {
    folder: tempfile::TempDir,
}

impl Workshop {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let tools = folder.path().join("tools");
        fs::create_dir(&tools).unwrap();
        for tool in ["gcc", "ld", "flex", "bison", "bc", "xz"] {
            fs::write(tools.join(tool), "").unwrap();
        }
        let tree = folder.path().join("linux-7.2");
        for (path, text) in files_that_the_patches_fit() {
            let path = tree.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        fs::write(tree.join("Makefile"), MAKEFILE).unwrap();
        fs::write(tree.join("kernel"), KERNEL).unwrap();
        let workshop = Self { folder };
        let mut tar = Command::new("tar");
        tar.arg("-cf").arg(workshop.tarball()).arg("linux-7.2");
        assert!(
            tar.current_dir(workshop.folder.path())
                .status()
                .unwrap()
                .success()
        );
        workshop
    }

    fn tarball(&self) -> PathBuf {
        self.folder.path().join("linux-7.2.tar")
    }

    fn setup(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        command.args(["lab", "setup", "--source"]);
        command
            .arg(self.tarball())
            .env("XDG_CACHE_HOME", self.folder.path());
        let path = std::env::var("PATH").unwrap();
        let tools = self.folder.path().join("tools");
        command.env("PATH", format!("{path}:{}", tools.display()));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The cache's folder with this ending; none: it is not there.
    fn cached(&self, ending: &str) -> Option<PathBuf> {
        let entries = fs::read_dir(self.folder.path().join("holdfast")).ok()?;
        let mut paths = entries.map(|entry| entry.unwrap().path());
        paths.find(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            name.starts_with("virtual-kernel-")
                && path.is_dir()
                && match path.extension() {
                    None => ending.is_empty(),
                    Some(own) => own == ending,
                }
        })
    }
}

/// The files that the patches change, as they are before: the lines that a hunk names
/// where it names them, and nothing between.
fn files_that_the_patches_fit() -> BTreeMap<String, String> {
    let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (mut path, mut line_number) = (String::new(), 0);
    for line in PATCHES.iter().flat_map(|patch| patch.lines()) {
        if let Some(old) = line.strip_prefix("--- ") {
            let (_, name) = old.split_once('/').unwrap();
            old.clone_into(&mut path);
            if old != "/dev/null" {
                name.clone_into(&mut path);
            }
        } else if let Some(hunk) = line.strip_prefix("@@ -") {
            let (first, _) = hunk.split_once([',', ' ']).unwrap();
            line_number = first.parse::<usize>().unwrap();
        } else if path != "/dev/null" && line.starts_with([' ', '-']) {
            let lines = files.entry(path.clone()).or_default();
            lines.resize(lines.len().max(line_number), String::new());
            line[1..].clone_into(&mut lines[line_number - 1]);
            line_number += 1;
        }
    }
    let whole = |lines: Vec<String>| {
        lines.iter().fold(String::new(), |mut text, line| {
            writeln!(text, "{line}").unwrap();
            text
        })
    };
    files
        .into_iter()
        .map(|(path, lines)| (path, whole(lines)))
        .collect()
}

fn wait_until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < deadline, "{what}: not within {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn end(mut child: Child) -> Output {
    wait_until("the end", || child.try_wait().unwrap());
    child.wait_with_output().unwrap()
}

#[test]
fn an_interrupted_setup_leaves_no_process_and_no_kernel_and_the_next_one_goes_on() {
    let workshop = Workshop::new();
    let child = workshop.setup().spawn().unwrap();
    let sleeper = wait_until("the build", || {
        let tree = workshop.cached("build")?.join("tree");
        fs::read_to_string(tree.join("sleeper")).ok()
    });
    let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let output = end(child);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("interrupted; what was built"), "{stderr}");
    let process = format!("/proc/{}/stat", sleeper.trim());
    // It has ended, or is a zombie until its new parent waits for it.
    wait_until("the build's child ends", || {
        let stat = fs::read_to_string(&process).unwrap_or_default();
        (stat.is_empty() || stat.contains(") Z ")).then_some(())
    });
    assert_eq!(workshop.cached(""), None, "a kernel that is not built");

    let output = end(workshop.setup().spawn().unwrap());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    // It went on: nothing was unpacked again.
    assert!(!stderr.contains("unpacking"), "{stderr}");
    let kernel = workshop.cached("").unwrap().join("linux");
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        stdout,
        format!("virtual kernel 7.2.0-looks-like-it: {}\n", kernel.display())
    );
    assert_eq!(
        workshop.cached("build"),
        None,
        "sources and objects are gone"
    );
}

#[test]
fn sources_that_are_not_there_are_named() {
    let workshop = Workshop::new();
    fs::remove_file(workshop.tarball()).unwrap();
    let output = end(workshop.setup().spawn().unwrap());
    let stderr = String::from_utf8(output.stderr).unwrap();
    let expected = format!("--source: {} cannot be read", workshop.tarball().display());
    assert!(
        !output.status.success() && stderr.contains(&expected),
        "{stderr}"
    );
}
