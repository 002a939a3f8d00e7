//! A small blocking HTTP client: any status is an answer, only a broken connection is an error.

use std::sync::LazyLock;
use std::time::Duration;

use crate::Result;
use crate::error::Context;

static AGENT: LazyLock<ureq::Agent> = LazyLock::new(|| {
    ureq::Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(None)
        .timeout_global(Some(Duration::from_secs(30)))
        .build()
        .into()
});

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    /// The first header of this name (lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str())
    }
}

pub fn get(url: &str) -> Result<Answer> {
    request("GET", url, &[], "")
}

pub fn request(method: &str, url: &str, headers: &[(&str, &str)], body: &str) -> Result<Answer> {
    let doing = || format!("{method} {url}");
    let mut request = ureq::http::Request::builder().method(method).uri(url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(body.to_owned()).context(doing)?;
    let mut response = AGENT.run(request).context(doing)?;
    Ok(Answer {
        status: response.status().as_u16(),
        headers: (response.headers().iter())
            .map(|(name, value)| {
                let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
                (name.as_str().to_owned(), value)
            })
            .collect(),
        body: response.body_mut().read_to_string().context(doing)?,
    })
}
