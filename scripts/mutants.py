#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Changes one operator or result of the engine at a time, and runs the engine's tests, which must fail.

    scripts/mutants.py [-n MUTANTS] [-s SEED]     460, seed 1 unless given
    scripts/mutants.py -r [...]                   only the figures of what was tried

The mutants are a random sample of all that cargo-mutants finds in crates/core. One program has most of them: a function
that is changed has its body once as it is and once for each of its mutants. The variable MUTANT chooses. What cannot
be built so (a constant function, one that returns `impl Trait`, a constant) is built by itself. Lints are warnings
there: an overflow that the compiler can see fails when it runs.

The unit tests of the engine run first, then its slow tests, with a part of the cases of property tests. The first
test that fails ends the run. When the whole sample was tried, what survived is tried again with all cases. A mutant
that does not compile does not count: the sample has more than 400. Before each of these, the tests have to pass
without a mutant.

A run may be stopped at any time: the next one goes on where it ended. target/mutants/*.tsv has the outcome of each
mutant: the file's name is a hash of this file and of the crates that the tests are built from. Works on a copy of the
files that git knows, in target/mutants.

The last lines are the mutants that survived, and `N caught, N survived`. Status 1: less than 85 % were caught, or not
all were tried.
"""

import argparse
import collections
import hashlib
import json
import os
import pathlib
import random
import re
import resource
import shutil
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
# loop: ten times what they need. A busy machine changes nothing.
STAGES = {
    "unit": (SKIP_SLOW, CASES_FIRST, 90),
    "slow": (SLOW, CASES_FIRST, 250),
    # CASES_FIRST are all cases of `closing`.
    "all": (["--skip", "gateway::tests::closing"], None, 7200),
}
FIRST = ["unit", "slow"]
MEMORY_MAX = 8 << 30
LIB = "crates/core/src/lib.rs"
CHOOSE = """
/// Which mutant runs. 0: none.
pub(crate) fn mutant() -> u32 {
    static CHOSEN: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    *CHOSEN.get_or_init(|| std::env::var("MUTANT").map_or(0, |number| number.parse().unwrap()))
}
"""
# What has no braces of code in it: comments, strings, and characters but not lifetimes.
NO_CODE = re.compile(r"""//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?'(?:\\[^']+|[^'\\])'""", re.DOTALL)


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


def cargo(*arguments):
    """The messages of cargo about the tests, and whether it succeeded."""
    command = ["cargo", *arguments, "--locked", "--package", "holdfast-core", "--lib", "--message-format=json"]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(FOLDER / "build"), "RUSTFLAGS": "--cap-lints=warn"}
    with (FOLDER / "build.log").open("w") as log:
        done = subprocess.run(command, cwd=TREE, env=environment, text=True, check=False, stdout=subprocess.PIPE,
                              stderr=log)
    return [json.loads(line) for line in done.stdout.splitlines()], done.returncode == 0


def built():
    """The program of the tests. None: it does not compile."""
    artifacts, compiles = cargo("test", "--no-run")
    if not compiles:
        return None
    return [found["executable"] for found in artifacts if found.get("executable")][-1]


def offsets(text, span):
    """Where a span of cargo-mutants begins and ends in the text."""
    lines = [0, *(found.end() for found in re.finditer("\n", text))]
    return [lines[span[end]["line"] - 1] + span[end]["column"] - 1 for end in ("start", "end")]


def body(text, span):
    """Where the body of a function begins and ends, with its braces. None: it has to be built by itself."""
    begin, end = offsets(text, span)
    code = NO_CODE.sub(lambda found: " " * len(found[0]), text[begin:end])
    open_braces = []
    for place, character in enumerate(code):
        if character == "{":
            open_braces.append(place)
        elif character == "}":
            opened = open_braces.pop()
    signature = code[:opened]
    if re.search(r"\bconst fn\b|->\s*impl\b", signature):
        return None
    return begin + opened, end


class Program:
    """A sample of mutants in one program of tests."""

    def __init__(self, sample, found):
        self.numbers = {name: number for number, name in enumerate(sample, 1)}
        self.found = found
        self.unviable = set()
        self.bodies = collections.defaultdict(lambda: collections.defaultdict(list))
        for name in sample:
            mutant = found[name]
            text = (SOURCE / mutant["file"]).read_text()
            where = body(text, mutant["function"]["span"]) if mutant.get("function") else None
            if where:
                self.bodies[mutant["file"]][where].append(name)

    def together(self):
        return {name for by_place in self.bodies.values() for names in by_place.values() for name in names}

    def write(self):
        """Writes the files that have mutants. The lines of each mutant's body: (file, first, last, name)."""
        lines = []
        shutil.copy(SOURCE / LIB, TREE / LIB)
        for file, by_place in self.bodies.items():
            text, parts, done = (SOURCE / file).read_text(), [], 0
            for (begin, end), names in sorted(by_place.items()):
                parts.append(text[done:begin] + "{ match crate::mutant() {")
                for name in names:
                    if name in self.unviable:
                        continue
                    first, last = offsets(text, self.found[name]["span"])
                    changed = text[begin:first] + self.found[name]["replacement"] + text[last:end]
                    above = sum(part.count("\n") for part in parts) + 2
                    parts.append(f"\n{self.numbers[name]} => {changed}")
                    lines.append((file, above, above + changed.count("\n"), name))
                parts.append(f"\n_ => {text[begin:end]}\n}} }}")
                done = end
            (TREE / file).write_text("".join(parts) + text[done:])
        with (TREE / LIB).open("a") as file:
            file.write(CHOOSE)
        return lines

    def leave_out_what_does_not_compile(self):
        while True:
            lines = self.write()
            messages, compiles = cargo("check", "--tests")
            if compiles:
                return
            wrong = set()
            for message in messages:
                message = message.get("message", {})
                if message.get("level") != "error":
                    continue
                for span in message["spans"]:
                    if span["is_primary"]:
                        wrong |= {name for file, first, last, name in lines
                                  if span["file_name"] == file and first <= span["line_start"] <= last}
            if not wrong:
                sys.exit(f"mutants.py: the tests do not compile; see {FOLDER}/build.log")
            self.unviable |= wrong


def run(program, stage, number=0):
    """The first test that fails with this mutant. None: all pass."""
    arguments, cases, processor_s = STAGES[stage]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    environment |= {"RUST_BACKTRACE": "0", "MUTANT": str(number)}
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


def check_tests(program, stages):
    """Without a mutant the tests have to pass, or each mutant would be caught."""
    for stage in stages:
        failed = run(program, stage)
        if failed:
            sys.exit(f"mutants.py: without a mutant {failed} fails; the tests have to pass first")


def try_stages(program, stages, number=0):
    """The outcome of a mutant, and the test that failed."""
    for stage in stages:
        failed = run(program, stage, number)
        if failed:
            return "caught", failed
    return "survived", None


def try_alone(mutant, stages):
    """A mutant in a program of its own."""
    path = TREE / mutant["file"]
    before = path.read_text()
    text = (SOURCE / mutant["file"]).read_text()
    first, last = offsets(text, mutant["span"])
    try:
        path.write_text(text[:first] + mutant["replacement"] + text[last:])
        program = built()
        return try_stages(program, stages) if program else ("unviable", None)
    finally:
        path.write_text(before)


def try_all(sample, found, results):
    print("building", flush=True)
    together = Program(sample, found)
    together.leave_out_what_does_not_compile()
    # The next build, of a mutant alone, replaces the program.
    program = shutil.copy(built(), FOLDER / "program")

    def try_one(name, stage, stages):
        if name in together.unviable:
            outcome = "unviable", None
        elif name in together.together():
            outcome = try_stages(program, stages, together.numbers[name])
        else:
            outcome = try_alone(found[name], stages)
        results.add(name, stage, *outcome)
        print(f"{outcome[0]:9} {name}{', all cases' if stage == 'all' else ''}", flush=True)

    check_tests(program, FIRST)
    for name in sample:
        if results.outcome(name) is None:
            try_one(name, "first", FIRST)
    survived = [name for name in sample if results.outcome(name) == ("survived", "first")]
    if survived:
        check_tests(program, ["all"])
    for name in survived:
        try_one(name, "all", ["all"])


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
    parser.add_argument("-n", type=int, default=460, metavar="MUTANTS")
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
