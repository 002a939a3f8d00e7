//! No thinking: each connection asks again as soon as it is answered.

use std::rc::Rc;
use std::time::{Duration, Instant};

use super::connection::Connection;
use super::load::Target;
use super::model::{self, Drawn};
use super::session::{Counting, Session};

/// Of the full dataset; likes and single posts go to any of them.
const POSTS: u64 = 500_000;

/// A refused connection must not become a busy loop.
const AFTER_A_FAILURE: Duration = Duration::from_millis(50);

pub async fn hammer(session: Rc<Session>, target: Target, connections: u32) {
    for number in 0..connections {
        tokio::task::spawn_local(connection(session.clone(), target, number));
    }
}

async fn connection(session: Rc<Session>, target: Target, number: u32) {
    let _here = Counting::new(&session.users);
    let mut random = session.random_of(number);
    let mut connection = Connection::new(session.load.address, number);
    let ends = session.start + session.load.hold_end();
    let mut newest: Vec<u64> = Vec::new();
    let mut turn = 0;
    while Instant::now() < ends {
        turn += 1;
        let token = &session.tokens[random.usize(..session.tokens.len())];
        let mut post = random.u64(1..=POSTS);
        let target = match target {
            Target::Mix if newest.is_empty() => Target::Feed,
            Target::Mix => {
                post = newest[random.usize(..newest.len())];
                match model::draw_request(&mut random) {
                    Drawn::Feed => Target::Feed,
                    Drawn::Post => Target::Post,
                    Drawn::Like => Target::Like,
                    Drawn::Create => Target::Create,
                }
            }
            one => one,
        };
        match target {
            Target::Health => session.health(&mut connection).await,
            Target::Feed | Target::Mix => match session.feed(&mut connection, None).await {
                Some(ids) => newest = ids,
                None => tokio::time::sleep(AFTER_A_FAILURE).await,
            },
            Target::Post => session.post(&mut connection, post, None).await,
            Target::Like => session.like(&mut connection, post, token, None).await,
            Target::Create => {
                session
                    .create(&mut connection, token, (number, turn), None)
                    .await;
            }
        }
        if !connection.is_open() {
            tokio::time::sleep(AFTER_A_FAILURE).await;
        }
    }
}
