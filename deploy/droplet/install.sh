#!/bin/bash
# Makes a fresh Ubuntu 24.04 or Debian 12 into a Onebox server. Run it again whenever you like: it
# changes what differs, says so, and leaves the rest alone.
set -euo pipefail
# The end of a pipe counts changes, too.
shopt -s lastpipe

usage() {
    cat <<'TEXT'
Usage: sudo ./install.sh [OPTIONS]

  --store postgres|sqlite   where posts are kept [postgres, or what is installed]
  --direct                  the origin itself on the port (the default of a first installation)
  --behind nginx            Nginx in front, with a feed cache of one second
  --behind nginx-tls        Nginx for Cloudflare alone, with the certificates of /etc/onebox/tls
  --behind tunnel           on 127.0.0.1:3000 alone, and a tunnel from Cloudflare to there, with
                            the credentials of /etc/onebox/tunnel (both: deploy/edge/README.md)
  --port PORT               the public port [80; 443 with nginx-tls]
  --data small|full         what a new database is filled with: 500 users and 5,000 posts, or
                            50,000 and 500,000 [small]
  --binary FILE             an origin that was built elsewhere; otherwise it is built here, with
                            cargo, by the owner of this checkout
TEXT
}

fail() {
    echo "install.sh: $*" >&2
    exit 1
}

store='' front='' port='' data=small binary=''
while [ $# -gt 0 ]; do
    case $1 in
        --store | --behind | --port | --data | --binary)
            [ $# -ge 2 ] || fail "$1 wants a value; see --help"
            ;;&
        --store) store=$2 && shift 2 ;;
        --behind)
            case $2 in
                nginx | nginx-tls | tunnel) front=$2 && shift 2 ;;
                *) fail "--behind knows nginx, nginx-tls and tunnel, not '$2'" ;;
            esac
            ;;
        --direct) front=direct && shift ;;
        --port) port=$2 && shift 2 ;;
        --data) data=$2 && shift 2 ;;
        --binary) binary=$2 && shift 2 ;;
        --help | -h) usage && exit ;;
        *) fail "what is '$1'? See --help" ;;
    esac
done

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ "$(id -u)" -eq 0 ] || fail "run it as root: sudo $0"
[ -d /run/systemd/system ] || fail "this system was not started by systemd"
command -v apt-get >/dev/null || fail "this system has no apt-get: it wants Ubuntu 24.04 or Debian 12"
[ -z "$binary" ] || [ -x "$binary" ] || fail "$binary is not a program"
[ -z "$binary" ] || binary=$(readlink -f "$binary")
# Users that commands run as below may not look into the present folder.
cd /

# What an earlier run decided holds until this one says otherwise.
settings=/etc/onebox/install.conf
installed() {
    sed -n "s/^$1=//p" "$settings" 2>/dev/null || true
}
store=${store:-$(installed store)} store=${store:-postgres}
front=${front:-$(installed front)} front=${front:-direct}
[ "$front" != "$(installed front)" ] || port=${port:-$(installed port)}
if [ -z "$port" ]; then
    case $front in nginx-tls) port=443 ;; tunnel) port=3000 ;; *) port=80 ;; esac
fi
case $store in postgres | sqlite) ;; *) fail "--store is postgres or sqlite, not '$store'" ;; esac
case $data in small | full) ;; *) fail "--data is small or full, not '$data'" ;; esac
if ! [[ $port =~ ^[1-9][0-9]{0,4}$ && $port -le 65535 ]]; then
    fail "--port is a number up to 65535, not '$port'"
fi

# What the owner of the Cloudflare account brings along, asked for before anything is changed.
case $front in
    nginx-tls)
        for file in origin.pem origin.key cloudflare-ca.pem; do
            [ -s "/etc/onebox/tls/$file" ] || fail "/etc/onebox/tls/$file is missing: see deploy/edge/README.md"
        done
        ;;
    tunnel)
        command -v cloudflared >/dev/null \
            || fail "cloudflared is missing: install Cloudflare's package of it, see https://pkg.cloudflare.com"
        credentials=/etc/onebox/tunnel/credentials.json
        [ -s "$credentials" ] || fail "$credentials is missing: see deploy/edge/README.md"
        tunnel=$(grep -oE '"TunnelID" *: *"[0-9a-f-]+"' "$credentials" | cut -d'"' -f4 || true)
        [ -n "$tunnel" ] || fail "$credentials has no TunnelID: see deploy/edge/README.md"
        ;;
esac

# Without a program, and with none installed yet, the checkout's owner builds it.
repository=$(cd "$here/../.." && pwd) builder=''
if [ -z "$binary" ] && [ ! -e /opt/onebox/active ]; then
    builder=$(stat -c %U "$repository")
    runuser -u "$builder" -- bash -lc 'command -v cargo' >/dev/null \
        || fail "$builder has no cargo: install Rust (https://rustup.rs), or build elsewhere and pass --binary FILE"
fi

changes=0
changed() {
    changes=$((changes + 1))
    echo "  $*"
}

# put FILE MODE [GROUP]: the file holds standard input, and nothing happens if it does already.
put() {
    local file=$1 mode=$2 group=${3:-root} content
    content=$(cat && printf .)
    [ -d "$(dirname "$file")" ] || mkdir -p "$(dirname "$file")"
    if [ -f "$file" ] && [ "$(cat "$file" && printf .)" = "$content" ] \
        && [ "$(stat -c %a:%G "$file")" = "$mode:$group" ]; then
        return
    fi
    # Beside it and then in its place: nobody ever reads half a file.
    (umask 077 && printf %s "${content%.}" >"$file.new")
    chown "root:$group" "$file.new"
    chmod "$mode" "$file.new"
    mv "$file.new" "$file"
    changed "wrote $file"
    echo "$file" >>"$touched"
}

# Which files were written, also by a run that did not get to its end: whatever reads them has yet
# to be told.
touched=/run/onebox-install.touched
was_touched() {
    local file
    while read -r file; do
        # shellcheck disable=SC2053 # a pattern is what is wanted
        [[ $file == $1 ]] && return 0
    done < <(cat "$touched" 2>/dev/null)
    return 1
}

# keep_secret FILE: for root's eyes alone, however it was copied here.
keep_secret() {
    [ "$(stat -c %a:%U "$1")" != 600:root ] || return 0
    chown root:root "$1"
    chmod 600 "$1"
    changed "closed $1 to everyone but root"
}

enable_unit() {
    if ! systemctl is-enabled -q "$1" 2>/dev/null; then
        systemctl enable -q "$1"
        changed "enabled $1"
    fi
}

new_secret() {
    od -An -vtx1 -N32 /dev/urandom | tr -d ' \n'
}

postgres() {
    runuser -u postgres -- psql -X -q -t -A -v ON_ERROR_STOP=1 "$@"
}

env=/etc/onebox/origin.env
case $store in
    postgres) url="postgres://onebox@localhost/onebox?host=/run/postgresql" ;;
    sqlite) url=sqlite:/var/lib/onebox/feed.db ;;
esac
# A database on another box (deploy/growing.md) is that box's concern.
elsewhere=''
case $(sed -n 's/^DATABASE_URL=//p' "$env" 2>/dev/null | tail -1) in
    '' | 'postgres://onebox@localhost/onebox?host=/run/postgresql' | sqlite:*) ;;
    *) elsewhere=1 ;;
esac
[ "$store$elsewhere" != sqlite1 ] || fail "DATABASE_URL in $env names another database: change it there first"

echo "packages"
packages=()
case $store$elsewhere in
    postgres) packages+=(postgresql) ;;
    # For backups.
    postgres1) command -v pg_dump >/dev/null || packages+=(postgresql-client) ;;
    sqlite) packages+=(sqlite3) ;;
esac
[[ $front != nginx* ]] || packages+=(nginx)
# PostgreSQL and Nginx write logs of their own, where all else goes to the journal.
case ${packages[*]-} in *postgresql | *nginx) packages+=(logrotate) ;; esac
# For deploy/edge/firewall.sh.
[ "$front" != nginx-tls ] || packages+=(nftables)
# SQLite is linked into the origin, and C.
[ -z "$builder" ] || packages+=(gcc libc6-dev)
missing=()
for package in "${packages[@]}"; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
    export DEBIAN_FRONTEND=noninteractive
    apt=(apt-get -qq -y --no-install-recommends -o Dpkg::Use-Pty=0 install "${missing[@]}")
    # A fresh droplet has no package lists yet.
    "${apt[@]}" >/dev/null 2>&1 || { apt-get -qq update && "${apt[@]}" >/dev/null; }
    changed "installed ${missing[*]}"
fi

echo "user and folders"
if ! getent passwd onebox >/dev/null; then
    useradd --system --user-group --home-dir /var/lib/onebox --no-create-home --shell /usr/sbin/nologin onebox
    changed "created the user onebox"
fi
for folder in /opt/onebox/{bin,releases,slots} /etc/onebox; do
    [ -d "$folder" ] || { mkdir -p "$folder" && changed "created $folder"; }
done
for folder in /var/lib/onebox /var/lib/onebox-backups; do
    [ -d "$folder" ] || { install -d -o onebox -g onebox -m 700 "$folder" && changed "created $folder"; }
done
put /opt/onebox/bin/onebox-backup 755 <"$here/onebox-backup"
put /usr/local/sbin/onebox 755 <"$here/onebox"

echo "origin"
if [ -n "$builder" ]; then
    echo "  building it as $builder: this takes minutes on one core"
    # shellcheck disable=SC2016 # its own shell expands it
    runuser -u "$builder" -- bash -lc 'cd "$1" && cargo build --release --locked --package origin' _ "$repository" \
        || fail "the origin could not be built, see above"
    binary=$repository/target/release/origin
fi
# The program that makes the database: the new one, or the one that runs. In its place already,
# since the user that the database belongs to may not look where it was built.
origin=/opt/onebox/active/origin
if [ -n "$binary" ]; then
    origin=/opt/onebox/releases/$(sha256sum "$binary" | cut -c1-12)/origin
    [ -e "$origin" ] || install -D -m 755 "$binary" "$origin"
fi

echo "settings"
put "$settings" 644 <<TEXT
store=$store
front=$front
port=$port
TEXT
if [ ! -e "$env" ]; then
    put "$env" 600 <<TEXT
# The origin's settings; \`origin serve --help\` lists all. \`onebox restart\` brings a change into
# force without dropping a request. Only root may read this file.
DATABASE_URL=$url
JWT_SECRET=$(new_secret)
# An update waits so long for connections to close behind an answer.
DRAIN_MS=30000
LOG_FORMAT=json
TEXT
elif [ -z "$elsewhere" ] && ! grep -qxF "DATABASE_URL=$url" "$env"; then
    sed "s|^DATABASE_URL=.*|DATABASE_URL=$url|" "$env" | put "$env" 600
fi
# Whoever finds a way to the origin that is not the edge's is sent away, from the first start on.
case $front in
    nginx-tls | tunnel)
        if ! grep -qx 'REQUIRE_EDGE_KEY=1' "$env"; then
            {
                grep -v '^REQUIRE_EDGE_KEY=' "$env"
                grep -q '^EDGE_KEY=.' "$env" || echo "EDGE_KEY=$(new_secret)"
                echo REQUIRE_EDGE_KEY=1
            } | put "$env" 600
            changed "EDGE_KEY is required: give it to the edge, see deploy/edge/README.md"
        fi
        ;;
esac

echo "database"
seed=(env -i JWT_SECRET=unused "$origin" seed --scale "$data" --to "$url")
case $store$elsewhere in
    postgres1) echo "  on another box, as DATABASE_URL in $env says" ;;
    postgres)
        version=$(find /etc/postgresql -mindepth 1 -maxdepth 1 -printf '%f\n' | sort -n | tail -1)
        [ -n "$version" ] || fail "PostgreSQL has no cluster: make one with pg_createcluster"
        put "/etc/postgresql/$version/main/conf.d/onebox.conf" 644 <"$here/postgresql/onebox.conf"
        if was_touched "*/conf.d/onebox.conf"; then
            systemctl restart "postgresql@$version-main"
            changed "restarted PostgreSQL $version"
        fi
        # The unix socket tells PostgreSQL who is there: the role needs no password.
        [ "$(postgres -c "SELECT 1 FROM pg_roles WHERE rolname = 'onebox'")" = 1 ] \
            || { postgres -c 'CREATE ROLE onebox LOGIN' && changed "created the role onebox"; }
        if [ "$(postgres -c "SELECT 1 FROM pg_database WHERE datname = 'onebox'")" != 1 ]; then
            postgres -c "CREATE DATABASE onebox OWNER onebox TEMPLATE template0 ENCODING 'UTF8'"
            changed "created the database onebox"
        fi
        if [ -z "$(postgres -d onebox -c "SELECT to_regclass('posts')")" ]; then
            runuser -u onebox -- "${seed[@]}"
            changed "filled it with the $data dataset"
        fi
        ;;
    sqlite)
        if [ ! -e /var/lib/onebox/feed.db ]; then
            runuser -u onebox -- "${seed[@]}"
            changed "made /var/lib/onebox/feed.db with the $data dataset"
        fi
        ;;
esac

echo "services"
case $front in
    direct) listen=$port ;;
    nginx | nginx-tls) listen=127.0.0.1:3000 ;;
    tunnel) listen=127.0.0.1:$port ;;
esac
units=/etc/systemd/system
sed "s|@LISTEN@|$listen|" "$here/systemd/onebox.socket" | put $units/onebox.socket 644
for unit in onebox.service onebox@.service onebox-backup.service onebox-backup.timer; do
    put "$units/$unit" 644 <"$here/systemd/$unit"
done
hardened=(onebox.service onebox@.service onebox-backup.service)
if [ "$front" = tunnel ]; then
    keep_secret "$credentials"
    sed "s|@TUNNEL@|$tunnel|; s|@ORIGIN@|$listen|" "$here/cloudflared.yml" | put /etc/onebox/tunnel/config.yml 644
    put $units/onebox-tunnel.service 644 <"$here/systemd/onebox-tunnel.service"
    hardened+=(onebox-tunnel.service)
elif [ -e $units/onebox-tunnel.service ]; then
    systemctl disable -q --now onebox-tunnel
    rm -r $units/onebox-tunnel.service $units/onebox-tunnel.service.d
    changed "took the tunnel out of the way"
fi
for unit in "${hardened[@]}"; do
    put "$units/$unit.d/hardening.conf" 644 <"$here/systemd/hardening.conf"
done
if [ "$(systemctl --version | sed -n '1s/^systemd \([0-9]*\).*/\1/p')" -ge 254 ]; then
    put $units/onebox@.service.d/back-off.conf 644 <"$here/systemd/back-off.conf"
fi
was_touched "$units/*" && systemctl daemon-reload
enable_unit onebox.socket
enable_unit onebox.service
enable_unit onebox-backup.timer
systemctl is-active -q onebox-backup.timer || systemctl start onebox-backup.timer

if [[ $front == nginx* ]]; then
    [ "$front" != nginx-tls ] || keep_secret /etc/onebox/tls/origin.key
    [ -e /etc/nginx/conf.d/onebox.conf ] || first_nginx=1
    # Debian's own file comes back with uninstall.sh.
    [ -e /etc/nginx/nginx.conf.before-onebox ] || cp -a /etc/nginx/nginx.conf /etc/nginx/nginx.conf.before-onebox
    put /etc/nginx/nginx.conf 644 <"$here/nginx/nginx.conf"
    put /etc/nginx/onebox-server.conf 644 <"$here/nginx/onebox-server.conf"
    case $front in nginx) clients=readers ;; nginx-tls) clients=cloudflare ;; esac
    # Where the kernel has no IPv6, Nginx would not start with such an address.
    if [ -e /proc/net/if_inet6 ]; then without=''; else without='/^listen \[::\]/d;'; fi
    sed -E "$without s/^listen (\[::\]:)?[0-9]+ /listen \1$port /" "$here/nginx/onebox-$clients.conf" \
        | put /etc/nginx/onebox-clients.conf 644
    put /etc/nginx/conf.d/onebox.conf 644 <"$here/nginx/onebox.conf"
    [ -d /var/cache/nginx ] || { mkdir /var/cache/nginx && changed "created /var/cache/nginx"; }
    nginx -t -q
    enable_unit nginx
elif [ -e /etc/nginx/conf.d/onebox.conf ]; then
    rm /etc/nginx/conf.d/onebox.conf
    systemctl stop nginx
    systemctl disable -q nginx
    changed "took Nginx out of the way"
fi

echo "start"
# A socket that listens elsewhere, or another database: nothing to hand over between.
if was_touched "*/onebox.socket" && systemctl is-active -q onebox.socket; then
    onebox stop
fi
if [ -n "$binary" ]; then
    before=$(onebox version)
    onebox update "$binary" >/dev/null
    [ "$before" = "$(onebox version)" ] || changed "the origin is release $(onebox version)"
fi
if ! systemctl is-active -q onebox; then
    onebox start
    changed "started Onebox"
elif was_touched "$units/*.service*" || was_touched "$env"; then
    onebox restart
    changed "restarted the origin"
fi
if [[ $front == nginx* ]]; then
    if [ -n "${first_nginx-}" ]; then
        # A reload would go on in the background, and serve Debian's own page for a while.
        systemctl restart nginx
        changed "started Nginx"
    elif ! systemctl is-active -q nginx; then
        systemctl start nginx
        changed "started Nginx"
    elif was_touched "*/onebox-clients.conf"; then
        systemctl restart nginx
        changed "restarted Nginx"
    elif was_touched "/etc/nginx/*"; then
        systemctl reload nginx
        changed "reloaded Nginx"
    fi
fi

if [ "$front" = tunnel ]; then
    enable_unit onebox-tunnel.service
    if ! systemctl is-active -q onebox-tunnel || was_touched "*/onebox-tunnel.service*" \
        || was_touched "/etc/onebox/tunnel/*"; then
        # Returns when Cloudflare has taken the call.
        systemctl restart onebox-tunnel || fail "the tunnel does not come up: journalctl -u onebox-tunnel -n 20"
        changed "started the tunnel"
    fi
fi

rm -f "$touched"

if [ $changes -eq 0 ]; then
    echo "nothing changed"
else
    echo "changed: $changes"
fi
if grep -qx 'REQUIRE_EDGE_KEY=1' "$env"; then
    echo "it serves nobody without EDGE_KEY, /health excepted (REQUIRE_EDGE_KEY in $env)"
fi
echo "Onebox serves on port $port from $store; \`onebox status\` shows how it is"
