#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Changes one operator or result of the engine at a time, and runs the engine's tests, which must fail.

    scripts/mutants.py [-n MUTANTS] [-s SEED] [-j JOBS]     400, seed 1, one job unless given

The mutants are a random sample of all that cargo-mutants finds in crates/core. The property tests run with
a part of their cases first. What survives is tried again with all cases. A mutant that does not compile
does not count. Those that delete a field of a struct are left out.

The last lines are the mutants that survived, and `N caught, N survived`. All output is in target/mutants. Status 1:
less than 85 % were caught.
"""

import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import sys

FOLDER = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", "target")) / "mutants"
# Of 5000 for each scheme, and of 300 for each forgery.
CASES_FIRST = 100
LIMIT_S = 300
CAUGHT_MIN_PERCENT = 85
PACKAGE = ["--package", "holdfast-core"]
# A name does not choose one of these alone.
LEFT_OUT = "delete field"


def mutants(*arguments, **more):
    command = ["cargo", "mutants", *PACKAGE, "--no-shuffle", "--exclude-re", LEFT_OUT, *arguments]
    return subprocess.run(command, text=True, check=False, **more)


def all_names():
    found = mutants("--list", "--json", stdout=subprocess.PIPE)
    found.check_returncode()
    # What only tests use is no decision of the engine.
    return [mutant["name"] for mutant in json.loads(found.stdout) if "/test" not in mutant["name"].split(":")[0]]


def tried(names, stage, jobs, environment):
    """The names of each outcome: caught, missed, timeout, unviable."""
    output = FOLDER / stage
    chosen = [argument for name in names for argument in ("--re", f"^{re.escape(name)}$")]
    mutants(*chosen, "--output", str(output), "--jobs", str(jobs), "--timeout", str(LIMIT_S), "--baseline", "skip",
            "--", "--lib", env={**os.environ, **environment})
    def lines(outcome):
        path = output / "mutants.out" / f"{outcome}.txt"
        return set(path.read_text().splitlines()) if path.exists() else set()
    outcomes = {outcome: lines(outcome) for outcome in ("caught", "missed", "timeout", "unviable")}
    unknown = set(names) - set().union(*outcomes.values())
    if unknown:
        sys.exit(f"mutants.py: {len(unknown)} of {len(names)} mutants have no outcome; see {output}")
    return outcomes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=400, metavar="MUTANTS")
    parser.add_argument("-s", type=int, default=1, metavar="SEED")
    parser.add_argument("-j", type=int, default=1, metavar="JOBS")
    arguments = parser.parse_args()
    os.chdir(pathlib.Path(__file__).resolve().parent.parent)
    FOLDER.mkdir(parents=True, exist_ok=True)
    subprocess.run(["scripts/packages.sh", "build"], check=True)
    subprocess.run(["scripts/toolchain.sh", "cargo-mutants"], check=True)
    names = all_names()
    sample = random.Random(arguments.s).sample(sorted(names), min(arguments.n, len(names)))
    print(f"{len(sample)} of {len(names)} mutants, seed {arguments.s}", flush=True)

    first = tried(sample, "first", arguments.j, {"HOLDFAST_CASES": str(CASES_FIRST)})
    # An endless loop is noticed.
    caught = first["caught"] | first["timeout"]
    survived = first["missed"]
    if survived:
        again = tried(sorted(survived), "again", arguments.j, {})
        caught |= again["caught"] | again["timeout"]
        survived = again["missed"]
    print("", *sorted(survived), sep="\n")
    viable = len(caught) + len(survived)
    print(f"{len(first['unviable'])} do not compile; {100 * len(caught) / max(viable, 1):.1f} % of {viable} caught")
    print(f"{len(caught)} caught, {len(survived)} survived")
    sys.exit(0 if 100 * len(caught) >= CAUGHT_MIN_PERCENT * viable else 1)


if __name__ == "__main__":
    main()
