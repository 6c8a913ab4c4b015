#!/bin/sh
# Drives the Telegram fake with python-telegram-bot, so that it is right by code we did not write.
# Needs cargo, python3 with venv, and a package index; everything it installs stays below .cache/.
set -eu
cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}
venv=.cache/telegram-fake-venv
if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv"
fi
"$venv/bin/python" -c 'import telegram, tornado' 2>/dev/null ||
    "$venv/bin/pip" install --quiet 'python-telegram-bot[webhooks]==22.8'
$CARGO build --quiet -p nanobot-testkit --example telegram_fake
exec "$venv/bin/python" scripts/check_telegram_fake.py "${CARGO_TARGET_DIR:-target}/debug/examples/telegram_fake"
