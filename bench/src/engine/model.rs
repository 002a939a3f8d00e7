//! What one user does, and how often. The k6 scripts state the same (`k6/lib/model.js`);
//! `tests/engines_agree.rs` holds the two together.

use std::time::Duration;

use fastrand::Rng;

/// Thinking: uniform between two bounds, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Pause(pub u64, pub u64);

/// Once, before anything else, so that users who start together spread out.
pub const BEFORE_THE_FIRST: Pause = Pause(0, 5_000);
pub const AFTER_A_FAILED_FEED: Pause = Pause(3_000, 7_000);
pub const READING_THE_FEED: Pause = Pause(3_000, 7_000);
pub const READING_A_POST: Pause = Pause(3_000, 8_000);
pub const BEING_AWAY: Pause = Pause(5_000, 15_000);

pub const LIKE_PROBABILITY: f64 = 0.15;
pub const CREATE_PROBABILITY: f64 = 0.02;

pub const FEED_POSTS: usize = 20;

/// A feed, a post, and the likes and creates of the odds above.
pub const REQUESTS_PER_CYCLE: f64 = 2.0 + LIKE_PROBABILITY + CREATE_PROBABILITY;

/// The pauses of one cycle; waiting for answers comes on top.
pub const MEAN_CYCLE_S: f64 =
    (READING_THE_FEED.mean_ms() + READING_A_POST.mean_ms() + BEING_AWAY.mean_ms()) / 1000.0;

/// Of a user who is answered at once.
pub const REQUESTS_PER_S_PER_USER: f64 = REQUESTS_PER_CYCLE / MEAN_CYCLE_S;

impl Pause {
    pub fn draw(self, random: &mut Rng) -> Duration {
        let ms = self.0 as f64 + random.f64() * (self.1 - self.0) as f64;
        Duration::from_secs_f64(ms / 1000.0)
    }

    const fn mean_ms(self) -> f64 {
        (self.0 + self.1) as f64 / 2.0
    }
}

/// One of the users' requests, as often as they make it.
pub fn draw_request(random: &mut Rng) -> Drawn {
    let mut draw = random.f64() * REQUESTS_PER_CYCLE;
    for (drawn, weight) in [
        (Drawn::Feed, 1.0),
        (Drawn::Post, 1.0),
        (Drawn::Like, LIKE_PROBABILITY),
    ] {
        if draw < weight {
            return drawn;
        }
        draw -= weight;
    }
    Drawn::Create
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drawn {
    Feed,
    Post,
    Like,
    Create,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_makes_about_one_request_in_nine_and_a_half_seconds() {
        assert!((MEAN_CYCLE_S - 20.5).abs() < 1e-9);
        assert!((REQUESTS_PER_S_PER_USER - 0.1059).abs() < 1e-4);
    }

    #[test]
    fn pauses_fill_their_range() {
        let mut random = Rng::with_seed(1);
        let mean = (0..20_000)
            .map(|_| {
                let pause = BEING_AWAY.draw(&mut random).as_secs_f64();
                assert!((5.0..15.0).contains(&pause));
                pause
            })
            .sum::<f64>()
            / 20_000.0;
        assert!((mean - 10.0).abs() < 0.1, "{mean}");
    }

    #[test]
    fn requests_are_drawn_in_the_users_proportions() {
        let mut random = Rng::with_seed(1);
        let drawn: Vec<Drawn> = (0..100_000).map(|_| draw_request(&mut random)).collect();
        for (kind, percent) in [
            (Drawn::Feed, 46.1),
            (Drawn::Post, 46.1),
            (Drawn::Like, 6.9),
            (Drawn::Create, 0.9),
        ] {
            let found = drawn.iter().filter(|d| **d == kind).count() as f64 / 1000.0;
            assert!((found - percent).abs() < 0.5, "{kind:?}: {found}%");
        }
    }
}
