// SPDX-License-Identifier: Apache-2.0
//! A congestion control that sockets have without asking for it: all new ones of a network
//! namespace, or those of a control group.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use libbpf_rs::{Link, Object, ObjectBuilder};

use super::guardian::{Guardian, NAME_BYTES, Undo};
use super::{CongestionControl, bpf, check_name, padded};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/lccwe_cgroup.bpf.o"));

/// The calling thread's namespace's.
const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// Whose sockets have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All new ones of the calling thread's network namespace.
    Namespace,
    /// The new ones of processes of a control group (its folder in a `cgroup2` file system)
    /// and of those below it, of whatever namespace.
    Cgroup(PathBuf),
}

impl FromStr for Scope {
    type Err = String;

    /// `namespace`, or the absolute path of a control group.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "namespace" => Ok(Self::Namespace),
            path if path.starts_with('/') => Ok(Self::Cgroup(path.into())),
            other => Err(format!(
                "got {other}, takes `namespace` or the path of a control group"
            )),
        }
    }
}

/// A default; what was before is again when this is dropped, and when its process dies.
/// Sockets that were made meanwhile keep what they have.
pub struct DefaultControl {
    _kept: Kept,
    scope: Scope,
}

enum Kept {
    /// Its end undoes it.
    Namespace { _guardian: Guardian },
    /// Dropped in this order.
    Cgroup { _link: Link, _object: Object },
}

impl fmt::Debug for DefaultControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DefaultControl")
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}

impl CongestionControl {
    /// Makes it the default of all new sockets in `scope`. Keep it no longer than `self`.
    ///
    /// # Errors
    /// One line: what may not be written, or is no control group.
    pub fn make_default(&self, scope: Scope) -> io::Result<DefaultControl> {
        DefaultControl::new(self.name(), scope)
    }
}

impl DefaultControl {
    fn new(name: &str, scope: Scope) -> io::Result<Self> {
        check_name(name)?;
        let kept = match &scope {
            Scope::Namespace => of_namespace(name),
            Scope::Cgroup(path) => of_cgroup(name, path),
        };
        Ok(Self {
            _kept: kept?,
            scope,
        })
    }
}

fn of_namespace(name: &str) -> io::Result<Kept> {
    let failed = |step: &str, error: &io::Error| {
        let text = format!(
            "congestion control {name}: {DEFAULT}: {step}: {error}; needs root, or CAP_NET_ADMIN"
        );
        io::Error::new(error.kind(), text)
    };
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(DEFAULT)
        .map_err(|error| failed("open", &error))?;
    let mut text = String::new();
    file.read_to_string(&mut text)
        .map_err(|error| failed("read", &error))?;
    let undo = Undo::Default {
        ours: padded(name),
        before: name_before(text.trim(), name),
    };
    // Before there is something to undo.
    let guardian = Guardian::start(&file, undo)?;
    // From its begin: a setting takes nothing elsewhere.
    file.write_all_at(name.as_bytes(), 0)
        .map_err(|error| failed("write", &error))?;
    Ok(Kept::Namespace {
        _guardian: guardian,
    })
}

/// What was the default before; nothing, if it is ours already (an owner and its child were
/// killed at once).
fn name_before(found: &str, ours: &str) -> [u8; NAME_BYTES] {
    let is_known = found != ours && found.len() < NAME_BYTES;
    padded(if is_known { found } else { "" })
}

fn of_cgroup(name: &str, path: &Path) -> io::Result<Kept> {
    let failed = |error: &io::Error| {
        let shown = path.display();
        let text = format!(
            "congestion control {name}: {shown}: takes the folder of a control group in a cgroup2 file system: {error}"
        );
        io::Error::new(error.kind(), text)
    };
    let folder = File::open(path).map_err(|error| failed(&error))?;
    let object = load(name)?;
    let program = object
        .progs_mut()
        .find(|program| program.name() == "choose")
        .ok_or_else(|| io::Error::other("BPF programs: none that chooses"))?;
    let link = program
        .attach_cgroup(folder.as_raw_fd())
        .map_err(|error| failed(&bpf("attach", &error)))?;
    Ok(Kept::Cgroup {
        _link: link,
        _object: object,
    })
}

fn load(name: &str) -> io::Result<Object> {
    libbpf_rs::set_print(None);
    let mut open = ObjectBuilder::default()
        .open_memory(OBJECT)
        .map_err(|error| bpf("open", &error))?;
    let mut is_named = false;
    for mut map in open.maps_mut() {
        if !map.name().to_string_lossy().ends_with(".rodata") {
            continue;
        }
        if let Some(field) = map
            .initial_value_mut()
            .and_then(|value| value.get_mut(..NAME_BYTES))
        {
            field.copy_from_slice(&padded(name));
            is_named = true;
        }
    }
    if !is_named {
        return Err(io::Error::other("BPF programs: no field for the name"));
    }
    open.load().map_err(|error| bpf("load", &error))
}

#[cfg(test)]
mod tests;
