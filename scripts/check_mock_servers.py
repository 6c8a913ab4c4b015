"""Drives the program against mock servers of models that we did not write.

usage: check_mock_servers.py PROGRAM [TURNS]

llmock injects faults at random and judges the reaction to each from its own records: an early or
a missing retry, a retry storm, a truncated stream that was taken for an answer. aimock serves
fixtures and fails requests that match none.

No assertion depends on luck. Without a fallback every turn may use up its attempts, so it must end
with the whole answer or with an explained failure, and the counts are printed. The share of answers
with a fallback is asserted; see SECOND.
"""

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path

from llmock.journal import RequestRecord
from llmock.verdict import judge
from port_server import free_port, wait_for_port

ROOT = Path(__file__).resolve().parent.parent
LLMOCK = ROOT / ".cache/mock-servers-venv/bin/llmock"
AIMOCK = ROOT / ".cache/mock-servers-node/node_modules/@copilotkit/aimock/dist/cli.js"
PATIENCE = 60
# Maximum seconds of one run of the program. A turn without luck waits 7 s between its four attempts.
LIMIT = 600
MODEL = "mock-model"
# The style `hello` of llmock. It has more words than the last chunk that a fault can hit, so each
# fault precedes the finish reason: a stream that breaks after it is complete for a client.
ANSWER = f"Hello! This is a mock response from {MODEL}."
# Time between chunks. It sends all of a short answer before it can notice that a client has hung up
# on a malformed chunk, and would then report that as ignored.
PACE = ["--stream-chunk-delay-ms", "40"]
ERRORS = ["--error-rate", "429=0.2", "--error-rate", "503=0.1"]
BROKEN = [
    "--stream-fault", "truncate=0.1", "--stream-fault", "disconnect=0.05", "--stream-fault", "malformed=0.05",
]
# A turn fails if this server refuses in each of the rounds that ask it, three at least, and the first
# one fails as often, or if four answers of the first one break off, between which this one refuses
# twice. That has a probability below 5e-6, and two such turns of 100 one below 2e-7.
SECOND = ["--error-rate", "503=0.05"]
FAILOVER_TURNS = 100
STALLS = ["--stream-fault", "stall=0.3", "--stream-stall-seconds", "10"]
IDLE = "2"


def get(url):
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        return json.load(answer)


class Server:
    """A mock server on a free port."""

    def __init__(self, command):
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            [*map(str, command), "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        wait_for_port(port, self.process)

    def stop(self):
        self.process.kill()
        self.process.wait()


class FaultServer(Server):
    def __init__(self, *options):
        options = ["--tool-mode", "off", "--response-style", "hello", "--log-level", "error", *PACE, *options]
        super().__init__([LLMOCK, "serve", *options])

    def records(self, path=""):
        known = {field.name for field in fields(RequestRecord)}
        return [
            RequestRecord(**{name: value for name, value in one.items() if name in known})
            for one in get(self.url + "/_llmock/requests")["requests"]
            if one["path"].startswith(path)
        ]


class Wire:
    """A provider of the configuration."""

    def __init__(self, name, provider, path, requests, **settings):
        self.name = name
        self.provider = provider
        self.path = path
        # The path of its requests.
        self.requests = requests
        self.settings = settings

    def section(self, server):
        return {"apiKey": "test-key", "apiBase": server.url + self.path, **self.settings}


CHAT = Wire("chat completions", "custom", "/v1", "/v1/chat")
RESPONSES = Wire("Responses", "openai", "/v1", "/v1/responses", apiType="responses")
ANTHROPIC = Wire("Anthropic messages", "anthropic", "/anthropic", "/anthropic/")
MISTRAL = Wire("Mistral", "mistral", "/mistral/v1", "/mistral/")
GROQ = Wire("Groq", "groq", "/groq/openai/v1", "/groq/")
TOGETHER = Wire("Together", "together", "/together/v1", "/together/")


def talk(program, config, lines, **environment):
    """Returns the replies to each line: whether they are successes, and their texts."""
    with tempfile.TemporaryDirectory() as home:
        (Path(home) / "config.json").write_text(json.dumps(config))
        (Path(home) / "workspace").mkdir()
        (Path(home) / "workspace/note.txt").write_text("milk and bread")
        done = subprocess.run(
            [program, "agent", "--lines", "--json"],
            env={**os.environ, "NANOBOT_HOME": home, **environment},
            input="".join(f"{line}\n" for line in lines), capture_output=True, text=True, timeout=LIMIT,
        )
    turns, replies = [], []
    for event in map(json.loads, done.stdout.splitlines()):
        if event["type"] == "reply":
            replies.append((event["ok"], event["text"]))
        elif event["type"] == "turn_end":
            turns.append(replies)
            replies = []
    assert len(turns) == len(lines), f"{len(turns)} of {len(lines)} turns ended: {done.stdout[-2000:]}{done.stderr}"
    return turns


ADVICE = ("Wait", "Check", "Send", "choose another model")


def count(turns, *, may_name_the_model=False):
    """Returns the numbers of answers and explained failures; every turn must be one of both."""
    answered = explained = 0
    for replies in turns:
        assert len(replies) == 1, replies
        [(is_answer, text)] = replies
        if not is_answer:
            assert any(advice in text for advice in ADVICE), f"a failure without advice: {text}"
            explained += 1
            continue
        if may_name_the_model:
            text = text.split("\n\n[")[0]
        assert text.strip() == ANSWER, f"not the whole answer: {text!r}"
        answered += 1
    return answered, explained


# The judge reports these for the last attempt of a call, even if no attempt is left.
AT_THE_END = {"truncated_stream_accepted", "malformed_chunk_ignored"}
ATTEMPTS = 4


def check_findings(records, explained):
    """Checks the verdict on all requests of some turns.

    A broken stream may end a call that has used up its attempts and whose failure was explained.
    """
    verdict = judge(records)
    given_up = [call for call in verdict.calls if not call.succeeded]
    assert len(given_up) == explained, f"{explained} of {len(given_up)} failures were explained"
    findings = [
        one
        for one in verdict.findings
        if one.code not in AT_THE_END or len(verdict.calls[one.call - 1].attempts) < ATTEMPTS
    ]
    assert not findings, findings


def row(name, turns, records, answered, explained):
    calls = len(judge(records).calls)
    faults = sum(1 for record in records if record.fault or record.status >= 400)
    return (name, turns, calls, len(records), faults, answered, explained)


def check_faults(program, server, wire, number, **environment):
    config = {
        "providers": {wire.provider: wire.section(server)},
        "agents": {"defaults": {"provider": wire.provider, "model": MODEL}},
    }
    turns = talk(program, config, [f"message {one}" for one in range(number)], **environment)
    answered, explained = count(turns)
    records = server.records(wire.requests)
    assert records, f"{wire.name}: nothing was sent to {wire.requests}"
    check_findings(records, explained)
    return row(wire.name, number, records, answered, explained)


# Findings that a client with a second model causes on purpose: it asks that one instead.
ANSWERED_ELSEWHERE = {"gave_up", *AT_THE_END}


def check_failover(program, first, second, number):
    """Checks a model with frequent faults and a fallback model with fewer.

    Each server sees half of a call. So what happened on one server is judged by its records, and
    the end of each call by those of both: their requests differ by nothing but the path.
    """
    config = {
        "providers": {"big": CHAT.section(first), "spare": CHAT.section(second)},
        "agents": {
            "defaults": {
                "provider": "big", "model": MODEL, "fallbackModels": [{"provider": "spare", "model": MODEL}],
            },
        },
    }
    turns = talk(program, config, [f"message {one}" for one in range(number)])
    answered, explained = count(turns, may_name_the_model=True)
    both = first.records() + second.records()
    findings = [
        finding
        for server in (first, second)
        for finding in judge(server.records()).findings
        if finding.code not in ANSWERED_ELSEWHERE
    ]
    # Positions are per server; the judge orders by them.
    in_time = sorted(both, key=lambda record: record.started_at)
    merged = [
        RequestRecord(**{**vars(record), "seq": seq}) for seq, record in enumerate(in_time, start=1)
    ]
    elsewhere = [one for one in judge(merged).findings if one.code in ANSWERED_ELSEWHERE]
    assert not findings, findings
    assert len(elsewhere) <= explained, elsewhere
    share = answered / number
    assert share >= 0.99, f"{answered} of {number} turns were answered"
    return row("chat, with a fallback", number, merged, answered, explained)


def print_table(rows):
    titles = ("wire", "turns", "calls", "requests", "faults", "answered", "explained")
    widths = [max(len(str(one[place])) for one in [titles, *rows]) for place in range(len(titles))]
    for one in [titles, *rows]:
        print("  ".join(str(cell).ljust(width) for cell, width in zip(one, widths)).rstrip())


def check_reactions(program, number):
    servers = {
        "broken": FaultServer(*ERRORS, *BROKEN),
        "stalls": FaultServer(*STALLS),
        "first": FaultServer(*ERRORS, *BROKEN),
        "second": FaultServer(*SECOND),
    }
    try:
        with ThreadPoolExecutor() as pool:
            rows = [
                pool.submit(check_faults, program, servers["broken"], wire, number)
                for wire in (CHAT, RESPONSES, ANTHROPIC, MISTRAL, GROQ, TOGETHER)
            ]
            stalled = {"NANOBOT_STREAM_IDLE_TIMEOUT_S": IDLE}
            for wire in (CHAT, RESPONSES, ANTHROPIC):
                rows.append(pool.submit(check_faults, program, servers["stalls"], wire, number // 3, **stalled))
            rows.append(pool.submit(check_failover, program, servers["first"], servers["second"], FAILOVER_TURNS))
            rows = [one.result() for one in rows]
        stalls = slice(6, 9)
        rows[stalls] = [(f"{name}, stalls", *rest) for name, *rest in rows[stalls]]
        print_table(rows)
        faults = sum(one[4] for one in rows)
        assert faults, "no fault was injected"
        print(f"llmock: no finding after {faults} faults")
    finally:
        for server in servers.values():
            server.stop()


# One fixture for the request and one for its continuation, which must carry the result of the call.
FIXTURES = {
    "fixtures": [
        {
            "match": {"userMessage": "shopping", "hasToolResult": False},
            "response": {
                "content": "I look.",
                "toolCalls": [
                    {"name": "read_file", "arguments": json.dumps({"path": "note.txt"})},
                    {"name": "list_dir", "arguments": json.dumps({"path": "."})},
                ],
            },
        },
        {
            "match": {"userMessage": "shopping", "hasToolResult": True},
            "response": {"content": "Milk and bread.", "reasoning": "The note says so."},
        },
    ]
}


def check_shapes(program, wire):
    """Runs a turn with two calls, and checks the request that carries their results.

    aimock parses the requests of every wire into the form of chat completions, strictly enough that
    a result in another shape is not seen as one; then no fixture matches.
    """
    with tempfile.TemporaryDirectory() as folder:
        fixtures = Path(folder) / "fixtures.json"
        fixtures.write_text(json.dumps(FIXTURES))
        command = ["node", AIMOCK, "-f", fixtures, "--validate-on-load", "--strict", "--log-level", "silent"]
        server = Server(command)
    try:
        config = {
            "providers": {wire.provider: wire.section(server)},
            "agents": {"defaults": {"provider": wire.provider, "model": MODEL}},
        }
        [replies] = talk(program, config, ["What is on my shopping list?"])
        journal = get(server.url + "/__aimock/journal")
    finally:
        server.stop()
    assert replies == [(True, "Milk and bread.")], replies
    assert [one["response"]["status"] for one in journal] == [200, 200], journal
    assert all(one["path"].startswith(wire.requests) for one in journal), [one["path"] for one in journal]
    messages = journal[-1]["body"]["messages"]
    said = [one["content"] for one in messages if one["role"] == "assistant" and one.get("content")]
    assert said == ["I look."], messages
    calls = [
        (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
        for one in messages
        for call in one.get("tool_calls") or []
    ]
    assert [call[1:] for call in calls] == [("read_file", {"path": "note.txt"}), ("list_dir", {"path": "."})], calls
    results = [(one["tool_call_id"], one["content"]) for one in messages if one["role"] == "tool"]
    assert [result[0] for result in results] == [call[0] for call in calls], results
    assert "milk and bread" in results[0][1] and "note.txt" in results[1][1], results
    print(f"{wire.name}: two calls ran, and their results came back in its shape")


def main():
    program = str(Path(sys.argv[1]).resolve())
    turns = int(sys.argv[2]) if len(sys.argv) > 2 else 24
    for wire in (
        CHAT,
        RESPONSES,
        Wire("Anthropic messages", "anthropic", "", "/v1/messages"),
        Wire("Gemini", "gemini", "/v1beta/openai", "/v1beta/openai/chat"),
        Wire("Azure OpenAI", "azure_openai", f"/openai/deployments/{MODEL}", "/openai/deployments/"),
        Wire("Ollama", "ollama", "/v1", "/v1/chat"),
    ):
        check_shapes(program, wire)
    check_reactions(program, turns)


main()
