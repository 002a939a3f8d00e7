//! What takes more than one request to show.

use crate::check::{Check, Group};
use crate::expect::{self, Verdict};
use crate::http::{Connection, Request};
use crate::json::{self, Post};
use crate::probe::Probe;
use crate::token::{HEADER, USER_ID, USERNAME, claims, encode, unix_time};
use std::time::Duration;

/// In no dataset, and still a small number.
const UNKNOWN_USER: u64 = 999_999_999;

fn check(name: &str, run: fn(&Probe) -> Verdict) -> Check {
    Check::new(Group::Corners, name, run)
}

pub fn checks() -> Vec<Check> {
    vec![
        check(
            "HEAD has the headers of GET and no body",
            head_is_get_without_a_body,
        ),
        check(
            "a create's author is the token's, a read's the user's",
            author_of_create_and_read,
        ),
        check(
            "a create's time is its read's time, and now",
            created_at_is_now,
        ),
        check("ids rise, and the latest post is on top", ids_rise).needs_fresh_reads(),
        check(
            "32 concurrent creates keep the feed in order",
            concurrent_creates,
        )
        .needs_fresh_reads(),
        check("the feed's posts equal the single posts", feed_equals_posts).needs_fresh_reads(),
        check(
            "a like is 201, its repeats 200, and counts once",
            like_and_repeat,
        ),
        check("likes of two users count two", two_users_like),
        check(
            "16 identical likes at once: one 201, fifteen 200",
            concurrent_likes,
        ),
        check("the feed counts a like at once", feed_counts_likes).needs_fresh_reads(),
        check(
            "a like without content-length, or with a body that is no JSON",
            like_ignores_its_body,
        ),
        check(
            "a like with leading zeros is of the same post",
            like_with_leading_zeros,
        ),
        check("an unknown user cannot write", unknown_user),
        check(
            "a create may come without content-type and content-length",
            create_chunked,
        ),
        check(
            "a token that just worked is refused with another signature",
            no_verification_is_remembered,
        ),
        check(
            "a token that just worked is refused once expired",
            a_token_expires,
        ),
        check(
            "exp is exact below the second, without leeway",
            exp_below_the_second,
        ),
    ]
}

/// Headers of the connection, or of a moment, may differ.
const VOLATILE: [&str; 7] = [
    "date",
    "age",
    "cache-status",
    "connection",
    "keep-alive",
    "transfer-encoding",
    "content-length",
];

fn head_is_get_without_a_body(probe: &Probe) -> Verdict {
    for target in [
        "/health",
        "/feed",
        "/posts/1",
        "/posts/0",
        "/posts/999999999",
        "/nope",
        "/posts",
    ] {
        let mut connection = probe.connect()?;
        connection.send(Request::new("HEAD", target).bytes(&probe.base))?;
        let head = connection.receive("HEAD")?;
        // On the same connection: a body where none belongs would be taken for this response.
        connection.send(Request::get(target).bytes(&probe.base))?;
        let get = connection.receive("GET")?;
        expect::equal(&format!("status of HEAD {target}"), head.status, get.status)?;
        let stable = |headers: &[(String, String)]| {
            let kept = headers
                .iter()
                .filter(|(name, _)| !VOLATILE.contains(&name.as_str()));
            let mut kept: Vec<_> = kept.cloned().collect();
            kept.sort();
            kept
        };
        expect::equal(
            &format!("headers of HEAD {target}"),
            stable(&head.headers),
            stable(&get.headers),
        )?;
        // Health's body may have grown by a digit since.
        if target != "/health"
            && get.header("content-length").is_some()
            && head.header("content-length").is_some()
        {
            expect::equal(
                &format!("content-length of HEAD {target}"),
                head.header("content-length"),
                get.header("content-length"),
            )?;
        }
    }
    Ok(())
}

fn author_of_create_and_read(probe: &Probe) -> Verdict {
    let token = probe.signer.user(USER_ID, "another name");
    let reply = probe.send(
        &Request::post("/posts")
            .bearer(&token)
            .body("{\"body\":\"whose?\"}"),
    )?;
    expect::status(&reply, 201)?;
    let created = json::post(&reply.text())?;
    expect::equal(
        "author of the create",
        created.author.as_str(),
        "another name",
    )?;
    let expected = Post {
        author: USERNAME.into(),
        ..created.clone()
    };
    expect::equal("the post read back", probe.post(created.id)?, expected)
}

fn created_at_is_now(probe: &Probe) -> Verdict {
    let post = probe.create("now")?;
    let away_ms = (json::unix_ms(&post.created_at)? - unix_time().as_millis() as i64).abs();
    expect::that(away_ms <= 60_000, || {
        format!("created_at is {away_ms} ms away from this clock")
    })?;
    expect::equal(
        "created_at read back",
        probe.post(post.id)?.created_at,
        post.created_at,
    )
}

/// One after the other on one connection, so that several fall into one millisecond.
fn create_many(probe: &Probe, label: &str, count: usize) -> Result<Vec<u64>, String> {
    let mut connection = probe.connect()?;
    (0..count)
        .map(|i| {
            let text = format!("{label} {i}");
            let body = serde_json::json!({ "body": text }).to_string();
            connection.send(probe.create_request(body).bytes(&probe.base))?;
            expect::created(&connection.receive("POST")?, &text).map(|post| post.id)
        })
        .collect()
}

fn ids_rise(probe: &Probe) -> Verdict {
    let mut ids = create_many(probe, "rising", 25)?;
    expect::that(ids.is_sorted_by(|a, b| a < b), || {
        format!("ids do not rise: {ids:?}")
    })?;
    ids.reverse();
    let feed = probe.feed()?;
    expect::newest_first(&feed)?;
    let shown: Vec<u64> = feed.iter().map(|post| post.id).collect();
    expect::equal("ids of the feed", shown.as_slice(), &ids[..20])
}

fn concurrent_creates(probe: &Probe) -> Verdict {
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| create_many(probe, "at once", 4)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| "a client panicked"))
            .collect()
    });
    let mut ids = Vec::new();
    for result in results {
        ids.extend(result??);
    }
    ids.sort_unstable_by(|a, b| b.cmp(a));
    expect::that(ids.is_sorted_by(|a, b| a > b), || {
        format!("an id was given twice: {ids:?}")
    })?;
    let feed = probe.feed()?;
    expect::newest_first(&feed)?;
    let shown: Vec<u64> = feed.iter().map(|post| post.id).collect();
    expect::equal("ids of the feed", shown.as_slice(), &ids[..20])
}

fn feed_equals_posts(probe: &Probe) -> Verdict {
    for entry in probe.feed()? {
        expect::equal("the single post", probe.post(entry.id)?, entry)?;
    }
    Ok(())
}

fn like_and_repeat(probe: &Probe) -> Verdict {
    let post = probe.create("to be liked")?;
    let token = probe.signer.user_1();
    expect::liked(&probe.like(post.id, &token)?, post.id, false)?;
    for _ in 0..3 {
        expect::liked(&probe.like(post.id, &token)?, post.id, true)?;
    }
    expect::equal(
        "the post",
        probe.post(post.id)?,
        Post {
            like_count: 1,
            ..post
        },
    )
}

fn two_users_like(probe: &Probe) -> Verdict {
    let (other_id, other_name) = probe.other_user()?;
    let post = probe.create("liked by two")?;
    expect::liked(
        &probe.like(post.id, &probe.signer.user_1())?,
        post.id,
        false,
    )?;
    expect::liked(
        &probe.like(post.id, &probe.signer.user(other_id, &other_name))?,
        post.id,
        false,
    )?;
    expect::equal(
        "the post",
        probe.post(post.id)?,
        Post {
            like_count: 2,
            ..post
        },
    )
}

fn concurrent_likes(probe: &Probe) -> Verdict {
    let post = probe.create("liked by one, sixteen times")?;
    let request = Request::post(&format!("/posts/{}/like", post.id)).bearer(&probe.signer.user_1());
    // All are connected before the first is sent, so that they arrive together.
    let connections: Vec<Connection> =
        (0..16).map(|_| probe.connect()).collect::<Result<_, _>>()?;
    let bytes = &request.bytes(&probe.base);
    let responses: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = connections
            .into_iter()
            .map(|mut connection| {
                scope.spawn(move || {
                    connection.send(bytes)?;
                    connection.receive("POST")
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| "a client panicked"))
            .collect()
    });
    let mut statuses = Vec::new();
    for response in responses {
        let response = response??;
        expect::liked(&response, post.id, response.status == 200)?;
        statuses.push(response.status);
    }
    statuses.sort_unstable();
    let expected: Vec<u16> = [200; 15].into_iter().chain([201]).collect();
    expect::equal("statuses", statuses, expected)?;
    expect::equal("like_count", probe.post(post.id)?.like_count, 1)
}

fn feed_counts_likes(probe: &Probe) -> Verdict {
    let post = probe.create("liked in the feed")?;
    let counted = |feed: Vec<Post>| {
        feed.into_iter()
            .find(|entry| entry.id == post.id)
            .map(|entry| entry.like_count)
    };
    expect::equal("like_count in the feed", counted(probe.feed()?), Some(0))?;
    expect::liked(
        &probe.like(post.id, &probe.signer.user_1())?,
        post.id,
        false,
    )?;
    expect::equal("like_count in the feed", counted(probe.feed()?), Some(1))
}

fn like_ignores_its_body(probe: &Probe) -> Verdict {
    let post = probe.create("liked with a body")?;
    let like = || Request::post(&format!("/posts/{}/like", post.id)).bearer(&probe.signer.user_1());
    expect::liked(&probe.send(&like())?, post.id, false)?;
    for body in ["", "{bad json", "{\"liked\":false}", "\0"] {
        expect::liked(&probe.send(&like().body(body))?, post.id, true)?;
    }
    Ok(())
}

fn like_with_leading_zeros(probe: &Probe) -> Verdict {
    let post = probe.create("liked with leading zeros")?;
    let request =
        Request::post(&format!("/posts/000{}/like", post.id)).bearer(&probe.signer.user_1());
    expect::liked(&probe.send(&request)?, post.id, false)?;
    expect::liked(&probe.like(post.id, &probe.signer.user_1())?, post.id, true)
}

fn unknown_user(probe: &Probe) -> Verdict {
    let token = probe.signer.user(UNKNOWN_USER, "nobody_at_all");
    let post = probe.create("not liked by nobody")?;
    expect::error(&probe.like(post.id, &token)?, 401, "unknown user")?;
    let create = Request::post("/posts")
        .bearer(&token)
        .body("{\"body\":\"of nobody\"}");
    expect::error(&probe.send(&create)?, 401, "unknown user")?;
    // Beyond what any database holds: refused one way or the other, never a 500.
    for sub in ["9223372036854775808", "99999999999999999999999999"] {
        let token = probe
            .signer
            .sign(HEADER, claims(&[("sub", &format!("\"{sub}\""))]));
        let response = probe.like(post.id, &token)?;
        expect::error(&response, 401, "unknown user")
            .or_else(|_| expect::error(&response, 401, "invalid token payload"))?;
    }
    expect::equal("the post", probe.post(post.id)?, post)
}

fn create_chunked(probe: &Probe) -> Verdict {
    let mut connection = probe.connect()?;
    let head = Request::post("/posts")
        .bearer(&probe.signer.user_1())
        .header("Transfer-Encoding", "chunked");
    connection.send(
        [
            &head.bytes(&probe.base)[..],
            b"11\r\n{\"body\":\"chunks\"}\r\n0\r\n\r\n",
        ]
        .concat(),
    )?;
    let post = expect::created(&connection.receive("POST")?, "chunks")?;
    expect::equal("the post read back", probe.post(post.id)?, post)
}

/// How a check tells a good token without a write: the id is bad, and that is found out after the token.
fn like_abc(probe: &Probe, token: &str) -> Result<(u16, String), String> {
    let response = probe.send(&Request::post("/posts/abc/like").bearer(token))?;
    Ok((response.status, response.text()))
}

fn accepted() -> (u16, String) {
    (400, "{\"error\":\"invalid post id\"}".into())
}

fn refused() -> (u16, String) {
    (401, "{\"error\":\"invalid or expired token\"}".into())
}

fn no_verification_is_remembered(probe: &Probe) -> Verdict {
    let token = probe.signer.user_1();
    expect::equal(
        "the good token's answer",
        like_abc(probe, &token)?,
        accepted(),
    )?;
    let input = &token[..token.rfind('.').unwrap_or_default()];
    let mut signature = probe.signer.signature(input);
    signature[0] ^= 0x80;
    let forged = format!("{input}.{}", encode(signature));
    expect::equal(
        "the forged token's answer",
        like_abc(probe, &forged)?,
        refused(),
    )?;
    expect::equal(
        "the good token's answer",
        like_abc(probe, &token)?,
        accepted(),
    )
}

fn a_token_expires(probe: &Probe) -> Verdict {
    let exp = unix_time() + Duration::from_millis(1_000);
    let token = probe
        .signer
        .sign(HEADER, claims(&[("exp", &exp.as_secs_f64().to_string())]));
    expect::equal(
        "the answer before exp",
        like_abc(probe, &token)?,
        accepted(),
    )?;
    std::thread::sleep(exp.saturating_sub(unix_time()) + Duration::from_millis(20));
    expect::equal("the answer after exp", like_abc(probe, &token)?, refused())
}

/// In the middle of a second, so that a server which drops the fraction of either side is found out.
fn exp_below_the_second(probe: &Probe) -> Verdict {
    let fraction = unix_time().subsec_millis();
    let to_middle_ms = (1_500 - fraction) % 1_000;
    std::thread::sleep(Duration::from_millis(to_middle_ms.into()));
    let now = unix_time();
    let at = |exp: Duration| {
        probe
            .signer
            .sign(HEADER, claims(&[("exp", &exp.as_secs_f64().to_string())]))
    };
    let ahead = like_abc(probe, &at(now + Duration::from_millis(400)))?;
    let past = like_abc(probe, &at(now - Duration::from_millis(100)))?;
    let second = like_abc(probe, &at(Duration::from_secs(now.as_secs())))?;
    expect::equal("the answer 400 ms before exp", ahead, accepted())?;
    expect::equal("the answer 100 ms after exp", past, refused())?;
    expect::equal("the answer half a second after exp", second, refused())
}
