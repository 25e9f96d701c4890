// SPDX-License-Identifier: Apache-2.0
//! Loads BPF programs and attaches them.
//!
//! By TCX links where the kernel has them (6.6): those detach with their
//! owner, however it ends. Else as clsact filters, which outlive a killed owner;
//! a heartbeat or a deadline then makes them pass everything on, and a successor
//! replaces them.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libbpf_rs::{
    MapCore, MapHandle, Object, ObjectBuilder, TC_EGRESS, TC_INGRESS, TcAttachPoint, TcHook,
    TcHookBuilder,
};

mod entries;

pub(crate) use entries::for_each_entry;
#[cfg(test)]
pub(crate) use entries::for_each_entry_of;

/// Descriptors from this number on are links; see [`raise`].
const LINK_FD_MIN: i32 = 512;
/// Where our clsact filters stand, and by what a successor finds them.
const CLSACT_PRIORITY: u32 = 1;
const CLSACT_HANDLE: u32 = 0x4846;
const CLSACT_HANDLE_BESIDE: u32 = 0x4847;

/// How the programs are attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttachMode {
    /// TCX links, or clsact filters where the kernel has none.
    #[default]
    Auto,
    /// Clsact filters.
    Clsact,
}

/// The loaded programs and maps, before they are attached.
#[derive(Debug)]
pub(crate) struct Programs {
    object: Object,
    clsact_handle: u32,
}

impl Programs {
    /// Loads `object` with `settings` in its section of constants, and the maps named in
    /// `entries` with room for this many.
    pub(crate) fn load(
        object: &[u8],
        settings: &[u8],
        entries: &[(&str, u32)],
    ) -> io::Result<Self> {
        silence_libbpf();
        let mut open = ObjectBuilder::default()
            .open_memory(object)
            .map_err(|e| bpf("open", &e))?;
        for (name, entries) in entries {
            open.maps_mut()
                .find(|map| map.name() == *name)
                .ok_or_else(|| io::Error::other(format!("BPF programs: no map {name}")))?
                .set_max_entries(*entries)
                .map_err(|error| bpf("map size", &error))?;
        }
        let mut rodata = open
            .maps_mut()
            .find(|map| map.name().to_string_lossy().ends_with(".rodata"))
            .ok_or_else(|| io::Error::other("BPF programs: no settings section"))?;
        let value = rodata
            .initial_value_mut()
            .filter(|value| value.len() == settings.len())
            .ok_or_else(|| io::Error::other("BPF programs: settings of another size"))?;
        value.copy_from_slice(settings);
        let object = open.load().map_err(|error| bpf("load", &error))?;
        Ok(Self {
            object,
            clsact_handle: CLSACT_HANDLE,
        })
    }

    /// The same with other clsact filters: it may be at an interface beside another data path.
    pub(crate) const fn beside_others(mut self) -> Self {
        self.clsact_handle = CLSACT_HANDLE_BESIDE;
        self
    }

    /// The maps of `object` named in `maps`, as another process has loaded them, by their
    /// descriptors; no other map, and no program.
    pub(crate) fn of_maps(object: &[u8], maps: &[(&str, BorrowedFd<'_>)]) -> io::Result<Self> {
        silence_libbpf();
        let mut open = ObjectBuilder::default()
            .open_memory(object)
            .map_err(|e| bpf("open", &e))?;
        open.progs_mut()
            .for_each(|mut program| program.set_autoload(false));
        for mut map in open.maps_mut() {
            let lent = maps.iter().find(|(name, _)| map.name() == *name);
            match lent {
                Some((_, fd)) => map.reuse_fd(*fd),
                None => map.set_autocreate(false),
            }
            .map_err(|error| bpf("lent map", &error))?;
        }
        let object = open.load().map_err(|error| bpf("load", &error))?;
        Ok(Self {
            object,
            clsact_handle: CLSACT_HANDLE,
        })
    }

    pub(crate) fn map(&self, name: &str) -> io::Result<MapHandle> {
        let map = self
            .object
            .maps()
            .find(|map| map.name() == name)
            .ok_or_else(|| io::Error::other(format!("BPF programs: no map {name}")))?;
        MapHandle::try_from(&map).map_err(|error| bpf("map", &error))
    }

    /// Of each program: its name, how often it ran while statistics were gathered, and
    /// nanoseconds a run.
    pub(crate) fn run_times(&self) -> io::Result<Vec<(String, u64, f64)>> {
        self.object
            .progs()
            .map(|program| {
                let mut info = libbpf_sys::bpf_prog_info::default();
                let mut length = size_of::<libbpf_sys::bpf_prog_info>() as u32;
                // SAFETY: the kernel writes `length` octets at most into the structure, whose
                // lengths and pointers to more are zero.
                let result = unsafe {
                    libbpf_sys::bpf_obj_get_info_by_fd(
                        program.as_fd().as_raw_fd(),
                        (&raw mut info).cast(),
                        &raw mut length,
                    )
                };
                if result < 0 {
                    return Err(io::Error::from_raw_os_error(-result));
                }
                let name = program.name().to_string_lossy().into_owned();
                let runs = info.run_cnt;
                Ok((name, runs, info.run_time_ns as f64 / runs.max(1) as f64))
            })
            .collect()
    }

    /// Attaches the program `name` to the interface `ifindex`, before all others.
    pub(crate) fn attach(
        &self,
        name: &str,
        ifindex: u32,
        side: HookSide,
        mode: AttachMode,
    ) -> io::Result<Hook> {
        let program = self
            .object
            .progs()
            .find(|program| program.name() == name)
            .ok_or_else(|| io::Error::other(format!("BPF programs: no program {name}")))?;
        if mode == AttachMode::Auto {
            match attach_tcx(program.as_fd().as_raw_fd(), ifindex, side) {
                Ok(link) => return Ok(Hook::Tcx(link)),
                // A kernel without TCX does not know the attach type.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
                Err(error) => return Err(io::Error::new(error.kind(), format!("{name}: {error}"))),
            }
        }
        let mut hook = TcHookBuilder::new(program.as_fd())
            .ifindex(ifindex as i32)
            .replace(true)
            .handle(self.clsact_handle)
            .priority(CLSACT_PRIORITY)
            .hook(side.point());
        hook.create().map_err(|error| bpf("clsact", &error))?;
        hook.attach()
            .map_err(|error| bpf("clsact filter", &error))?;
        Ok(Hook::Clsact(hook))
    }
}

/// On which way of an interface a program stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HookSide {
    Ingress,
    Egress,
}

impl HookSide {
    const fn point(self) -> TcAttachPoint {
        match self {
            Self::Ingress => TC_INGRESS,
            Self::Egress => TC_EGRESS,
        }
    }
}

/// An attached program; detached when dropped.
#[derive(Debug)]
pub(crate) enum Hook {
    Tcx(#[expect(dead_code, reason = "held for its drop")] OwnedFd),
    Clsact(TcHook),
}

// SAFETY: TcHook is plain data (an index, numbers); it is not Send only because
// of a pointer that libbpf reserves in its options and that is null here.
unsafe impl Send for Hook {}

impl Hook {
    pub(crate) const fn is_tcx(&self) -> bool {
        matches!(self, Self::Tcx(_))
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        if let Self::Clsact(hook) = self {
            // It fails when the interface is removed, and then there is nothing to do.
            let _ = hook.detach();
        }
    }
}

fn attach_tcx(program: i32, ifindex: u32, side: HookSide) -> io::Result<OwnedFd> {
    let attach_type = match side {
        HookSide::Ingress => libbpf_sys::BPF_TCX_INGRESS,
        HookSide::Egress => libbpf_sys::BPF_TCX_EGRESS,
    };
    let options = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as libbpf_sys::size_t,
        flags: libbpf_sys::BPF_F_BEFORE,
        ..Default::default()
    };
    // SAFETY: the options outlive the call, and their unused part is zero.
    let fd = unsafe {
        libbpf_sys::bpf_link_create(program, ifindex as i32, attach_type, &raw const options)
    };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: fd was just opened and has no other owner.
    Ok(raise(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Moves a link's descriptor above those of the devices.
///
/// When a process dies the kernel closes descriptors in ascending order, but
/// releases what is behind them in the opposite one. The links must go before the
/// devices, or redirected frames are dropped in between.
fn raise(link: OwnedFd) -> OwnedFd {
    rustix::io::fcntl_dupfd_cloexec(&link, LINK_FD_MIN).unwrap_or(link)
}

pub(crate) fn bpf(step: &str, error: &libbpf_rs::Error) -> io::Error {
    let kind = match error.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => io::ErrorKind::PermissionDenied,
        libbpf_rs::ErrorKind::NotFound => io::ErrorKind::NotFound,
        libbpf_rs::ErrorKind::InvalidInput => io::ErrorKind::InvalidInput,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, format!("BPF programs: {step}: {error}"))
}

/// Keeps libbpf from writing to standard error; what matters is in the errors.
fn silence_libbpf() {
    libbpf_rs::set_print(None);
}

/// A mappable map's values, mapped into our memory: values for programs and for us.
#[derive(Debug)]
pub(crate) struct SharedValues {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory is shared, and accessed only by atomic loads and stores.
unsafe impl Send for SharedValues {}

impl SharedValues {
    const PAGE_BYTES: usize = 4096;

    /// Maps the first page of `map`, which is mappable (`BPF_F_MMAPABLE`).
    pub(crate) fn map(map: &MapHandle) -> io::Result<Self> {
        Self::map_bytes(map, Self::PAGE_BYTES)
    }

    /// Maps this many bytes of `map`, which is mappable.
    pub(crate) fn map_bytes(map: &MapHandle, bytes: usize) -> io::Result<Self> {
        // SAFETY: a fresh mapping of pages that the kernel chooses; the map is
        // mappable and long enough, or the call fails.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_fd().as_raw_fd(),
                0,
            )
        };
        match NonNull::new(address.cast()) {
            Some(start) if address != libc::MAP_FAILED => Ok(Self { start, bytes }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// A word of 64 bits, by its number in the memory.
    pub(crate) fn word(&self, number: usize) -> &AtomicU64 {
        assert!(number < self.bytes / 8, "word {number} is outside");
        // SAFETY: the memory is mapped while self lives, aligned to a page, and has the word.
        unsafe { self.start.cast::<AtomicU64>().add(number).as_ref() }
    }

    /// A word of 32 bits, by its number in the memory.
    pub(crate) fn half_word(&self, number: usize) -> &AtomicU32 {
        assert!(number < self.bytes / 4, "half word {number} is outside");
        // SAFETY: as in `word`; a word is read either whole or by halves.
        unsafe { self.start.cast::<AtomicU32>().add(number).as_ref() }
    }

    /// Stores a word, by its number in the value.
    pub(crate) fn store(&self, number: usize, word: u64) {
        self.word(number).store(word, Ordering::Relaxed);
    }

    /// What a word holds.
    pub(crate) fn load(&self, number: usize) -> u64 {
        self.word(number).load(Ordering::Relaxed)
    }
}

impl Drop for SharedValues {
    fn drop(&mut self) {
        // SAFETY: the memory was mapped with this length, and nothing refers to it now.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Runs a loaded program on a frame, as the kernel's BPF_PROG_RUN does: its answer, the frame
/// as it left it, and the time that one of `repeat` runs took.
#[cfg(test)]
pub(crate) fn run_once(
    programs: &Programs,
    name: &str,
    frame: &[u8],
    repeat: u32,
) -> io::Result<(i32, Vec<u8>, std::time::Duration)> {
    run_super(programs, name, frame, 0, repeat)
}

/// The same of a super-segment of pieces of `gso_size` bytes; 0: it is none.
#[cfg(test)]
pub(crate) fn run_super(
    programs: &Programs,
    name: &str,
    frame: &[u8],
    gso_size: u32,
    repeat: u32,
) -> io::Result<(i32, Vec<u8>, std::time::Duration)> {
    /// Where the length of the pieces stands in `struct __sk_buff` (linux/bpf.h).
    const GSO_SIZE: usize = 176;

    let program = programs
        .object
        .progs_mut()
        .find(|program| program.name() == name)
        .ok_or_else(|| io::Error::other(format!("no program {name}")))?;
    let mut out = vec![0; frame.len() + 256];
    let mut context = [0; GSO_SIZE + 4];
    context[GSO_SIZE..].copy_from_slice(&gso_size.to_ne_bytes());
    let input = libbpf_rs::ProgramInput {
        data_in: Some(frame),
        data_out: Some(&mut out),
        context_in: (gso_size != 0).then_some(&mut context[..]),
        repeat,
        ..Default::default()
    };
    let output = program
        .test_run(input)
        .map_err(|error| bpf("test run", &error))?;
    let left = output.data.map(|data| data.to_vec()).unwrap_or_default();
    Ok((output.return_value as i32, left, output.duration))
}

#[cfg(test)]
mod tests {
    use super::*;

    static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/mobile.bpf.o"));

    /// A structure that grew in C alone would shift each setting behind it.
    #[test]
    fn settings_of_another_size_and_maps_of_another_name_are_refused_before_the_kernel_sees_any() {
        let refused = |object: &[u8], settings: &[u8], entries: &[(&str, u32)]| {
            let programs = Programs::load(object, settings, entries);
            programs.expect_err("it does not fit").to_string()
        };
        for (shown, expected) in [
            (refused(OBJECT, &[0; 1], &[]), "settings of another size"),
            (refused(OBJECT, &[0; 4096], &[]), "settings of another size"),
            (refused(OBJECT, &[0; 1], &[("flow", 64)]), "no map flow"),
            (refused(b"no object", &[0; 1], &[]), "BPF programs: open:"),
        ] {
            assert!(shown.contains(expected), "{shown}");
        }
    }

    /// `--check` and the daemons name the remedy by the kind.
    #[test]
    fn an_error_of_libbpf_keeps_its_kind_and_names_the_step() {
        for (errno, kind) in [
            (libc::EPERM, io::ErrorKind::PermissionDenied),
            (libc::EACCES, io::ErrorKind::PermissionDenied),
            (libc::ENOENT, io::ErrorKind::NotFound),
            (libc::EINVAL, io::ErrorKind::InvalidInput),
            (libc::E2BIG, io::ErrorKind::Other),
        ] {
            let error = bpf("load", &libbpf_rs::Error::from_raw_os_error(errno));
            assert_eq!(error.kind(), kind, "{error}");
            assert!(
                error.to_string().starts_with("BPF programs: load: "),
                "{error}"
            );
        }
    }
}
