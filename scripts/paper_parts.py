# SPDX-License-Identifier: Apache-2.0
"""Carries out the stages of `make paper`: several parts at a time, each on a processor of its own.

A part on each processor takes no longer than one part on all. No processor waits for the last run of a part.
"""
import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from paper_stages import STAGES
from paper_tables import PAPERS

# The user's paths are relative to the folder in which the program was started; all others to the repository.
START = Path.cwd()
os.chdir(Path(__file__).resolve().parent.parent)

# The file in a stage's folder with the reason why its last attempt failed.
FAILED = "failed"
# The file in a stage's folder with the digest of the other stages' results that it used.
USED = "used"


def missing(needs, program):
    """Why stages with this need cannot run here; empty if they can."""
    if needs == "valgrind":
        return "" if shutil.which("valgrind") else "no valgrind"
    if needs in ("recordings", "statistics") and not os.environ.get("HOLDFAST_TRACES"):
        return "HOLDFAST_TRACES names no folder of recordings"
    if needs in ("model", "statistics"):
        return ""
    if needs == "wall clock":
        return "" if os.geteuid() == 0 else "not root: it makes namespaces and loads BPF programs"
    has_kernel = subprocess.run([program, "lab", "exec", "--", "true"], capture_output=True).returncode == 0
    return "" if has_kernel else "no virtual kernel: holdfast lab setup"


def key_of(stage, program_digest):
    """The digest of a stage: it is repeated if the program, its commands, scenarios, scripts or recordings change."""
    digest = hashlib.sha256((program_digest + json.dumps(stage.commands) + "".join(stage.uses)).encode())
    own = {
        "recordings": [Path("docs/recordings/bench.py"), Path("docs/recordings/link_statistics.py")],
        "valgrind": sorted(Path("crates/core").rglob("*.rs")),
        "wall clock": sorted(file for file in Path("crates").rglob("*.rs") if "benches" in file.parts),
        "statistics": sorted([*Path("crates/link").rglob("*.rs"), *Path("docs/scenarios").glob("real-*.toml")]),
    }
    for file in own.get(stage.needs, []):
        digest.update(file.read_bytes())
    for part in dict.fromkeys(part for command in stage.commands for part in command):
        files = sorted(Path("papers", part).glob("*.toml")) if part in PAPERS else [Path(part.removeprefix("{root}/"))]
        for file in files:
            if file.suffix in (".toml", ".sh", ".py"):
                digest.update(file.read_bytes())
    if stage.needs in ("recordings", "statistics") and "HOLDFAST_TRACES" in os.environ:
        digest.update(listing(START / os.environ["HOLDFAST_TRACES"]).encode())
    return digest.hexdigest()


def listing(folder):
    """Names and sizes of the folder's files. Their contents are left out: recordings are large."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return "".join(f"{file.relative_to(folder)} {file.stat().st_size}\n" for file in files)


def part_file(folder, number):
    return folder / f"{number:02}.results"


def files_used(stage, folder):
    """The complete results of the stages that this stage uses."""
    whole = [name for name in stage.uses if complete(folder, name)]
    return [part_file(folder / name, number + 1) for name in whole for number in range(len(STAGES[name].commands))]


def digest_used(stage, folder):
    digest = hashlib.sha256()
    for file in files_used(stage, folder):
        digest.update(file.read_bytes())
    return digest.hexdigest()


STOPPED_BY = (signal.SIGINT, signal.SIGTERM)


def begin_on(processors):
    """Prepares a part's process. A program executes as many runs at a time as it has processors."""
    os.sched_setaffinity(0, processors)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPED_BY)


@contextlib.contextmanager
def not_interrupted():
    """Delays interrupts within the block."""
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPPED_BY)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPED_BY)


class Part:
    """A running command of a stage. Its results get their final name when they are complete."""

    def __init__(self, name, number, folder, program, processors):
        self.name, self.processors = name, processors
        stage, self.folder = STAGES[name], folder / name
        self.whole = part_file(self.folder, number)
        self.partial = self.whole.with_suffix(".partial")
        names = {"holdfast": program, "file": self.partial, "folder": self.folder, "root": Path.cwd()}
        command = [word.format(**names) for word in stage.commands[number - 1]]
        used = files_used(stage, folder)
        command += ["--results", *map(str, used)] if used else []
        if stage.uses:
            (self.folder / USED).write_text(digest_used(stage, folder))
        for left in (self.partial, self.folder / FAILED):
            left.unlink(missing_ok=True)
        path = f"{os.environ['PATH']}:{Path.home()}/.cargo/bin"
        environment = {**os.environ, "HOLDFAST": program, "PATH": path}
        if "HOLDFAST_TRACES" in os.environ:
            environment["HOLDFAST_TRACES"] = str(START / os.environ["HOLDFAST_TRACES"])
        self.began = time.monotonic()
        # Two parts of a stage may run at the same time: each has a file of messages.
        self.messages = self.whole.with_suffix(".messages")
        self.output = self.whole.with_suffix(".output")
        with open(self.messages, "wb") as messages, open(self.output, "wb") as output:
            self.child = subprocess.Popen(
                command, stdout=output, stderr=messages, env=environment, start_new_session=True,
                # The bench writes below its current folder.
                cwd=self.folder if stage.needs == "recordings" else None,
                preexec_fn=lambda: begin_on(processors))

    def end(self, wait_status, used):
        """Why the part failed; empty if it did not. `used`: the resources of its processes."""
        status = self.child.returncode = os.waitstatus_to_exitcode(wait_status)
        if status:
            # Programs print the reason last.
            lines = self.messages.read_text(errors="replace").strip().splitlines() or ["no message"]
            reason = f"status {status}: {lines[-1]}"
            (self.folder / FAILED).write_text(reason)
            return f"{reason} ({self.messages})"
        if not self.partial.exists():
            self.output.rename(self.partial)
        with open(self.folder / "times", "a") as times:
            times.write(f"{time.monotonic() - self.began:.1f} {used.ru_utime + used.ru_stime:.1f}\n")
        self.partial.rename(self.whole)
        return ""

    def signal(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.child.pid, number)


def stop(parts):
    """Interrupts all parts once, as Ctrl-C would, and waits until they have ended."""
    for part in parts:
        part.signal(signal.SIGINT)
    until = time.monotonic() + 30
    for part in parts:
        try:
            part.child.wait(timeout=max(0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            part.signal(signal.SIGKILL)
            part.child.wait()


def complete(folder, name):
    return all(part_file(folder / name, number + 1).exists() for number in range(len(STAGES[name].commands)))


def needs_all_processors(stage):
    """Whether a stage needs all processors: it measures times, builds, or schedules runs by itself."""
    return stage.needs not in ("model", "linux")


def parts_to_run(folder, wanted, program):
    """The parts without results, and why stages are skipped. Removes results of another program or scenario."""
    digest = hashlib.sha256(Path(program).read_bytes()).hexdigest()
    skipped = {needs: missing(needs, program) for needs in {stage.needs for stage in STAGES.values()}}
    notes, parts = {}, []
    for name in wanted:
        stage, own, key = STAGES[name], folder / name, key_of(STAGES[name], digest)
        if skipped[stage.needs]:
            notes[name] = f"skipped: {skipped[stage.needs]}"
            continue
        # The results that this stage uses may be new, or be made in this very run.
        is_old = any(used in stage.uses for used, _ in parts) or (
            (own / USED).exists() and (own / USED).read_text() != digest_used(stage, folder))
        if is_old or not (own / "key").exists() or (own / "key").read_text() != key:
            shutil.rmtree(own, ignore_errors=True)
            own.mkdir(parents=True)
            (own / "key").write_text(key)
        numbers = range(1, len(stage.commands) + 1)
        parts += [(name, number) for number in numbers if not part_file(own, number).exists()]
    return parts, notes


def carry_out(folder, wanted):
    """Returns the exit status, and why stages have no results."""
    named = os.environ.get("HOLDFAST")
    program = str((START / named if named else Path("target/release/holdfast")).resolve())
    if not Path(program).is_file():
        sys.exit(f"paper.py: {program}: no such program; make build, or set HOLDFAST")
    # A build in a stage may replace the program.
    program = str(shutil.copy2(program, folder / "holdfast").resolve())
    parts, notes = parts_to_run(folder, wanted, program)
    share = {name: STAGES[name].seconds / len(STAGES[name].commands) for name in wanted}
    total = left = sum(share[name] for name, _ in parts)
    free, running = set(os.sched_getaffinity(0)), {}
    began, status = time.monotonic(), 0

    def processors_for(name):
        """The processors for the next part. None: it has to wait."""
        if running and (needs_all_processors(STAGES[name]) or any(
                part.name in STAGES[name].uses or needs_all_processors(STAGES[part.name]) for part in running.values())):
            return set()
        return set(free) if needs_all_processors(STAGES[name]) else set(sorted(free)[:1])

    def note_failure(name, reason):
        nonlocal status
        notes[name] = f"failed: {reason}"
        print(f"    {name}: {notes[name]}", flush=True)
        status = 1

    def wait_for_one():
        nonlocal left
        pid, wait_status, used = os.wait4(-1, 0)
        part = running.pop(pid, None)
        if not part:
            return
        free.update(part.processors)
        left -= share[part.name]
        failed = part.end(wait_status, used)
        if failed:
            note_failure(part.name, failed)

    try:
        for index, (name, number) in enumerate(parts, 1):
            while not (processors := processors_for(name)):
                wait_for_one()
            if name in notes:
                left -= share[name]
                continue
            pace = (time.monotonic() - began) / (total - left) if left < total else 1
            of = f", part {number} of {len(STAGES[name].commands)}" if len(STAGES[name].commands) > 1 else ""
            print(f"{index} of {len(parts)}: {name}{of}; about {max(1, round(left * pace / 60))} min left", flush=True)
            try:
                with not_interrupted():
                    part = Part(name, number, folder, program, processors)
                    running[part.child.pid] = part
            except OSError as error:
                note_failure(name, error)
                continue
            free.difference_update(processors)
        while running:
            wait_for_one()
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on from here", file=sys.stderr)
        status = 130
    finally:
        if running:
            # A further interrupt changes nothing.
            for number in STOPPED_BY:
                signal.signal(number, signal.SIG_IGN)
            stop(running.values())
    return status, notes
