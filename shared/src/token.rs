//! Bearer tokens: JSON Web Tokens (RFC 7519) signed with HMAC-SHA256 (`HS256`), nothing else.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use sha2::Sha256;

use crate::post_id::parse_id;
use crate::{ApiError, json};

/// Longer tokens are refused unread: ours are under 300 bytes.
const MAX_TOKEN_BYTES: usize = 4_096;

const HEADER: &str = r#"{"alg":"HS256","typ":"JWT"}"#;

/// Who a verified token speaks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub id: i64,
    pub username: String,
}

/// Signs tokens, and verifies them against one secret or more (the newest first).
#[derive(Clone)]
pub struct Keys {
    /// Each secret already absorbed into both hash states, so a token costs no key set-up.
    macs: Vec<Hmac<Sha256>>,
}

impl Keys {
    pub fn new(secret: &[u8]) -> Keys {
        Keys {
            macs: vec![mac_of(secret)],
        }
    }

    /// Also accept what another secret signed: the previous one, while secrets are rotated.
    pub fn or_previous(mut self, secret: &[u8]) -> Keys {
        self.macs.push(mac_of(secret));
        self
    }

    pub fn sign(&self, user: &User, issued_at_s: i64, expires_at_s: i64) -> String {
        #[derive(Serialize)]
        struct Claims<'a> {
            sub: String,
            username: &'a str,
            iat: i64,
            exp: i64,
        }
        let claims = Claims {
            sub: user.id.to_string(),
            username: &user.username,
            iat: issued_at_s,
            exp: expires_at_s,
        };
        let claims = serde_json::to_vec(&claims).expect("a plain struct is always JSON");
        let mut token = URL_SAFE_NO_PAD.encode(HEADER);
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(claims, &mut token);
        let signature = self.macs[0]
            .clone()
            .chain_update(&token)
            .finalize()
            .into_bytes();
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        token
    }

    /// Checks the value of an `Authorization` header (`None`: there was none) at the time `now_ms`,
    /// in milliseconds since 1970.
    pub fn authenticate(
        &self,
        authorization: Option<&[u8]>,
        now_ms: i64,
    ) -> Result<User, ApiError> {
        match authorization.and_then(|value| value.strip_prefix(b"Bearer ")) {
            None | Some([]) => Err(ApiError::MissingToken),
            Some(token) => self.verify(token, now_ms),
        }
    }

    fn verify(&self, token: &[u8], now_ms: i64) -> Result<User, ApiError> {
        let claims = self.signed_claims(token).ok_or(ApiError::InvalidToken)?;
        let claims: Claims<'_> = parse_object(&claims).ok_or(ApiError::InvalidToken)?;
        if !claims.is_valid_at(now_ms).unwrap_or(false) {
            return Err(ApiError::InvalidToken);
        }
        let user = || {
            Some(User {
                id: parse_id(&json::string(claims.sub?)?)?,
                username: json::string(claims.username?)?,
            })
        };
        user().ok_or(ApiError::InvalidTokenPayload)
    }

    /// The bytes of a token's claims, once signature, structure and algorithm are good.
    fn signed_claims(&self, token: &[u8]) -> Option<Vec<u8>> {
        if token.len() > MAX_TOKEN_BYTES {
            return None;
        }
        let mut dots = token
            .iter()
            .enumerate()
            .filter(|&(_, &byte)| byte == b'.')
            .map(|(at, _)| at);
        let (first, second) = (dots.next()?, dots.next()?);
        if dots.next().is_some() {
            return None;
        }

        // The signature first: nothing that a stranger wrote is parsed before it.
        let mut signature = [0; 33];
        let length = URL_SAFE_NO_PAD
            .decode_slice(&token[second + 1..], &mut signature)
            .ok()?;
        let signed = &token[..second];
        // `verify_slice` compares in constant time and refuses another length.
        let signed_by = |mac: &Hmac<Sha256>| {
            mac.clone()
                .chain_update(signed)
                .verify_slice(&signature[..length])
                .is_ok()
        };
        if !self.macs.iter().any(signed_by) {
            return None;
        }

        let header = URL_SAFE_NO_PAD.decode(&token[..first]).ok()?;
        let header: Header<'_> = parse_object(&header)?;
        // RFC 7515, section 4.1.11: an extension that is not understood refuses the token.
        if json::string(header.alg)? != "HS256" || header.crit.is_some() {
            return None;
        }
        URL_SAFE_NO_PAD.decode(&token[first + 1..second]).ok()
    }
}

fn mac_of(secret: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(secret).expect("HMAC takes a key of any length")
}

/// Values stay as they stand: what is not looked at may be any JSON.
#[derive(Deserialize)]
struct Header<'a> {
    #[serde(borrow)]
    alg: &'a RawValue,
    #[serde(borrow, default, deserialize_with = "present")]
    crit: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Claims<'a> {
    #[serde(borrow)]
    exp: &'a RawValue,
    #[serde(borrow, default, deserialize_with = "present")]
    nbf: Option<&'a RawValue>,
    #[serde(borrow)]
    sub: Option<&'a RawValue>,
    #[serde(borrow)]
    username: Option<&'a RawValue>,
}

impl Claims<'_> {
    /// `None`: a time is not a finite number.
    fn is_valid_at(&self, now_ms: i64) -> Option<bool> {
        let seconds = |value: &RawValue| serde_json::from_str::<f64>(value.get()).ok();
        let now_s = now_ms as f64 / 1_000.0;
        let begun = match self.nbf {
            None => true,
            Some(nbf) => seconds(nbf)? <= now_s,
        };
        Some(begun && seconds(self.exp)? > now_s)
    }
}

/// Tells `"nbf":null` (a wrong type) from no `nbf` at all.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// A struct out of a JSON object; serde would read one out of an array, too.
fn parse_object<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<T> {
    let document = json::parse_document(bytes)?;
    document
        .starts_with('{')
        .then(|| serde_json::from_str(document).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: i64 = 1_800_000_000_500;
    const NOW_S: i64 = 1_800_000_000;

    fn keys() -> Keys {
        Keys::new(b"a secret")
    }

    fn raw_token(header: &str, claims: impl AsRef<[u8]>) -> String {
        let signed = format!(
            "{}.{}",
            URL_SAFE_NO_PAD.encode(header),
            URL_SAFE_NO_PAD.encode(claims)
        );
        let signature = mac_of(b"a secret")
            .chain_update(&signed)
            .finalize()
            .into_bytes();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    fn check(token: &str) -> Result<User, ApiError> {
        keys().authenticate(Some(format!("Bearer {token}").as_bytes()), NOW_MS)
    }

    fn ada() -> User {
        User {
            id: 7,
            username: "ada".to_owned(),
        }
    }

    #[test]
    fn what_is_signed_verifies_until_it_expires() {
        let token = keys().sign(&ada(), NOW_S, NOW_S + 60);
        assert_eq!(check(&token), Ok(ada()));
        let at = |now_ms| keys().authenticate(Some(format!("Bearer {token}").as_bytes()), now_ms);
        assert_eq!(at((NOW_S + 60) * 1_000 - 1), Ok(ada()));
        assert_eq!(at((NOW_S + 60) * 1_000), Err(ApiError::InvalidToken));
    }

    #[test]
    fn the_scheme_is_bearer_and_one_space() {
        let token = keys().sign(&ada(), NOW_S, NOW_S + 60);
        for header in [
            format!("bearer {token}"),
            format!("Bearer{token}"),
            "Basic YTpi".into(),
            "Bearer ".into(),
            "Bearer".into(),
            String::new(),
        ] {
            assert_eq!(
                keys().authenticate(Some(header.as_bytes()), NOW_MS),
                Err(ApiError::MissingToken),
                "{header}"
            );
        }
        assert_eq!(
            keys().authenticate(None, NOW_MS),
            Err(ApiError::MissingToken)
        );
        assert_eq!(check(&format!(" {token}")), Err(ApiError::InvalidToken));
    }

    #[test]
    fn a_previous_secret_is_accepted_and_the_new_one_signs() {
        let old = keys();
        let new = Keys::new(b"another").or_previous(b"a secret");
        let header = |keys: &Keys| format!("Bearer {}", keys.sign(&ada(), NOW_S, NOW_S + 60));
        assert_eq!(
            new.authenticate(Some(header(&old).as_bytes()), NOW_MS),
            Ok(ada())
        );
        assert_eq!(
            new.authenticate(Some(header(&new).as_bytes()), NOW_MS),
            Ok(ada())
        );
        assert_eq!(
            old.authenticate(Some(header(&new).as_bytes()), NOW_MS),
            Err(ApiError::InvalidToken)
        );
    }

    #[test]
    fn any_changed_or_missing_part_is_refused() {
        let token = keys().sign(&ada(), NOW_S, NOW_S + 60);
        for at in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(
                check(&String::from_utf8(changed).unwrap()),
                Err(ApiError::InvalidToken),
                "byte {at}"
            );
            assert_eq!(
                check(&token[..at]),
                Err(if at == 0 {
                    ApiError::MissingToken
                } else {
                    ApiError::InvalidToken
                })
            );
        }
        for bad in [
            format!("{token}="),
            format!("{token}."),
            format!("{token}.e30"),
            format!(".{token}"),
            "a.b".into(),
            "..".into(),
            "x".repeat(5_000),
        ] {
            assert_eq!(check(&bad), Err(ApiError::InvalidToken), "{bad}");
        }
    }

    #[test]
    fn only_hs256_with_sound_times_passes() {
        let good_claims = r#"{"sub":"7","username":"ada","exp":1800000060}"#;
        for header in [
            r#"{"alg":"none"}"#,
            r#"{"alg":"HS512"}"#,
            r#"{"alg":"hs256"}"#,
            r#"{"typ":"JWT"}"#,
            "[]",
            r#"["HS256",null]"#,
            "{",
            r#"{"alg":"HS256","crit":["x"]}"#,
            r#"{"alg":["HS256"]}"#,
        ] {
            assert_eq!(
                check(&raw_token(header, good_claims)),
                Err(ApiError::InvalidToken),
                "{header}"
            );
        }
        for times in [
            r#""exp":1800000000.5"#,
            r#""exp":1800000000"#,
            r#""exp":"1800000060""#,
            r#""exp":null"#,
            r#""exp":1e999"#,
            r#""iat":1"#,
            r#""exp":1800000060,"nbf":1800000001"#,
            r#""exp":1800000060,"nbf":"0""#,
            r#""exp":1800000060,"nbf":null"#,
        ] {
            let claims = format!(r#"{{"sub":7,"username":"ada",{times}}}"#);
            assert_eq!(
                check(&raw_token(HEADER, &claims)),
                Err(ApiError::InvalidToken),
                "{claims}"
            );
        }
        for times in [
            r#""exp":1800000000.501"#,
            r#""exp":1e300"#,
            r#""exp":1800000060,"nbf":1800000000.5"#,
            r#""exp":1800000060,"iat":"odd""#,
        ] {
            let claims = format!(r#"{{"sub":"7","username":"ada",{times}}}"#);
            assert_eq!(check(&raw_token(HEADER, &claims)), Ok(ada()), "{claims}");
        }
    }

    #[test]
    fn claims_are_one_object_of_sound_json() {
        for claims in [
            r#"[1800000060,null,"7","ada"]"#.as_bytes(),
            b"{\"sub\":\"7\",\"username\":\"ada\",\"exp\":1800000060,\"y\":\"\xc0\x80\"}",
            br#"{"sub":"7","username":"ada","exp":1800000060,"y":["\udc00"]}"#,
            br#"{"sub":"7","username":"ada","exp":1800000060} x"#,
        ] {
            assert_eq!(
                check(&raw_token(HEADER, claims)),
                Err(ApiError::InvalidToken)
            );
        }
    }

    #[test]
    fn a_sound_token_with_odd_claims_has_an_error_of_its_own() {
        for claims in [
            r#""sub":7,"username":"ada""#,
            r#""sub":"abc","username":"ada""#,
            r#""sub":"0","username":"ada""#,
            r#""sub":"-7","username":"ada""#,
            r#""sub":"7.0","username":"ada""#,
            r#""sub":"","username":"ada""#,
            r#""sub":null,"username":"ada""#,
            r#""username":"ada""#,
            r#""sub":"7""#,
            r#""sub":"7","username":null"#,
            r#""sub":"7","username":1"#,
            r#""sub":"7","username":1e999"#,
            r#""sub":1e999,"username":"ada""#,
            r#""sub":[[[]]],"username":"ada""#,
        ] {
            let token = raw_token(HEADER, format!(r#"{{{claims},"exp":1800000060}}"#));
            assert_eq!(
                check(&token),
                Err(ApiError::InvalidTokenPayload),
                "{claims}"
            );
        }
    }
}
