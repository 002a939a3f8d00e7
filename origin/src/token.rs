//! `origin token`: a token for a user.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shared::token::{Keys, User};

#[derive(Debug, clap::Args)]
pub struct TokenArgs {
    /// The user's id
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(i64).range(1..))]
    user: i64,

    /// The user's name
    #[arg(long, value_name = "NAME")]
    username: String,

    /// How long the token is good for, such as 90s, 15m, 1h or 30d
    #[arg(long, default_value = "1h", value_parser = parse_ttl)]
    ttl: Duration,
}

pub fn run(args: TokenArgs) -> Result<(), Box<dyn std::error::Error>> {
    let secret = std::env::var("JWT_SECRET")
        .ok()
        .filter(|secret| !secret.is_empty())
        .ok_or("JWT_SECRET is not set: it signs the token")?;
    let user = User {
        id: args.user,
        username: args.username,
    };
    println!(
        "{}",
        sign_for_ms(
            &Keys::new(secret.as_bytes()),
            &user,
            args.ttl.as_millis() as i64
        )
    );
    Ok(())
}

/// A token from now on.
pub fn sign_for_ms(keys: &Keys, user: &User, ttl_ms: i64) -> String {
    let now_s = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs()) as i64;
    keys.sign(user, now_s, now_s + ttl_ms / 1_000)
}

fn parse_ttl(text: &str) -> Result<Duration, String> {
    let help = || "want a whole number with s, m, h or d behind it, such as 15m".to_owned();
    let unit_s = match text.chars().last() {
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 3_600,
        Some('d') => 86_400,
        _ => return Err(help()),
    };
    let number: u32 = text[..text.len() - 1].parse().map_err(|_| help())?;
    Ok(Duration::from_secs(u64::from(number) * unit_s))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_has_a_unit() {
        assert_eq!(parse_ttl("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_ttl("2d"), Ok(Duration::from_secs(172_800)));
        for bad in ["", "h", "1", "1.5h", "-1h", "1w", "99999999999h"] {
            assert!(parse_ttl(bad).is_err(), "{bad}");
        }
    }
}
