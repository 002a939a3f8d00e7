//! Good requests, cut in any place, packed together, or read slowly.

use super::{check, create_head, created_on, get, serves_on};
use crate::check::Check;
use crate::expect::{self, Verdict};
use crate::http::Request;
use crate::json::{self, Post};
use crate::probe::Probe;
use std::io::Write;
use std::time::Duration;

pub fn checks() -> Vec<Check> {
    vec![
        check("a GET one byte at a time", get_byte_by_byte),
        check("a create one byte at a time", create_byte_by_byte),
        check("a create's body split anywhere", body_split_anywhere),
        check("a head split anywhere", head_split_anywhere),
        check("200 requests on one connection", many_on_one_connection),
        check(
            "1,000 pipelined requests to a slow reader, answered in order",
            slow_reader,
        ),
        check(
            "a like and a GET in one packet: the GET sees the like",
            like_and_get,
        ),
        check(
            "a create and a feed in one packet: the feed sees the post",
            create_and_feed,
        ),
        check(
            "20 creates and a feed in one packet, all seen in order",
            creates_and_feed,
        ),
        check("a GET, a bad create, a GET in one packet", error_between),
        check(
            "empty lines before a request are skipped",
            empty_lines_before,
        ),
        check("a half-closed client still gets its answer", half_closed),
    ]
}

/// Long enough for the kernel to hand the piece over before the next.
const PAUSE: Duration = Duration::from_micros(500);

fn byte_by_byte(probe: &Probe, bytes: &[u8]) -> Result<crate::http::Connection, String> {
    let mut connection = probe.connect()?;
    for byte in bytes {
        connection.send([*byte])?;
        std::thread::sleep(PAUSE);
    }
    Ok(connection)
}

fn get_byte_by_byte(probe: &Probe) -> Verdict {
    let mut connection = byte_by_byte(probe, &get(probe, "/posts/1"))?;
    expect::post(&connection.receive("GET")?, 1)?;
    serves_on(probe, &mut connection)
}

fn create_byte_by_byte(probe: &Probe) -> Verdict {
    let text = "byte by byte: é€😀";
    let request = probe.create_request(serde_json::json!({ "body": text }).to_string());
    let mut connection = byte_by_byte(probe, &request.bytes(&probe.base))?;
    created_on(probe, &mut connection, text)?;
    serves_on(probe, &mut connection)
}

fn body_split_anywhere(probe: &Probe) -> Verdict {
    let body = "{\"body\":\"split é€😀 \\u00e9\"}".as_bytes();
    let head = format!(
        "{}Content-Length: {}\r\n\r\n",
        create_head(probe),
        body.len()
    );
    let mut connection = probe.connect()?;
    for at in 0..=body.len() {
        connection.send([head.as_bytes(), &body[..at]].concat())?;
        std::thread::sleep(Duration::from_millis(3));
        connection.send(&body[at..])?;
        let response = connection.receive("POST")?;
        expect::created(&response, "split é€😀 é")
            .map_err(|e| format!("split after byte {at}: {e}"))?;
    }
    Ok(())
}

fn head_split_anywhere(probe: &Probe) -> Verdict {
    let request = get(probe, "/posts/1");
    let mut connection = probe.connect()?;
    for at in 1..request.len() {
        connection.send(&request[..at])?;
        std::thread::sleep(Duration::from_millis(2));
        connection.send(&request[at..])?;
        let response = connection.receive("GET")?;
        expect::post(&response, 1).map_err(|e| format!("split after byte {at}: {e}"))?;
    }
    Ok(())
}

fn many_on_one_connection(probe: &Probe) -> Verdict {
    let mut connection = probe.connect()?;
    for i in 0..200 {
        serves_on(probe, &mut connection).map_err(|e| format!("request {i}: {e}"))?;
    }
    Ok(())
}

fn slow_reader(probe: &Probe) -> Verdict {
    const REQUESTS: usize = 1_000;
    let ids: Vec<u64> = probe.feed()?.iter().map(|post| post.id).collect();
    // Every other answer is a feed of some kilobytes, so that they overflow every socket buffer; the posts between show the order.
    let id_of = |i: usize| ids[i / 2 % ids.len()];
    let mut bytes = Vec::new();
    for i in 0..REQUESTS {
        let target = if i % 2 == 0 {
            "/feed".into()
        } else {
            format!("/posts/{}", id_of(i))
        };
        bytes.extend(get(probe, &target));
    }
    let mut connection = probe.connect()?;
    connection.read_bytes = 4 * 1024;
    connection.rest = Duration::from_micros(300);
    connection.patience = Duration::from_secs(20);
    let mut writer = connection.writer()?;
    std::thread::scope(|scope| {
        let sender = scope.spawn(move || writer.write_all(&bytes));
        std::thread::sleep(Duration::from_millis(500));
        for i in 0..REQUESTS {
            let response = connection
                .receive("GET")
                .map_err(|e| format!("response {i}: {e}"))?;
            expect::status(&response, 200)?;
            if i % 2 == 0 {
                json::feed(&response.text())?;
            } else {
                expect::equal(
                    &format!("id in response {i}"),
                    json::post(&response.text())?.id,
                    id_of(i),
                )?;
            }
        }
        let sent = sender.join().map_err(|_| "the sender panicked")?;
        sent.map_err(|e| format!("cannot send: {e}"))?;
        connection.rest = Duration::ZERO;
        serves_on(probe, &mut connection)
    })
}

fn like_and_get(probe: &Probe) -> Verdict {
    let post = probe.create("liked and read in one packet")?;
    let like = Request::post(&format!("/posts/{}/like", post.id))
        .bearer(&probe.signer.user_1())
        .body("");
    let mut connection = probe.connect()?;
    connection.send(
        [
            like.bytes(&probe.base),
            get(probe, &format!("/posts/{}", post.id)),
        ]
        .concat(),
    )?;
    expect::liked(&connection.receive("POST")?, post.id, false)?;
    let read = json::post(&connection.receive("GET")?.text())?;
    expect::equal(
        "the post",
        read,
        Post {
            like_count: 1,
            ..post
        },
    )
}

fn create_and_feed(probe: &Probe) -> Verdict {
    let text = "created and read in one packet";
    let create = probe.create_request(format!("{{\"body\":\"{text}\"}}"));
    let mut connection = probe.connect()?;
    connection.send([create.bytes(&probe.base), get(probe, "/feed")].concat())?;
    let post = expect::created(&connection.receive("POST")?, text)?;
    let feed = json::feed(&connection.receive("GET")?.text())?;
    expect::equal("the top of the feed", &feed[0], &post)
}

fn creates_and_feed(probe: &Probe) -> Verdict {
    let text = |i: usize| format!("pipelined {i}");
    let mut bytes = Vec::new();
    for i in 0..20 {
        bytes.extend(
            probe
                .create_request(format!("{{\"body\":\"{}\"}}", text(i)))
                .bytes(&probe.base),
        );
    }
    bytes.extend(get(probe, "/feed"));
    let mut connection = probe.connect()?;
    connection.send(&bytes)?;
    let posts: Vec<Post> = (0..20)
        .map(|i| expect::created(&connection.receive("POST")?, &text(i)))
        .collect::<Result<_, _>>()?;
    let mut feed = json::feed(&connection.receive("GET")?.text())?;
    feed.reverse();
    expect::equal("the feed, oldest first", feed, posts)
}

fn error_between(probe: &Probe) -> Verdict {
    let bad = probe.create_request("{bad json");
    let mut connection = probe.connect()?;
    connection.send(
        [
            get(probe, "/posts/1"),
            bad.bytes(&probe.base),
            get(probe, "/posts/0"),
        ]
        .concat(),
    )?;
    expect::post(&connection.receive("GET")?, 1)?;
    expect::error(&connection.receive("POST")?, 400, "malformed JSON body")?;
    expect::error(&connection.receive("GET")?, 400, "invalid post id")?;
    serves_on(probe, &mut connection)
}

fn empty_lines_before(probe: &Probe) -> Verdict {
    let mut connection = probe.connect()?;
    connection.send([&b"\r\n\r\n"[..], &get(probe, "/posts/1")].concat())?;
    expect::post(&connection.receive("GET")?, 1)
}

fn half_closed(probe: &Probe) -> Verdict {
    let mut connection = probe.connect()?;
    connection.send(get(probe, "/posts/1"))?;
    connection
        .writer()?
        .shutdown(std::net::Shutdown::Write)
        .map_err(|e| e.to_string())?;
    expect::post(&connection.receive("GET")?, 1)
}
