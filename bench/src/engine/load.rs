use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::model::REQUESTS_PER_S_PER_USER;

/// What to send where, for how long. Bounded in number and time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Load {
    pub address: SocketAddr,
    pub shape: Shape,
    pub ramp_up_ms: u64,
    pub hold_ms: u64,
    pub ramp_down_ms: u64,
    /// How long users may finish what they have begun when their time is over.
    pub grace_ms: u64,
    pub seed: u64,
    /// A JSON array of `{"username":…,"token":…}`.
    pub tokens: PathBuf,
}

#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Closed loop: so many users, each waits for its answer.
    Users { users: u32 },
    /// Open loop: the users' mix at a fixed rate, whatever the server does.
    Arrivals {
        per_second: f64,
        /// Held open and used in turn. An arrival that finds all of them busy is dropped.
        connections: u32,
    },
    /// One request after another, no thinking.
    Hammer { target: Target, connections: u32 },
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    Health,
    Feed,
    Post,
    Like,
    Create,
    Mix,
}

impl Target {
    pub fn name(self) -> &'static str {
        match self {
            Target::Health => "health",
            Target::Feed => "feed",
            Target::Post => "post",
            Target::Like => "like",
            Target::Create => "create",
            Target::Mix => "mix",
        }
    }
}

impl Shape {
    /// Arrivals on as many connections as a closed loop of that rate would have.
    pub fn arrivals(per_second: f64) -> Shape {
        let connections = (per_second / REQUESTS_PER_S_PER_USER).ceil().max(1.0) as u32;
        Shape::Arrivals {
            per_second,
            connections,
        }
    }

    /// How many are open at once, at most.
    pub fn connections(&self) -> u32 {
        match self {
            Shape::Users { users } => *users,
            Shape::Arrivals { connections, .. } | Shape::Hammer { connections, .. } => *connections,
        }
    }

    /// Users or requests a second, whichever it is that a level raises.
    pub fn level(&self) -> f64 {
        match self {
            Shape::Users { users } => f64::from(*users),
            Shape::Arrivals { per_second, .. } => *per_second,
            Shape::Hammer { connections, .. } => f64::from(*connections),
        }
    }

    pub fn name(&self) -> String {
        match self {
            Shape::Users { users } => format!("{users} users"),
            Shape::Arrivals { per_second, .. } => format!("{per_second:.0} requests/s"),
            Shape::Hammer {
                target,
                connections,
            } => format!("{connections} connections asking for {}", target.name()),
        }
    }
}

impl Load {
    pub fn ramp_up(&self) -> Duration {
        Duration::from_millis(self.ramp_up_ms)
    }

    pub fn hold(&self) -> Duration {
        Duration::from_millis(self.hold_ms)
    }

    pub fn hold_end(&self) -> Duration {
        self.ramp_up() + self.hold()
    }

    pub fn ramp_down(&self) -> Duration {
        Duration::from_millis(self.ramp_down_ms)
    }

    /// When no one begins anything any more.
    pub fn end(&self) -> Duration {
        self.hold_end() + self.ramp_down()
    }

    pub fn latest_end(&self) -> Duration {
        self.end() + Duration::from_millis(self.grace_ms)
    }
}
