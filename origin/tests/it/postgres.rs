//! A PostgreSQL server for one test.

use origin::store::postgres;
use testbed::Postgres;
use testbed::postgres::Options;

pub const USERS: i64 = 40;
pub const POSTS: i64 = 100;

/// A server whose database holds some users and posts, the newest post last.
pub fn start_server(settings: &[(&str, &str)]) -> Postgres {
    let settings = settings
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect();
    let options = Options {
        settings,
        ..Options::default()
    };
    let server = Postgres::start_with(options).unwrap();
    let url = server.url().parse().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(postgres::migrate(&url)).unwrap();
    })
    .join()
    .unwrap();
    let rows = format!(
        "INSERT INTO users (id, username) \
         SELECT i, 'user_' || i FROM generate_series(1, {USERS}) i; \
         INSERT INTO posts (user_id, author, body, created_at) \
         SELECT u.id, u.username, 'post ' || i, \
             '2025-01-01 00:00Z'::timestamptz + i * interval '1 min' \
         FROM generate_series(1, {POSTS}) i JOIN users u ON u.id = 1 + i % {USERS} ORDER BY i"
    );
    server.query(&rows).unwrap();
    server
}

/// Posts whose counter is not the number of their likes; empty when all is well.
pub fn likes_that_do_not_add_up(server: &Postgres) -> String {
    let query = "SELECT id, like_count, (SELECT count(*) FROM likes WHERE post_id = id) FROM posts \
         WHERE like_count <> (SELECT count(*) FROM likes WHERE post_id = id)";
    server.query(query).unwrap()
}
