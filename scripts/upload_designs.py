#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What simpler designs than the engine do for an upload through an outage (docs/schemes/mobile-auto.md).

For the virtual kernel: it removes none of its network namespaces.

    holdfast lab exec -- $PWD/scripts/upload_designs.py DESIGN CONTROL OUTAGE_S

It prints the milliseconds from link up to the first new byte at the server, and the bytes of the 6 s after link up.
The link has 20 Mb/s, a round trip of 50 ms, a queue of 200 packets, and loses all in an outage, which its carrier
shows. HOLDFAST names the program.
"""
import os
import socket
import subprocess
import sys
import threading
import time

# `drop`: a filter at egress drops all packets while the link is down. `rto-max`: the socket has the least
# TCP_RTO_MAX_MS.
DESIGNS = ["plain", "drop", "rto-max", "keep", "auto"]
TCP_RTO_MAX_MS = 44  # include/uapi/linux/tcp.h, from Linux 6.15 on
PROGRAM = os.environ.get("HOLDFAST", "holdfast")
MH, FH, INTERFACE = "10.0.2.2", "10.0.2.1", "link-mh"
IN_FH, IN_MH = (["ip", "netns", "exec", name] for name in ("fh", "mh"))
AFTER_S = 6.0


def run(*command):
    subprocess.run(command, check=True)


def wait_for(*command):
    """Repeats a command until it succeeds."""
    for _ in range(100):
        if subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0:
            return
        time.sleep(0.05)
    sys.exit(f"upload_designs.py: no success in 5 s: {' '.join(command)}")


def receive():
    """The process of the FH: it prints a line with the time and the bytes of each read."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((FH, 80))
    listener.listen()
    connection, _ = listener.accept()
    while data := connection.recv(1 << 20):
        print(time.monotonic(), len(data), flush=True)


def send(control, design):
    """The process of the MH."""
    sender = socket.socket()
    sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
    if design == "rto-max":
        sender.setsockopt(socket.IPPROTO_TCP, TCP_RTO_MAX_MS, 1000)
    sender.connect((FH, 80))
    while True:
        sender.sendall(bytes(1 << 16))


def follow_carrier(drops, ups):
    """Notes when the MH's interface has its carrier again. With `drops` all packets are dropped until then."""
    monitor = subprocess.Popen(
        [*IN_MH, "ip", "-o", "monitor", "link", "dev", INTERFACE], stdout=subprocess.PIPE, text=True)
    was_down = False
    for line in monitor.stdout:
        is_down = "NO-CARRIER" in line
        if is_down == was_down:
            continue
        was_down = is_down
        if not is_down:
            ups.append(time.monotonic())
        if drops:
            run(*IN_MH, "nft", "add rule netdev hf e drop" if is_down else "flush chain netdev hf e")


def main(design, control, outage_s):
    for name in ("fh", "mh"):
        run("ip", "netns", "add", name)
        run("ip", "-n", name, "link", "set", "lo", "up")
    link = subprocess.Popen([
        PROGRAM, "link", "--fh-ns", "/run/netns/fh", "--mh-ns", "/run/netns/mh", "--fh-address", f"{FH}/24",
        "--mh-address", f"{MH}/24", "--rate", "20", "--delay", "25", "--queue", "200", "--carrier",
        "--outage", f"4+{outage_s}", "--start", "first-packet"])
    wait_for("ip", "-n", "mh", "route", "get", FH)
    if design == "drop":
        run(*IN_MH, "nft", "add table netdev hf")
        run(*IN_MH, "nft", f"add chain netdev hf e {{ type filter hook egress device {INTERFACE} priority 0; }}")
    ups = []
    threading.Thread(target=follow_carrier, args=(design == "drop", ups), daemon=True).start()
    if design in ("keep", "auto"):
        control_socket = "/run/upload-designs"
        subprocess.Popen([
            *IN_MH, PROGRAM, "mobile", "--interface", INTERFACE, "--scheme", design, "--control-socket", control_socket])
        wait_for("test", "-S", control_socket)
    own = [sys.executable, os.path.abspath(__file__)]
    server = subprocess.Popen([*IN_FH, *own, "receive"], stdout=subprocess.PIPE, text=True)
    wait_for(*IN_FH, "bash", "-c", "ss --listening --tcp --numeric | grep -q :80")
    client = subprocess.Popen([*IN_MH, *own, "send", control, design])
    arrivals = []
    # The FH's process prints no line if no byte arrives: it is killed after this time.
    threading.Timer(outage_s + 60, server.kill).start()
    for line in server.stdout:
        at, count = line.split()
        if ups and float(at) > ups[0]:
            arrivals.append((float(at) - ups[0], int(count)))
            if arrivals[-1][0] > AFTER_S:
                break
    in_time = sum(count for at, count in arrivals if at < AFTER_S)
    first = f"{1000 * arrivals[0][0]:.0f} ms" if arrivals else "never"
    print(f"{design:8} {control:6} {outage_s:4g} s {first:>9} {in_time / 1e6:6.2f} MB", flush=True)
    for process in (client, server, link):
        process.kill()
    # Ends the threads too: they still wait for the carrier and for the timer.
    os._exit(0)


match sys.argv[1:]:
    case ["receive"]:
        receive()
    case ["send", control, design]:
        send(control, design)
    case [design, control, outage_s] if design in DESIGNS:
        main(design, control, float(outage_s))
    case _:
        sys.exit(f"upload_designs.py: takes DESIGN CONTROL OUTAGE_S; the designs: {', '.join(DESIGNS)}")
