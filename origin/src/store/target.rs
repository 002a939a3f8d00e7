//! Which database, from its URL.

use std::{fmt, path::PathBuf, str::FromStr};

use sqlx::postgres::PgConnectOptions;

#[derive(Clone, Debug)]
pub enum Target {
    Sqlite(PathBuf),
    Postgres(Box<PgConnectOptions>),
}

impl FromStr for Target {
    type Err = String;

    fn from_str(url: &str) -> Result<Self, String> {
        if let Some(path) = url.strip_prefix("sqlite:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return match path {
                "" => Err("sqlite: needs a path behind it".to_owned()),
                path => Ok(Self::Sqlite(path.into())),
            };
        }
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            // The reason, never the URL: it may hold a password.
            let options = PgConnectOptions::from_str(url).map_err(|error| error.to_string())?;
            return Ok(Self::Postgres(Box::new(options)));
        }
        Err("want sqlite:PATH or postgres://USER@HOST/NAME".to_owned())
    }
}

/// Without user and password.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(options) => {
                let database = options.get_database().unwrap_or(options.get_username());
                match options.get_socket() {
                    Some(socket) => write!(f, "postgres:{}/{database}", socket.display()),
                    None => {
                        let (host, port) = (options.get_host(), options.get_port());
                        write!(f, "postgres://{host}:{port}/{database}")
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_a_store_and_never_a_password() {
        for (url, shown) in [
            ("sqlite:data/feed.db", "sqlite:data/feed.db"),
            ("sqlite:///var/lib/feed.db", "sqlite:/var/lib/feed.db"),
            ("postgres://me:hush@db:6432/feed", "postgres://db:6432/feed"),
        ] {
            assert_eq!(url.parse::<Target>().unwrap().to_string(), shown);
        }
        for url in [
            "",
            "feed.db",
            "sqlite:",
            "mysql://me:hush@db/feed",
            "postgres://me:hush@db:x/feed",
        ] {
            let refusal = url.parse::<Target>().unwrap_err();
            assert!(!refusal.contains("hush"), "{refusal}");
        }
    }
}
