#!/bin/bash
# Takes Onebox off this machine. Asks before data: the database, backups and secrets.
set -euo pipefail

usage() {
    cat <<'TEXT'
Usage: sudo ./uninstall.sh [--keep-data | --remove-data]

Without either it asks. Packages stay; it says which they are.
TEXT
}

fail() {
    echo "uninstall.sh: $*" >&2
    exit 1
}

data=ask
case ${1-} in
    '') ;;
    --keep-data) data=keep ;;
    --remove-data) data=remove ;;
    --help | -h) usage && exit ;;
    *) fail "what is '$1'? See --help" ;;
esac
[ "$(id -u)" -eq 0 ] || fail "run it as root: sudo $0"
# Users that commands run as below may not look into the present folder.
cd /
settings=/etc/onebox/install.conf
store=$(sed -n 's/^store=//p' "$settings" 2>/dev/null || true)
if [ $data = ask ]; then
    echo "The database ($store), its backups and the secrets in /etc/onebox:"
    read -r -p "remove them for good? Type 'remove', or press Enter to keep them: " answer || answer=
    [ "$answer" = remove ] && data=remove || data=keep
fi

echo "services"
units=/etc/systemd/system
for unit in onebox-backup.timer onebox-tunnel.service onebox.service onebox.socket onebox-firewall.service; do
    systemctl disable -q --now "$unit" 2>/dev/null || true
done
for slot in 1 2; do
    systemctl disable -q "onebox@$slot" 2>/dev/null || true
    # Stopping onebox stopped it; it may take a while over its last connections.
    systemctl stop "onebox@$slot" 2>/dev/null || true
done
rm -rf $units/onebox.socket $units/onebox.service $units/onebox@.service \
    $units/onebox-backup.service $units/onebox-backup.timer $units/onebox-tunnel.service \
    $units/onebox-firewall.service $units/onebox-firewall.service.d \
    $units/onebox.service.d $units/onebox@.service.d $units/onebox-backup.service.d $units/onebox-tunnel.service.d
systemctl daemon-reload
systemctl reset-failed 'onebox*' 2>/dev/null || true

if [ -e /etc/nginx/nginx.conf.before-onebox ]; then
    echo "Nginx"
    mv /etc/nginx/nginx.conf.before-onebox /etc/nginx/nginx.conf
    rm -f /etc/nginx/conf.d/onebox.conf /etc/nginx/onebox-server.conf /etc/nginx/onebox-clients.conf
    rm -rf /var/cache/nginx/onebox
    systemctl try-restart nginx
fi

echo "PostgreSQL's settings"
for conf in /etc/postgresql/*/main/conf.d/onebox.conf; do
    [ -e "$conf" ] || continue
    version=${conf#/etc/postgresql/}
    version=${version%%/*}
    if [ $data = remove ] && systemctl is-active -q "postgresql@$version-main"; then
        runuser -u postgres -- psql -X -q -t -A \
            -c "SELECT datname FROM pg_database WHERE datname = 'onebox' OR datname LIKE 'onebox\\_%'" \
            | while read -r database; do
                runuser -u postgres -- dropdb "$database"
                echo "  dropped the database $database"
            done
        runuser -u postgres -- dropuser --if-exists onebox
    fi
    rm "$conf"
    systemctl try-restart "postgresql@$version-main"
done

echo "programs"
rm -rf /opt/onebox /usr/local/sbin/onebox /run/onebox.lock /run/onebox-install.touched \
    /var/lib/systemd/timers/stamp-onebox-backup.timer
if [ $data = remove ]; then
    echo "data"
    rm -rf /var/lib/onebox /var/lib/onebox-backups /etc/onebox
    if getent passwd onebox >/dev/null; then
        userdel onebox
    fi
else
    echo "kept: /etc/onebox, /var/lib/onebox, /var/lib/onebox-backups and the user that owns them"
    [ "$store" != postgres ] || echo "kept: PostgreSQL's database onebox"
fi
echo "Onebox is gone. Packages stay: apt-get purge postgresql sqlite3 nginx logrotate nftables cloudflared gcc libc6-dev, as far as nothing else uses them"
