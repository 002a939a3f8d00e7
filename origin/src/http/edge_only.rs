//! An origin that answers nobody but its edge.

use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, Request};
use shared::ApiError;
use subtle::ConstantTimeEq;
use tower_http::validate_request::ValidateRequest;

use super::{Failure, HEALTH};
use crate::config::Secret;

const EDGE_KEY: HeaderName = HeaderName::from_static("x-edge-key");

/// Refuses a request without the key that the edge sends with each of its own.
#[derive(Clone)]
pub struct EdgeOnly {
    keys: Arc<[Secret]>,
}

impl EdgeOnly {
    pub fn new(keys: &[Secret]) -> EdgeOnly {
        EdgeOnly { keys: keys.into() }
    }

    fn admits(&self, headers: &HeaderMap) -> bool {
        let mut presented = headers.get_all(EDGE_KEY).iter();
        let (Some(key), None) = (presented.next(), presented.next()) else {
            return false;
        };
        // How long the comparison takes tells nothing of a key but its length.
        self.keys
            .iter()
            .any(|known| known.expose().ct_eq(key.as_bytes()).into())
    }
}

impl ValidateRequest<Body> for EdgeOnly {
    type ResponseBody = Body;

    fn validate(&mut self, request: &mut Request<Body>) -> Result<(), Response> {
        // Whoever watches the server has no key.
        if request.uri().path() == HEALTH || self.admits(request.headers()) {
            Ok(())
        } else {
            Err(Failure(ApiError::Forbidden).into_response())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn one_key_that_is_known_and_no_other() {
        let keys = ["now", "before"].map(|key| Secret::new(key.to_owned()));
        let edge_only = EdgeOnly::new(&keys);
        let admits = |presented: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for key in presented {
                headers.append(EDGE_KEY, HeaderValue::from_static(key));
            }
            edge_only.admits(&headers)
        };
        assert!(admits(&["now"]));
        assert!(admits(&["before"]));
        for refused in [
            &[][..],
            &[""],
            &["no"],
            &["now1"],
            &["now, before"],
            &["now", "now"],
            &["now", "x"],
        ] {
            assert!(!admits(refused), "{refused:?}");
        }
    }
}
