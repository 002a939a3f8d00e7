//! The open loop: requests arrive at a fixed rate, whether or not the server keeps up, and
//! each one's latency counts from when it was due.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::connection::Connection;
use super::model::{self, Drawn};
use super::record::Kind;
use super::session::{Counting, Session};

/// The connections, least recently used first: each is idle as long as a user's would be.
struct Pool {
    idle: VecDeque<Connection>,
    opened: u32,
    limit: u32,
}

struct Shared {
    pool: RefCell<Pool>,
    /// What the latest feed showed; empty before the first.
    newest: RefCell<Vec<u64>>,
}

pub async fn arrivals(session: Rc<Session>, per_second: f64, connections: u32) {
    let load = &session.load;
    let shared = Rc::new(Shared {
        pool: RefCell::new(Pool {
            idle: VecDeque::new(),
            opened: 0,
            limit: connections,
        }),
        newest: RefCell::default(),
    });
    for number in 0.. {
        let after = due_after(number, per_second, load.ramp_up());
        if after >= load.hold_end() {
            break;
        }
        let due = session.start + after;
        // Also when it is late already: others must get their turn.
        tokio::time::sleep_until(due.into()).await;
        arrive(&session, &shared, number, due);
    }
}

/// Evenly spaced, at a rate that rises from nothing over the ramp.
fn due_after(number: u64, per_second: f64, ramp: Duration) -> Duration {
    let (number, ramp_s) = (number as f64, ramp.as_secs_f64());
    let in_ramp = per_second * ramp_s / 2.0;
    Duration::from_secs_f64(if number < in_ramp {
        (2.0 * number * ramp_s / per_second).sqrt()
    } else {
        ramp_s + (number - in_ramp) / per_second
    })
}

fn arrive(session: &Rc<Session>, shared: &Rc<Shared>, number: u64, due: Instant) {
    let mut random = session.random.borrow_mut();
    let newest = shared.newest.borrow();
    let post = match newest.len() {
        0 => None,
        length => Some(newest[random.usize(..length)]),
    };
    // Before anyone saw a feed there is no post to open.
    let (drawn, post) = match (model::draw_request(&mut random), post) {
        (drawn, Some(post)) => (drawn, post),
        (_, None) => (Drawn::Feed, 0),
    };
    let user = random.usize(..session.tokens.len());
    let mut pool = shared.pool.borrow_mut();
    let connection = pool.idle.pop_front().or_else(|| {
        (pool.opened < pool.limit).then(|| {
            pool.opened += 1;
            Connection::new(session.load.address, pool.opened - 1)
        })
    });
    let Some(mut connection) = connection else {
        session.recorder.borrow_mut().dropped(kind(drawn), due);
        return;
    };
    let (session, shared) = (session.clone(), shared.clone());
    tokio::task::spawn_local(async move {
        let _here = Counting::new(&session.users);
        let token = &session.tokens[user];
        let due = Some(due);
        match drawn {
            Drawn::Feed => {
                if let Some(ids) = session.feed(&mut connection, due).await {
                    *shared.newest.borrow_mut() = ids;
                }
            }
            Drawn::Post => session.post(&mut connection, post, due).await,
            Drawn::Like => session.like(&mut connection, post, token, due).await,
            Drawn::Create => {
                let name = (user as u32, number);
                session.create(&mut connection, token, name, due).await;
            }
        }
        shared.pool.borrow_mut().idle.push_back(connection);
    });
}

fn kind(drawn: Drawn) -> Kind {
    match drawn {
        Drawn::Feed => Kind::Feed,
        Drawn::Post => Kind::Post,
        Drawn::Like => Kind::Like,
        Drawn::Create => Kind::Create,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_rises_and_then_stays() {
        let ramp = Duration::from_secs(10);
        let within = |from: u64, to: u64| {
            (0..)
                .map(|number| due_after(number, 100.0, ramp).as_secs_f64())
                .take_while(|due| *due < to as f64)
                .filter(|due| *due >= from as f64)
                .count()
        };
        assert!(within(0, 5).abs_diff(125) <= 1);
        assert!(within(0, 10).abs_diff(500) <= 1);
        assert!(within(10, 11).abs_diff(100) <= 1);
        assert!(within(20, 30).abs_diff(1_000) <= 1);
        assert_eq!(due_after(0, 100.0, Duration::ZERO), Duration::ZERO);
    }
}
