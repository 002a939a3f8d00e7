#!/usr/bin/env bash
# Builds the Worker into edge/build (or OUT), setting up what that needs. `wrangler` calls it before
# it runs or deploys the edge. Arguments go to cargo, for example `--features panic-route`.
#
# It takes the steps that workers-rs' own worker-build takes, without that tool: they are five, and
# the JavaScript that it puts around the module fails every waiting request after a panic, where
# entry.js does not.
set -euo pipefail
edge=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
variables=$("$edge/setup/tools.sh")
eval "$variables"
cd "$edge"
out=${OUT:-build}
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The lock file names exact versions: nothing is looked up again.
cargo build --locked --quiet --release --target wasm32-unknown-unknown "$@" >&2
target=$(cargo metadata --format-version 1 --no-deps --offline | grep -o '"target_directory":"[^"]*"' | cut -d '"' -f 4)
wasm=$target/wasm32-unknown-unknown/release/edge.wasm
made_of=$(cat "$wasm" src/entry.js setup/build.sh | cksum)
[ "$(cat "$out/.made-of" 2>/dev/null)" = "$made_of" ] && exit

wasm-bindgen --target module --no-typescript --experimental-reset-state-function \
    --out-dir "$work" --out-name index "$wasm"
# What rustc and wasm-bindgen use, named one by one: workerd need not know all that wasm-opt does.
wasm-opt -O3 --enable-mutable-globals --enable-sign-ext --enable-nontrapping-float-to-int \
    --enable-bulk-memory --enable-multivalue --enable-reference-types \
    "$work/index_bg.wasm" -o "$work/index_bg.opt.wasm"
# Workers import a module by its plain name.
sed 's/^import source /import /' "$work/index.js" >"$work/index.plain.js"
mv "$work/index.plain.js" "$work/index.js"
cp src/entry.js "$work/"
esbuild "$work/entry.js" --bundle --format=esm --minify --external:./index_bg.wasm \
    --outfile="$work/bundle.js" --log-level=warning
mv "$work/index_bg.opt.wasm" "$out/index_bg.wasm"
mv "$work/bundle.js" "$out/index.js"
echo "$made_of" >"$out/.made-of"
