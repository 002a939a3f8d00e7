//! The box alone: installed, used and left by its own scripts on a fresh machine.

use testbed::machine::Machine;

use crate::stage::{INSTALL, UNINSTALL, fails_with, installs_twice, is_hardened, machine};

fn like(machine: &Machine, post: u32) -> String {
    machine.run(&format!(
        "export JWT_SECRET=$(sed -n 's/^JWT_SECRET=//p' /etc/onebox/origin.env)
         curl -s -X POST localhost/posts/{post}/like \
             -H \"Authorization: Bearer $(/root/origin token --user 1 --username golden_ember_1)\""
    ))
}

fn is_well(machine: &Machine) {
    let health = machine.run("curl -s localhost/health");
    assert!(health.contains(r#""db":"ok""#), "{health}");
}

fn backs_up_and_restores(machine: &Machine) {
    let before = machine.run("curl -s localhost/posts/7");
    let backup = machine.run("onebox backup");
    assert!(like(machine, 7).contains(r#""already_liked":false"#));
    let liked = machine.run("curl -s localhost/posts/7");
    assert_ne!(liked, before);
    assert_eq!(machine.run(&format!("stat -c %a {backup}")), "600");

    // A damaged backup is noticed before anything is touched.
    let cut = backup.replace("/feed-", "/cut-");
    machine.run(&format!("head -c 50000 {backup} >{cut}"));
    let (restored, said) = machine.attempt(&format!("onebox restore {cut}"));
    assert!(!restored && said.contains("damaged"), "{said}");
    assert_eq!(machine.run("curl -s localhost/posts/7"), liked);

    let said = machine.run(&format!("onebox restore {backup}"));
    assert!(said.contains("restored"), "{said}");
    assert_eq!(machine.run("curl -s localhost/posts/7"), before);
    assert!(like(machine, 7).contains(r#""already_liked":false"#));
}

fn uninstalls(machine: &Machine) {
    let said = machine.run(&format!("{UNINSTALL} --keep-data"));
    assert!(said.contains("kept: "), "{said}");
    assert!(!machine.attempt("curl -s localhost/health").0);
    machine.run(&format!("{INSTALL} --binary /root/origin"));
    assert!(like(machine, 7).contains(r#""already_liked":true"#));

    for _again in 0..2 {
        machine.run(&format!("{UNINSTALL} --remove-data"));
    }
    let left = machine.run("find / -xdev -name '*onebox*' -not -path '/proc/*' -not -path '/root/*' \
        -not -path '/var/log/*'; systemctl list-unit-files --no-legend | grep onebox; getent passwd onebox || true");
    assert_eq!(left, "");
}

#[test]
fn on_sqlite_install_backup_restore_uninstall() {
    let Some(machine) = machine() else { return };
    installs_twice(&machine, "--store sqlite");
    is_well(&machine);

    let said = machine.run("systemd-analyze verify onebox.socket onebox-backup.timer");
    assert_eq!(said, "");
    // Of the template an instance that is there: it has no program itself.
    for unit in [
        "onebox.service",
        "onebox@1.service",
        "onebox-backup.service",
    ] {
        is_hardened(&machine, unit);
    }
    assert_eq!(
        machine.run("stat -c '%a %U' /etc/onebox/origin.env"),
        "600 root"
    );

    backs_up_and_restores(&machine);
    uninstalls(&machine);
}

#[test]
fn on_postgresql_install_backup_restore_uninstall() {
    let Some(machine) = machine() else { return };
    installs_twice(&machine, "--store postgres");
    is_well(&machine);
    let psql = "runuser -u postgres -- psql -X -t -A";
    assert_eq!(
        machine.run(&format!("{psql} -c 'SHOW shared_buffers'")),
        "512MB"
    );
    assert!(
        !machine.run("ss -ltn").contains(":5432"),
        "PostgreSQL listens to the network"
    );
    backs_up_and_restores(&machine);
    uninstalls(&machine);
    let left = machine.run(&format!(
        "{psql} -c 'SELECT datname FROM pg_database' -c 'SHOW shared_buffers'"
    ));
    assert!(!left.contains("onebox") && left.contains("128MB"), "{left}");
}

#[test]
fn behind_nginx_and_back() {
    let Some(machine) = machine() else { return };
    fails_with(&machine, INSTALL, "root has no cargo: install Rust");
    installs_twice(&machine, "--store sqlite --behind nginx");
    is_well(&machine);
    machine.run("nginx -t -q && curl -sf localhost/feed");
    let said = machine.run("curl -s -i localhost/posts/1");
    assert!(said.contains("Server: nginx"), "{said}");

    let rotated = machine.run("logrotate --debug /etc/logrotate.conf 2>&1");
    assert!(rotated.contains("/var/log/nginx/error.log"), "{rotated}");

    // The feed outlives the origin; the rest says what is wrong, in the API's words.
    machine.run("onebox stop");
    assert!(
        machine
            .run("curl -s localhost/feed")
            .starts_with(r#"{"posts":["#)
    );
    assert_eq!(
        machine.run("curl -s localhost/posts/1"),
        r#"{"error":"origin unreachable"}"#
    );

    let said = machine.run(&format!("{INSTALL} --direct"));
    assert!(said.contains("took Nginx out of the way"), "{said}");
    let said = machine.run("curl -s -i localhost/posts/1");
    assert!(!said.contains("Server: nginx"), "{said}");
}

/// Reached over the network, with a password: as a database on another box is.
#[test]
fn a_database_on_another_box_stays_the_one_that_is_served() {
    let Some(machine) = machine() else { return };
    installs_twice(&machine, "--store postgres");
    let backup = machine.run("onebox backup");
    machine.run(
        "conf=$(echo /etc/postgresql/*/main/conf.d)
         echo \"listen_addresses = '127.0.0.1'\" >$conf/zz-growing.conf
         systemctl restart postgresql@$(basename ${conf%/main/conf.d})-main
         runuser -u postgres -- psql -X -q -c \"ALTER ROLE onebox PASSWORD 'p@ss/word'\"
         sed -i 's|^DATABASE_URL=.*|DATABASE_URL=postgres://onebox:p%40ss%2Fword@127.0.0.1/onebox|' /etc/onebox/origin.env
         onebox restart",
    );
    is_well(&machine);
    let settings = machine.run("cat /etc/onebox/origin.env");
    let said = machine.run(INSTALL);
    assert!(said.contains("on another box"), "{said}");
    assert_eq!(machine.run("cat /etc/onebox/origin.env"), settings);
    is_well(&machine);

    // A backup of it may be made here; what would be restored here is another one.
    let second = machine.run("onebox backup");
    assert_ne!(second, backup);
    let (restored, said) = machine.attempt(&format!("onebox restore {second}"));
    assert!(!restored && said.contains("restore it there"), "{said}");
    fails_with(
        &machine,
        &format!("{INSTALL} --store sqlite"),
        "names another database",
    );
}
