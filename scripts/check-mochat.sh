#!/bin/sh
# Checks the Mochat channel of a gateway with python-socketio's server, which we did not write.
# Needs cargo, python3 with venv, and a package index. Everything is installed below .cache/.
set -eu
cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}
export PYTHONDONTWRITEBYTECODE=1
venv=.cache/mochat-venv
if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv"
fi
"$venv/bin/python" -c 'import socketio, msgpack, simple_websocket, werkzeug' 2>/dev/null || "$venv/bin/pip" install --quiet \
    'python-socketio==5.18.1' 'msgpack==1.2.4' simple-websocket werkzeug
$CARGO build --quiet -p nanobot
exec "$venv/bin/python" scripts/check_mochat.py "${CARGO_TARGET_DIR:-target}/debug"
