// SPDX-License-Identifier: Apache-2.0
//! Compiles the BPF programs; the objects are embedded by `datapath/program.rs`,
//! `mobile_path/program.rs` and `lccwe.rs`.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let folder = Path::new(&environment("CARGO_MANIFEST_DIR")).join("../../bpf");
    println!("cargo::rerun-if-env-changed=CLANG");
    for header in [
        "path.h",
        "upper.h",
        "tcp.h",
        "noted.h",
        "withheld_ingress.h",
        "withheld_egress.h",
        "quick.h",
    ] {
        let header = folder.join(header);
        println!("cargo::rerun-if-changed={}", header.display());
    }
    for header in ["lccwe.h", "lccwe_judge.h", "lccwe_kernel.h"] {
        println!("cargo::rerun-if-changed={}", folder.join(header).display());
    }
    for program in ["gateway", "keep", "mobile", "lccwe"] {
        let source = folder.join(format!("{program}.bpf.c"));
        println!("cargo::rerun-if-changed={}", source.display());
        let object = PathBuf::from(environment("OUT_DIR")).join(format!("{program}.bpf.o"));
        // Comparing and swapping is in the third instruction set (Linux 5.12) only. The others
        // keep to the first one: the kernel verifies them faster.
        let instructions = if program == "keep" { "v3" } else { "v1" };
        compile(&source, &object, instructions);
    }
}

fn compile(source: &Path, object: &Path, instructions: &str) {
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let output = Command::new(&clang)
        .args(["-O2", "-g", "-Wall", "-Wextra", "-Werror", "-target", "bpf"])
        .arg(format!("-mcpu={instructions}"))
        // Debian keeps asm/types.h apart by architecture, and -target bpf knows none. The objects are
        // the same for all 64-bit machines: this machine's header serves.
        .arg(format!(
            "-I/usr/include/{}-linux-gnu",
            environment("HOST").split('-').next().unwrap_or_default()
        ))
        .arg("-c")
        .arg(source)
        .arg("-o")
        .arg(object)
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => fail(&format!(
            "cannot run {clang}: {error}; install the package clang"
        )),
    };
    if !output.status.success() {
        let messages = String::from_utf8_lossy(&output.stderr);
        let hint = if messages.contains("bpf/bpf_helpers.h") {
            "; install the package libbpf-dev"
        } else if messages.contains("asm/types.h") || messages.contains("linux/bpf.h") {
            "; install the package linux-libc-dev"
        } else {
            ""
        };
        fail(&format!(
            "{clang} cannot compile {}{hint}\n{messages}",
            source.display()
        ));
    }
}

fn environment(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| fail(&format!("cargo did not set {name}")))
}

fn fail(message: &str) -> ! {
    for line in message.lines() {
        println!("cargo::error={line}");
    }
    std::process::exit(1);
}
