#!/bin/sh
# Drives the Discord fake with discord.py, so that it is right by code we did not write.
# Needs cargo, python3 with venv, and a package index; everything it installs stays below .cache/.
set -eu
cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}
venv=.cache/discord-fake-venv
if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv"
fi
"$venv/bin/python" -c 'import discord' 2>/dev/null || "$venv/bin/pip" install --quiet 'discord.py==2.7.1'
$CARGO build --quiet -p nanobot-testkit --example discord_fake
exec "$venv/bin/python" scripts/check_discord_fake.py "${CARGO_TARGET_DIR:-target}/debug/examples/discord_fake"
