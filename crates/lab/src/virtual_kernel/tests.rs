// SPDX-License-Identifier: Apache-2.0

use std::fs;
use std::time::Duration;

use super::*;

#[test]
fn a_kernel_is_found_only_if_it_is_of_this_configuration() {
    let cache = tempfile::tempdir().unwrap();
    assert_eq!(VirtualKernel::find_in(cache.path()).unwrap(), None);
    let other = cache.path().join("virtual-kernel-0123456789ab");
    fs::create_dir(&other).unwrap();
    fs::write(other.join(RELEASE), "6.18.0\n").unwrap();
    assert_eq!(VirtualKernel::find_in(cache.path()).unwrap(), None);
    let own = kernel_folder(cache.path());
    fs::create_dir(&own).unwrap();
    fs::write(own.join(RELEASE), "7.2.13\n").unwrap();
    let found = VirtualKernel::find_in(cache.path()).unwrap().unwrap();
    assert_eq!(found.release(), "7.2.13");
    assert_eq!(found.program(), own.join("linux"));
}

#[test]
fn a_job_that_cannot_be_is_refused_before_anything_is_started() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = VirtualKernel {
        program: "/nonexistent/linux".into(),
        release: String::new(),
    };
    let stop = holdfast_testbed::stop::StopFlag::default();
    let job = Job::new(Path::new("/nonexistent/holdfast"), "true", folder.path());
    let error = kernel.run(&job, &stop).unwrap_err();
    assert_eq!(error.to_string(), "/nonexistent/holdfast: not there");
    let job = Job {
        memory_mib: 1,
        ..Job::new(Path::new("/bin/true"), "true", folder.path())
    };
    let error = kernel.run(&job, &stop).unwrap_err();
    assert_eq!(error.to_string(), "memory_mib: got 1, takes 64 or more");
    let job = Job {
        limit: Duration::from_secs(1),
        ..Job::new(Path::new("/bin/true"), "true", folder.path())
    };
    let error = kernel.run(&job, &stop).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("cannot start /nonexistent/linux"),
        "{error}"
    );
}
