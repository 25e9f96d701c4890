// SPDX-License-Identifier: Apache-2.0
//! The repository's scenarios and claims, compiled into the program: `papers/` and
//! `docs/scenarios/`. A file on the disk with the same path comes first.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use holdfast_files::read_up_to;

// `FILES`: paths from the repository's root with their texts, sorted by path.
include!(concat!(env!("OUT_DIR"), "/library.rs"));

/// The text of a file, up to `bytes_max` bytes: from the disk, or else from the library.
///
/// # Errors
/// It is in neither, or cannot be read.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<String> {
    match (read_up_to(path, bytes_max), text(path)) {
        (Err(error), Some(text)) if error.kind() == ErrorKind::NotFound => Ok(text.to_owned()),
        (read, _) => read,
    }
}

/// The library's file or folder of this name. The name is a path from the repository's root;
/// `papers`, `docs` and `.toml` may be left out, as in `holdfast lab list`.
pub fn find(name: &Path) -> Option<PathBuf> {
    let name = without_dot(name);
    if name.as_os_str().is_empty() {
        return None;
    }
    let paths = ["", "papers", "docs"].map(|folder| Path::new(folder).join(name));
    paths.into_iter().find_map(|path| {
        let mut file = path.clone().into_os_string();
        file.push(".toml");
        let file = PathBuf::from(file);
        let is_there = |path: &PathBuf| text(path).is_some() || is_folder(path);
        [path, file].into_iter().find(is_there)
    })
}

/// Whether a file is on the disk or in the library.
pub fn exists(path: &Path) -> bool {
    path.exists() || text(path).is_some()
}

/// The text of a file of the library.
pub fn text(path: &Path) -> Option<&'static str> {
    let path = without_dot(path);
    let found = FILES.iter().find(|(file, _)| Path::new(file) == path);
    found.map(|(_, text)| *text)
}

/// Whether the library has files in this folder or below it.
pub fn is_folder(path: &Path) -> bool {
    !path.as_os_str().is_empty() && files_in(path).next().is_some()
}

/// The library's files in this folder and below it, sorted by path.
pub fn files_in(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let folder = without_dot(folder).to_owned();
    let files = FILES.iter().map(|(file, _)| PathBuf::from(file));
    let is_in = move |file: &PathBuf| *file != folder && file.starts_with(&folder);
    files.filter(is_in)
}

fn without_dot(path: &Path) -> &Path {
    path.strip_prefix(".").unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::claims::Paper;

    /// The files below `folder` that the library should have.
    fn on_disk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                on_disk(&path, found);
            } else if path.extension().is_some_and(|ending| ending == "toml") {
                found.push(path);
            }
        }
    }

    #[test]
    fn the_library_has_every_scenario_and_every_claim_of_the_repository() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut found = Vec::new();
        for folder in ["papers", "docs/scenarios"] {
            on_disk(&root.join(folder), &mut found);
        }
        assert_eq!(found.len(), FILES.len());
        for path in found {
            let own = text(path.strip_prefix(&root).unwrap());
            assert_eq!(own, Some(fs::read_to_string(&path).unwrap().as_str()));
        }
    }

    #[test]
    fn a_folder_of_the_library_is_found_by_whole_names_alone() {
        let count = |folder: &str| files_in(Path::new(folder)).count();
        assert!(count("papers/mtcp-1997") > 5);
        assert_eq!(count("papers/mtcp-1997/"), count("./papers/mtcp-1997"));
        assert_eq!(count("papers/mtcp-19"), 0);
        assert!(!is_folder(Path::new("papers/mtcp-1997/claims.toml")));
        assert!(exists(Path::new("papers/mtcp-1997/claims.toml")));
    }

    #[test]
    fn names_are_found_as_the_list_has_them() {
        for (name, path) in [
            ("mtcp-1997/long", "papers/mtcp-1997/long.toml"),
            ("papers/mtcp-1997/long.toml", "papers/mtcp-1997/long.toml"),
            ("scenarios/wake", "docs/scenarios/wake.toml"),
            ("./mtcp-1997", "papers/mtcp-1997"),
            ("docs/scenarios", "docs/scenarios"),
        ] {
            assert_eq!(find(Path::new(name)), Some(PathBuf::from(path)), "{name}");
        }
        for name in ["mtcp-1997/lon", "long", "", "mine"] {
            assert_eq!(find(Path::new(name)), None, "{name}");
        }
    }

    #[test]
    fn papers_are_read_from_the_library_as_from_the_disk() {
        // The tests' folder has no `papers`.
        let own = Paper::find(Path::new("papers")).unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers");
        let on_disk = Paper::find(&root).unwrap();
        assert_eq!(own.len(), on_disk.len());
        for (own, on_disk) in own.iter().zip(&on_disk) {
            assert_eq!(own.name, on_disk.name);
            let runs = [own, on_disk].map(|paper| paper.runs(true).unwrap().len());
            assert!(runs[0] > 10 && runs[0] == runs[1], "{}: {runs:?}", own.name);
        }
    }

    #[test]
    fn the_file_on_the_disk_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("claims.toml");
        fs::write(&file, "own").unwrap();
        assert_eq!(read(&file, 100).unwrap(), "own");
        assert!(read(&file, 2).is_err());
        let error = read(&folder.path().join("none"), 100).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
}
