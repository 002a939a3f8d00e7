#!/bin/sh
# As a normal user: builds target/release/origin.
set -eu
cd "$(dirname "$0")"

# The compiler is pinned like everything in Cargo.lock: the same sources give the same program.
rust=1.95.0

if rustc --version 2>/dev/null | grep -q "^rustc $rust "; then
    : # The one in use is the right one, however it came here.
elif command -v rustup >/dev/null; then
    rustup toolchain install "$rust" --profile minimal
    export RUSTUP_TOOLCHAIN=$rust
else
    echo "build.sh: Rust $rust is not here: run install.sh as root first, or install rustup" >&2
    exit 1
fi
exec cargo build --release --locked
