//! Numbers in words, for the text and the page.

use crate::estimate::Estimate;
use crate::gains::memory::Worth;
use slabwise_text::grouped;

/// Formats a share in percent, such as 8.23 %.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent.abs() {
        size if size < 9.995 => format!("{percent:.2} %"),
        size if size < 99.95 => format!("{percent:.1} %"),
        _ => format!("{percent:.0} %"),
    }
}

/// Formats the band of a share, such as "between 7.51 and 8.95 %".
pub fn between(estimate: Estimate) -> String {
    let low = percent(estimate.low);
    format!("between {} and {}", low.trim_end_matches(" %"), percent(estimate.high))
}

/// Formats a saved share without decimals, such as "41 % fewer misses" or "3 % more misses".
pub fn fewer(share: f64) -> String {
    let percent = (share * 100.0).round();
    match percent < 0.0 {
        true => format!("{:.0} % more misses", -percent),
        false => format!("{percent:.0} % fewer misses"),
    }
}

/// Formats the band of a saved share, such as "between 38 and 44 %".
pub fn fewer_between(fewer: Estimate) -> String {
    format!("between {:.0} and {:.0} %", fewer.low * 100.0, fewer.high * 100.0)
}

/// Formats bytes in MiB, or in GiB from 10 GiB on.
pub fn memory(bytes: u64) -> String {
    const MIB: f64 = (1 << 20) as f64;
    let mib = bytes as f64 / MIB;
    match mib {
        size if size < 10.0 => format!("{mib:.1} MiB"),
        size if size < 10_240.0 => format!("{} MiB", grouped(mib.round() as u64)),
        _ => format!("{:.1} GiB", mib / 1024.0),
    }
}

/// Formats the worth of a gain, such as "worth 12 MiB more memory".
pub fn worth(worth: Worth) -> String {
    let memory = memory(worth.memory_bytes);
    match worth {
        Worth { memory_bytes: 0, is_more: false } => "worth no memory".to_owned(),
        Worth { memory_bytes: 0, is_more: true } => "worth not measured".to_owned(),
        Worth { is_more: false, .. } => format!("worth {memory} more memory"),
        Worth { is_more: true, .. } => format!("worth more than {memory} more memory"),
    }
}

/// Formats a rate per second.
pub fn rate(per_second: f64) -> String {
    match per_second < 10.0 {
        true => format!("{per_second:.1}"),
        false => grouped(per_second.round() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::{between, fewer, memory, percent, rate, worth};
    use crate::estimate::Estimate;
    use crate::gains::memory::Worth;

    #[test]
    fn numbers_have_about_three_digits() {
        assert_eq!([0.0823, 0.4567, 1.0].map(percent), ["8.23 %", "45.7 %", "100 %"]);
        let band = Estimate { value: 0.08, low: 0.0751, high: 0.1 };
        assert_eq!(between(band), "between 7.51 and 10.0 %");
        assert_eq!([0.414, -0.03].map(fewer), ["41 % fewer misses", "3 % more misses"]);
        let sizes = [1 << 20, 64 << 20, 4000 << 20, 64 << 30].map(memory);
        assert_eq!(sizes, ["1.0 MiB", "64 MiB", "4,000 MiB", "64.0 GiB"]);
        assert_eq!([2.34, 12_345.6].map(rate), ["2.3", "12,346"]);
        let more = Worth { memory_bytes: 64 << 20, is_more: true };
        assert_eq!(worth(more), "worth more than 64 MiB more memory");
    }
}
