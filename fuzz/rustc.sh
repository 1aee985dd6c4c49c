#!/bin/sh
# The compiler, as cargo's RUSTC_WRAPPER: it instruments the crates of dio for coverage and for comparisons, and no others.
# Flags for all crates (RUSTFLAGS) would do the same, but make the build several times as long.
case "$CARGO_PKG_NAME" in
dio | dio-*)
    set -- "$@" -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3 \
        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
        -Cllvm-args=-sanitizer-coverage-trace-compares
    ;;
esac
exec "$@"
