"""Drives the reference MCP servers through `nanobot mcp`: check_mcp.py PROGRAM."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".cache/mcp-venv/bin"
NODE = ROOT / ".cache/mcp-node/node_modules/.bin"
PATIENCE = 60


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class RemoteServer:
    """The reference server over HTTP, on a free port."""

    def __init__(self, transport):
        self.port = free_port()
        environment = {**os.environ, "PORT": str(self.port)}
        self.process = subprocess.Popen(
            [NODE / "mcp-server-everything", transport],
            env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )
        begun = time.monotonic()
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                if time.monotonic() - begun > PATIENCE or self.process.poll() is not None:
                    raise
                time.sleep(0.1)

    def stop(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Home:
    def __init__(self, program, folder, servers):
        self.program = program
        self.folder = folder
        (folder / "config.json").write_text(json.dumps({"tools": {"mcpServers": servers}}))

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
    program = str(Path(sys.argv[1]).resolve())
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
                "fetch": {"command": str(PYTHON / "mcp-server-fetch"), "args": ["--ignore-robots-txt"]},
                "everything": {"command": str(NODE / "mcp-server-everything")},
                "filesystem": {"command": str(NODE / "mcp-server-filesystem"), "args": [str(files)]},
                "remote": {"url": f"http://127.0.0.1:{remotes['http'].port}/mcp"},
                "older": {"url": f"http://127.0.0.1:{remotes['sse'].port}/sse"},
            }
            home = Home(program, folder, servers)
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
    finally:
        for remote in remotes.values():
            remote.stop()


main()
