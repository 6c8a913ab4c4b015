#!/bin/sh
# Builds what is shipped and measures it against the floor programs; see docs/performance.md.
# Arguments go to the driver: scripts/measure.sh --only version,turn --runs 51
set -eu
cd "$(dirname "$0")/.."
cargo build --locked --profile dist -p nanobot -p nanobot-benches
exec "${CARGO_TARGET_DIR:-target}/dist/measure" "$@"
