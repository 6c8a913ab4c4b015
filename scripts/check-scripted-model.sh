#!/bin/sh
# Drives the scripted model with the vendors' own Python clients, so that it is right by code we did not
# write. Needs cargo, python3 with venv, and a package index; everything it installs stays below .cache/.
set -eu
cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}
venv=.cache/scripted-model-venv
if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv"
fi
"$venv/bin/python" -c 'import anthropic, openai' 2>/dev/null || "$venv/bin/pip" install --quiet anthropic openai
$CARGO build --quiet -p nanobot-testkit --example scripted_model
exec "$venv/bin/python" scripts/check_scripted_model.py "${CARGO_TARGET_DIR:-target}/debug/examples/scripted_model"
