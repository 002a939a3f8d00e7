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

# One transaction: the old rules hold until the new ones do.
rules="table inet onebox
delete table inet onebox
table inet onebox {
    set cloudflare4 {
        type ipv4_addr
        flags interval
        elements = { $v4 }
    }
    set cloudflare6 {
        type ipv6_addr
        flags interval
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
nft -f - <<<"$rules"
# Read again at boot by nftables.service.
mkdir -p /etc/nftables.d
echo "$rules" >/etc/nftables.d/onebox.nft
grep -qsF '/etc/nftables.d/*.nft' /etc/nftables.conf \
    || echo 'include "/etc/nftables.d/*.nft"' >>/etc/nftables.conf
systemctl enable -q nftables
echo "port $port admits $(($(tr -cd , <<<"$v4,$v6" | wc -c) + 1)) ranges of Cloudflare's, and nobody else"
