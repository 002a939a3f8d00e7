#!/bin/sh
# Serves in the foreground. SQLITE_PATH, JWT_SECRET, HOST and PORT are all there is to set.
set -eu
exec "$(dirname "$0")/target/release/origin" serve
