"""Runs a gateway against python-socketio's server, a Socket.IO peer that we did not write.

usage: check_mochat.py FOLDER-OF-THE-BINARIES
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from fake_process import FakeProcess

ANN = "session_ann"
PANEL = "panel1"
# Time limit for the end of the gateway, in seconds.
LIMIT = 60


class Server(FakeProcess):
    """The server, and commands that must succeed."""

    def __init__(self, serializer):
        script = Path(__file__).with_name("mochat_socketio_server.py")
        command = [sys.executable, str(script), "--serializer", serializer, "--ping", "1"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.where = json.loads(self.process.stdout.readline())

    def order(self, **order):
        answer = super().order(**order)
        assert "error" not in answer, f"{order}: {answer}"
        return answer


def start_gateway(binary, home, server, serializer):
    section = {
        "enabled": True,
        "clawToken": server.where["token"],
        "agentUserId": server.where["bot"],
        "baseUrl": server.where["base_url"],
        "socketDisableMsgpack": serializer == "default",
        "sessions": ["*"],
        "panels": ["*"],
        "replyDelayMode": "off",
        "mention": {"requireInGroups": True},
        "allowFrom": ["ann"],
    }
    folder = home / ".nanobot"
    folder.mkdir(exist_ok=True)
    config = {
        "agents": {"defaults": {"provider": "demo"}},
        "channels": {"mochat": section},
        "gateway": {"port": 0},
    }
    (folder / "config.json").write_text(json.dumps(config))
    log = open(home / "gateway.out", "ab")
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "NO_PROXY": "127.0.0.1"}
    return subprocess.Popen([binary, "gateway"], env=environment, stdout=log, stderr=log)


def stop(gateway):
    gateway.send_signal(signal.SIGTERM)
    assert gateway.wait(timeout=LIMIT) == 0, "the gateway ended with an error"


def answers(server, chat):
    return [sent for sent in server.order(report=True)["sent"] if sent["chat"] == chat]


def check(binary, serializer, home):
    server = Server(serializer)
    server.order(session=ANN)
    server.order(panel=PANEL)
    gateway = start_gateway(binary, home, server, serializer)
    try:
        for chat in (ANN, PANEL):
            server.order(subscribed=chat)
        server.order(pings=2)
        server.order(push=ANN, text="hello", author="ann")
        server.order(sends=1)
        server.order(push=PANEL, text="not for the agent", author="ann")
        asked = server.order(push=PANEL, text="a question", author="ann", meta={"mentioned": True})
        server.order(sends=2)
        [answer] = answers(server, PANEL)
        assert answer["replyTo"] == asked["message"], answer
        # What is written while the connection is away is answered, too, and only once.
        server.order(cut=True)
        server.order(push=ANN, text="still there?", author="ann")
        server.order(sends=3)
        stop(gateway)
        server.order(push=ANN, text="and now?", author="ann")
        gateway = start_gateway(binary, home, server, serializer)
        server.order(sends=4)
    finally:
        stop(gateway)
    assert len(answers(server, ANN)) == 3, server.order(report=True)
    server.close()
    print(f"{serializer}: 4 messages answered, over 2 starts and a cut")


def main():
    binary = str(Path(sys.argv[1]) / "nanobot")
    for serializer in ("msgpack", "default"):
        with tempfile.TemporaryDirectory() as folder:
            check(binary, serializer, Path(folder))


if __name__ == "__main__":
    main()
