// SPDX-License-Identifier: Apache-2.0
//! Sockets that have it without asking, in a namespace and in a control group, and what is
//! left when the owner has ended.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use super::super::selected;
use super::super::tests::wait_until;
use super::*;
use crate::netns::{NetNs, available_or_skip};
use crate::rtnl::Rtnl;

/// The order to a child process: a test that finds it is that child of its own.
const OWNER_ENV: &str = "HOLDFAST_LCCWE_OWNER";
const MEMBER_ENV: &str = "HOLDFAST_LCCWE_MEMBER";
const HERE: &str = "lccwe::default::tests";

fn name_of(test: &str) -> String {
    format!("hf{}_{test}", std::process::id())
}

fn default_of(ns: &NetNs) -> String {
    let text = ns.run(|| std::fs::read_to_string(DEFAULT).unwrap());
    text.unwrap().trim().to_owned()
}

/// What a connection of the calling thread's namespace has at its two ends.
fn of_new_sockets() -> [String; 2] {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let active = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (passive, _) = listener.accept().unwrap();
    [&active, &passive].map(|socket| selected(socket).unwrap())
}

fn namespace() -> NetNs {
    let ns = NetNs::new().unwrap();
    let up = ns.run(|| {
        let rtnl = Rtnl::open()?;
        rtnl.set_up(rtnl.link_index("lo")?)
    });
    up.unwrap().unwrap();
    ns
}

fn child(test: &str, key: &str, value: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "--nocapture", &format!("{HERE}::{test}")])
        .env(key, value)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}

#[test]
fn sockets_of_the_namespace_have_it_until_the_default_ends() {
    if !available_or_skip("sockets_of_the_namespace_have_it_until_the_default_ends") {
        return;
    }
    let ns = namespace();
    let before = default_of(&ns);
    let name = name_of("ns");
    let control = CongestionControl::register(&name).unwrap();
    let make = || control.make_default(Scope::Namespace);
    let kept = ns.run(make).unwrap().unwrap();
    assert_eq!(ns.run(of_new_sockets).unwrap(), [name.clone(), name]);
    drop(kept);
    assert_eq!(default_of(&ns), before);
    assert_eq!(ns.run(of_new_sockets).unwrap(), [before.clone(), before]);
}

#[test]
fn a_default_that_another_program_has_changed_is_left_alone() {
    if !available_or_skip("a_default_that_another_program_has_changed_is_left_alone") {
        return;
    }
    let ns = namespace();
    let other = if default_of(&ns) == "reno" {
        "cubic"
    } else {
        "reno"
    };
    let control = CongestionControl::register(&name_of("left")).unwrap();
    let make = || control.make_default(Scope::Namespace);
    let kept = ns.run(make).unwrap().unwrap();
    ns.run(|| std::fs::write(DEFAULT, other).unwrap()).unwrap();
    drop(kept);
    assert_eq!(default_of(&ns), other);
}

#[test]
fn a_default_whose_predecessor_has_gone_leaves_one_of_linux() {
    if !available_or_skip("a_default_whose_predecessor_has_gone_leaves_one_of_linux") {
        return;
    }
    let ns = namespace();
    let owner = |name: &str| {
        let control = CongestionControl::register(&name_of(name)).unwrap();
        let make = || control.make_default(Scope::Namespace);
        let kept = ns.run(make).unwrap().unwrap();
        (kept, control)
    };
    let (first, second) = (owner("one"), owner("two"));
    drop(first);
    assert_eq!(default_of(&ns), name_of("two"));
    drop(second);
    let left = default_of(&ns);
    assert!(["cubic", "reno"].contains(&left.as_str()), "{left}");
}

#[test]
fn a_default_that_dead_owners_have_left_is_not_what_was_before() {
    if !available_or_skip("a_default_that_dead_owners_have_left_is_not_what_was_before") {
        return;
    }
    let ns = namespace();
    let name = name_of("stale");
    let control = CongestionControl::register(&name).unwrap();
    let make = || {
        std::fs::write(DEFAULT, &name).unwrap();
        control.make_default(Scope::Namespace)
    };
    drop(ns.run(make).unwrap().unwrap());
    let left = default_of(&ns);
    assert!(["cubic", "reno"].contains(&left.as_str()), "{left}");
}

/// What the child process of the next test does.
fn own_a_default(name: &str) {
    let control = CongestionControl::register(name).unwrap();
    let _kept = control.make_default(Scope::Namespace).unwrap();
    let _ = io::stdin().read(&mut [0; 1]);
}

#[test]
fn a_killed_owner_leaves_no_default_behind() {
    let test = "a_killed_owner_leaves_no_default_behind";
    if let Ok(name) = std::env::var(OWNER_ENV) {
        return own_a_default(&name);
    }
    if !available_or_skip(test) {
        return;
    }
    let ns = namespace();
    let before = default_of(&ns);
    let name = name_of("dead");
    let start = || child(test, OWNER_ENV, &name).spawn();
    let mut owner = ns.run(start).unwrap().unwrap();
    wait_until("the child's default", || default_of(&ns) == name);
    owner.kill().unwrap();
    owner.wait().unwrap();
    wait_until("the default before", || default_of(&ns) == before);
}

/// What the child processes of the next test do.
fn join_and_connect(group: &str) {
    let members = Path::new(group).join("cgroup.procs");
    std::fs::write(members, std::process::id().to_string()).unwrap();
    println!("sockets {}", of_new_sockets().join(" "));
}

fn output_of(child: Child) -> String {
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

/// A control group that goes with this.
struct Group(PathBuf);

impl Group {
    /// None where no `cgroup2` file system is mounted that may be written.
    fn new(name: &str) -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/mounts").ok()?;
        let mut folders = mounts.lines().filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let folder = fields.next()?;
            (fields.next()? == "cgroup2").then_some(folder)
        });
        let folder = Path::new(folders.next()?).join(name);
        std::fs::create_dir(&folder).ok()?;
        Some(Self(folder))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn sockets_of_a_control_group_have_it_and_no_others() {
    let test = "sockets_of_a_control_group_have_it_and_no_others";
    if let Ok(group) = std::env::var(MEMBER_ENV) {
        return join_and_connect(&group);
    }
    if !available_or_skip(test) {
        return;
    }
    let name = name_of("cg");
    let Some(group) = Group::new(&name) else {
        println!("SKIPPED {test}: no cgroup2 file system that may be written");
        return;
    };
    let ns = namespace();
    let before = default_of(&ns);
    let control = CongestionControl::register(&name).unwrap();
    let scope = Scope::Cgroup(group.0.clone());
    let of_member = || {
        let folder = group.0.to_str().unwrap();
        let start = || child(test, MEMBER_ENV, folder).spawn();
        output_of(ns.run(start).unwrap().unwrap())
    };
    let kept = control.make_default(scope).unwrap();
    let output = of_member();
    assert!(
        output.contains(&format!("sockets {name} {name}")),
        "{output}"
    );
    let outside = ns.run(of_new_sockets).unwrap();
    assert_eq!(outside, [before.clone(), before.clone()]);
    drop(kept);
    let output = of_member();
    assert!(
        output.contains(&format!("sockets {before} {before}")),
        "{output}"
    );
}

#[test]
fn what_is_no_control_group_is_refused_in_a_line() {
    if !available_or_skip("what_is_no_control_group_is_refused_in_a_line") {
        return;
    }
    let control = CongestionControl::register(&name_of("no")).unwrap();
    for path in ["/proc", "/nowhere"] {
        let scope = Scope::Cgroup(path.into());
        let error = control.make_default(scope).unwrap_err().to_string();
        assert!(error.contains(path) && !error.contains('\n'), "{error}");
    }
}
