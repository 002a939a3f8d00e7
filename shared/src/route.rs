//! Which resource a method and a path mean.

use crate::ApiError;

/// A known path with a method it answers. Ids are as they stand in the path, not checked yet: a
/// like checks its token first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route<'a> {
    Health,
    Feed,
    Post { id: &'a str },
    CreatePost,
    Like { id: &'a str },
}

/// No such route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoute {
    Path,
    /// The path exists, for the methods in `allow` (the value of the `Allow` header).
    Method {
        allow: &'static str,
    },
}

impl NoRoute {
    pub const fn error(self) -> ApiError {
        match self {
            NoRoute::Path => ApiError::NotFound,
            NoRoute::Method { .. } => ApiError::MethodNotAllowed,
        }
    }
}

/// `path` is the path alone, without query, as it came over the wire.
pub fn route<'a>(method: &str, path: &'a str) -> Result<Route<'a>, NoRoute> {
    let route = match path {
        "/health" => Route::Health,
        "/feed" => Route::Feed,
        "/posts" => Route::CreatePost,
        _ => {
            let rest = path.strip_prefix("/posts/").ok_or(NoRoute::Path)?;
            match rest.split_once('/') {
                None => Route::Post { id: rest },
                Some((id, "like")) => Route::Like { id },
                Some(_) => return Err(NoRoute::Path),
            }
        }
    };
    let (allowed, allow) = match route {
        Route::Health | Route::Feed | Route::Post { .. } => {
            (matches!(method, "GET" | "HEAD"), "GET,HEAD")
        }
        Route::CreatePost | Route::Like { .. } => (method == "POST", "POST"),
    };
    if allowed {
        Ok(route)
    } else {
        Err(NoRoute::Method { allow })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resource_has_its_path_and_methods() {
        assert_eq!(route("GET", "/health"), Ok(Route::Health));
        assert_eq!(route("HEAD", "/feed"), Ok(Route::Feed));
        assert_eq!(route("GET", "/posts/7"), Ok(Route::Post { id: "7" }));
        assert_eq!(route("POST", "/posts"), Ok(Route::CreatePost));
        assert_eq!(route("POST", "/posts/7/like"), Ok(Route::Like { id: "7" }));
    }

    #[test]
    fn an_empty_id_is_still_a_post() {
        assert_eq!(route("GET", "/posts/"), Ok(Route::Post { id: "" }));
        assert_eq!(route("POST", "/posts//like"), Ok(Route::Like { id: "" }));
    }

    #[test]
    fn other_paths_are_not_found_whatever_the_method() {
        for path in [
            "/",
            "",
            "/nope",
            "/feed/",
            "/feed.json",
            "/Feed",
            "//feed",
            "/health/",
            "/posts/7/",
            "/posts/7/likes",
            "/posts/7/like/",
            "/posts//",
            "/postsx",
        ] {
            for method in ["GET", "POST", "PUT"] {
                assert_eq!(route(method, path), Err(NoRoute::Path), "{method} {path}");
            }
        }
    }

    #[test]
    fn other_methods_are_told_which_ones_work() {
        let only = |allow| Err(NoRoute::Method { allow });
        assert_eq!(route("POST", "/feed"), only("GET,HEAD"));
        assert_eq!(route("DELETE", "/posts/abc"), only("GET,HEAD"));
        assert_eq!(route("POST", "/posts/"), only("GET,HEAD"));
        assert_eq!(route("GET", "/posts"), only("POST"));
        assert_eq!(route("HEAD", "/posts/7/like"), only("POST"));
        assert_eq!(route("get", "/feed"), only("GET,HEAD"));
    }
}
