//! Every status and every message of the API, once.

use std::fmt;

macro_rules! api_errors {
    ($($(#[$doc:meta])* $name:ident = $status:literal $message:literal;)+) => {
        /// Why a request was refused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ApiError {
            $($(#[$doc])* $name,)+
        }

        impl ApiError {
            pub const ALL: &[ApiError] = &[$(ApiError::$name,)+];

            /// The HTTP status code.
            pub const fn status(self) -> u16 {
                match self { $(ApiError::$name => $status,)+ }
            }

            pub const fn message(self) -> &'static str {
                match self { $(ApiError::$name => $message,)+ }
            }

            /// The whole response body: `{"error":"<message>"}`.
            pub const fn json(self) -> &'static str {
                match self { $(ApiError::$name => concat!("{\"error\":\"", $message, "\"}"),)+ }
            }
        }
    };
}

api_errors! {
    /// The connection layer could not make sense of the request (RFC 9112, sections 2.2 and 6.3).
    BadRequest = 400 "bad request";
    InvalidPostId = 400 "invalid post id";
    MalformedJson = 400 "malformed JSON body";
    BodyRequired = 400 "body is required";
    BodyTooLong = 400 "body must be at most 500 characters";
    /// PostgreSQL cannot store U+0000 in text.
    BodyContainsNul = 400 "body must not contain NUL";
    MissingToken = 401 "missing bearer token";
    InvalidToken = 401 "invalid or expired token";
    InvalidTokenPayload = 401 "invalid token payload";
    /// The token is good, but nobody of that id is in `users`.
    UnknownUser = 401 "unknown user";
    /// The origin serves only its edge, and this was not the edge.
    Forbidden = 403 "forbidden";
    NotFound = 404 "not found";
    PostNotFound = 404 "post not found";
    MethodNotAllowed = 405 "method not allowed";
    RequestTimedOut = 408 "request timed out";
    RequestBodyTooLarge = 413 "request body too large";
    RequestHeadTooLarge = 431 "request head too large";
    Internal = 500 "internal server error";
    /// The edge reached no origin and holds nothing it may still serve.
    OriginUnreachable = 502 "origin unreachable";
    /// A bounded queue is full: refused at once rather than queued for ever.
    Overloaded = 503 "overloaded";
    /// The store's server is away; the origin keeps trying.
    DatabaseUnavailable = 503 "database unavailable";
    OriginTimedOut = 504 "origin timed out";
}

impl ApiError {
    /// Seconds for `Retry-After`, for the errors that pass by themselves.
    pub const fn retry_after_s(self) -> Option<u32> {
        match self {
            ApiError::Overloaded | ApiError::DatabaseUnavailable => Some(1),
            _ => None,
        }
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for ApiError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_is_the_message_as_json() {
        for error in ApiError::ALL {
            let body: serde_json::Value = serde_json::from_str(error.json()).unwrap();
            assert_eq!(body, serde_json::json!({ "error": error.message() }));
            assert!((400..600).contains(&error.status()));
        }
    }
}
