//! Checks any server against the wire contract of the social feed API, from outside and with nothing but sockets.
//!
//! Three groups: `challenge`, the 42 checks of the $12 Server Challenge, once, on a freshly seeded full dataset; `corners`,
//! every row and sentence of the contract; `sockets`, what a server makes of bytes that no polite client sends.
//! The last two can be repeated on any dataset: they write what they need.

mod case;
mod challenge;
mod check;
mod corners;
mod corpus;
mod expect;
mod http;
mod json;
mod probe;
mod sockets;
mod token;

pub use check::{Dataset, Group, Options, Report, list, run};
pub use corpus::{Compare, Entry, corpus};
pub use http::{BaseUrl, Connection, Request, Response};
pub use json::shape;
pub use probe::Store;
pub use token::{HEADER, Signer, USER_ID, USERNAME, claims};
