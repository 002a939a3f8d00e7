//! `Authorization`, and everything that can be wrong with a token.

use crate::case::{Case, Expect};
use crate::http::Request;
use crate::token::{HEADER, Signer, claims, encode, unix_time};

const MISSING: Expect = Expect::Error(401, "missing bearer token");
const INVALID: Expect = Expect::Error(401, "invalid or expired token");
const PAYLOAD: Expect = Expect::Error(401, "invalid token payload");
/// How an accepted token shows without a write: the check after the token's fails.
const ACCEPTED: Expect = Expect::Error(400, "invalid post id");

pub fn cases(signer: &Signer) -> Vec<Case> {
    let mut cases = authorization(signer);
    cases.extend(structure(signer));
    cases.extend(headers(signer));
    cases.extend(times(signer));
    cases.extend(subjects(signer));
    cases.extend(order(signer));
    cases
}

fn like_abc() -> Request {
    Request::post("/posts/abc/like")
}

/// Sent both as a like with a bad id and as a create with a bad body: the token is checked first.
fn refused(name: impl Into<String>, authorization: Option<&[u8]>, expect: Expect) -> Case {
    let requests = [like_abc(), Request::post("/posts").body("{bad json")]
        .map(|request| match authorization {
            Some(value) => request.header("Authorization", value),
            None => request,
        })
        .into();
    Case::each(name, requests, expect)
}

fn refused_token(name: impl Into<String>, token: &str, expect: Expect) -> Case {
    refused(name, Some(format!("Bearer {token}").as_bytes()), expect)
}

fn accepted(name: impl Into<String>, token: &str) -> Case {
    Case::new(name, like_abc().bearer(token), ACCEPTED)
}

fn authorization(signer: &Signer) -> Vec<Case> {
    let token = signer.user_1();
    let mut cases = vec![refused("no Authorization", None, MISSING)];
    for (name, value) in [
        ("Authorization empty", String::new()),
        ("Authorization is the bare token", token.clone()),
        ("Bearer alone", "Bearer".into()),
        ("Bearer and a space alone", "Bearer ".into()),
        ("bearer in lower case", format!("bearer {token}")),
        ("BEARER in upper case", format!("BEARER {token}")),
        ("Bearer without a space", format!("Bearer{token}")),
        ("Bearer and a tab", format!("Bearer\t{token}")),
        ("Bearer and a colon", format!("Bearer: {token}")),
        ("Basic", "Basic dXNlcjpwYXNz".into()),
        ("Token", format!("Token {token}")),
        (
            "another scheme that ends in Bearer",
            format!("XBearer {token}"),
        ),
    ] {
        cases.push(refused(name, Some(value.as_bytes()), MISSING));
    }
    for (name, value) in [
        (
            "Bearer and two spaces",
            format!("Bearer  {token}").into_bytes(),
        ),
        (
            "a word after the token",
            format!("Bearer {token} x").into_bytes(),
        ),
        (
            "a comma after the token",
            format!("Bearer {token},").into_bytes(),
        ),
        ("a quoted token", format!("Bearer \"{token}\"").into_bytes()),
        (
            "a token of bytes that are no ASCII",
            b"Bearer \xff\xfe.\xc3\xa9.\x80".to_vec(),
        ),
    ] {
        cases.push(refused(name, Some(&value), INVALID));
    }
    for (name, value) in [
        ("no token at all", "Bearer x"),
        ("another scheme", "Basic x"),
        ("good", &format!("Bearer {token}")),
    ] {
        let get = |target: &str| Request::get(target).header("Authorization", value);
        cases.push(Case::new(
            format!("a read asks for no token, this one is {name}: feed"),
            get("/feed"),
            Expect::Feed,
        ));
        cases.push(Case::new(
            format!("a read asks for no token, this one is {name}: post"),
            get("/posts/1"),
            Expect::Post(1),
        ));
    }
    cases.push(accepted("a good token", &token));
    cases.push(Case::new(
        "the name Authorization in any case",
        like_abc().header("aUTHORIZATION", format!("Bearer {token}")),
        ACCEPTED,
    ));
    cases.push(Case::new(
        "blanks around the value belong to HTTP",
        like_abc().header("Authorization", format!("  Bearer {token} \t")),
        ACCEPTED,
    ));
    cases
}

fn structure(signer: &Signer) -> Vec<Case> {
    let token = signer.user_1();
    let [head, body, signature] = segments(&token);
    let raw = signer.signature(&format!("{head}.{body}"));
    let mut flipped = raw.clone();
    flipped[31] ^= 1;
    let mut longer = raw.clone();
    longer.push(0);
    let other = signer.sign(HEADER, claims(&[("iat", "1")]));
    let signed = |head: &str, body: &str| signer.complete(&format!("{head}.{body}"));
    let mut cases = Vec::new();
    for (name, token) in [
        ("garbage", "garbage".to_owned()),
        ("one segment", head.to_owned()),
        ("two segments", format!("{head}.{body}")),
        ("four segments", format!("{token}.{signature}")),
        ("four segments, the last empty", format!("{token}.")),
        ("four segments, the first empty", format!(".{token}")),
        (
            "five segments, as of an encrypted token",
            format!("{token}.{body}.{signature}"),
        ),
        ("dots alone", "..".into()),
        ("no signature", format!("{head}.{body}.")),
        ("no claims", signed(head, "")),
        ("no header", signed("", body)),
        (
            "one bit of the signature flipped",
            format!("{head}.{body}.{}", encode(&flipped)),
        ),
        (
            "a signature one byte short",
            format!("{head}.{body}.{}", encode(&raw[..31])),
        ),
        (
            "a signature one byte long",
            format!("{head}.{body}.{}", encode(&longer)),
        ),
        (
            "a signature of 41 bytes",
            format!("{head}.{body}.{}", encode([7; 41])),
        ),
        (
            "a signature of zeros",
            format!("{head}.{body}.{}", encode([0; 32])),
        ),
        ("a signature in hex", format!("{head}.{body}.{}", hex(&raw))),
        (
            "the signature of another token",
            format!("{head}.{body}.{}", segments(&other)[2]),
        ),
        (
            "the claims of another token",
            format!("{head}.{}.{signature}", segments(&other)[1]),
        ),
        ("another secret", Signer::new("another secret").user_1()),
        ("an empty secret", Signer::new("").user_1()),
        ("a padded signature", format!("{token}=")),
        ("padded claims", signed(head, &padded(body))),
        ("a padded header", signed(&padded(head), body)),
        (
            "a signature in the standard alphabet",
            standard_alphabet(signer),
        ),
        ("claims that are no base64url", signed(head, "!!!!")),
        ("a header that is no base64url", signed("####", body)),
        (
            "claims of an impossible length",
            signed(head, &format!("{body}{}", "A".repeat(5 - body.len() % 4))),
        ),
        ("5,000 characters", "a".repeat(5_000)),
    ] {
        cases.push(refused_token(format!("a token: {name}"), &token, INVALID));
    }
    for (name, claims) in [
        ("that are no JSON", &b"not json"[..]),
        ("that are empty JSON text", b" "),
        ("that are an array", b"[]"),
        (
            "that are an array of their values",
            b"[9999999999,0,\"1\",\"golden_ember_1\"]",
        ),
        ("that are a string", b"\"x\""),
        ("that are null", b"null"),
        ("that are a number", b"1"),
        (
            "that have no end",
            b"{\"sub\":\"1\",\"username\":\"x\",\"exp\":9999999999",
        ),
        (
            "with bytes behind them",
            b"{\"sub\":\"1\",\"username\":\"x\",\"exp\":9999999999}x",
        ),
        (
            "with invalid UTF-8",
            b"{\"sub\":\"1\",\"username\":\"\xff\",\"exp\":9999999999}",
        ),
        (
            "with invalid UTF-8 in another member",
            b"{\"sub\":\"1\",\"username\":\"x\",\"exp\":9999999999,\"y\":\"\xc0\x80\"}",
        ),
        (
            "with a lone surrogate in another member",
            b"{\"sub\":\"1\",\"username\":\"x\",\"exp\":9999999999,\"y\":[\"\\udc00\"]}",
        ),
        (
            "with a fault in another member",
            b"{\"sub\":\"1\",\"username\":\"x\",\"exp\":9999999999,\"y\":[01]}",
        ),
        (
            "with a lone surrogate",
            b"{\"sub\":\"1\",\"username\":\"\\ud800\",\"exp\":9999999999}",
        ),
    ] {
        cases.push(refused_token(
            format!("claims {name}"),
            &signer.sign(HEADER, claims),
            INVALID,
        ));
    }
    let extra = claims(&[
        ("admin", "true"),
        ("nested", "{\"exp\":[1e999,null]}"),
        ("aud", "[\"x\"]"),
    ]);
    cases.push(accepted(
        "claims with other members",
        &signer.sign(HEADER, extra),
    ));
    let spaced = claims(&[]).replace(',', " ,\r\n\t").replace(':', " : ");
    cases.push(accepted(
        "claims with white space",
        &signer.sign(HEADER, spaced),
    ));
    cases
}

fn headers(signer: &Signer) -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, header) in [
        ("alg none", r#"{"alg":"none"}"#),
        ("alg None", r#"{"alg":"None"}"#),
        ("alg empty", r#"{"alg":""}"#),
        ("alg hs256 in lower case", r#"{"alg":"hs256"}"#),
        ("alg HS256 and a space", r#"{"alg":"HS256 "}"#),
        ("alg HS384", r#"{"alg":"HS384"}"#),
        ("alg HS512", r#"{"alg":"HS512"}"#),
        ("alg RS256", r#"{"alg":"RS256"}"#),
        ("alg ES256", r#"{"alg":"ES256"}"#),
        ("no alg", r#"{"typ":"JWT"}"#),
        ("Alg", r#"{"Alg":"HS256"}"#),
        ("alg null", r#"{"alg":null}"#),
        ("alg a number", r#"{"alg":256}"#),
        ("alg an array", r#"{"alg":["HS256"]}"#),
        ("an array", r#"["alg","HS256"]"#),
        ("an array of its value", r#"["HS256"]"#),
        ("an array of its value and null", r#"["HS256",null]"#),
        ("a string", r#""HS256""#),
        ("no JSON", "HS256"),
        ("bytes behind it", r#"{"alg":"HS256"}x"#),
    ] {
        cases.push(refused_token(
            format!("a token's header: {name}"),
            &signer.sign(header, claims(&[])),
            INVALID,
        ));
    }
    let unsigned = format!("{}.{}.", encode(r#"{"alg":"none"}"#), encode(claims(&[])));
    cases.push(refused_token(
        "alg none without a signature",
        &unsigned,
        INVALID,
    ));
    for (name, header) in [
        ("alg alone", r#"{"alg":"HS256"}"#),
        ("other members", r#"{"kid":"k1","alg":"HS256","x":[1,{}]}"#),
        ("an escape in alg", r#"{"alg":"HS\u003256"}"#),
        ("white space", " { \"alg\" : \"HS256\" } "),
    ] {
        cases.push(accepted(
            format!("a good header: {name}"),
            &signer.sign(header, claims(&[])),
        ));
    }
    cases
}

fn times(signer: &Signer) -> Vec<Case> {
    let now = unix_time().as_secs();
    let (past, hour_ahead) = ((now - 1).to_string(), (now + 3600).to_string());
    let token = |name: &str, value: &str| signer.sign(HEADER, claims(&[(name, value)]));
    let mut cases = Vec::new();
    let hour_ahead_string = format!("\"{hour_ahead}\"");
    for (claim, values) in [
        (
            "exp",
            &[
                "",
                "null",
                "true",
                "{}",
                "[9999999999]",
                "\"x\"",
                hour_ahead_string.as_str(),
                past.as_str(),
                "0",
                "-1",
                "-9999999999",
                "1e9",
                "1e999",
                "-1e999",
            ][..],
        ),
        (
            "nbf",
            &[
                "null",
                "true",
                "{}",
                "\"0\"",
                "\"x\"",
                hour_ahead.as_str(),
                "1e300",
                "1e999",
            ],
        ),
    ] {
        for value in values {
            let shown = if value.is_empty() {
                "absent".into()
            } else {
                readable(value, now)
            };
            cases.push(refused_token(
                format!("{claim} {shown}"),
                &token(claim, value),
                INVALID,
            ));
        }
    }
    let fraction = format!("{hour_ahead}.75");
    for (claim, values) in [
        (
            "exp",
            &[
                hour_ahead.as_str(),
                fraction.as_str(),
                "9999999999",
                "9.9e10",
                "1e15",
                "1e300",
                "9007199254740993",
            ][..],
        ),
        ("nbf", &[past.as_str(), "0", "-1", "0.5", "1e3"]),
        (
            "iat",
            &[
                "",
                "null",
                "\"x\"",
                "[]",
                "0",
                "-1",
                hour_ahead.as_str(),
                "1e999",
            ],
        ),
    ] {
        for value in values {
            let shown = if value.is_empty() {
                "absent".into()
            } else {
                readable(value, now)
            };
            cases.push(accepted(
                format!("{claim} {shown} is good"),
                &token(claim, value),
            ));
        }
    }
    cases
}

fn subjects(signer: &Signer) -> Vec<Case> {
    let token = |name: &str, value: &str| signer.sign(HEADER, claims(&[(name, value)]));
    let mut cases = Vec::new();
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let subs = [
        "",
        "null",
        "1",
        "1.5",
        "true",
        "[\"1\"]",
        "{}",
        "\"\"",
        "\"0\"",
        "\"-1\"",
        "\"+1\"",
        "\"1.5\"",
        "\"1.0\"",
        "\"1e3\"",
        "\"0x1\"",
        "\"abc\"",
        "\"1abc\"",
        "\" 1\"",
        "\"1 \"",
        "\"1\\n\"",
        "\"1\\u0000\"",
        "\"\u{0661}\"",
        "1e999",
        deep.as_str(),
    ];
    for (claim, values) in [
        ("sub", &subs[..]),
        ("username", &["", "null", "1", "1e999", "true", "[]", "{}"]),
    ] {
        for value in values {
            let shown = match *value {
                "" => "absent",
                deep if deep.starts_with("[[") => "200 nested arrays",
                value => value,
            };
            cases.push(refused_token(
                format!("{claim} {shown}"),
                &token(claim, value),
                PAYLOAD,
            ));
        }
    }
    cases.push(accepted(
        "sub with an escape is good",
        &token("sub", "\"\\u0031\""),
    ));
    cases.push(accepted(
        "a username in any script is good",
        &token("username", "\"日本 \\ud83d\\ude00\""),
    ));
    cases
}

/// A claim's type is looked at only when everything else holds.
fn order(signer: &Signer) -> Vec<Case> {
    let bad_sub = ("sub", "\"abc\"");
    let past = (unix_time().as_secs() - 1).to_string();
    vec![
        refused_token(
            "a bad signature comes before a bad sub",
            &Signer::new("another secret").sign(HEADER, claims(&[bad_sub])),
            INVALID,
        ),
        refused_token(
            "alg comes before a bad sub",
            &signer.sign(r#"{"alg":"HS512"}"#, claims(&[bad_sub])),
            INVALID,
        ),
        refused_token(
            "exp comes before a bad sub",
            &signer.sign(HEADER, claims(&[bad_sub, ("exp", &past)])),
            INVALID,
        ),
        refused_token(
            "nbf comes before no username",
            &signer.sign(HEADER, claims(&[("username", ""), ("nbf", "9999999999")])),
            INVALID,
        ),
    ]
}

fn segments(token: &str) -> [&str; 3] {
    let mut segments = token.split('.');
    [(); 3].map(|()| segments.next().expect("a signed token has three segments"))
}

fn padded(segment: &str) -> String {
    // Where no padding is due, one more `=` is just as wrong.
    let due = (4 - segment.len() % 4) % 4;
    format!("{segment}{}", "=".repeat(due.max(1)))
}

/// A good token, but for `+` and `/` in its signature where `-` and `_` belong.
fn standard_alphabet(signer: &Signer) -> String {
    (0..)
        .map(|iat: u32| signer.sign(HEADER, claims(&[("iat", &iat.to_string())])))
        .map(|token| {
            let at = token.rfind('.').map_or(0, |dot| dot + 1);
            let standard = token[at..].replace('-', "+").replace('_', "/");
            (
                standard != token[at..],
                format!("{}{standard}", &token[..at]),
            )
        })
        .find_map(|(differs, token)| differs.then_some(token))
        .expect("some signature has a - or _")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Times relative to now keep a check's name the same from run to run.
fn readable(value: &str, now: u64) -> String {
    value
        .replace(&(now - 1).to_string(), "NOW-1")
        .replace(&(now + 3600).to_string(), "NOW+3600")
}
