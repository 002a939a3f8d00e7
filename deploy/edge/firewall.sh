#!/bin/bash
# Admits Cloudflare's servers to the TLS port, and nobody else. Run it again to bring the ranges up
# to date, by hand or from a weekly timer.
set -euo pipefail

usage() {
    cat <<'TEXT'
Usage: sudo ./firewall.sh [--port PORT] [--ranges FILE] [--print]

  --port PORT     the port to close [443]
  --ranges FILE   addresses in CIDR notation, one a line, instead of those that
                  https://www.cloudflare.com/ips-v4 and ips-v6 name now
  --print         the rules, without setting them
TEXT
}

fail() {
    echo "firewall.sh: $*" >&2
    exit 1
}

port=443 ranges='' print=''
while [ $# -gt 0 ]; do
    case $1 in
        --port) port=${2-} && shift 2 ;;
        --ranges) ranges=${2-} && shift 2 ;;
        --print) print=1 && shift ;;
        --help | -h) usage && exit ;;
        *) fail "what is '$1'? See --help" ;;
    esac
done
[[ $port =~ ^[0-9]+$ ]] || fail "--port is a number, not '$port'"

if [ -n "$ranges" ]; then
    list=$(cat "$ranges")
elif ! command -v curl >/dev/null; then
    fail "curl is missing: apt-get install curl"
else
    list=$(for family in ips-v4 ips-v6; do
        curl -sf --max-time 20 "https://www.cloudflare.com/$family" && echo
    done) || fail "cannot fetch Cloudflare's ranges; the present rules stay as they are"
fi
v4=$(grep -E '^[0-9.]+/[0-9]+$' <<<"$list" | paste -sd, || true)
v6=$(grep -E '^[0-9a-fA-F:]+/[0-9]+$' <<<"$list" | paste -sd, || true)
# A list with nothing in it would shut the edge out.
if [ -z "$v4" ] || [ -z "$v6" ]; then
    fail "the ranges hold no IPv4 or no IPv6 address; the present rules stay as they are"
fi

# One transaction. Deleting what is not there would fail, so it is made first.
rules="table inet onebox
delete table inet onebox
table inet onebox {
    set cloudflare4 {
        type ipv4_addr
        flags interval
        auto-merge
        elements = { $v4 }
    }
    set cloudflare6 {
        type ipv6_addr
        flags interval
        auto-merge
        elements = { $v6 }
    }
    chain input {
        type filter hook input priority filter; policy accept;
        iif lo accept
        tcp dport $port ip saddr @cloudflare4 accept
        tcp dport $port ip6 saddr @cloudflare6 accept
        tcp dport $port drop
    }
}"
if [ -n "$print" ]; then
    echo "$rules"
    exit
fi
[ "$(id -u)" -eq 0 ] || fail "run it as root: sudo $0"
command -v nft >/dev/null || fail "nft is missing: apt-get install nftables"

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
units=/etc/systemd/system
changed=''
# put FILE: the file holds standard input.
put() {
    local content
    content=$(cat)
    if [ "$(cat "$1" 2>/dev/null)" != "$content" ]; then
        mkdir -p "$(dirname "$1")"
        echo "$content" >"$1"
        changed=1
    fi
}
# Tried first: what cannot be loaded must not be what is loaded at boot.
nft --check -f - <<<"$rules" || fail "these rules cannot be set; the present rules stay as they are"
put /opt/onebox/firewall.nft <<<"$rules"
put $units/onebox-firewall.service <"$here/systemd/onebox-firewall.service"
put $units/onebox-firewall.service.d/hardening.conf <"$here/../droplet/systemd/hardening.conf"
put $units/onebox-firewall.service.d/net-admin.conf <"$here/systemd/net-admin.conf"
admitted="port $port admits $(($(tr -cd , <<<"$v4,$v6" | wc -c) + 1)) ranges of Cloudflare's, and nobody else"
if [ -z "$changed" ] && systemctl is-active -q onebox-firewall; then
    echo "nothing changed: $admitted"
    exit
fi
systemctl daemon-reload
systemctl enable -q onebox-firewall
# Where there are rules it is a reload: the old ones hold until the new ones do.
systemctl reload-or-restart onebox-firewall
echo "$admitted"
