"""Servers that a check starts on a free port of this machine."""

import socket
import time

PATIENCE = 60


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for_port(port, process):
    """Waits until the process listens on the port, for at most a minute."""
    begun = time.monotonic()
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() - begun > PATIENCE or process.poll() is not None:
                raise
            time.sleep(0.1)
