#!/bin/sh
# Checks the MCP client with servers that we did not write, through the program: the reference servers
# of PyPI and npm by stdio, and one of them by streamable HTTP and by SSE, and turns
# with a scripted model.
# Needs cargo, python3 with venv, npm, git, and package indexes.
set -eu
cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}
venv=.cache/mcp-venv
node=.cache/mcp-node
if [ ! -x "$venv/bin/mcp-server-time" ] || [ ! -x "$venv/bin/mcp-server-git" ] || [ ! -x "$venv/bin/mcp-server-fetch" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check mcp-server-time mcp-server-git mcp-server-fetch
fi
if [ ! -x "$node/node_modules/.bin/mcp-server-everything" ] || [ ! -x "$node/node_modules/.bin/mcp-server-filesystem" ]; then
    mkdir -p "$node"
    npm install --silent --no-audit --no-fund --prefix "$node" \
        @modelcontextprotocol/server-everything @modelcontextprotocol/server-filesystem
fi
$CARGO build --quiet -p nanobot-testkit --example scripted_model
$CARGO build --quiet -p nanobot
exec python3 scripts/check_mcp.py "${CARGO_TARGET_DIR:-target}/debug"
