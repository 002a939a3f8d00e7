use testbed::http::{Answer, request};

use crate::support::{origin, token_of};

#[test]
fn an_unchanged_feed_costs_no_body() {
    let (origin, _dataset) = origin(&[]);
    let ask = |method: &str, tags: &str| -> Answer {
        request(method, &origin.url("/feed"), &[("if-none-match", tags)], "").unwrap()
    };
    let plain = origin.get("/feed").unwrap();
    assert_eq!(plain.header("etag"), None, "nobody asked for a tag");

    let first = ask("GET", "\"0\"");
    assert_eq!((first.status, &first.body), (200, &plain.body));
    let tag = first.header("etag").unwrap().to_owned();

    let list = format!("\"0\", W/{tag}");
    for known in [tag.as_str(), list.as_str(), "*"] {
        for method in ["GET", "HEAD"] {
            let again = ask(method, known);
            assert_eq!(
                (again.status, again.body.as_str()),
                (304, ""),
                "{method} {known}"
            );
            assert_eq!(again.header("etag"), Some(tag.as_str()));
            assert_eq!(again.header("content-type"), None);
        }
    }

    let created = origin
        .post("/posts", Some(&token_of(1)), r#"{"body":"news"}"#)
        .unwrap();
    assert_eq!(created.status, 201);
    let changed = ask("GET", &tag);
    assert_eq!(changed.status, 200);
    assert!(changed.body.contains("news"));
    assert_ne!(changed.header("etag"), Some(tag.as_str()));
}

#[test]
fn a_post_has_no_tag() {
    let (origin, _dataset) = origin(&[]);
    let any = [("if-none-match", "*")];
    let post = request("GET", &origin.url("/posts/1"), &any, "").unwrap();
    assert_eq!((post.status, post.header("etag")), (200, None));
}
