//! The server under test, as the checks see it.

use crate::expect;
use crate::http::{BaseUrl, Connection, Request, Response};
use crate::json::{self, Post};
use crate::token::{self, Signer};
use std::time::Duration;

/// Which database the server keeps: the contract differs in what becomes of U+0000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Store {
    Sqlite,
    Postgres,
}

pub struct Probe {
    pub base: BaseUrl,
    pub signer: Signer,
    /// `None`: either store's behaviour is right.
    pub store: Option<Store>,
    pub head_timeout: Duration,
    pub body_timeout: Duration,
}

impl Probe {
    pub fn connect(&self) -> Result<Connection, String> {
        Connection::open(&self.base)
    }

    /// Sends on a connection of its own: what one request leaves behind must not decide the next check.
    pub fn send(&self, request: &Request) -> Result<Response, String> {
        let mut connection = self.connect()?;
        connection.send_some(request.bytes(&self.base));
        connection.receive(&request.method)
    }

    pub fn get(&self, target: &str) -> Result<Response, String> {
        self.send(&Request::get(target))
    }

    pub fn feed(&self) -> Result<Vec<Post>, String> {
        let response = self.get("/feed")?;
        expect::status(&response, 200)?;
        json::feed(&response.text())
    }

    pub fn post(&self, id: u64) -> Result<Post, String> {
        let response = self.get(&format!("/posts/{id}"))?;
        expect::status(&response, 200)?;
        json::post(&response.text())
    }

    pub fn create_request(&self, body_json: impl AsRef<[u8]>) -> Request {
        create_request(&self.signer, body_json)
    }

    /// A new post of user 1.
    pub fn create(&self, text: &str) -> Result<Post, String> {
        let body = serde_json::json!({ "body": text }).to_string();
        expect::created(&self.send(&self.create_request(body))?, text)
    }

    pub fn like(&self, post_id: u64, token: &str) -> Result<Response, String> {
        self.send(&Request::post(&format!("/posts/{post_id}/like")).bearer(token))
    }

    /// A user other than user 1. Usernames end in the user's id.
    pub fn other_user(&self) -> Result<(u64, String), String> {
        for id in 1..=50 {
            let author = self.post(id)?.author;
            let user_id = author
                .rsplit('_')
                .next()
                .and_then(|digits| digits.parse().ok());
            if let Some(user_id) = user_id.filter(|&user_id| user_id != token::USER_ID) {
                return Ok((user_id, author));
            }
        }
        Err("the posts 1 to 50 are all of user 1: not a dataset of this project".into())
    }
}

pub fn create_request(signer: &Signer, body_json: impl AsRef<[u8]>) -> Request {
    Request::post("/posts")
        .bearer(&signer.user_1())
        .header("Content-Type", "application/json")
        .body(body_json)
}
