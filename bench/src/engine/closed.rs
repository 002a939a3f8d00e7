//! The closed loop: users who wait for an answer, think, and ask again.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::connection::Connection;
use super::model::{
    AFTER_A_FAILED_FEED, BEFORE_THE_FIRST, BEING_AWAY, CREATE_PROBABILITY, LIKE_PROBABILITY,
    READING_A_POST, READING_THE_FEED,
};
use super::session::{Counting, Session};

/// Starts users one by one over the ramp. Those who came last leave first.
pub async fn users(session: Rc<Session>, count: u32) {
    let load = &session.load;
    let share = |of: Duration, number: u32| of.mul_f64(f64::from(number) / f64::from(count));
    for number in 0..count {
        let begins = session.start + share(load.ramp_up(), number);
        let ends = session.start + load.hold_end() + share(load.ramp_down(), count - number);
        tokio::time::sleep_until(begins.into()).await;
        tokio::task::spawn_local(user(session.clone(), number, ends));
    }
}

async fn user(session: Rc<Session>, number: u32, ends: Instant) {
    let _here = Counting::new(&session.users);
    let mut random = session.random_of(number);
    let mut connection = Connection::new(session.load.address, number);
    let token = &session.tokens[number as usize % session.tokens.len()];

    sleep(BEFORE_THE_FIRST.draw(&mut random)).await;
    let mut turn = 0;
    while Instant::now() < ends {
        turn += 1;
        let Some(ids) = session.feed(&mut connection, None).await else {
            sleep(AFTER_A_FAILED_FEED.draw(&mut random)).await;
            continue;
        };
        let id = ids[random.usize(..ids.len())];
        // Not held while thinking: twenty thousand users would each keep their feed.
        drop(ids);
        sleep(READING_THE_FEED.draw(&mut random)).await;
        session.post(&mut connection, id, None).await;
        sleep(READING_A_POST.draw(&mut random)).await;
        if random.f64() < LIKE_PROBABILITY {
            session.like(&mut connection, id, token, None).await;
        }
        if random.f64() < CREATE_PROBABILITY {
            session
                .create(&mut connection, token, (number, turn), None)
                .await;
        }
        sleep(BEING_AWAY.draw(&mut random)).await;
    }
}
