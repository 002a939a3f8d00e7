//! A row of a table: requests, and the one answer that each of them must get.

use crate::check::{Check, Group};
use crate::expect::{self, Verdict};
use crate::http::{Request, Response};
use crate::json;
use crate::probe::{Probe, Store};

#[derive(Clone, Debug)]
pub enum Expect {
    Error(u16, &'static str),
    /// 405 with these methods in `Allow`.
    NotAllowed(&'static [&'static str]),
    /// To a HEAD: that status, no body.
    Head(u16),
    Health,
    Feed,
    Post(u64),
    /// A new post of user 1 with this text, which a later read shows the same.
    Created(String),
    PerStore {
        sqlite: Box<Expect>,
        postgres: Box<Expect>,
    },
}

impl Expect {
    pub fn created(text: impl Into<String>) -> Self {
        Self::Created(text.into())
    }

    pub fn per_store(sqlite: Expect, postgres: Expect) -> Self {
        Self::PerStore {
            sqlite: Box::new(sqlite),
            postgres: Box::new(postgres),
        }
    }

    fn verdict(&self, probe: &Probe, response: &Response) -> Verdict {
        match self {
            Self::Error(status, message) => expect::error(response, *status, message),
            Self::NotAllowed(methods) => expect::not_allowed(response, methods),
            Self::Head(status) => expect::status(response, *status),
            Self::Health => expect::healthy(response),
            Self::Feed => {
                expect::status(response, 200)?;
                let posts = json::feed(&response.text())?;
                for post in &posts {
                    json::unix_ms(&post.created_at)?;
                }
                expect::newest_first(&posts)
            }
            Self::Post(id) => expect::post(response, *id),
            Self::Created(text) => {
                let post = expect::created(response, text)?;
                expect::equal("the post read back", probe.post(post.id)?, post)
            }
            Self::PerStore { sqlite, postgres } => match probe.store {
                Some(Store::Sqlite) => sqlite.verdict(probe, response),
                Some(Store::Postgres) => postgres.verdict(probe, response),
                None => sqlite.verdict(probe, response).or_else(|as_sqlite| {
                    postgres.verdict(probe, response).map_err(|as_postgres| {
                        format!("on SQLite {as_sqlite}; on PostgreSQL {as_postgres}")
                    })
                }),
            },
        }
    }
}

pub struct Case {
    pub name: String,
    pub requests: Vec<Request>,
    pub expect: Expect,
}

impl Case {
    pub fn new(name: impl Into<String>, request: Request, expect: Expect) -> Self {
        Self {
            name: name.into(),
            requests: vec![request],
            expect,
        }
    }

    pub fn each(name: impl Into<String>, requests: Vec<Request>, expect: Expect) -> Self {
        Self {
            name: name.into(),
            requests,
            expect,
        }
    }

    pub fn into_check(self) -> Check {
        let Self {
            name,
            requests,
            expect,
        } = self;
        Check::new(Group::Corners, name, move |probe| {
            for request in &requests {
                expect
                    .verdict(probe, &probe.send(request)?)
                    .map_err(|e| format!("{} {}: {e}", request.method, request.target))?;
            }
            Ok(())
        })
    }
}
