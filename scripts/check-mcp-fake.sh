#!/bin/sh
# Checks the fake MCP server and its authorization server with the official Python client, which we did
# not write.
set -eu
exec "$(dirname "$0")/drive-fake.sh" nanobot-testkit mcp_server mcp 'mcp>=2.3,<3'
