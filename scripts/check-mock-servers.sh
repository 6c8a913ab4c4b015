#!/bin/sh
# Checks the clients of models with mock servers that we did not write, through the program: errors,
# broken streams and stalls of llmock (PyPI), which judges the reaction to each, and the shapes of
# calls and their results at aimock (npm).
# Needs cargo, python3 with venv, npm, and package indexes.
set -eu
cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}
LLMOCK=0.2.2
AIMOCK=1.43.0
venv=.cache/mock-servers-venv
node=.cache/mock-servers-node
if ! "$venv/bin/pip" show llmock 2>/dev/null | grep -qx "Version: $LLMOCK"; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "llmock==$LLMOCK"
fi
if ! grep -qs "\"version\": \"$AIMOCK\"" "$node/node_modules/@copilotkit/aimock/package.json"; then
    mkdir -p "$node"
    npm install --silent --no-audit --no-fund --prefix "$node" "@copilotkit/aimock@$AIMOCK"
fi
$CARGO build --quiet -p nanobot
# The judge of llmock is a library, too.
exec "$venv/bin/python" scripts/check_mock_servers.py "${CARGO_TARGET_DIR:-target}/debug/nanobot"
