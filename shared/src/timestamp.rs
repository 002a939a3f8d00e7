//! The API's one time format: UTC, three decimals, `Z`.

/// Milliseconds since 1970-01-01T00:00:00Z as `2025-12-31T23:59:19.409Z`.
///
/// Written out by hand because a feed on PostgreSQL formats twenty of them; the calendar
/// arithmetic is Howard Hinnant's `civil_from_days`, valid for years 0 to 9999 here.
pub fn format_ms(unix_ms: i64) -> String {
    let days = unix_ms.div_euclid(86_400_000);
    let ms_of_day = unix_ms.rem_euclid(86_400_000) as u32;

    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153; // March is 0
    let day = (day_of_year - (153 * shifted_month + 2) / 5 + 1) as u32;
    let month = (if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    }) as u32;
    let year = (year_of_era + era * 400 + i64::from(month <= 2)) as u32;

    let mut out = *b"0000-00-00T00:00:00.000Z";
    write_decimal(&mut out[0..4], year);
    write_decimal(&mut out[5..7], month);
    write_decimal(&mut out[8..10], day);
    write_decimal(&mut out[11..13], ms_of_day / 3_600_000);
    write_decimal(&mut out[14..16], ms_of_day / 60_000 % 60);
    write_decimal(&mut out[17..19], ms_of_day / 1_000 % 60);
    write_decimal(&mut out[20..23], ms_of_day % 1_000);
    String::from_utf8_lossy(&out).into_owned()
}

fn write_decimal(field: &mut [u8], mut value: u32) {
    for digit in field.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_instants() {
        for (unix_ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_735_689_634_152, "2025-01-01T00:00:34.152Z"),
            (1_767_225_559_409, "2025-12-31T23:59:19.409Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(format_ms(unix_ms), text);
        }
    }

    #[test]
    fn every_day_of_400_years_follows_the_one_before() {
        let mut previous = format_ms(0);
        for day in 1..146_097i64 {
            let next = format_ms(day * 86_400_000);
            assert!(
                next > previous && next.ends_with("T00:00:00.000Z"),
                "{previous} {next}"
            );
            previous = next;
        }
        assert_eq!(previous, "2369-12-31T00:00:00.000Z");
    }
}
