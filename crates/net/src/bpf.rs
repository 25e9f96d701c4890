// SPDX-License-Identifier: Apache-2.0
//! Loads BPF programs and attaches them.
//!
//! It uses TCX links if the kernel has them (6.6): they detach with their owner,
//! however the owner ends. Otherwise it uses clsact filters, which outlive a killed
//! owner. They pass everything when the heartbeat or the deadline is too old, and a
//! successor replaces them.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_rs::{AsRawLibbpf as _, Map, MapCore, MapHandle, ObjectBuilder};

use crate::attach_point::{AttachMode, AttachPoint, BpfObject, HookSide};
use crate::privileges::{self, Attached, Client, Loaded};
use crate::syscall::at;

mod clsact;
mod entries;
mod shared_values;

use clsact::Filter;
pub(crate) use entries::for_each_entry;
#[cfg(test)]
pub(crate) use entries::for_each_entry_of;
pub(crate) use shared_values::SharedValues;

/// Descriptors from this number on are links; see [`raise`].
const LINK_FD_MIN: i32 = 512;

/// The loaded programs and maps, before they are attached.
#[derive(Debug)]
pub(crate) struct Programs {
    maps: Vec<(String, MapHandle)>,
    loaded: LoadedPrograms,
    clsact_handle: u32,
}

/// The programs, by who has loaded them.
#[derive(Debug)]
enum LoadedPrograms {
    /// This process: by their names.
    Here(Vec<(String, OwnedFd)>),
    /// The broker, which knows them by this number.
    ByBroker(&'static Client, u64),
}

/// Unloads the broker's programs. Attached programs stay attached.
impl Drop for LoadedPrograms {
    fn drop(&mut self) {
        if let Self::ByBroker(broker, number) = self {
            // A broker that has ended holds nothing.
            let _ = broker.unload(*number);
        }
    }
}

impl Programs {
    /// Loads `object` with `settings` in its section of constants. Maps in `entries` get room for
    /// the given number of entries.
    pub(crate) fn load(
        object: BpfObject,
        settings: &[u8],
        entries: &[(&str, u32)],
    ) -> io::Result<Self> {
        if let Some(broker) = privileges::broker() {
            return Self::load_by(broker, object, settings, entries);
        }
        Self::load_here(object.octets(), object.clsact_handle(), settings, entries)
    }

    /// The same, but the broker process loads them.
    pub(crate) fn load_by(
        broker: &'static Client,
        object: BpfObject,
        settings: &[u8],
        entries: &[(&str, u32)],
    ) -> io::Result<Self> {
        let Loaded { number, maps } = broker.load(object, settings, entries)?;
        let loaded = LoadedPrograms::ByBroker(broker, number);
        Ok(Self {
            maps: of_descriptors(object, &maps)?,
            loaded,
            clsact_handle: object.clsact_handle(),
        })
    }

    fn load_here(
        object: &[u8],
        clsact_handle: u32,
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
                .ok_or_else(|| no_map(name))?
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
        // Maps with a dot are sections of the compiler: they are the programs' own.
        let maps = object
            .maps()
            .filter(|map| !map.name().to_string_lossy().contains('.'));
        let maps = maps.map(|map| {
            let handle = MapHandle::try_from(&map).map_err(|error| bpf("map", &error))?;
            Ok((map.name().to_string_lossy().into_owned(), handle))
        });
        let programs = object.progs().map(|program| {
            let name = program.name().to_string_lossy().into_owned();
            Ok((name, program.as_fd().try_clone_to_owned()?))
        });
        Ok(Self {
            maps: maps.collect::<io::Result<_>>()?,
            loaded: LoadedPrograms::Here(programs.collect::<io::Result<_>>()?),
            clsact_handle,
        })
    }

    /// The maps of `object` as another process has loaded them, without the programs. It needs no
    /// capability.
    ///
    /// Errors: as of [`of_descriptors`].
    pub(crate) fn of_maps(object: BpfObject, maps: &[(String, OwnedFd)]) -> io::Result<Self> {
        Ok(Self {
            maps: of_descriptors(object, maps)?,
            loaded: LoadedPrograms::Here(Vec::new()),
            clsact_handle: object.clsact_handle(),
        })
    }

    /// The maps by their names, for another process.
    ///
    /// Errors: no descriptor is free.
    pub(crate) fn map_descriptors(&self) -> io::Result<Vec<(String, OwnedFd)>> {
        let own = |(name, map): &(String, MapHandle)| {
            Ok((name.clone(), map.as_fd().try_clone_to_owned()?))
        };
        self.maps.iter().map(own).collect()
    }

    pub(crate) fn map(&self, name: &str) -> io::Result<MapHandle> {
        let mut maps = self.maps.iter();
        let (_, map) = maps
            .find(|(found, _)| found == name)
            .ok_or_else(|| no_map(name))?;
        MapHandle::try_from(map).map_err(|error| bpf("map", &error))
    }

    /// The programs that this process has loaded, by their names.
    fn programs(&self) -> &[(String, OwnedFd)] {
        match &self.loaded {
            LoadedPrograms::Here(programs) => programs,
            LoadedPrograms::ByBroker(..) => &[],
        }
    }

    fn program(&self, name: &str) -> io::Result<BorrowedFd<'_>> {
        let mut programs = self.programs().iter();
        let found = programs.find(|(found, _)| found == name);
        let (_, program) =
            found.ok_or_else(|| io::Error::other(format!("BPF programs: no program {name}")))?;
        Ok(program.as_fd())
    }

    /// Of each program: its name, how often it ran while statistics were gathered, and
    /// nanoseconds a run.
    pub(crate) fn run_times(&self) -> io::Result<Vec<(String, u64, f64)>> {
        self.programs()
            .iter()
            .map(|(name, program)| {
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
                let runs = info.run_cnt;
                Ok((
                    name.clone(),
                    runs,
                    info.run_time_ns as f64 / runs.max(1) as f64,
                ))
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
        self.attach_at(
            name,
            AttachPoint {
                ifindex,
                side,
                mode,
                clsact_handle: self.clsact_handle,
            },
        )
    }

    /// The same with an [`AttachPoint`], which has the handle of clsact filters too.
    pub(crate) fn attach_at(&self, name: &str, point: AttachPoint) -> io::Result<Hook> {
        match self.loaded {
            LoadedPrograms::ByBroker(broker, number) => {
                let attached = broker.attach(number, name, point)?;
                Ok(match attached {
                    Attached::Link(link) => Hook::tcx(link),
                    Attached::Filter(number) => Hook::OfBroker(broker, number),
                })
            }
            LoadedPrograms::Here(_) => {
                let hook = attach_here(self.program(name)?, point);
                hook.map_err(|error| at(name, &error))
            }
        }
    }
}

/// Maps of `object`, by their names and descriptors.
///
/// Errors: the object has no such map, or a descriptor is something else.
fn of_descriptors(
    object: BpfObject,
    maps: &[(String, OwnedFd)],
) -> io::Result<Vec<(String, MapHandle)>> {
    silence_libbpf();
    let mut open = ObjectBuilder::default()
        .open_memory(object.octets())
        .map_err(|e| bpf("open", &e))?;
    let handle = |(name, descriptor): &(String, OwnedFd)| {
        let mut map = open
            .maps_mut()
            .find(|map| map.name() == name.as_str())
            .ok_or_else(|| no_map(name))?;
        map.reuse_fd(descriptor.as_fd())
            .map_err(|error| bpf("lent map", &error))?;
        // SAFETY: the map is the open object's, which lives until its handle is made.
        let map = Map::new(unsafe { map.as_libbpf_object().as_ref() });
        let handle = MapHandle::try_from(&map).map_err(|error| bpf("lent map", &error))?;
        Ok((name.clone(), handle))
    };
    maps.iter().map(handle).collect()
}

fn no_map(name: &str) -> io::Error {
    io::Error::other(format!("BPF programs: no map {name}"))
}

/// Attaches a program, before all others.
fn attach_here(program: BorrowedFd<'_>, point: AttachPoint) -> io::Result<Hook> {
    let AttachPoint {
        ifindex,
        side,
        mode,
        ..
    } = point;
    if mode == AttachMode::Auto {
        match attach_tcx(program.as_raw_fd(), ifindex, side) {
            Ok(link) => return Ok(Hook::tcx(link)),
            // A kernel without TCX does not know the attach type.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            Err(error) => return Err(error),
        }
    }
    Filter::attach(program, point).map(Hook::Clsact)
}

/// An attached program; detached when dropped.
#[derive(Debug)]
pub(crate) enum Hook {
    Tcx(OwnedFd),
    Clsact(#[expect(dead_code, reason = "it is dropped with the hook")] Filter),
    /// A clsact filter of the broker's, by its number there.
    OfBroker(&'static Client, u64),
}

impl Hook {
    pub(crate) fn tcx(link: OwnedFd) -> Self {
        Self::Tcx(raise(link))
    }

    /// Another descriptor of the link, if the program is attached by one.
    ///
    /// Errors: no descriptor is free.
    pub(crate) fn link(&self) -> io::Result<Option<OwnedFd>> {
        match self {
            Self::Tcx(link) => link.try_clone().map(Some),
            Self::Clsact(_) | Self::OfBroker(..) => Ok(None),
        }
    }

    pub(crate) const fn is_tcx(&self) -> bool {
        matches!(self, Self::Tcx(_))
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        if let Self::OfBroker(broker, number) = self {
            // If the broker has ended, a successor replaces the filter.
            drop(broker.detach(*number));
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
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
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

    let mut out = vec![0; frame.len() + 256];
    let mut context = [0; GSO_SIZE + 4];
    context[GSO_SIZE..].copy_from_slice(&gso_size.to_ne_bytes());
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t,
        data_in: frame.as_ptr().cast(),
        data_size_in: frame.len() as u32,
        data_out: out.as_mut_ptr().cast(),
        data_size_out: out.len() as u32,
        repeat: repeat as i32,
        ..Default::default()
    };
    if gso_size != 0 {
        options.ctx_in = context.as_ptr().cast();
        options.ctx_size_in = context.len() as u32;
    }
    let program = programs.program(name)?.as_raw_fd();
    // SAFETY: the kernel reads the frame and the context and writes at most `data_size_out` octets; all
    // outlive the call.
    let result = unsafe { libbpf_sys::bpf_prog_test_run_opts(program, &raw mut options) };
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-result));
    }
    out.truncate(options.data_size_out as usize);
    let duration = std::time::Duration::from_nanos(options.duration.into());
    Ok((options.retval as i32, out, duration))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A structure that grew in C alone would shift each setting behind it.
    #[test]
    fn settings_of_another_size_and_maps_of_another_name_are_refused_before_the_kernel_sees_any() {
        let refused = |object: &[u8], settings: &[u8], entries: &[(&str, u32)]| {
            let programs = Programs::load_here(object, 1, settings, entries);
            programs.expect_err("it does not fit").to_string()
        };
        for (shown, expected) in [
            (
                refused(BpfObject::Mobile.octets(), &[0; 1], &[]),
                "settings of another size",
            ),
            (
                refused(BpfObject::Mobile.octets(), &[0; 4096], &[]),
                "settings of another size",
            ),
            (
                refused(BpfObject::Mobile.octets(), &[0; 1], &[("flow", 64)]),
                "no map flow",
            ),
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
