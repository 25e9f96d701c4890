#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The transfers of scripts/package_test.sh, 2 MB/s: the FH listens at 10.1.0.2, and the MH connects.

    package_transfer.py fh|mh download|upload FILE

The sender sends until FILE is there. The receiver's FILE is as large as what has arrived.
Both print the number of bytes and their hash.

    package_transfer.py probe download|upload

Fails if the FH does not listen.
"""

import hashlib
import os
import random
import socket
import sys

ADDRESSES = {"download": ("10.1.0.2", 8000), "upload": ("10.1.0.2", 8001)}
SO_MAX_PACING_RATE = 47
BYTES_PER_S = 2_000_000


def accepted(address):
    with socket.create_server(address) as listener:
        while True:
            connection, _ = listener.accept()
            # A probe connects and sends nothing; the MH sends a byte first.
            if connection.recv(1):
                return connection


def send(connection, end):
    connection.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, BYTES_PER_S)
    generator, digest, total = random.Random(1), hashlib.sha256(), 0
    while not os.path.exists(end):
        block = generator.randbytes(65536)
        connection.sendall(block)
        digest.update(block)
        total += len(block)
    connection.shutdown(socket.SHUT_WR)
    return total, digest


def receive(connection, progress):
    digest, total = hashlib.sha256(), 0
    with open(progress, "wb") as file:
        while block := connection.recv(65536):
            digest.update(block)
            total += len(block)
            file.truncate(total)
    return total, digest


host, direction = sys.argv[1:3]
if host == "probe":
    socket.create_connection(ADDRESSES[direction]).close()
else:
    connect = {"fh": accepted, "mh": socket.create_connection}[host]
    with connect(ADDRESSES[direction]) as connection:
        if host == "mh":
            connection.sendall(b"x")
        sends = (host == "fh") == (direction == "download")
        total, digest = (send if sends else receive)(connection, sys.argv[3])
    print(total, digest.hexdigest())
