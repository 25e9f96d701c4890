#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One transfer for scripts/package_test.sh, from 10.1.0.2 to whoever connects, at 2 MB/s.

    package_transfer.py fh FILE        send until FILE is there
    package_transfer.py mh PROGRESS    receive; PROGRESS is as large as what has arrived
    package_transfer.py probe          fails if the FH does not listen

Both ends print the number of bytes and their hash.
"""

import hashlib
import os
import random
import socket
import sys

ADDRESS = ("10.1.0.2", 8000)
SO_MAX_PACING_RATE = 47
BYTES_PER_S = 2_000_000


def send(end):
    with socket.create_server(ADDRESS) as listener:
        while True:
            connection, _ = listener.accept()
            # A probe sends nothing and leaves; the receiver sends a byte.
            if connection.recv(1):
                break
    connection.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, BYTES_PER_S)
    generator, digest, total = random.Random(1), hashlib.sha256(), 0
    while not os.path.exists(end):
        block = generator.randbytes(65536)
        connection.sendall(block)
        digest.update(block)
        total += len(block)
    connection.shutdown(socket.SHUT_WR)
    return total, digest


def receive(progress):
    digest, total = hashlib.sha256(), 0
    with socket.create_connection(ADDRESS) as connection, open(progress, "wb") as file:
        connection.sendall(b"x")
        while block := connection.recv(65536):
            digest.update(block)
            total += len(block)
            file.truncate(total)
    return total, digest


if sys.argv[1] == "probe":
    socket.create_connection(ADDRESS).close()
else:
    total, digest = {"fh": send, "mh": receive}[sys.argv[1]](sys.argv[2])
    print(total, digest.hexdigest())
