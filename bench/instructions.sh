#!/usr/bin/env bash
# Instructions an operation of the core, and of its books by themselves, takes on a tenth of flow A under callgrind: a figure that no
# other work on the machine disturbs. Nothing before the clock of `damrak bench book` is counted, so
# neither making the flow nor the prefill. What `null` takes is the loop around it.
#
#   bench/instructions.sh            prints matching, engine, engine-balances, model-btree, null
#   bench/instructions.sh --record   also adds a row to bench/instructions.csv; commit it
#
# Exit codes: 0 done, or skipped without valgrind (it says so); 1 something failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

flow=A
divisor=10
operations=200000
csv=bench/instructions.csv

if ! command -v valgrind >/dev/null; then
    echo "skipped: valgrind is not installed"
    exit 0
fi
cargo build --release --locked --quiet
damrak="${CARGO_TARGET_DIR:-target}/release/damrak"

# Counts only inside the function that is measured, of the one engine.
instructions_per_op() {
    local talk
    talk="$(valgrind --tool=callgrind --callgrind-out-file=/dev/null \
        --toggle-collect='*bench*measured_steps*' \
        "$damrak" bench book --flow "$flow" --divisor "$divisor" --runs 1 --engine "$1" --json \
        2>&1 >/dev/null)"
    echo "$talk" | awk -v operations="$operations" '/Collected/ {print int($4 / operations + 0.5)}'
}

row="$(git rev-parse --short HEAD)"
git diff --quiet HEAD -- crates || row="$row+changes"
for engine in matching engine engine-balances model-btree null; do
    count="$(instructions_per_op "$engine")"
    [ -n "$count" ] || { echo "callgrind counted nothing for $engine" >&2; exit 1; }
    printf '%-15s %6s instructions an operation, flow %s/%s\n' "$engine" "$count" "$flow" "$divisor"
    row="$row,$count"
done
if [ "${1:-}" = --record ]; then
    [ -e "$csv" ] || echo "commit,matching,engine,engine-balances,model-btree,null,rustc" >"$csv"
    echo "$row,$(rustc --version | cut -d' ' -f2)" >>"$csv"
fi
