// SPDX-License-Identifier: Apache-2.0
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::*;

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("holdfast-state-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Records of these tests end in a full stop.
fn is_record(record: [u8; 4]) -> bool {
    record[3] == b'.'
}

/// Opens it as soon as it is free: a process that another test starts has its descriptor until it
/// executes its program.
fn open_when_free(path: &Path, slots: usize) -> io::Result<Opened<4>> {
    let by = Instant::now() + Duration::from_secs(60);
    loop {
        match StateFile::open(path, slots, is_record) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < by => {
                std::thread::sleep(Duration::from_millis(2));
            }
            opened => return opened,
        }
    }
}

fn open(path: &Path, slots: usize) -> io::Result<StateFile<4>> {
    match open_when_free(path, slots)? {
        Opened::Ready(file) => Ok(file),
        Opened::NoSpace { error, .. } => panic!("{error}"),
    }
}

fn all(file: &StateFile<4>) -> Vec<[u8; 4]> {
    (0..file.slots()).map(|slot| file.get(slot)).collect()
}

#[test]
fn records_are_there_for_a_successor_with_more_or_less_room() {
    let folder = Folder::new("successor");
    let path = folder.file("state");
    let mut file = open(&path, 3).unwrap();
    file.put(0, b"one.");
    file.put(2, b"two.");
    drop(file);
    let mut file = open(&path, 5).unwrap();
    assert_eq!(all(&file), [*b"one.", [0; 4], *b"two.", [0; 4], [0; 4]]);
    file.clear(0);
    drop(file);
    let file = open(&path, 1).unwrap();
    assert_eq!(all(&file), [*b"two."]);
}

#[test]
fn two_daemons_cannot_share_the_file() {
    let folder = Folder::new("shared");
    let path = folder.file("state");
    let first = open(&path, 1).unwrap();
    let error = StateFile::<4>::open(&path, 1, is_record).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    drop(first);
    assert!(open(&path, 1).is_ok());
}

#[test]
fn a_file_of_a_version_without_a_header_is_understood() {
    let folder = Folder::new("old");
    let path = folder.file("state");
    let torn = *b"two\0";
    for (old, found) in [
        (
            [*b"one.", [0; 4], *b"two."].concat(),
            vec![*b"one.", *b"two.", [0; 4]],
        ),
        ([[0; 4]; 40].concat(), vec![[0; 4]; 3]),
        ([*b"one.", torn].concat(), vec![*b"one.", torn, [0; 4]]),
        (Vec::new(), vec![[0; 4]; 3]),
    ] {
        std::fs::write(&path, old).unwrap();
        assert_eq!(all(&open(&path, 3).unwrap()), found);
        // And again, with its header.
        assert_eq!(all(&open(&path, 3).unwrap()), found);
    }
}

#[test]
fn records_of_another_length_are_forgotten_and_the_file_is_used() {
    let folder = Folder::new("length");
    let path = folder.file("state");
    match StateFile::<8>::open(&path, 2, |_| true).unwrap() {
        Opened::Ready(mut file) => file.put(0, b"eight..."),
        Opened::NoSpace { error, .. } => panic!("{error}"),
    }
    assert_eq!(all(&open(&path, 4).unwrap()), [[0; 4]; 4]);
}

#[test]
fn what_is_not_a_state_file_is_refused_and_stays_as_it_is() {
    let folder = Folder::new("foreign");
    let path = folder.file("text");
    for text in [&b"precious"[..], b"x", b"abc\n", b"two.abc\ndef\n", &[0; 7]] {
        std::fs::write(&path, text).unwrap();
        let error = open(&path, 3).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{text:?}");
        assert_eq!(std::fs::read(&path).unwrap(), text);
    }
    let sparse = File::create(&path).unwrap();
    sparse.set_len(FILE_BYTES_MAX + 4).unwrap();
    assert_eq!(
        open(&path, 3).unwrap_err().kind(),
        io::ErrorKind::InvalidData
    );
}

#[test]
fn what_is_no_regular_file_is_refused_at_once() {
    let folder = Folder::new("kinds");
    let [fifo, link, target] = ["fifo", "link", "target"].map(|name| folder.file(name));
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    for path in [&fifo, &link, &folder.0, Path::new("/dev/null")] {
        let error = open(path, 3).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{path:?}");
    }
    assert!(!target.exists());
}

#[test]
fn no_other_user_may_read_or_write_the_file() {
    let folder = Folder::new("mode");
    let path = folder.file("state");
    std::fs::write(&path, "").unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    let file = open(&path, 3).unwrap();
    assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
    drop(file);
}

#[test]
fn all_space_is_taken_at_the_start_also_in_the_holes_of_an_old_file() {
    let folder = Folder::new("holes");
    let path = folder.file("state");
    // A hole of 8 MiB.
    File::create(&path).unwrap().set_len(8 << 20).unwrap();
    let file = open(&path, 2 << 20).unwrap();
    let blocks = path.metadata().unwrap().blocks();
    assert!(blocks * 512 >= 8 << 20, "{blocks} blocks");
    drop(file);
}

/// Runs with a tmpfs of this size, that no other process sees, at `at`. False: there are no namespaces.
fn with_tmpfs(at: &Path, kib: u32, work: impl FnOnce() + Send) -> bool {
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt as _;
    let target = CString::new(at.as_os_str().as_bytes()).unwrap();
    let options = CString::new(format!("size={kib}k")).unwrap();
    let mount = || {
        let flags = libc::MS_REC | libc::MS_PRIVATE;
        let (root, none) = (c"/".as_ptr(), std::ptr::null());
        // SAFETY: the strings end in a 0 and outlive the calls.
        unsafe {
            libc::unshare(libc::CLONE_NEWNS) == 0
                && libc::mount(none, root, none, flags, none.cast()) == 0
                && libc::mount(
                    c"tmpfs".as_ptr(),
                    target.as_ptr(),
                    c"tmpfs".as_ptr(),
                    0,
                    options.as_ptr().cast(),
                ) == 0
        }
    };
    // The namespace is the thread's own, and goes with it.
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let mounted = mount();
            if mounted {
                work();
            }
            mounted
        });
        thread.join().unwrap()
    })
}

#[test]
fn a_full_file_system_gives_what_is_left_and_no_file_that_kills_its_writer() {
    let test = "a_full_file_system_gives_what_is_left_and_no_file_that_kills_its_writer";
    if !crate::netns::available_or_skip(test) {
        return;
    }
    let folder = Folder::new("full");
    let path = folder.file("state");
    let mounted = with_tmpfs(&folder.0, 16, || {
        let mut file = open(&path, 3).unwrap();
        file.put(1, b"one.");
        drop(file);
        match open_when_free(&path, 1 << 20).unwrap() {
            Opened::Ready(mut file) => {
                // A write without space would end the process here by SIGBUS.
                (0..file.slots()).for_each(|slot| file.put(slot, b"all."));
                panic!("4 MiB in 16 KiB");
            }
            Opened::NoSpace { error, left } => {
                assert_eq!(error.kind(), io::ErrorKind::StorageFull);
                assert_eq!(left, [*b"one."]);
            }
        }
        assert_eq!(path.metadata().unwrap().len(), 0);
        // The space is free again.
        assert_eq!(all(&open(&path, 2).unwrap()), [[0; 4]; 2]);
    });
    assert!(mounted, "no tmpfs");
}
