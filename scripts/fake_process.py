"""Shared parts of the fakes' checks: the fake as a process, and calls that must fail."""

import json
import subprocess


class FakeProcess:
    """The example binary: one command per line, one response per line."""

    def __init__(self, binary):
        self.process = subprocess.Popen([binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.where = json.loads(self.process.stdout.readline())

    def order(self, **order):
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, f"the fake gave up at {order}"
        return json.loads(answer)

    def close(self):
        self.process.stdin.close()
        if self.process.wait(timeout=10) != 0:
            raise SystemExit("the fake ended with an error")


async def refused(call, error, words):
    """Expects a call to fail with that error and these words."""
    try:
        await call
    except error as problem:
        assert words.lower() in str(problem).lower(), f"{problem!s} does not say {words!r}"
        return problem
    raise AssertionError(f"expected {error.__name__}: {words}")
