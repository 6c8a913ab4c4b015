#!/bin/sh
# Drives the Slack fake with slack-sdk, so that it is right by code we did not write.
# Needs cargo, python3 with venv, and a package index; everything it installs stays below .cache/.
set -eu
cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}
venv=.cache/slack-fake-venv
if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv"
fi
"$venv/bin/python" -c 'import slack_sdk, aiohttp' 2>/dev/null ||
    "$venv/bin/pip" install --quiet 'slack-sdk==3.47.0' 'aiohttp>=3.9,<4'
$CARGO build --quiet -p nanobot-testkit --example slack_fake
exec "$venv/bin/python" scripts/check_slack_fake.py "${CARGO_TARGET_DIR:-target}/debug/examples/slack_fake"
