#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Changes one operator or result of the engine at a time, and runs the engine's tests, which must fail.

    scripts/mutants.py [-n MUTANTS] [-s SEED]     400, seed 1 unless given
    scripts/mutants.py -r [...]                   only the figures of what was tried

The mutants are a random sample of all that cargo-mutants finds in crates/core. The unit tests of the engine
run first, then its slow tests, with a part of the cases of property tests. The first test that fails ends
the run. When the whole sample was tried, what survived is tried again with all cases. A mutant that does
not compile does not count. Before each of these, the tests have to pass without a mutant.

A run may be stopped at any time: the next one goes on where it ended. target/mutants/*.tsv has the outcome
of each mutant: the file's name is a hash of this file and of the crates that the tests are built from. Works on a copy of
the files that git knows, in target/mutants.

The last lines are the mutants that survived, and `N caught, N survived`. Status 1: less than 85 % were caught, or not
all were tried.
"""

import argparse
import hashlib
import json
import os
import pathlib
import random
import resource
import signal
import subprocess
import sys
import threading

SOURCE = pathlib.Path(__file__).resolve().parent.parent
FOLDER = (SOURCE / os.environ.get("CARGO_TARGET_DIR", "target")) / "mutants"
TREE = FOLDER / "tree"
# What the tests of the engine are built from.
BUILT_FROM = ["Cargo.lock", "Cargo.toml", "crates/core", "crates/settings", "crates/wire"]
# And what decides how they are run.
OUTCOMES_FROM = [*BUILT_FROM, "scripts/mutants.py"]
CAUGHT_MIN_PERCENT = 85
# Of 5000 for each scheme, and of 300 for each forgery.
CASES_FIRST = 100
SLOW = ["gateway::tests::adversary", "gateway::tests::closing"]
SKIP_SLOW = [word for name in SLOW for word in ("--skip", name)]
# A stage: which tests, how many cases, and the processor's time after which they are taken for an endless
# loop: more than ten times what they need. A busy machine changes nothing.
STAGES = {
    "unit": (SKIP_SLOW, CASES_FIRST, 90),
    "slow": (SLOW, CASES_FIRST, 400),
    # CASES_FIRST are all cases of `closing`.
    "all": (["--skip", "gateway::tests::closing"], None, 7200),
}
FIRST = ["unit", "slow"]
MEMORY_MAX = 8 << 30


def mutants():
    command = ["cargo", "mutants", "--package", "holdfast-core", "--list", "--json", "--diff"]
    found = subprocess.run(command, text=True, check=True, stdout=subprocess.PIPE)
    # What only tests use is no decision of the engine.
    return {mutant["name"]: mutant for mutant in json.loads(found.stdout) if "/test" not in mutant["file"]}


def files():
    listed = subprocess.run(["git", "ls-files", "-z"], check=True, stdout=subprocess.PIPE).stdout
    return [name for name in listed.decode().split("\0") if name and pathlib.Path(name).exists()]


def hash_of(names):
    digest = hashlib.sha256()
    for name in sorted(names):
        if any(name == part or name.startswith(part + "/") for part in OUTCOMES_FROM):
            digest.update(name.encode() + b"\0" + pathlib.Path(name).read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def copy(names):
    subprocess.run(["rm", "-rf", str(TREE)], check=True)
    TREE.mkdir(parents=True)
    packed = subprocess.run(["tar", "--create", "--null", "--files-from=-"], check=True, stdout=subprocess.PIPE,
                            input="\0".join(names).encode())
    subprocess.run(["tar", "--extract", f"--directory={TREE}"], check=True, input=packed.stdout)
    # The last build may have a mutant in it, and be newer than all these files.
    (TREE / "crates/core/src/lib.rs").touch()


def built():
    """The program of the tests. None: it does not compile."""
    command = ["cargo", "test", "--locked", "--package", "holdfast-core", "--lib", "--no-run", "--message-format=json"]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(FOLDER / "build")}
    with (FOLDER / "build.log").open("w") as log:
        done = subprocess.run(command, cwd=TREE, env=environment, text=True, check=False, stdout=subprocess.PIPE,
                              stderr=log)
    if done.returncode != 0:
        return None
    artifacts = [json.loads(line) for line in done.stdout.splitlines()]
    return [found["executable"] for found in artifacts if found.get("executable")][-1]


def run(program, stage):
    """The first test that fails. None: all pass."""
    arguments, cases, processor_s = STAGES[stage]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    environment["RUST_BACKTRACE"] = "0"
    if cases:
        environment["HOLDFAST_CASES"] = str(cases)

    def limits():
        resource.setrlimit(resource.RLIMIT_CPU, (processor_s, processor_s))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))

    # The tests of the crate run in its folder, as with `cargo test`.
    process = subprocess.Popen([program, *arguments], cwd=TREE / "crates/core", env=environment, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, preexec_fn=limits)
    # A test that waits for another one uses no time of the processor.
    watch = threading.Timer(30 * processor_s, process.kill)
    watch.start()
    failed = None
    try:
        for line in process.stdout:
            if line.startswith("test ") and line.rstrip().endswith("FAILED"):
                failed = line.split()[1]
                break
    finally:
        watch.cancel()
        if failed or sys.exc_info()[0]:
            process.kill()
        process.stdout.close()
        status = process.wait()
    if failed or status == 0:
        return failed
    return "(endless)" if -status in (signal.SIGXCPU, signal.SIGKILL) else f"(ended with status {status})"


class Results:
    """The outcome of each mutant and stage: a line of stage, outcome, the test that failed, name."""

    def __init__(self, path):
        self.path = path
        self.found = {}
        for line in path.read_text().splitlines() if path.exists() else []:
            stage, outcome, test, name = line.split("\t")
            self.found[name, stage] = outcome, test

    def add(self, name, stage, outcome, test):
        self.found[name, stage] = outcome, test
        with self.path.open("a") as file:
            file.write("\t".join((stage, outcome, test or "-", name)) + "\n")

    def outcome(self, name):
        """The outcome of a mutant so far, and its last stage. None: it is not known."""
        for stage in ("all", "first"):
            if (name, stage) in self.found:
                return self.found[name, stage][0], stage
        return None


def check_tests(results, stages, name):
    """Without a mutant the tests have to pass, or each mutant would be caught."""
    if ("", name) in results.found:
        return
    program = built()
    if program is None:
        sys.exit(f"mutants.py: the tests do not compile; see {FOLDER}/build.log")
    for stage in stages:
        failed = run(program, stage)
        if failed:
            sys.exit(f"mutants.py: without a mutant {failed} fails; the tests have to pass first")
    results.add("", name, "passed", None)


def try_mutant(mutant, stages):
    """Its outcome, and the test that failed."""
    path = TREE / mutant["file"]
    before = path.read_text()
    try:
        subprocess.run(["patch", "--quiet", "--no-backup-if-mismatch", str(path)], check=True, text=True,
                       input=mutant["diff"])
        program = built()
        if program is None:
            return "unviable", None
        for stage in stages:
            failed = run(program, stage)
            if failed:
                return "caught", failed
        return "survived", None
    finally:
        path.write_text(before)


def try_all(sample, found, results):
    check_tests(results, FIRST, "first")
    for name in sample:
        if results.outcome(name) is None:
            results.add(name, "first", *try_mutant(found[name], FIRST))
            print(f"{results.outcome(name)[0]:9} {name}", flush=True)
    survived = [name for name in sample if results.outcome(name) == ("survived", "first")]
    if survived:
        check_tests(results, ["all"], "all")
    for name in survived:
        results.add(name, "all", *try_mutant(found[name], ["all"]))
        print(f"{results.outcome(name)[0]:9} {name}, all cases", flush=True)


def report(sample, results):
    outcomes = {name: results.outcome(name) for name in sample if results.outcome(name)}
    def chosen(outcome):
        return [name for name, found in outcomes.items() if found[0] == outcome]
    survived, caught = chosen("survived"), chosen("caught")
    print("", *(f"{name}{'' if outcomes[name][1] == 'all' else ' (a part of the cases)'}" for name in survived),
          sep="\n")
    viable = len(caught) + len(survived)
    print(f"{len(outcomes)} of {len(sample)} tried, {len(chosen('unviable'))} do not compile; "
          f"{100 * len(caught) / max(viable, 1):.1f} % of {viable} caught")
    print(f"{len(caught)} caught, {len(survived)} survived")
    return len(outcomes) == len(sample) and 100 * len(caught) >= CAUGHT_MIN_PERCENT * viable


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=400, metavar="MUTANTS")
    parser.add_argument("-s", type=int, default=1, metavar="SEED")
    parser.add_argument("-r", action="store_true", help="only the figures of what was tried")
    arguments = parser.parse_args()
    os.chdir(SOURCE)
    FOLDER.mkdir(parents=True, exist_ok=True)
    subprocess.run(["scripts/packages.sh", "build"], check=True)
    subprocess.run(["scripts/toolchain.sh", "cargo-mutants"], check=True)
    found = mutants()
    # A larger sample begins with the smaller one.
    sample = sorted(found)
    random.Random(arguments.s).shuffle(sample)
    sample = sample[: arguments.n]
    print(f"{len(sample)} of {len(found)} mutants, seed {arguments.s}", flush=True)
    names = files()
    results = Results(FOLDER / f"{hash_of(names)}.tsv")
    # What is known is reported also if the run is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    try:
        if not arguments.r:
            copy(names)
            try_all(sample, found, results)
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        enough = report(sample, results)
    sys.exit(0 if enough else 1)


if __name__ == "__main__":
    main()
