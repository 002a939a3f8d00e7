//! Times, sizes and shares as people write them on a command line.

use std::time::Duration;

/// `500ms`, `90s`, `5m`; a bare number is seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wanted = || format!("{text:?} is no time: want for example 500ms, 90s or 5m");
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let number: f64 = text[..end].parse().map_err(|_| wanted())?;
    let seconds = match &text[end..] {
        "ms" => number / 1000.0,
        "s" | "" => number,
        "m" => number * 60.0,
        _ => return Err(wanted()),
    };
    let time = Duration::try_from_secs_f64(seconds).map_err(|_| wanted())?;
    match time <= MAX_TIME {
        true => Ok(time),
        false => Err(format!("{text:?} is too long: a run lasts 6 hours at most")),
    }
}

const MAX_TIME: Duration = Duration::from_secs(6 * 3600);

/// `512M`, `2G`.
pub fn bytes(text: &str) -> Result<u64, String> {
    let wanted = || format!("{text:?} is no size: want for example 512M or 2G");
    let (number, unit) = text.split_at(text.len() - text.chars().last().map_or(0, char::len_utf8));
    let unit: u64 = match unit {
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return Err(wanted()),
    };
    let number: u64 = number.parse().map_err(|_| wanted())?;
    number.checked_mul(unit).ok_or_else(wanted)
}

/// `20%` as 20.
pub fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse();
    match number {
        Ok(percent) if (1.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err(format!("{text:?} is no share of a core: want 1% to 100%")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write() {
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("3"), Ok(Duration::from_secs(3)));
        assert_eq!(bytes("2G"), Ok(2 << 30));
        assert_eq!(percent("20%"), Ok(20.0));
        for wrong in ["", "m", "5h", "-1s", "1e9m"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "2", "G", "-2G", "99999999999G", "2é"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
        for wrong in ["0%", "101", "x", "NaN"] {
            assert!(percent(wrong).is_err(), "{wrong}");
        }
    }
}
