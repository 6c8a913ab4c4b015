#!/usr/bin/env bash
# Fuzzes the parsers of untrusted input: scripts/fuzz.sh [TARGET|all] [SECONDS]
# Lists the targets if there are no arguments. Works with the stable toolchain: libFuzzer with the
# compiler's own coverage counters and without sanitizers, which would need nightly. Findings are
# written to fuzz/regressions/TARGET, where a test replays them.
set -euo pipefail
cd "$(dirname "$0")/.."

host="$(rustc -vV | sed -n 's/^host: //p')"
target_dir="${CARGO_TARGET_DIR:-$PWD/target}/fuzz"
corpora="${NANOBOT_FUZZ_CORPUS:-$target_dir/corpus}"
# The names are read from the table of targets.
mapfile -t targets < <(sed -n 's/^    ("\([a-z_]*\)", .*/\1/p' fuzz/src/targets.rs)

if [[ $# -eq 0 ]]; then
    printf '%s\n' "${targets[@]}"
    exit 0
fi
wanted="$1"
seconds="${2:-30}"
if [[ "$wanted" != all ]]; then
    printf '%s\n' "${targets[@]}" | grep -qx -- "$wanted" || { echo "no such target: $wanted" >&2; exit 2; }
    targets=("$wanted")
fi

passes=(-Cpasses=sancov-module -Ccodegen-units=1 -Cdebug-assertions=on)
for option in level=4 inline-8bit-counters pc-table trace-compares; do
    passes+=("-Cllvm-args=-sanitizer-coverage-$option")
done
RUSTFLAGS="${passes[*]} --cfg fuzzing" cargo build --quiet --manifest-path fuzz/Cargo.toml --target "$host" \
    --target-dir "$target_dir"
program="$target_dir/$host/debug/nanobot-fuzz"

failed=()
for name in "${targets[@]}"; do
    mkdir -p "$corpora/$name" "fuzz/regressions/$name"
    seeds=()
    for folder in "fuzz/seeds/$name" "fuzz/regressions/$name"; do
        [[ -d "$folder" ]] && seeds+=("$folder")
    done
    log="$corpora/$name.log"
    printf '== fuzz %s: %s s\n' "$name" "$seconds"
    if NANOBOT_FUZZ_TARGET="$name" "$program" "$corpora/$name" "${seeds[@]}" -max_total_time="$seconds" \
        -artifact_prefix="fuzz/regressions/$name/" -max_len="${NANOBOT_FUZZ_LENGTH:-4096}" -timeout=10 -rss_limit_mb=1024 \
        -verbosity=0 -print_final_stats=1 >"$log" 2>&1; then
        grep -a '^stat::\(number_of_executed_units\|slowest_unit_time_sec\|peak_rss_mb\)' "$log"
    else
        failed+=("$name")
        tail -n 60 "$log"
    fi
done
if [[ ${#failed[@]} -gt 0 ]]; then
    printf 'found something: %s\n' "${failed[*]}" >&2
    exit 1
fi
