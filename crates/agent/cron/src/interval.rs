//! Parser for intervals in words.

use crate::ScheduleError;

/// Parses `600`, `30s`, `45m`, `1h`, `2d` or `30 minutes`, each also after `every`, into seconds.
///
/// # Errors
/// Returns [`ScheduleError::Words`] for any other text, and if the number of seconds overflows.
pub fn interval_seconds(text: &str) -> Result<i64, ScheduleError> {
    let unreadable = || ScheduleError::Words {
        text: text.to_owned(),
    };
    let words = text.trim().to_ascii_lowercase();
    let words = words.strip_prefix("every ").unwrap_or(&words).trim();
    let digits = words
        .bytes()
        .take_while(|byte| byte.is_ascii_digit() || *byte == b'-')
        .count();
    let (number, unit) = words.split_at_checked(digits).ok_or_else(unreadable)?;
    let unit = match unit.trim() {
        "" | "s" | "sec" | "secs" | "second" | "seconds" => 1,
        "m" | "min" | "mins" | "minute" | "minutes" => 60,
        "h" | "hr" | "hrs" | "hour" | "hours" => 60 * 60,
        "d" | "day" | "days" => 24 * 60 * 60,
        _ => return Err(unreadable()),
    };
    // `every hour`
    let number = if number.is_empty() && unit > 1 {
        Ok(1)
    } else {
        number.parse::<i64>()
    };
    number
        .ok()
        .and_then(|number| number.checked_mul(unit))
        .ok_or_else(unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_human_intervals() {
        for (text, seconds) in [
            ("600", Some(600)),
            ("every 600", Some(600)),
            ("every 600s", Some(600)),
            ("every 30 minutes", Some(1800)),
            ("Every 1h", Some(3600)),
            ("every hour", Some(3600)),
            (" 2 days ", Some(172_800)),
            ("-5", Some(-5)),
            ("", None),
            ("every", None),
            ("soon", None),
            ("1h30", None),
            ("1 fortnight", None),
            ("9223372036854775807h", None),
        ] {
            assert_eq!(interval_seconds(text).ok(), seconds, "{text:?}");
        }
    }
}
