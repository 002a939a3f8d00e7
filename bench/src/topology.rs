use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What stands between the users and the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Topology {
    pub front: Front,
    pub store: Store,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Front {
    /// The origin and nothing else.
    Alone,
    /// The origin with its own feed cache of a second.
    OriginCache,
    /// Nginx with a cache of a second before the origin.
    Nginx,
    /// The Worker on workerd, off the box, with the feed kept for a second.
    Edge,
    /// The same with single posts kept too.
    EdgePosts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Store {
    Sqlite,
    Postgres,
}

const FRONTS: [(&str, Front); 5] = [
    ("alone", Front::Alone),
    ("origin-cache", Front::OriginCache),
    ("nginx", Front::Nginx),
    ("edge", Front::Edge),
    ("edge-posts", Front::EdgePosts),
];

impl Front {
    pub fn name(self) -> &'static str {
        let found = FRONTS.iter().find(|(_, front)| *front == self);
        found.map_or("", |(name, _)| name)
    }
}

impl Store {
    pub fn name(self) -> &'static str {
        match self {
            Store::Sqlite => "sqlite",
            Store::Postgres => "postgres",
        }
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.front.name(), self.store.name())
    }
}

impl FromStr for Topology {
    type Err = String;

    /// `nginx`, `nginx:postgres`
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, store) = text.split_once(':').unwrap_or((text, "sqlite"));
        let front = FRONTS.iter().find(|(known, _)| *known == name);
        let store = [Store::Sqlite, Store::Postgres]
            .into_iter()
            .find(|known| known.name() == store);
        match (front, store) {
            (Some((_, front)), Some(store)) => Ok(Topology {
                front: *front,
                store,
            }),
            _ => {
                let names: Vec<&str> = FRONTS.iter().map(|(name, _)| *name).collect();
                Err(format!(
                    "no topology {text:?}: want {}, with :sqlite or :postgres behind it",
                    names.join(", ")
                ))
            }
        }
    }
}

impl From<Topology> for String {
    fn from(topology: Topology) -> String {
        topology.to_string()
    }
}

impl TryFrom<String> for Topology {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_front_and_store() {
        let nginx: Topology = "nginx:postgres".parse().unwrap();
        assert_eq!((nginx.front, nginx.store), (Front::Nginx, Store::Postgres));
        assert_eq!(
            "alone".parse::<Topology>().unwrap().to_string(),
            "alone:sqlite"
        );
        for unknown in ["", "apache", "alone:mysql", "alone:"] {
            let message = unknown.parse::<Topology>().unwrap_err();
            assert!(message.contains("alone, origin-cache, nginx"), "{message}");
        }
    }
}
