// SPDX-License-Identifier: Apache-2.0
//! A file of results: it has whole lines at any time, and the order of the runs at the end.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, BufWriter, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use holdfast_files as files;
use holdfast_lab::results::ResultLine;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::run_index::RunIndex;

/// A file of whole lines that one process at a time writes to.
#[derive(Debug)]
pub(super) struct LineFile {
    file: File,
    path: PathBuf,
    /// None if the file is no regular file.
    content: Option<Content>,
    /// The file still has an earlier command's results, which the first line replaces.
    is_earlier: bool,
}

#[derive(Debug, Default)]
struct Content {
    /// The length of the whole lines.
    bytes: u64,
    /// The lines that count.
    written: Vec<Written>,
}

/// A line, by its first byte and its length in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Written {
    /// The index of the line's run.
    index: usize,
    from: u64,
    bytes: u64,
}

impl LineFile {
    /// Opens the file, or makes it. The lines of an earlier command stay until the first line, or until
    /// [`Self::finish`].
    ///
    /// # Errors
    /// The file cannot be written, or another process has locked it.
    pub(super) fn create(path: &Path) -> anyhow::Result<Self> {
        let mut own = Self::open(path)?;
        own.is_earlier = own.content.is_some();
        Ok(own)
    }

    /// Removes the lines of an earlier command.
    fn remove_earlier(&mut self) -> anyhow::Result<()> {
        if self.is_earlier {
            self.file.set_len(0).with_context(|| cannot(&self.path))?;
            self.is_earlier = false;
        }
        Ok(())
    }

    /// Opens the file with its results, or makes it. Returns the results by the indices of their runs,
    /// and reports damaged lines.
    ///
    /// # Errors
    /// As [`Self::create`]; or the file is no regular file, or has a result of another run.
    pub(super) fn resume(
        path: &Path,
        index: &RunIndex,
    ) -> anyhow::Result<(Self, BTreeMap<usize, ResultLine>)> {
        let mut own = Self::open(path)?;
        ensure!(
            own.content.is_some(),
            "--resume: {} is no regular file",
            path.display()
        );
        let read = read_lines("--out", path, index)?;
        // A run may leave a file with nothing but an unfinished line.
        ensure!(
            !read.lines.is_empty() || read.content.bytes == 0,
            "--out: {} has no result of `holdfast lab run`; remove it, or name another",
            path.display()
        );
        // Cuts off an unfinished line: the next line must begin a new one.
        own.file
            .set_len(read.content.bytes)
            .with_context(|| cannot(path))?;
        own.content = Some(read.content);
        Ok((own, read.lines))
    }

    fn open(path: &Path) -> anyhow::Result<Self> {
        // The file is not emptied before it is locked.
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.with_context(|| cannot(path))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => bail!(
                "--out: another run writes to {}; give each run a file of its own",
                path.display()
            ),
            locked => locked.with_context(|| cannot(path))?,
        }
        files::check_overwritable(path, files::JSON_LINES).with_context(|| cannot(path))?;
        let is_regular = file.metadata().with_context(|| cannot(path))?.is_file();
        Ok(Self {
            file,
            path: path.to_owned(),
            content: is_regular.then(Content::default),
            is_earlier: false,
        })
    }

    /// Writes the line of the run at `index` by one write. After an error nothing of it stays.
    pub(super) fn write(&mut self, index: usize, mut line: String) -> anyhow::Result<()> {
        self.remove_earlier()?;
        line.push('\n');
        let result = self.file.write_all(line.as_bytes());
        if let Some(content) = &mut self.content {
            if result.is_ok() {
                content.add(index, line.len() as u64);
            } else {
                self.file.set_len(content.bytes).with_context(|| {
                    format!("--out: the end of {} is no whole line", self.path.display())
                })?;
            }
        }
        result.with_context(|| format!("--out: cannot write to {}", self.path.display()))
    }

    /// Puts the lines in the order of the runs, and drops damaged lines and further results of the same
    /// runs.
    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        self.remove_earlier()?;
        let Some(Content { bytes, mut written }) = self.content else {
            return Ok(());
        };
        let counted: u64 = written.iter().map(|line| line.bytes).sum();
        if counted == bytes && written.is_sorted_by_key(|line| line.index) {
            return Ok(());
        }
        written.sort_by_key(|line| line.index);
        // The name may be a link: the rename must replace the file itself.
        let path = fs::canonicalize(&self.path).with_context(|| cannot(&self.path))?;
        put_in_order(&path, &written).with_context(|| {
            let shown = path.display();
            format!("--out: the lines of {shown} cannot be put in the order of the runs")
        })
    }
}

impl Content {
    /// Adds the next line, which counts.
    fn add(&mut self, index: usize, bytes: u64) {
        let from = self.bytes;
        self.written.push(Written { index, from, bytes });
        self.bytes += bytes;
    }
}

fn cannot(path: &Path) -> String {
    format!("--out: {} cannot be written", path.display())
}

/// Leaves only these lines in the file, in this order. They are written to a new file, which then
/// replaces it: the file is whole at any time.
fn put_in_order(path: &Path, lines: &[Written]) -> io::Result<()> {
    let mut part = path.to_owned().into_os_string();
    part.push(format!(".{}.part", std::process::id()));
    let part = PathBuf::from(part);
    let from = File::open(path)?;
    // An existing file of that name belongs to another program.
    let to = OpenOptions::new().write(true).create_new(true).open(&part);
    let to =
        to.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", part.display())))?;
    to.set_permissions(from.metadata()?.permissions())
        .and_then(|()| copy_lines(&from, to, lines))
        .and_then(|()| fs::rename(&part, path))
        .inspect_err(|_| drop(fs::remove_file(&part)))
}

/// Writes these lines of one file to another one.
fn copy_lines(from: &File, to: File, lines: &[Written]) -> io::Result<()> {
    let mut to = BufWriter::new(to);
    let mut buffer = Vec::new();
    for line in lines {
        buffer.resize(line.bytes as usize, 0);
        from.read_exact_at(&mut buffer, line.from)?;
        to.write_all(&buffer)?;
    }
    to.into_inner()?.sync_all()
}

/// The content of a file of results.
struct Read {
    /// The results by the indices of their runs, without series: these are long, and stay in the file.
    lines: BTreeMap<usize, ResultLine>,
    content: Content,
}

/// The results in a file. Of two results of one run the first counts.
///
/// # Errors
/// As [`each_line`].
fn read_lines(option: &str, path: &Path, index: &RunIndex) -> anyhow::Result<Read> {
    let (mut lines, mut content) = (BTreeMap::new(), Content::default());
    let mut twice = 0;
    each_line(option, path, index, |text, result| {
        let bytes = text.len() as u64 + 1;
        if let Some((index, mut line)) = result {
            if let Entry::Vacant(entry) = lines.entry(index) {
                line.series = None;
                entry.insert(line);
                content.add(index, bytes);
                return Ok(());
            }
            twice += 1;
        }
        content.bytes += bytes;
        Ok(())
    })?;
    if twice > 0 {
        let shown = path.display();
        eprintln!("{option}: {shown}: {twice} results are there twice: the first ones count");
    }
    Ok(Read { lines, content })
}

/// Calls `take` with each complete line of a file of results, without its line end. `take` also gets the
/// index of the line's run and the result; none if the line is damaged. Reports damaged lines.
///
/// # Errors
/// The file cannot be read, or has a result of another run; or the error of `take`.
pub(super) fn each_line(
    option: &str,
    path: &Path,
    index: &RunIndex,
    mut take: impl FnMut(&[u8], Option<(usize, ResultLine)>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let shown = path.display();
    let unreadable = || format!("{option}: {shown} cannot be read");
    let mut file = BufReader::new(File::open(path).with_context(unreadable)?);
    let mut octets = Vec::new();
    for number in 1.. {
        octets.clear();
        let bytes = file.read_until(b'\n', &mut octets);
        if bytes.with_context(unreadable)? == 0 {
            break;
        }
        if octets.pop() != Some(b'\n') {
            eprintln!("{option}: {shown}, line {number} is not complete: its run is repeated");
            break;
        }
        let parsed = serde_json::from_slice::<ResultLine>(&octets).ok();
        let result = parsed.map(|line| Ok((index.find(&line)?, line)));
        let result: anyhow::Result<Option<_>> = result.transpose();
        let result = result.with_context(|| format!("{option}: {shown}, line {number}"))?;
        if result.is_none() {
            eprintln!("{option}: {shown}, line {number} is damaged: its run is repeated");
        }
        take(&octets, result)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use holdfast_lab::results;
    use holdfast_lab::scenario::{Parameters, Run, Scenario};
    use holdfast_lab::substrate::SubstrateKind;

    #[test]
    fn a_file_that_a_run_writes_to_is_refused_to_another_and_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        fs::write(&path, "{\"of\":\"an earlier run\"}\n").unwrap();
        let mut first = LineFile::create(&path).unwrap();
        first.write(0, "one".into()).unwrap();
        let error = LineFile::create(&path).unwrap_err().to_string();
        assert!(
            error.starts_with("--out: another run writes to ") && error.ends_with("its own"),
            "{error}"
        );
        first.write(1, "two".into()).unwrap();
        drop(first);
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n");
        // A file that is no result belongs to the operator.
        let error = format!("{:#}", LineFile::create(&path).unwrap_err());
        assert!(error.contains("no earlier output"), "{error}");
    }

    #[test]
    fn what_an_earlier_command_wrote_stays_until_the_first_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let text = || fs::read_to_string(&path).unwrap();
        let earlier = "{}\n{}\n";
        fs::write(&path, earlier).unwrap();
        drop(LineFile::create(&path).unwrap());
        assert_eq!(text(), earlier);
        let mut file = LineFile::create(&path).unwrap();
        file.write(0, "{}".into()).unwrap();
        assert_eq!(text(), "{}\n");
        drop(file);
        LineFile::create(&path).unwrap().finish().unwrap();
        assert_eq!(text(), "");
    }

    #[test]
    fn a_device_takes_lines_too() {
        let mut file = LineFile::create(Path::new("/dev/null")).unwrap();
        assert!(file.content.is_none());
        file.write(0, "line".into()).unwrap();
        let mut full = LineFile::create(Path::new("/dev/full")).unwrap();
        let error = full.write(0, "line".into()).unwrap_err().to_string();
        assert_eq!(error, "--out: cannot write to /dev/full");
    }

    #[test]
    fn lines_that_came_in_another_order_are_in_the_order_of_the_runs_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("lines"), folder.path().join("link"));
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let mut file = LineFile::create(&link).unwrap();
        for (index, line) in [(2, "third"), (0, "first"), (1, "second")] {
            file.write(index, line.into()).unwrap();
        }
        // As they came.
        assert_eq!(fs::read_to_string(&path).unwrap(), "third\nfirst\nsecond\n");
        file.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "first\nsecond\nthird\n");
        assert!(link.is_symlink());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn files_beside_it_stay_as_they_are_and_its_mode_too() {
        let folder = tempfile::tempdir().unwrap();
        let [path, other] = ["lines", "lines.part"].map(|name| folder.path().join(name));
        fs::write(&other, "another's").unwrap();
        let mut file = LineFile::create(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        file.write(1, "second".into()).unwrap();
        file.write(0, "first".into()).unwrap();
        file.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "first\nsecond\n");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(&other).unwrap(), "another's");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    fn runs(more: &str) -> Vec<Run> {
        let text = format!("repetitions = 3\n[transfer]\nbytes = 1000\n[wireless]\n{more}");
        Scenario::parse(Path::new("s.toml"), &text)
            .unwrap()
            .runs(None)
            .unwrap()
    }

    fn line_of(run: &Run) -> String {
        line_with(run, SubstrateKind::Model.conditions(run))
    }

    /// As a program wrote it whose lines had the keys alone that the scenario gives.
    fn older_line_of(run: &Run) -> String {
        line_with(run, (*run.given).clone())
    }

    fn line_with(run: &Run, conditions: Parameters) -> String {
        line_by(results::COMMIT, run, conditions)
    }

    fn line_by(commit: &str, run: &Run, conditions: Parameters) -> String {
        let line = ResultLine {
            commit: commit.into(),
            scenario: run.scenario.clone(),
            variant: run.variant.clone(),
            seed: run.seed,
            substrate: "model".into(),
            conditions,
            ..ResultLine::default()
        };
        serde_json::to_string(&line).unwrap()
    }

    #[test]
    fn what_an_interrupted_command_left_counts_once_and_damaged_lines_do_not() {
        let runs = runs("");
        let index = RunIndex::new(&runs, SubstrateKind::Model, "model").unwrap();
        let [first, second, third] = [&runs[0], &runs[1], &runs[2]].map(line_of);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        // The third's is there twice, then half of the first one joined to a line, then half of
        // the second one at the end.
        let (half, cut) = (&first[..40], &second[..60]);
        fs::write(&path, format!("{third}\n{third}\n{half}{third}\n{cut}")).unwrap();
        let (mut file, found) = LineFile::resume(&path, &index).unwrap();
        assert_eq!(found.into_keys().collect::<Vec<_>>(), [2]);
        file.write(1, second.clone()).unwrap();
        file.write(0, first.clone()).unwrap();
        file.finish().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, format!("{first}\n{second}\n{third}\n"));
        // A whole file stays as it is.
        let (file, found) = LineFile::resume(&path, &index).unwrap();
        assert_eq!(found.len(), 3);
        file.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }

    #[test]
    fn lines_of_an_older_program_with_what_the_scenario_gives_count() {
        let runs = runs("delay_ms = 25");
        let index = RunIndex::new(&runs, SubstrateKind::Model, "model").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let text = format!("{}\n{}\n", older_line_of(&runs[0]), line_of(&runs[2]));
        fs::write(&path, text).unwrap();
        let (_, found) = LineFile::resume(&path, &index).unwrap();
        assert_eq!(found.into_keys().collect::<Vec<_>>(), [0, 2]);
    }

    /// Another version has a key more and a key less. With a key of this version it is another scenario.
    #[test]
    fn of_lines_of_another_version_the_common_keys_are_compared() {
        let runs = runs("");
        let index = RunIndex::new(&runs, SubstrateKind::Model, "model").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let mut conditions = SubstrateKind::Model.conditions(&runs[0]);
        conditions.remove("wireless.delay_ms").unwrap();
        conditions.insert("wireless.temperature".into(), 20.into());
        let is_resumed = |commit| {
            let line = line_by(commit, &runs[0], conditions.clone());
            fs::write(&path, format!("{line}\n")).unwrap();
            LineFile::resume(&path, &index).is_ok()
        };
        assert_eq!(["another", results::COMMIT].map(is_resumed), [true, false]);
    }

    #[test]
    fn a_file_of_other_runs_is_refused_and_stays_as_it_is() {
        let runs_now = runs("delay_ms = 25");
        let index = RunIndex::new(&runs_now, SubstrateKind::Model, "model").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let check = |text: &str, expected: &str| {
            fs::write(&path, text).unwrap();
            let error = format!("{:#}", LineFile::resume(&path, &index).unwrap_err());
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        };
        let line = |run: &Run| format!("{}\n", line_of(run));
        let earlier = line(&runs("delay_ms = 20")[0]);
        check(&earlier, "line 1: wireless.delay_ms was 20, and is 25 now");
        check(
            &line(&runs("")[0]),
            "line 1: wireless.delay_ms was 0, and is 25 now",
        );
        let older = older_line_of(&runs("")[0]);
        check(
            &format!("{older}\n"),
            "line 1: wireless.delay_ms was not given, and is 25 now",
        );
        let other = line(&runs_now[0]).replace("\"model\"", "\"linux\"");
        check(&other, "line 1: no run of this command");
        check(
            "{\"a\":1}\n{\"b\":2}\n",
            "has no result of `holdfast lab run`",
        );
        check("a letter\n", "no earlier output of this kind");
    }
}
