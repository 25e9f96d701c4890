// SPDX-License-Identifier: Apache-2.0
//! Where the kernel's sources come from: a tarball that is given, or Debian's package
//! `linux-source-X.Y`, by apt with lists of its own. That needs no root and leaves the
//! machine's sources as they are.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

use super::steps::Steps;

/// The oldest kernel that will do. System calls without ptrace came to User Mode Linux
/// with 6.16 (`seccomp=on`), programs at interfaces that detach with their owner (TCX)
/// with 6.6.
const OLDEST: Version = Version(6, 16);
/// The kernel that all was tried with: taken if Debian has it.
const TRIED: Version = Version(7, 2);

/// Debian's archive, and the suites in which kernels newer than its stable one are.
const ARCHIVE: &str = "http://deb.debian.org/debian";
const SUITES: [&str; 2] = ["sid", "trixie-backports"];
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
const PACKAGE: &str = "linux-source-";

/// A kernel's version, the first two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version(u32, u32);

impl Version {
    fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once('.')?;
        Some(Self(major.parse().ok()?, minor.parse().ok()?))
    }
}

/// Brings Debian's sources into `folder` and returns the tarball.
pub(super) fn download(folder: &Path, steps: &mut Steps<'_>) -> anyhow::Result<PathBuf> {
    let package_folder = folder.join("package");
    if let Some(tarball) = tarball_in(&package_folder) {
        return Ok(tarball);
    }
    for part in ["lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(folder.join("apt").join(part))?;
    }
    let source = |suite| format!("deb [signed-by={KEYRING}] {ARCHIVE} {suite} main\n");
    let sources = SUITES.map(source).concat();
    fs::write(folder.join("apt/sources.list"), sources)?;
    steps.run(apt("apt-get", folder).arg("update"), |_| {})?;
    let mut offered = Vec::new();
    let mut search = apt("apt-cache", folder);
    search.args(["search", "--names-only", "^linux-source-[0-9.]+$"]);
    steps.run(&mut search, |line| {
        let name = line.split_whitespace().next().unwrap_or_default();
        offered.extend(name.strip_prefix(PACKAGE).and_then(Version::parse));
    })?;
    let Version(major, minor) = choose(&offered).with_context(|| {
        format!(
            "Debian's {} have no linux-source-{}.{} or newer; give a kernel.org tarball with --source",
            SUITES.join(", "),
            OLDEST.0,
            OLDEST.1
        )
    })?;
    let package = format!("{PACKAGE}{major}.{minor}");
    for old in files_ending(folder, ".deb") {
        fs::remove_file(old)?;
    }
    let mut get = apt("apt-get", folder);
    steps.run(
        get.arg("download").arg(&package).current_dir(folder),
        |_| {},
    )?;
    let file = files_ending(folder, ".deb").pop();
    let file = file.with_context(|| format!("apt-get download {package}: brought no file"))?;
    let partial = folder.join("package.partial");
    remove_folder(&partial)?;
    let mut unpack = Command::new("dpkg-deb");
    steps.run(unpack.arg("-x").arg(&file).arg(&partial), |_| {})?;
    fs::rename(&partial, &package_folder)?;
    fs::remove_file(file)?;
    tarball_in(&package_folder).with_context(|| format!("{package}: has no sources in it"))
}

/// Debian's package tools with lists and cache in `folder`.
fn apt(program: &str, folder: &Path) -> Command {
    let mut command = Command::new(program);
    let own = folder.join("apt");
    let option = |key: &str, path: &str| format!("Dir::{key}={}", own.join(path).display());
    for setting in [
        option("Etc::sourcelist", "sources.list"),
        "Dir::Etc::sourceparts=-".to_owned(),
        option("State::lists", "lists"),
        option("Cache", "cache"),
        // Or it warns that another user cannot write here.
        "APT::Sandbox::User=".to_owned(),
        // Indexes of what nobody asks for.
        "Acquire::Languages=none".to_owned(),
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
        "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false".to_owned(),
    ] {
        command.arg("-o").arg(setting);
    }
    command.arg("-q").env("LC_ALL", "C");
    command
}

/// The one that was tried, or else the newest.
fn choose(offered: &[Version]) -> Option<Version> {
    let all = offered.iter().copied().filter(|&version| version >= OLDEST);
    all.max_by_key(|&version| (version == TRIED, version))
}

fn tarball_in(package: &Path) -> Option<PathBuf> {
    files_ending(&package.join("usr/src"), ".tar.xz").pop()
}

fn files_ending(folder: &Path, suffix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().ends_with(suffix))
        .collect()
}

/// Unpacks `tarball` and makes `patches`, each a name and a text, in it. `tree` is
/// there only when all has been done.
pub(super) fn unpack(
    tarball: &Path,
    patches: &[(&str, &str)],
    tree: &Path,
    steps: &mut Steps<'_>,
) -> anyhow::Result<()> {
    if tree.is_dir() {
        return Ok(());
    }
    let partial = tree.with_extension("partial");
    remove_folder(&partial)?;
    fs::create_dir_all(&partial)?;
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--strip-components=1", "--file"]);
    tar.arg(tarball).arg("--directory").arg(&partial);
    steps.run(&mut tar, |_| {})?;
    require_version(&partial, tarball)?;
    for (name, text) in patches {
        let file = partial.join(name);
        fs::write(&file, text)?;
        let mut patch = Command::new("patch");
        patch.args(["--strip=1", "--forward", "--input"]).arg(&file);
        let made = steps.run(patch.current_dir(&partial), |_| {});
        made.with_context(|| format!("{name}: does not fit these sources"))?;
    }
    Ok(fs::rename(&partial, tree)?)
}

/// An error if the sources are none of a kernel, or of one too old.
fn require_version(tree: &Path, tarball: &Path) -> anyhow::Result<()> {
    let path = tree.join("Makefile");
    let makefile = fs::read_to_string(&path).unwrap_or_default();
    let number = |key: &str| {
        let line = makefile.lines().find_map(|line| line.strip_prefix(key));
        line?.trim().strip_prefix('=')?.trim().parse().ok()
    };
    let (Some(major), Some(minor)) = (number("VERSION"), number("PATCHLEVEL")) else {
        bail!("{}: not the sources of Linux", tarball.display());
    };
    ensure!(
        Version(major, minor) >= OLDEST,
        "{}: Linux {major}.{minor}; takes {}.{} or newer",
        tarball.display(),
        OLDEST.0,
        OLDEST.1
    );
    Ok(())
}

/// Removes a folder that may not be there.
pub(super) fn remove_folder(path: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{}: cannot be removed", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_testbed::stop::StopFlag;

    #[test]
    fn the_kernel_that_was_tried_is_taken_or_else_the_newest_that_will_do() {
        let all = [Version(6, 12), Version(7, 2), Version(7, 3)];
        assert_eq!(choose(&all), Some(TRIED));
        assert_eq!(
            choose(&[Version(6, 18), Version(7, 3)]),
            Some(Version(7, 3))
        );
        assert_eq!(choose(&all[..1]), None);
    }

    fn tarball(folder: &Path, makefile: &str) -> PathBuf {
        let inner = folder.join("linux-source-1");
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("Makefile"), makefile).unwrap();
        let path = folder.join("linux.tar");
        let mut tar = Command::new("tar");
        tar.arg("-cf").arg(&path).arg("-C").arg(folder);
        assert!(tar.arg("linux-source-1").status().unwrap().success());
        path
    }

    #[test]
    fn sources_are_unpacked_and_patched_or_not_there_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let stop = StopFlag::default();
        let mut steps = Steps::new(&folder.path().join("log"), &stop).unwrap();
        let tree = folder.path().join("tree");
        let path = tarball(folder.path(), "VERSION = 6\nPATCHLEVEL = 18\n");
        let wrong = "--- a/Makefile\n+++ b/Makefile\n@@ -1 +1 @@\n-VERSION = 5\n+VERSION = 4\n";
        let error = unpack(&path, &[("wrong.patch", wrong)], &tree, &mut steps).unwrap_err();
        assert!(
            format!("{error:#}").starts_with("wrong.patch: does not fit"),
            "{error:#}"
        );
        assert!(!tree.exists());
        let right = wrong.replace("-VERSION = 5", "-VERSION = 6");
        unpack(&path, &[("right.patch", &right)], &tree, &mut steps).unwrap();
        let patched = fs::read_to_string(tree.join("Makefile")).unwrap();
        assert_eq!(patched, "VERSION = 4\nPATCHLEVEL = 18\n");
    }

    #[test]
    fn sources_that_are_too_old_or_none_are_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let stop = StopFlag::default();
        let mut steps = Steps::new(&folder.path().join("log"), &stop).unwrap();
        let tree = folder.path().join("tree");
        for (makefile, told) in [
            (
                "VERSION = 6\nPATCHLEVEL = 12\n",
                "Linux 6.12; takes 6.16 or newer",
            ),
            ("all:\n", "not the sources of Linux"),
        ] {
            let path = tarball(folder.path(), makefile);
            let error = unpack(&path, &[], &tree, &mut steps).unwrap_err();
            assert!(error.to_string().ends_with(told), "{error}");
        }
    }
}
