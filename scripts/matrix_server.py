"""A Synapse with SQLite on a free port, and accounts on it."""

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

NAME = "nanobot.test"
PASSWORD = "a password for tests"
# Time limit for the start, in seconds.
LIMIT = 120


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Synapse:
    """A running homeserver."""

    def __init__(self, folder):
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.config = folder / "homeserver.yaml"
        log = {"version": 1, "root": {"level": "WARNING", "handlers": ["console"]},
               "handlers": {"console": {"class": "logging.StreamHandler"}}}
        (folder / "log.yaml").write_text(json.dumps(log))
        fast = {"per_second": 1000, "burst_count": 1000}
        listener = {"port": port, "bind_addresses": ["127.0.0.1"], "type": "http", "tls": False,
                    "resources": [{"names": ["client"]}]}
        config = {
            "server_name": NAME,
            "listeners": [listener],
            "database": {"name": "sqlite3", "args": {"database": str(folder / "synapse.db")}},
            "log_config": str(folder / "log.yaml"),
            "pid_file": str(folder / "synapse.pid"),
            "signing_key_path": str(folder / "signing.key"),
            "media_store_path": str(folder / "media"),
            "registration_shared_secret": "a secret for tests",
            "macaroon_secret_key": "a key for tests",
            "form_secret": "a form for tests",
            "trusted_key_servers": [],
            "report_stats": False,
            "rc_message": fast,
            "rc_login": {"address": fast, "account": fast, "failed_attempts": fast},
            "rc_invites": {"per_room": fast, "per_user": fast, "per_issuer": fast},
        }
        # JSON is YAML, too.
        self.config.write_text(json.dumps(config))
        command = [sys.executable, "-m", "synapse.app.homeserver", "-c", str(self.config)]
        self.log = folder / "synapse.log"
        with self.log.open("ab") as log:
            subprocess.run([*command, "--generate-keys"], check=True, stdout=log, stderr=log)
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        self.wait()

    def wait(self):
        give_up = time.monotonic() + LIMIT
        while True:
            try:
                return urllib.request.urlopen(self.url + "/_matrix/client/versions", timeout=5)
            except (urllib.error.URLError, OSError):
                is_early = self.process.poll() is None and time.monotonic() < give_up
                assert is_early, self.log.read_text()
                time.sleep(0.1)

    def register(self, name):
        """Adds an account, and returns its user id."""
        program = Path(sys.executable).with_name("register_new_matrix_user")
        command = [program, "-u", name, "-p", PASSWORD, "--no-admin", "-c", self.config, self.url]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return f"@{name}:{NAME}"

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=LIMIT)
