#!/bin/sh
# Builds what is shipped and measures it against the floor programs; see docs/performance.md.
# Arguments go to the driver: scripts/measure.sh --only version,turn --runs 51
set -eu
cd "$(dirname "$0")/.."
# One after the other: together, the program would get what only the driver needs of their libraries.
cargo build --locked --profile dist -p nanobot
cargo build --locked --profile dist -p nanobot-benches
exec "${CARGO_TARGET_DIR:-target}/dist/measure" "$@"
