#!/bin/sh
# Runs every executable of this folder on the GPU of this machine, each for at most ten minutes, and sums up.
# Needs the NVIDIA driver and nothing else. ./run.sh [NAME...] runs only the executables named.
# Exit code 2 of an executable says that it found no GPU; that is no success.
cd "$(dirname "$0")" || exit 1
# Tests print what they measured, also where they pass.
export RUST_TEST_NOCAPTURE=1
# The example falls back on the machine in software elsewhere; here only the chip counts.
export TILEWRIGHT_ON=gpu
[ $# -gt 0 ] || set -- $(cat LIST)

summary=""
failures=0
for name in "$@"; do
    echo "== $name"
    start=$(date +%s)
    timeout 600 "./$name"
    code=$?
    took=$(($(date +%s) - start))
    case $code in
        0) verdict=ok ;;
        2) verdict="not run" ;;
        124) verdict="timed out" ;;
        *) verdict="failed ($code)" ;;
    esac
    [ $code -eq 0 ] || failures=$((failures + 1))
    summary="$summary$(printf '%-32s %-12s %4d s' "$name" "$verdict" "$took")
"
done

echo "== summary"
printf '%s' "$summary"
echo "$# executables, $failures failed or not run"
[ "$failures" -eq 0 ]
