#!/usr/bin/env bash
# Finds or makes a Rust toolchain that builds for wasm32-unknown-unknown, and prints its name (for
# RUSTUP_TOOLCHAIN). In this order: one that is there, `rustup target add`, and where rustup's
# server cannot be reached, Debian's compiler with a std built from the source Debian ships for it.
set -euo pipefail
target=wasm32-unknown-unknown
own=onebox-wasm
say() { echo "edge setup: $*" >&2; }
fail() { say "$1"; exit 1; }

command -v rustup >/dev/null ||
    fail "rustup is missing: install it (https://rustup.rs), it manages the toolchains this needs"

builds_wasm() { # toolchain
    local libdir
    libdir=$(rustup run "$1" rustc --print target-libdir --target $target 2>/dev/null) &&
        compgen -G "$libdir/libstd-*.rlib" >/dev/null
}
active=$(rustup show active-toolchain | cut -d ' ' -f 1)
for toolchain in "$active" $own; do
    if builds_wasm "$toolchain"; then echo "$toolchain"; exit; fi
done

say "adding the target $target with rustup"
if timeout 180 rustup target add --toolchain "$active" $target >&2 && builds_wasm "$active"; then
    echo "$active"
    exit
fi

say "rustup could not: installing Debian's rustc-web, rust-web-src and lld, and building std (about a minute)"
command -v apt-get >/dev/null || fail "no apt-get here: run 'rustup target add $target' where its server can be reached"
as_root=()
if [ "$(id -u)" != 0 ]; then
    sudo -n true 2>/dev/null || fail "this needs root once: run 'sudo $0', or 'rustup target add $target'"
    as_root=(sudo)
fi
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq "$@" >/dev/null; }
apt update || say "apt-get update failed: going on with the lists that are here"
apt install -y --no-install-recommends rustc-web rust-web-src
llvm=$(/usr/bin/rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
apt install -y --no-install-recommends "lld-$llvm"

# A toolchain of our own out of links, so that nothing is written into Debian's: rustc takes the
# directory above its own as the place where std and the linker are.
home=${XDG_DATA_HOME:-$HOME/.local/share}/onebox/wasm-toolchain
host=$(/usr/bin/rustc -vV | sed -n 's/^host: //p')
debian=$(/usr/bin/rustc --print sysroot)
mkdir -p "$home/bin" "$home/lib/rustlib/$host/bin" "$home/lib/rustlib/$target/lib"
cargo=$(rustup which --toolchain "$active" cargo)
ln -sfn "$cargo" "$home/bin/cargo"
for entry in "$debian/lib/rustlib/$host"/*; do
    [ "$(basename "$entry")" = bin ] || ln -sfn "$entry" "$home/lib/rustlib/$host/"
done
ln -sfn "/usr/bin/lld-$llvm" "$home/lib/rustlib/$host/bin/rust-lld"
for tool in rustc rustdoc; do
    printf '#!/bin/sh\nexec /usr/bin/%s --sysroot "%s" "$@"\n' $tool "$home" >"$home/bin/$tool"
    chmod +x "$home/bin/$tool"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# As the compiler's own build does it: std needs unstable features, and marks itself so that only
# other parts of the compiler's distribution may use them.
env -u RUSTUP_TOOLCHAIN RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 __CARGO_DEFAULT_LIB_METADATA=onebox \
    RUSTFLAGS="-Zforce-unstable-if-unmarked -Cembed-bitcode=yes" CARGO_TARGET_DIR="$work" \
    "$cargo" build --quiet --locked --release --target $target --features compiler-builtins-mem \
    --manifest-path "$debian/lib/rustlib/src/rust/library/sysroot/Cargo.toml" >&2
cp "$work/$target/release/deps/"*.rlib "$home/lib/rustlib/$target/lib/"
rustup toolchain link $own "$home" >&2
builds_wasm $own || fail "the toolchain that was built cannot build for $target"
echo $own
