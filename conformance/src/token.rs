//! Tokens, good and bad, signed here from the definition of JWT: what the server thinks of them is the question.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::time::{Duration, SystemTime};

/// In every dataset user 1 has this name.
pub const USER_ID: u64 = 1;
pub const USERNAME: &str = "golden_ember_1";

pub const HEADER: &str = r#"{"alg":"HS256","typ":"JWT"}"#;

const TTL: Duration = Duration::from_secs(3600);

#[derive(Clone)]
pub struct Signer {
    secret: Vec<u8>,
}

impl Signer {
    pub fn new(secret: &str) -> Self {
        Self {
            secret: secret.as_bytes().to_vec(),
        }
    }

    pub fn signature(&self, input: &str) -> Vec<u8> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.secret).expect("HMAC takes a key of any length");
        mac.update(input.as_bytes());
        mac.finalize().into_bytes().to_vec()
    }

    /// Completes `SEGMENT.SEGMENT` with its signature, whatever the segments hold.
    pub fn complete(&self, input: &str) -> String {
        format!("{input}.{}", encode(self.signature(input)))
    }

    pub fn sign(&self, header: impl AsRef<[u8]>, claims: impl AsRef<[u8]>) -> String {
        self.complete(&format!("{}.{}", encode(header), encode(claims)))
    }

    pub fn user(&self, id: u64, username: &str) -> String {
        let sub = format!("\"{id}\"");
        let username = format!("\"{username}\"");
        self.sign(HEADER, claims(&[("sub", &sub), ("username", &username)]))
    }

    /// What most checks use.
    pub fn user_1(&self) -> String {
        self.user(USER_ID, USERNAME)
    }
}

pub fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The claims of user 1 as JSON, with members replaced or added; an empty value leaves the member out.
/// Values are raw JSON, so that they can be of the wrong type or no JSON at all.
pub fn claims(changes: &[(&str, &str)]) -> String {
    let now = unix_time().as_secs();
    let mut members = vec![
        ("sub", format!("\"{USER_ID}\"")),
        ("username", format!("\"{USERNAME}\"")),
        ("iat", now.to_string()),
        ("exp", (now + TTL.as_secs()).to_string()),
    ];
    for &(name, value) in changes {
        match members.iter_mut().find(|(n, _)| *n == name) {
            Some(member) => member.1 = value.to_owned(),
            None => members.push((name, value.to_owned())),
        }
    }
    let members: Vec<String> = members
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("\"{name}\":{value}"))
        .collect();
    format!("{{{}}}", members.join(","))
}

pub fn unix_time() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .expect("the clock stands after 1970")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_the_one_of_rfc_7515_a_1() {
        let key = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow";
        let signer = Signer {
            secret: URL_SAFE_NO_PAD.decode(key).unwrap(),
        };
        let token = signer.sign(
            "{\"typ\":\"JWT\",\r\n \"alg\":\"HS256\"}",
            "{\"iss\":\"joe\",\r\n \"exp\":1300819380,\r\n \"http://example.com/is_root\":true}",
        );
        assert!(
            token.ends_with(".dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"),
            "{token}"
        );
    }

    #[test]
    fn claims_are_replaced_added_and_left_out() {
        let text = claims(&[
            ("sub", "7"),
            ("username", ""),
            ("iat", ""),
            ("exp", "1e999"),
            ("nbf", "0"),
        ]);
        assert_eq!(text, r#"{"sub":7,"exp":1e999,"nbf":0}"#);
    }
}
