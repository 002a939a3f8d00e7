#!/bin/sh
# Once, as root, on Ubuntu 24.04: what building needs. Only the distribution's own packages.
set -eu

if [ "$(id -u)" -ne 0 ]; then
    echo "install.sh: run it as root" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
# gcc compiles the SQLite that is linked in; rustup fetches the compiler that build.sh names.
apt-get install -q -y --no-install-recommends ca-certificates gcc libc6-dev rustup
