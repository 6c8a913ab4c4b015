#!/bin/sh
# Builds the shipped binary and measures it against the floor programs; see docs/performance.md.
# Arguments are passed to the driver: scripts/measure.sh --only version,turn --runs 51
set -eu
cd "$(dirname "$0")/.."
# Built separately: in one build, the program would get the dependency features that only the driver
# needs.
cargo build --locked --profile dist -p nanobot
cargo build --locked --profile dist -p nanobot-benches
exec "${CARGO_TARGET_DIR:-target}/dist/measure" "$@"
