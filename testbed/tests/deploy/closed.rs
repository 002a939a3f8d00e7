//! The origin closed to everyone but the edge, in both ways: what a stranger meets, and the edge.

use testbed::machine::Machine;

use crate::stage::{INSTALL, UNINSTALL, fails_with, installs_twice, is_hardened, machine};

/// Certificates such as Cloudflare gives: one for the origin, an authority for the edge's own, one of
/// the edge, and a stranger's.
const CERTIFICATES: &str = r#"
mkdir -p /etc/onebox/tls && cd /etc/onebox/tls
certificate() { # NAME, and an AUTHORITY that signs it unless it is one itself
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=$1" \
        -keyout "$1.key" -out "$1.pem" -addext "subjectAltName=DNS:$1" \
        ${2:+-CA "$2.pem" -CAkey "$2.key" -addext basicConstraints=critical,CA:FALSE} 2>/dev/null
}
certificate origin-ca && certificate origin.example.com origin-ca
certificate cloudflare-ca && certificate edge cloudflare-ca
certificate other-ca && certificate stranger other-ca
mv origin.example.com.pem origin.pem && mv origin.example.com.key origin.key && chmod 644 origin.key
"#;

/// Somebody outside with two addresses of each kind; this machine is 203.0.113.1 and 2001:db8::1.
const OUTSIDE: &str = "
ip netns add outside && ip link add inner type veth peer name outer netns outside
ip address add 203.0.113.1/24 dev inner && ip address add 2001:db8::1/64 dev inner nodad && ip link set inner up
ip -n outside link set lo up && ip -n outside link set outer up
for address in 203.0.113.9/24 203.0.113.10/24; do ip -n outside address add $address dev outer; done
for address in 2001:db8::9/64 2001:db8::10/64; do ip -n outside address add $address dev outer nodad; done
printf '203.0.113.10/32\n2001:db8::10/128\n' >/root/ranges
";

fn edge_key(machine: &Machine) -> String {
    machine.run("sed -n 's/^EDGE_KEY=//p' /etc/onebox/origin.env")
}

/// The status that an answer has: 000 when there is none.
fn status(machine: &Machine, curl: &str) -> String {
    let command = format!("curl -s -m 2 -o /dev/null -w '%{{http_code}}' {curl}");
    machine.attempt(&command).1
}

#[test]
fn by_tls_at_nginx_and_a_firewall() {
    let Some(machine) = machine() else { return };
    let install = format!("{INSTALL} --binary /root/origin --store sqlite --behind nginx-tls");
    fails_with(&machine, &install, "/etc/onebox/tls/origin.pem is missing");
    machine.run(CERTIFICATES);
    installs_twice(&machine, "--store sqlite --behind nginx-tls");
    let mode = machine.run("stat -c '%a %U' /etc/onebox/tls/origin.key");
    assert_eq!(mode, "600 root", "a key that anyone could read");

    let key = edge_key(&machine);
    let ask = |who: &str, key: &str, path: &str| {
        let proof = match who {
            "" => String::new(),
            who => format!("--cert /etc/onebox/tls/{who}.pem --key /etc/onebox/tls/{who}.key"),
        };
        let trust = "--cacert /etc/onebox/tls/origin-ca.pem --connect-to ::127.0.0.1:";
        let url = format!("https://origin.example.com{path}");
        status(
            &machine,
            &format!("{trust} {proof} -H 'X-Edge-Key: {key}' {url}"),
        )
    };
    assert_eq!(ask("edge", &key, "/feed"), "200");
    // The right key without the certificate, and the certificate without the right key.
    assert_eq!(ask("", &key, "/feed"), "400");
    assert_eq!(ask("stranger", &key, "/feed"), "400");
    for path in ["/feed", "/posts/1", "/nothing"] {
        assert_eq!(ask("edge", "", path), "403", "{path}");
        assert_eq!(ask("edge", "a-guess", path), "403", "{path}");
    }
    assert_eq!(ask("edge", "", "/health"), "200");
    let listening =
        machine.run("ss -Hltn | awk '{print $4}' | grep -v -e ^127.0.0.1: -e ^.::1.: | sort -u");
    assert_eq!(listening, "0.0.0.0:443\n[::]:443", "open to the network");

    // Whoever is not Cloudflare does not even get to TLS.
    machine.run(OUTSIDE);
    let from = |address: &str| {
        let here = if address.contains(':') {
            "[2001:db8::1]"
        } else {
            "203.0.113.1"
        };
        let proof = "--cert /etc/onebox/tls/edge.pem --key /etc/onebox/tls/edge.key";
        machine
            .attempt(&format!(
                "ip netns exec outside curl -s -k -m 2 -o /dev/null -w '%{{http_code}}' {proof} \
             --interface {address} https://{here}/health"
            ))
            .1
    };
    let of = |addresses: [&str; 4]| addresses.map(from);
    let everyone = ["203.0.113.9", "2001:db8::9", "203.0.113.10", "2001:db8::10"];
    assert_eq!(of(everyone), ["200", "200", "200", "200"]);
    let firewall = "/root/onebox/deploy/edge/firewall.sh --ranges /root/ranges";
    assert!(machine.run(firewall).contains("admits 2 ranges"));
    assert_eq!(of(everyone), ["000", "000", "200", "200"]);
    assert!(machine.run(firewall).contains("nothing changed"));

    // Ranges that nobody is in would shut the edge out; the rules outlive a restart.
    machine.run("echo not-a-range >/root/nothing");
    fails_with(
        &machine,
        "/root/onebox/deploy/edge/firewall.sh --ranges /root/nothing",
        "the present rules stay",
    );
    is_hardened(&machine, "onebox-firewall.service");
    machine.run("nft flush ruleset && systemctl restart onebox-firewall");
    assert_eq!(of(everyone), ["000", "000", "200", "200"]);
    machine.run("printf '203.0.113.9/32\\n2001:db8::9/128\\n' >/root/ranges");
    machine.run(firewall);
    assert_eq!(of(everyone), ["200", "200", "000", "000"]);

    machine.run(&format!("{UNINSTALL} --remove-data"));
    assert_eq!(machine.run("nft list ruleset"), "");
}

/// Takes cloudflared's place, which is Cloudflare's to give and useless without an account. It reads
/// what cloudflared would and says that it is ready, as cloudflared does once it is connected.
const CLOUDFLARED: &str = r#"#!/usr/bin/perl
use strict;
use Socket;
die "unexpected: @ARGV" if "@ARGV" ne "--config /etc/onebox/tunnel/config.yml --no-autoupdate tunnel run";
for my $file ($ARGV[1], $ENV{TUNNEL_CRED_FILE}) {
    open(my $opened, '<', $file) or die "$file: $!";
}
socket(my $systemd, PF_UNIX, SOCK_DGRAM, 0) or die $!;
send($systemd, 'READY=1', 0, pack_sockaddr_un($ENV{NOTIFY_SOCKET})) or die $!;
sleep 1000 while 1;
"#;

#[test]
fn by_a_tunnel_and_no_open_port() {
    let Some(machine) = machine() else { return };
    let install = format!("{INSTALL} --binary /root/origin --store sqlite --behind tunnel");
    fails_with(&machine, &install, "cloudflared is missing: install");
    machine.run(&format!(
        "cat >/usr/local/bin/cloudflared <<'PERL'\n{CLOUDFLARED}PERL\nchmod +x /usr/local/bin/cloudflared"
    ));
    fails_with(&machine, &install, "credentials.json is missing");
    machine.run(
        r#"mkdir -p /etc/onebox/tunnel && echo '{"AccountTag":"a","TunnelSecret":"c2VjcmV0","TunnelID":"5d1f7bd0-1111-4222-8333-444455556666"}' \
            >/etc/onebox/tunnel/credentials.json"#,
    );
    installs_twice(&machine, "--store sqlite --behind tunnel");

    assert_eq!(machine.run("systemctl is-active onebox-tunnel"), "active");
    is_hardened(&machine, "onebox-tunnel.service");
    let config = machine.run("cat /etc/onebox/tunnel/config.yml");
    assert!(
        config.contains("tunnel: 5d1f7bd0-1111-4222-8333-444455556666"),
        "{config}"
    );
    assert!(
        config.contains("service: http://127.0.0.1:3000"),
        "{config}"
    );
    let mode = machine.run("stat -c '%a %U' /etc/onebox/tunnel/credentials.json");
    assert_eq!(mode, "600 root");

    let key = edge_key(&machine);
    let with = |key: &str| {
        status(
            &machine,
            &format!("-H 'X-Edge-Key: {key}' 127.0.0.1:3000/feed"),
        )
    };
    assert_eq!(
        [with(&key), with(""), with("a-guess")],
        ["200", "403", "403"]
    );
    assert_eq!(status(&machine, "127.0.0.1:3000/health"), "200");
    let open = machine
        .attempt("ss -Hltn | awk '{print $4}' | grep -v -e ^127.0.0.1: -e ^.::1.:")
        .1;
    assert_eq!(open, "", "open to the network");

    // And back. The key is required still, and install.sh says so.
    let said = machine.run(&format!("{INSTALL} --direct"));
    assert!(said.contains("took the tunnel out of the way"), "{said}");
    assert!(said.contains("serves nobody without EDGE_KEY"), "{said}");
    assert!(!machine.attempt("systemctl cat onebox-tunnel").0);
    assert_eq!(status(&machine, "localhost/health"), "200");
}
