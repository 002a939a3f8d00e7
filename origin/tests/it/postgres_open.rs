//! A PostgreSQL database that cannot be served from is refused in one line that says what to do,
//! shows no password, and leaves the server as it was.

use origin::store::postgres::{self, Database};
use testbed::Postgres;
use testbed::postgres::PASSWORD;

async fn refusal(url: &str) -> String {
    let Err(refusal) = Database::open(url.parse().unwrap()).await else {
        panic!("{url} was opened")
    };
    let refusal = refusal.to_string();
    assert_eq!(refusal.lines().count(), 1, "{refusal}");
    assert!(
        !refusal.contains(PASSWORD) && !refusal.contains("hush"),
        "{refusal}"
    );
    refusal
}

#[tokio::test]
async fn our_tables_are_opened_and_whatever_else_is_refused_with_a_reason() {
    let server = Postgres::start().unwrap();
    let url = server.create_database("feed").unwrap();

    // Nobody there, or nobody who lets us in.
    let refused = refusal("postgres://me:hush@127.0.0.1:1/feed").await;
    assert!(
        refused.contains("127.0.0.1:1/feed") && refused.contains("running"),
        "{refused}"
    );
    let refused = refusal(&url.replace(PASSWORD, "hush")).await;
    assert!(refused.contains("check user and password"), "{refused}");
    let refused = refusal(&server.database_url("nowhere")).await;
    assert!(refused.contains("create it"), "{refused}");

    // Not ours yet: refused, and nothing is created.
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'";
    assert!(refusal(&url).await.contains("origin migrate"));
    assert_eq!(server.query_in("feed", tables).unwrap(), "0");

    postgres::migrate(&url.parse().unwrap()).await.unwrap();
    assert!(Database::open(url.parse().unwrap()).await.is_ok());

    // Tables of an older and of a newer version.
    let run = |sql: &str| server.query_in("feed", sql).unwrap();
    run("UPDATE _sqlx_migrations SET success = false");
    assert!(refusal(&url).await.contains("run `origin migrate`"));
    run("UPDATE _sqlx_migrations SET success = true");
    run(
        "INSERT INTO _sqlx_migrations SELECT 9999, 'later', now(), true, checksum, 1 FROM _sqlx_migrations LIMIT 1",
    );
    assert!(refusal(&url).await.contains("newer"));
    run("DELETE FROM _sqlx_migrations WHERE version = 9999");
    assert!(Database::open(url.parse().unwrap()).await.is_ok());

    // Ours, but not to be written.
    run("ALTER DATABASE feed SET default_transaction_read_only = on");
    assert!(refusal(&url).await.contains("read-only"));
    server
        .query("ALTER DATABASE feed RESET default_transaction_read_only")
        .unwrap();
    run(
        "CREATE USER reader PASSWORD 'hush'; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader",
    );
    let reader = url.replace(&format!("postgres:{PASSWORD}@"), "reader:hush@");
    assert!(refusal(&reader).await.contains("grant"));
    run(
        "GRANT INSERT, UPDATE ON posts TO reader; GRANT INSERT ON likes TO reader; \
         GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO reader",
    );
    assert!(Database::open(reader.parse().unwrap()).await.is_ok());
}
