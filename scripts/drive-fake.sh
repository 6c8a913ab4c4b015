#!/bin/sh
# Drives a fake with a third-party client: builds an example of a package, installs the client, and
# passes the example to the script of the same name.
# usage: drive-fake.sh PACKAGE EXAMPLE MODULES REQUIREMENT...
# MODULES are the modules that the requirements provide, separated by commas. CHECK in the environment
# names another script. Needs cargo, python3 with venv, and a package index. Everything is installed
# below .cache/.
set -eu
package=$1
example=$2
modules=$3
shift 3
cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}
export PYTHONDONTWRITEBYTECODE=1
venv=.cache/$(echo "$example" | tr _ -)-venv
if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv"
fi
"$venv/bin/python" -c "import $modules" 2>/dev/null || "$venv/bin/pip" install --quiet "$@"
$CARGO build --quiet -p "$package" --example "$example"
exec "$venv/bin/python" "scripts/${CHECK:-check_$example.py}" "${CARGO_TARGET_DIR:-target}/debug/examples/$example"
