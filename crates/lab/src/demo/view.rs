//! The view of the demo: the samples of slabwise and of memcached, formatted for the terminal.
//!
//! The two sides have different chunk sizes. So the view groups the classes by the power of two of their chunk sizes.

use slabwise_text::Column;

/// The recent miss ratio is that of the last 10 samples.
const RECENT_SAMPLES: usize = 10;
/// Width in characters of the bar of a range of chunk sizes, if its classes own all pages.
const BAR_WIDTH: u16 = 16;
/// The first range of chunk sizes ends at this number of bytes. Each further range ends at twice the end of the range
/// before it.
const RANGE_MIN_BYTES: u64 = 64;

/// The last samples of both sides, formatted for the terminal.
#[derive(Debug, Default)]
pub struct View {
    /// Number of requests that both sides have served.
    pub requests: u64,
    /// The slabwise server.
    pub ours: Side,
    /// memcached, a server or simulated.
    pub memcached: Side,
}

/// The state of a side at one time.
#[derive(Debug, Default)]
pub struct Sample {
    /// The chunk size in bytes, and the bytes of all pages, of each class.
    pub classes: Vec<(u64, u64)>,
    /// The number of gets so far.
    pub gets: u64,
    /// The number of gets so far that missed.
    pub misses: u64,
}

/// The samples of slabwise or of memcached.
#[derive(Debug, Default)]
pub struct Side {
    /// For each range of chunk sizes, the number of classes that own pages, and the bytes of these pages.
    ranges: Vec<(u32, u64)>,
    /// The totals of gets and of misses at each sample.
    samples: Vec<(u64, u64)>,
}

impl Side {
    /// Adds a sample.
    pub fn record(&mut self, sample: &Sample) {
        self.ranges.clear();
        for &(chunk_size_bytes, page_bytes) in
            sample.classes.iter().filter(|&&(_, bytes)| bytes > 0)
        {
            let range = range_of(chunk_size_bytes);
            if self.ranges.len() <= range {
                self.ranges.resize(range + 1, (0, 0));
            }
            self.ranges[range].0 += 1;
            self.ranges[range].1 += page_bytes;
        }
        self.samples.push((sample.gets, sample.misses));
    }

    /// Returns the bytes of the pages of all classes.
    fn bytes(&self) -> u64 {
        self.ranges.iter().map(|&(_, bytes)| bytes).sum()
    }

    pub fn miss_ratio(&self) -> f64 {
        self.samples.last().map_or(0.0, |&(gets, misses)| misses as f64 / gets.max(1) as f64)
    }

    pub fn recent_miss_ratio(&self) -> f64 {
        let before = self.samples.len().checked_sub(RECENT_SAMPLES + 1);
        let (gets_before, misses_before) = before.map_or((0, 0), |index| self.samples[index]);
        let (gets, misses) = self.samples.last().copied().unwrap_or_default();
        (misses - misses_before) as f64 / (gets - gets_before).max(1) as f64
    }
}

/// Returns the index of the range that contains the chunk size.
fn range_of(chunk_size_bytes: u64) -> usize {
    let range_end = chunk_size_bytes.max(RANGE_MIN_BYTES).next_power_of_two();
    (range_end.ilog2() - RANGE_MIN_BYTES.ilog2()) as usize
}

impl View {
    /// Formats the last sample as a table: one line per range of chunk sizes, then the memory and the miss ratios.
    pub fn text(&self) -> String {
        let sides = [&self.ours, &self.memcached];
        let line = |name: String, [ours, memcached]: [String; 2]| [name, ours, memcached];
        let mut lines = vec![["chunks up to", "slabwise", "memcached"].map(str::to_owned)];
        for range in 0..self.ours.ranges.len().max(self.memcached.ranges.len()) {
            let cells = sides.map(|side| cell(side, range));
            if cells.iter().any(|cell| !cell.is_empty()) {
                lines.push(line(format_size(RANGE_MIN_BYTES << range), cells));
            }
        }
        let mib = |side: &Side| format!("{:.1} MiB", side.bytes() as f64 / f64::from(1 << 20));
        lines.push(line("pages".to_owned(), sides.map(mib)));
        let ratios = |ratio: fn(&Side) -> f64| sides.map(|side| format!("{:.4}", ratio(side)));
        lines.push(line("miss ratio".to_owned(), ratios(Side::miss_ratio)));
        lines.push(line("recent".to_owned(), ratios(Side::recent_miss_ratio)));
        let columns = [Column::right(12), Column::left(BAR_WIDTH + 21), Column::left(0)];
        slabwise_text::table(&columns, lines).trim_end().to_owned()
    }

    /// Formats the last sample as a single line.
    pub fn line(&self) -> String {
        let recent = [&self.ours, &self.memcached].map(Side::recent_miss_ratio);
        let classes = [&self.ours, &self.memcached]
            .map(|side| side.ranges.iter().map(|(classes, _)| classes).sum::<u32>());
        format!(
            "{:>10} requests: recent miss ratio: slabwise {:.4} with {} classes, memcached {:.4} with {}",
            self.requests, recent[0], classes[0], recent[1], classes[1]
        )
    }

    /// Formats the comparison of the two sides at the end of the demo.
    pub fn summary(&self) -> String {
        let (ours, memcached) = (self.ours.recent_miss_ratio(), self.memcached.recent_miss_ratio());
        let total = comparison(self.ours.miss_ratio(), self.memcached.miss_ratio());
        let recent = comparison(ours, memcached);
        format!(
            "\n{} requests; the value of every hit was checked. slabwise missed {total} memcached. Recently it missed \
             {recent} memcached.",
            self.requests
        )
    }
}

/// Compares two miss ratios. The returned text fits between "slabwise missed" and "memcached".
fn comparison(ours: f64, memcached: f64) -> String {
    match (1.0 - ours / memcached) * 100.0 {
        _ if ours == memcached => "as often as".to_owned(),
        _ if memcached == 0.0 => format!("{ours:.4} of all gets, more than"),
        percent if percent < 0.0 => format!("{:.1} % more often than", -percent),
        percent => format!("{percent:.1} % less often than"),
    }
}

/// Formats a range of a side: a bar, the share of the side's memory, and the number of classes. Empty if no class in
/// the range owns pages.
fn cell(side: &Side, range: usize) -> String {
    let (classes, bytes) = side.ranges.get(range).copied().unwrap_or_default();
    if classes == 0 {
        return String::new();
    }
    let share = bytes as f64 / side.bytes().max(1) as f64;
    let cells = (share * f64::from(BAR_WIDTH)).round() as usize;
    let width = usize::from(BAR_WIDTH);
    let bar = "#".repeat(cells.min(width));
    let noun = if classes == 1 { "class" } else { "classes" };
    format!("{bar:<width$} {:>3.0} % in {classes} {noun}", share * 100.0)
}

fn format_size(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        bytes if bytes >= 1 << 10 => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} B"),
    }
}
