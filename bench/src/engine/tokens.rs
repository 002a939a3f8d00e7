use std::path::Path;

use serde::Deserialize;
use testbed::{Error, Result};

/// One user's, as `origin seed --tokens` writes them.
#[derive(Debug, Clone, Deserialize)]
pub struct Token {
    pub username: String,
    pub token: String,
}

/// User n has token n modulo this.
pub const MAX_TOKENS: usize = 20_000;

pub fn read(path: &Path) -> Result<Vec<Token>> {
    let named = |error: &dyn std::fmt::Display| {
        Error::new(format!(
            "{}: {error}: want the tokens that `origin seed --tokens FILE` writes",
            path.display()
        ))
    };
    let text = std::fs::read(path).map_err(|error| named(&error))?;
    let mut tokens: Vec<Token> = serde_json::from_slice(&text).map_err(|error| named(&error))?;
    if tokens.is_empty() {
        return Err(named(&"holds no token"));
    }
    tokens.truncate(MAX_TOKENS);
    Ok(tokens)
}
