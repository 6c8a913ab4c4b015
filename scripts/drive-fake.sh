#!/bin/sh
# Drives a fake with a third-party client: builds an example of the testkit, installs the client,
# and passes the example to the script of the same name.
# usage: drive-fake.sh EXAMPLE MODULES REQUIREMENT...
# MODULES are the modules that the requirements provide, separated by commas. Needs cargo, python3
# with venv, and a package index. Everything is installed below .cache/.
set -eu
example=$1
modules=$2
shift 2
cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}
export PYTHONDONTWRITEBYTECODE=1
venv=.cache/$(echo "$example" | tr _ -)-venv
if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv"
fi
"$venv/bin/python" -c "import $modules" 2>/dev/null || "$venv/bin/pip" install --quiet "$@"
$CARGO build --quiet -p nanobot-testkit --example "$example"
exec "$venv/bin/python" "scripts/check_$example.py" "${CARGO_TARGET_DIR:-target}/debug/examples/$example"
