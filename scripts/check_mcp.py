"""Drives the reference MCP servers through `nanobot mcp` and through turns with a scripted model.

usage: check_mcp.py FOLDER-OF-THE-BINARIES
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from port_server import free_port, wait_for_port

ROOT = Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".cache/mcp-venv/bin"
NODE = ROOT / ".cache/mcp-node/node_modules/.bin"
PATIENCE = 60


class RemoteServer:
    """The reference server over HTTP, on a free port."""

    def __init__(self, transport):
        self.port = free_port()
        environment = {**os.environ, "PORT": str(self.port)}
        self.process = subprocess.Popen(
            [NODE / "mcp-server-everything", transport],
            env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )
        wait_for_port(self.port, self.process)

    def stop(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Model:
    """The scripted model: it makes the call that a message names."""

    def __init__(self, binary):
        self.process = subprocess.Popen([binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = json.loads(self.process.stdout.readline())["base_url"]

    def stop(self):
        self.process.stdin.close()
        self.process.wait(timeout=PATIENCE)


class Home:
    def __init__(self, program, folder, servers, model):
        self.program = program
        self.folder = folder
        config = {
            "providers": {"custom": {"apiKey": "test-key", "apiBase": model.url}},
            "agents": {"defaults": {"provider": "custom", "model": "scripted-model"}},
            "tools": {"mcpServers": servers},
        }
        (folder / "config.json").write_text(json.dumps(config))

    def turn(self, tool, arguments):
        """Returns the reply of a turn in which the model calls the tool."""
        environment = {**os.environ, "NANOBOT_HOME": str(self.folder)}
        command = [self.program, "agent", "-m", f"call {tool} {json.dumps(arguments)}"]
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run(self, *arguments):
        environment = {**os.environ, "NANOBOT_HOME": str(self.folder)}
        command = [self.program, "mcp", *arguments, "--json"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        if not done.stdout:
            sys.exit(f"{command}: status {done.returncode}: {done.stderr}")
        return json.loads(done.stdout)


def check(home, name, least, tool, arguments, expected):
    begun = time.monotonic()
    test = home.run("test", name, "--tool", tool, "--arguments", json.dumps(arguments))
    tools = test["server"]["tools"]
    output, succeeded = test["call"]
    assert test["server"]["state"] == "connected", test
    assert len(tools) >= least, [one["name"] for one in tools]
    assert succeeded and expected in output, output
    seconds = time.monotonic() - begun
    print(f"{name}: {len(tools)} tools; {tool} answered; {seconds:.1f} s")


def main():
    binaries = Path(sys.argv[1]).resolve()
    program = str(binaries / "nanobot")
    model = Model(binaries / "examples" / "scripted_model")
    remotes = {"http": RemoteServer("streamableHttp"), "sse": RemoteServer("sse")}
    try:
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder).resolve()
            files = folder / "files"
            files.mkdir()
            (files / "note.txt").write_text("milk and bread")
            repository = folder / "repository"
            git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com"]
            subprocess.run([*git, "init", "--quiet", str(repository)], check=True)
            subprocess.run(
                [*git, "-C", str(repository), "commit", "--quiet", "--allow-empty", "-m", "the first one"],
                check=True,
            )
            servers = {
                "time": {"command": str(PYTHON / "mcp-server-time"), "args": ["--local-timezone", "Etc/UTC"]},
                "git": {"command": str(PYTHON / "mcp-server-git"), "args": ["-r", str(repository)]},
                "fetch": {"command": str(PYTHON / "mcp-server-fetch"), "args": ["--ignore-robots-txt", "--allow-private-ips"]},
                "everything": {"command": str(NODE / "mcp-server-everything")},
                "filesystem": {"command": str(NODE / "mcp-server-filesystem"), "args": [str(files)]},
                "remote": {"url": f"http://127.0.0.1:{remotes['http'].port}/mcp"},
                "older": {"url": f"http://127.0.0.1:{remotes['sse'].port}/sse"},
            }
            home = Home(program, folder, servers, model)
            echo = {"message": "hello there"}
            check(home, "time", 2, "get_current_time", {"timezone": "Etc/UTC"}, "Etc/UTC")
            check(home, "git", 5, "git_log", {"repo_path": str(repository)}, "the first one")
            url = f"http://127.0.0.1:{remotes['http'].port}/no-such-page"
            refused = home.run("test", "fetch", "--tool", "fetch", "--arguments", json.dumps({"url": url}))
            assert refused["server"]["tools"] and "404" in refused["call"][0], refused
            print(f"fetch: {len(refused['server']['tools'])} tools; fetch answered")
            check(home, "filesystem", 5, "read_text_file", {"path": str(files / "note.txt")}, "milk and bread")
            for name in ["everything", "remote", "older"]:
                check(home, name, 5, "echo", echo, "hello there")
            listed = home.run("list")
            assert {one["state"] for one in listed} == {"idle"}, listed
            assert all(one["tools"] for one in listed), listed
            print("list: all servers are idle with their recorded tools")
            deferred = {one["name"] for one in listed if one["tools"][0]["isDeferred"]}
            assert "time" in deferred and "everything" not in deferred, deferred
            reply = home.turn("mcp_everything_echo", echo)
            assert "hello there" in reply, reply
            found = home.turn("tool_search", {"query": "current time"})
            assert "mcp_time_get_current_time" in found, found
            zone = {"timezone": "Etc/UTC"}
            wrapped = home.turn("tool_call", {"name": "mcp_time_get_current_time", "arguments": zone})
            assert "Etc/UTC" in wrapped, wrapped
            audit = [json.loads(line) for line in (folder / "logs/audit.log").read_text().splitlines()]
            assert audit[-1]["tool"] == "mcp_time_get_current_time", audit[-1]
            assert audit[-1]["arguments"] == zone, audit[-1]
            print(f"turns: direct, found and wrapped calls answered; deferred servers: {sorted(deferred)}")
    finally:
        model.stop()
        for remote in remotes.values():
            remote.stop()


main()
