"""The other worker of `exchange_train`: takes the gradients that it is sent, and sends as many bytes back."""

from __future__ import annotations

import os
import socket

ADDRESS = ("198.18.0.2", 7000)
GRADIENT_BYTES = 2 * 2**20


def receive_exactly(connection: socket.socket, into: memoryview) -> bool:
    """Fill the buffer; False if the other side has closed."""
    filled = 0
    while filled < len(into):
        got = connection.recv_into(into[filled:])
        if not got:
            return False
        filled += got
    return True


def main() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    buffer = memoryview(bytearray(GRADIENT_BYTES))
    with socket.create_server(ADDRESS) as server:
        while True:
            connection, _ = server.accept()
            with connection:
                try:
                    while receive_exactly(connection, buffer):
                        connection.sendall(buffer)
                except OSError:
                    pass  # the worker was ended in the middle of a step; the next one connects anew


if __name__ == "__main__":
    main()
