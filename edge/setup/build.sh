#!/usr/bin/env bash
# Builds the Worker into edge/build (or OUT), setting up what that needs. `wrangler` calls it before
# it runs or deploys the edge. Arguments go to cargo, for example `--features panic-route`.
set -euo pipefail
edge=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
variables=$("$edge/setup/tools.sh")
eval "$variables"
cd "$edge"
# The lock file is the workspace's and names exact versions: nothing is looked up again.
worker-build --release --out-dir "${OUT:-build}" . --locked "$@" >&2
