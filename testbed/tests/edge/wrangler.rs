//! The edge as `wrangler dev` runs it, from wrangler.toml: one pass through the whole API.

use testbed::dataset::{Datasets, Scale};
use testbed::origin::{self, SECRET};
use testbed::wrangler::Wrangler;
use testbed::{Origin, OriginConfig};

use crate::stage::token;

#[test]
fn wrangler_dev_serves_the_api_from_a_local_origin() {
    let binary = origin::binary("dev").unwrap();
    let data = Datasets::new(&binary).sqlite(Scale::Small).unwrap();
    let origin = Origin::start(OriginConfig::new(&binary, &data.url())).unwrap();
    let edge = Wrangler::start(&origin.base_url(), SECRET).unwrap();

    let feed = edge.get("/feed").unwrap();
    assert_eq!(feed.status, 200, "{feed:?}");
    assert_eq!(feed.body, origin.get("/feed").unwrap().body);
    assert!(
        edge.get("/feed")
            .unwrap()
            .header("cache-status")
            .unwrap()
            .contains("hit")
    );
    let post = edge.get("/posts/1").unwrap();
    assert_eq!(post.body, origin.get("/posts/1").unwrap().body);
    assert_eq!(edge.get("/posts/0").unwrap().status, 400);
    assert_eq!(edge.post("/posts", None, "{}").unwrap().status, 401);

    let created = edge
        .post("/posts", Some(&token(1)), r#"{"body":"through wrangler"}"#)
        .unwrap();
    assert_eq!(created.status, 201, "{created:?}");
    assert!(edge.get("/feed").unwrap().body.contains("through wrangler"));
    let liked = edge.post("/posts/1/like", Some(&token(1)), "").unwrap();
    assert!(liked.status < 300, "{liked:?}");
}
