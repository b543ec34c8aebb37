#!/bin/sh
# run.sh OUT SECONDS [NAME...]: fuzz these oracles (all of them, unless named) for so many seconds each, one after another.
#
# Corpus, dictionary, log and crashes of an oracle stay under OUT/NAME, so that the next run goes on where this one ended.
# ORACLE_SETUP=FILE is passed on for an oracle that wants a setup. Exits 1 when any of them crashed.
set -eu
[ $# -ge 2 ] || { sed -n '2,5s/^# //p' "$0"; exit 2; }
cd "$(dirname "$0")/../.."
mkdir -p "$1"
out=$(cd "$1" && pwd)
seconds=$2
shift 2

command -v clang > /dev/null || { echo "clang is missing: apt-get install clang libclang-rt-14-dev" >&2; exit 2; }
clang -std=c11 -Wall -Wextra -Werror -O1 -g -ffp-contract=off -I. -fsanitize=fuzzer,address,undefined \
    -fno-sanitize-recover=undefined -o "$out/fuzz" oracles/fuzz/fuzz.c \
    $(find oracles -name '*.c' ! -path '*/tests/*' ! -path '*/fuzz/*' ! -name main.c | sort) -lm
[ $# -gt 0 ] || set -- $(sed -n 's/^ *&oracle_\([a-z0-9_]*\),.*/\1/p' oracles/common/table.c)

failed=
for name; do
    mkdir -p "$out/$name/corpus" "$out/$name/crashes"
    python3 oracles/fuzz/seeds.py "$name" "$out/$name"
    printf '%-12s ' "$name"
    if ORACLE=$name nice "$out/fuzz" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 \
        -dict="$out/$name/words.dict" -artifact_prefix="$out/$name/crashes/" "$out/$name/corpus" "$out/$name/seeds" \
        > "$out/$name/log" 2>&1; then
        echo "clean: $(sed -n 's/^stat::number_of_executed_units: *//p' "$out/$name/log") inputs," \
            "$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$out/$name/log" | tail -1) edges"
    else
        echo "FAILED: see $out/$name/log, and $out/$name/crashes for the input"
        failed=1
    fi
done
[ -z "$failed" ]
