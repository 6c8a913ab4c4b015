#!/bin/sh
# Checks the Matrix channel of a gateway with Synapse and matrix-nio, which we did not write.
# Needs cargo, python3 with venv, and a package index. Everything is installed below .cache/.
set -eu
cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}
export PYTHONDONTWRITEBYTECODE=1
venv=.cache/matrix-venv
if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv"
fi
# The encryption of matrix-nio is vodozemac, which comes with its native code.
"$venv/bin/python" -c 'import nio.crypto, vodozemac, synapse' 2>/dev/null || "$venv/bin/pip" install --quiet \
    'matrix-synapse==1.163.2' 'matrix-nio[e2e]==0.26.0'
$CARGO build --quiet -p nanobot-testkit --example scripted_model
$CARGO build --quiet -p nanobot-matrix-crypto-program
$CARGO build --quiet -p nanobot
exec "$venv/bin/python" scripts/check_matrix.py "${CARGO_TARGET_DIR:-target}/debug"
