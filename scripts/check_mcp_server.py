"""Drives the fake MCP server and its authorization server through the official Python client.

usage: check_mcp_server.py PATH-TO-THE-EXAMPLE-BINARY
"""

import asyncio
import json
import subprocess
import sys
from urllib.parse import parse_qs, urlsplit
from urllib.request import HTTPRedirectHandler, build_opener

import httpx2
from mcp import ClientSession
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

REDIRECT = "http://127.0.0.1:9/callback"


class Storage:
    """Tokens and the client in memory."""

    tokens = client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


class Unfollowed(HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


class Browser:
    """A person who consents at once."""

    answer = None

    async def open(self, address):
        response = await asyncio.to_thread(self.get, address)
        self.answer = {name: values[0] for name, values in parse_qs(urlsplit(response).query).items()}

    def get(self, address):
        try:
            build_opener(Unfollowed).open(address)
        except OSError as redirect:
            return redirect.headers["Location"]
        raise AssertionError("no redirect")

    async def wait(self):
        return AuthorizationCodeResult(**self.answer)


async def call(url, storage, browser):
    metadata = OAuthClientMetadata(
        redirect_uris=[REDIRECT], client_name="check", token_endpoint_auth_method="none"
    )
    auth = OAuthClientProvider(url, metadata, storage, browser.open, browser.wait)
    async with httpx2.AsyncClient(auth=auth) as http:
        async with streamable_http_client(url, http_client=http) as (read, write, *_):
            async with ClientSession(read, write) as session:
                await session.initialize()
                tools = await session.list_tools()
                result = await session.call_tool("echo", {"a": 1})
    return [tool.name for tool in tools.tools], result.content[0].text


def main(binary):
    server = subprocess.Popen([binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    url = json.loads(server.stdout.readline())["url"]

    def order(line):
        server.stdin.write(line + "\n")
        server.stdin.flush()
        return json.loads(server.stdout.readline())

    storage, browser = Storage(), Browser()
    expected = (["echo", "admin"], 'got {"a":1}')
    assert asyncio.run(call(url, storage, browser)) == expected
    journal = order("")
    assert [step for step in journal if step in ("register", "authorize", "code")] == ["register", "authorize", "code"]
    assert "call echo" in journal and not any(step.startswith("refused") for step in journal), journal
    print("ok login and call")
    first = storage.tokens.access_token
    order("end access")
    assert asyncio.run(call(url, storage, browser)) == expected
    assert storage.tokens.access_token != first
    print("ok a new token after the old one ended", order("")[len(journal):])
    server.stdin.close()
    assert server.wait(timeout=10) == 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])
