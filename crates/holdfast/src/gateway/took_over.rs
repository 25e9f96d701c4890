// SPDX-License-Identifier: Apache-2.0
//! The operator's program that moves the wired network's route when a mobile has come here.
//!
//! One program at a time runs for a mobile: the route then leads to where the mobile went last.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::rc::Rc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Command;
use tokio::time::timeout;

/// A program that runs for longer is killed.
const COMMAND_MAX: Duration = Duration::from_secs(10);

/// The running programs, by the addresses of their mobile. `to_repeat`: programs to run once more, because
/// the mobile has come again meanwhile.
#[derive(Debug, Default)]
pub(super) struct TookOver {
    running: RefCell<BTreeSet<Vec<IpAddr>>>,
    to_repeat: RefCell<BTreeSet<Vec<IpAddr>>>,
}

impl TookOver {
    /// Runs the program with the mobile's addresses: at once, or after the mobile's running program
    /// has ended.
    pub(super) fn run(self: &Rc<Self>, command: PathBuf, addresses: Vec<IpAddr>) {
        if !self.running.borrow_mut().insert(addresses.clone()) {
            self.to_repeat.borrow_mut().insert(addresses);
            return;
        }
        let this = Rc::clone(self);
        tokio::task::spawn_local(async move {
            loop {
                run_command(&command, &addresses).await;
                if !this.to_repeat.borrow_mut().remove(&addresses) {
                    break;
                }
            }
            this.running.borrow_mut().remove(&addresses);
        });
    }
}

/// Runs the program; logs a failure.
async fn run_command(command: &Path, addresses: &[IpAddr]) {
    let shown = command.display();
    let child = Command::new(command)
        .args(addresses.iter().map(IpAddr::to_string))
        .stdin(Stdio::null())
        .process_group(0)
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => {
            tracing::warn!(command = %shown, %error, "cannot be run");
            return;
        }
    };
    let group = child.id().and_then(|id| Pid::from_raw(id as i32));
    match timeout(COMMAND_MAX, child.wait()).await {
        Ok(Ok(status)) if status.success() => {}
        Ok(Ok(status)) => tracing::warn!(command = %shown, %status, "failed"),
        Ok(Err(error)) => tracing::warn!(command = %shown, %error, "failed"),
        Err(_) => {
            tracing::warn!(command = %shown, "took too long; killed");
            if let Some(group) = group {
                // The program may have ended just now.
                let _ = kill_process_group(group, Signal::KILL);
            }
            drop(timeout(COMMAND_MAX, child.wait()).await);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Deadline of whatever the tests wait for.
    const LIMIT: Duration = Duration::from_secs(60);

    #[tokio::test(flavor = "current_thread")]
    async fn for_many_reports_about_one_mobile_the_program_runs_twice_and_never_in_parallel() {
        let folder = tempfile::tempdir().unwrap();
        let (program, log) = (folder.path().join("moved"), folder.path().join("log"));
        let shown = log.display();
        let script =
            format!("#!/bin/sh\necho begins >> {shown}\nsleep 0.2\necho ends >> {shown}\n");
        holdfast_testbed::harness::write_script(&program, &script).unwrap();
        let commands = Rc::new(TookOver::default());
        let local = tokio::task::LocalSet::new();
        let done = local.run_until(async {
            for _ in 0..5 {
                commands.run(program.clone(), vec![[10, 9, 0, 2].into()]);
            }
            tokio::time::timeout(LIMIT, async {
                while !commands.running.borrow().is_empty() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            })
            .await
        });
        done.await.expect("it ends");
        let log = std::fs::read_to_string(&log).unwrap();
        assert_eq!(log, "begins\nends\n".repeat(2));
    }
}
