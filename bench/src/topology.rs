use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// An application, what stands before it and what behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Topology {
    name: &'static str,
    pub app: App,
    pub front: Front,
    pub store: Store,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum App {
    Origin {
        keeps_feed: bool,
    },
    /// Express 5 and pg: what was published first.
    Express {
        keeps_feed: bool,
    },
    /// axum and sqlx: the obvious thing in Rust.
    Plain,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Front {
    None,
    /// A cache of a second, on the box.
    Nginx,
    /// The Worker on workerd, off the box, which keeps the feed for a second.
    Edge {
        keeps_posts: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Store {
    Sqlite,
    Postgres,
}

const ORIGIN: App = App::Origin { keeps_feed: false };
const EXPRESS: App = App::Express { keeps_feed: false };

const TOPOLOGIES: [(&str, App, Front); 9] = [
    ("alone", ORIGIN, Front::None),
    (
        "origin-cache",
        App::Origin { keeps_feed: true },
        Front::None,
    ),
    ("nginx", ORIGIN, Front::Nginx),
    ("edge", ORIGIN, Front::Edge { keeps_posts: false }),
    ("edge-posts", ORIGIN, Front::Edge { keeps_posts: true }),
    ("express", EXPRESS, Front::None),
    (
        "express-cache",
        App::Express { keeps_feed: true },
        Front::None,
    ),
    ("express-nginx", EXPRESS, Front::Nginx),
    ("plain", App::Plain, Front::None),
];

/// For `--help`.
pub const HELP: &str = "\
Topologies:
  alone          the origin and nothing else
  origin-cache   the origin with its own feed cache of a second
  nginx          Nginx with a cache of a second before the origin
  edge           the Worker on workerd before it, which keeps the feed for a second
  edge-posts     the same, which keeps single posts too
  express        a small Express 5 and pg application; also express-cache, with a cache of a
                 second in Node, and express-nginx, with Nginx's before it
  plain          axum and sqlx, a query a request
The first five take :sqlite (the default) or :postgres, as in edge:postgres; the others are on
PostgreSQL.";

impl Topology {
    pub fn new(name: &str, store: Store) -> Option<Topology> {
        let (name, app, front) = TOPOLOGIES.into_iter().find(|(known, ..)| *known == name)?;
        let is_possible = matches!(app, App::Origin { .. }) || store == Store::Postgres;
        is_possible.then_some(Topology {
            name,
            app,
            front,
            store,
        })
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
        write!(f, "{}:{}", self.name, self.store.name())
    }
}

impl FromStr for Topology {
    type Err = String;

    /// `nginx`, `nginx:postgres`
    fn from_str(text: &str) -> Result<Self, String> {
        let found = match text.split_once(':') {
            None => Topology::new(text, Store::Sqlite).or(Topology::new(text, Store::Postgres)),
            Some((name, store)) => [Store::Sqlite, Store::Postgres]
                .into_iter()
                .find(|known| known.name() == store)
                .and_then(|store| Topology::new(name, store)),
        };
        found.ok_or_else(|| {
            let names: Vec<&str> = TOPOLOGIES.iter().map(|(name, ..)| *name).collect();
            format!(
                "no topology {text:?}: want {}; the origin's with :sqlite or :postgres behind it",
                names.join(", ")
            )
        })
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
    fn a_name_says_what_stands_where() {
        let nginx: Topology = "nginx:postgres".parse().unwrap();
        assert_eq!((nginx.front, nginx.store), (Front::Nginx, Store::Postgres));
        for (text, full) in [("alone", "alone:sqlite"), ("express", "express:postgres")] {
            assert_eq!(text.parse::<Topology>().unwrap().to_string(), full);
        }
        for unknown in ["", "apache", "alone:mysql", "alone:", "express:sqlite"] {
            let message = unknown.parse::<Topology>().unwrap_err();
            assert!(message.contains("alone, origin-cache, nginx"), "{message}");
        }
    }

    #[test]
    fn help_names_every_topology() {
        for (name, ..) in TOPOLOGIES {
            assert!(HELP.contains(name), "{name}");
        }
    }
}
