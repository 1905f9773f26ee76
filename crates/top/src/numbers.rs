//! Short forms of numbers, which fit into narrow columns.

/// Formats a count with at most four characters of digits and a suffix, such as 9999, 12.3k or 4.56M.
pub fn count(number: f64) -> String {
    scaled(number, 1000.0, &["", "k", "M", "G", "T", "P"])
}

/// Formats a number of bytes in units of 1024 bytes, such as 640B, 12.3K or 4.56M.
pub fn bytes(number: u64) -> String {
    scaled(number as f64, 1024.0, &["B", "K", "M", "G", "T", "P"])
}

/// Formats a rate per second. A rate below 10 has a decimal place.
pub fn rate(per_second: f64) -> String {
    if per_second > 0.0 && per_second < 9.95 {
        return format!("{per_second:.1}");
    }
    count(per_second)
}

/// Formats a ratio as a percentage, such as 98.7%.
pub fn percent(ratio: f64) -> String {
    format!("{:.1}%", ratio * 100.0)
}

/// Formats a number of seconds with its two largest units, such as 45s, 12m30s or 3d4h.
pub fn seconds(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{minutes}m{:02}s", seconds % 60),
        3600..86_400 => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{days}d{:02}h", hours % 24),
    }
}

/// Formats a number with three digits and the suffix of its unit. Numbers below 9999.5 have no suffix if the first
/// suffix is empty.
fn scaled(number: f64, unit: f64, suffixes: &[&str]) -> String {
    let limit = if suffixes[0].is_empty() { 9999.5 } else { 1000.0 };
    if number < limit {
        return format!("{number:.0}{}", suffixes[0]);
    }
    let mut number = number;
    let mut suffix = 0;
    // 999.5 would have four digits after rounding.
    while number >= 999.5 && suffix + 1 < suffixes.len() {
        number /= unit;
        suffix += 1;
    }
    let places = match number {
        _ if number < 9.995 => 2,
        _ if number < 99.95 => 1,
        _ => 0,
    };
    format!("{number:.places$}{}", suffixes[suffix])
}

#[cfg(test)]
mod tests {
    use super::{bytes, count, percent, rate, seconds};

    #[test]
    fn counts_have_at_most_five_characters() {
        let cases = [
            (0.0, "0"),
            (999.0, "999"),
            (9999.0, "9999"),
            (9999.6, "10.0k"),
            (12_345.0, "12.3k"),
            (999_400.0, "999k"),
            (999_600.0, "1.00M"),
            (4_560_000.0, "4.56M"),
        ];
        for (number, text) in cases {
            assert_eq!(count(number), text);
        }
    }

    #[test]
    fn bytes_have_units_of_1024() {
        let cases = [
            (0, "0B"),
            (640, "640B"),
            (1023, "1.00K"),
            (1024, "1.00K"),
            (64 << 20, "64.0M"),
            (1 << 30, "1.00G"),
            (1000 << 20, "0.98G"),
        ];
        for (number, text) in cases {
            assert_eq!(bytes(number), text);
        }
    }

    #[test]
    fn low_rates_have_a_decimal_place() {
        let cases = [(0.0, "0"), (0.25, "0.2"), (9.9, "9.9"), (10.4, "10"), (45_600.0, "45.6k")];
        for (per_second, text) in cases {
            assert_eq!(rate(per_second), text);
        }
        assert_eq!(percent(0.9876), "98.8%");
    }

    #[test]
    fn times_have_their_two_largest_units() {
        let cases = [(0, "0s"), (59, "59s"), (750, "12m30s"), (3660, "1h01m"), (273_600, "3d04h")];
        for (number, text) in cases {
            assert_eq!(seconds(number), text);
        }
    }
}
