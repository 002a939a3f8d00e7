//! Good and bad requests to replay at two servers that must agree, such as an edge and its origin.

use crate::case::Expect;
use crate::corners;
use crate::http::Request;
use crate::token::Signer;

/// What two right answers to the same request have in common, besides the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// Every byte of the body.
    Bytes,
    /// The body's [`shape`](crate::shape): it holds a new id or a time.
    Shape,
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub name: String,
    pub request: Request,
    /// Whether an edge that checks what can be checked without a database refuses it, so that the origin never sees it.
    pub edge_refuses: bool,
    pub compare: Compare,
}

/// Some hundred requests: every row of the corner tables. Good creates are among them, good likes are not (of two identical likes
/// the second is answered otherwise). Tokens are signed with this secret and good for an hour; post 1 and user 1 must exist.
pub fn corpus(jwt_secret: &str) -> Vec<Entry> {
    corners::cases(&Signer::new(jwt_secret))
        .into_iter()
        .flat_map(|case| {
            let edge_refuses = refused_without_a_database(&case.expect);
            let compare = match case.expect {
                Expect::Created(_) | Expect::PerStore { .. } | Expect::Health => Compare::Shape,
                _ => Compare::Bytes,
            };
            case.requests.into_iter().map(move |request| Entry {
                name: case.name.clone(),
                request,
                edge_refuses,
                compare,
            })
        })
        .collect()
}

fn refused_without_a_database(expect: &Expect) -> bool {
    match expect {
        Expect::Error(_, message) => !["post not found", "unknown user"].contains(message),
        Expect::NotAllowed(_) => true,
        Expect::Head(status) => *status == 400 || *status == 405,
        Expect::Health | Expect::Feed | Expect::Post(_) | Expect::Created(_) => false,
        // NUL is where the stores differ, and an edge does not know the store.
        Expect::PerStore { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_corpus_has_some_hundred_requests_refused_and_not() {
        let corpus = corpus("secret");
        assert!(corpus.len() > 300, "{}", corpus.len());
        assert!(corpus.iter().filter(|entry| entry.edge_refuses).count() > 200);
        assert!(corpus.iter().filter(|entry| !entry.edge_refuses).count() > 50);
    }

    #[test]
    fn no_row_stands_twice() {
        let mut seen = HashSet::new();
        for entry in corpus("secret") {
            let key = (
                entry.name.clone(),
                entry.request.method.clone(),
                entry.request.target.clone(),
                entry.request.headers.clone(),
                entry.request.body.clone(),
            );
            assert!(seen.insert(key), "{} stands twice", entry.name);
        }
    }
}
