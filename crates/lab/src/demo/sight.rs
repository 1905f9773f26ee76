//! What a demo shows: how both sides divide their memory, and what they miss.
//!
//! Classes are shown together by ranges of chunk sizes, each twice as large as the one before, because two servers' classes
//! are not of the same sizes.

use slabwise_text::Column;

const LATELY_LOOKS: usize = 10;
const BAR_WIDTH: u16 = 16;
/// The least range: chunks of up to so many bytes.
const RANGE_MIN_BYTES: u64 = 64;

#[derive(Debug, Default)]
pub struct Sight {
    pub requests: u64,
    pub ours: Side,
    pub rival: Side,
}

#[derive(Debug, Default)]
pub struct Side {
    /// Of each range, how many classes have pages, and bytes of those.
    ranges: Vec<(u32, u64)>,
    looks: Vec<(u64, u64)>,
}

impl Side {
    /// Takes in chunk size and bytes of pages of each class, and all gets and misses so far.
    pub fn see(&mut self, classes: impl Iterator<Item = (u64, u64)>, gets: u64, misses: u64) {
        self.ranges.clear();
        for (chunk_size_bytes, page_bytes) in classes.filter(|&(_, bytes)| bytes > 0) {
            let range = range_of(chunk_size_bytes);
            if self.ranges.len() <= range {
                self.ranges.resize(range + 1, (0, 0));
            }
            self.ranges[range].0 += 1;
            self.ranges[range].1 += page_bytes;
        }
        self.looks.push((gets, misses));
    }

    fn bytes(&self) -> u64 {
        self.ranges.iter().map(|&(_, bytes)| bytes).sum()
    }

    pub fn miss_ratio(&self) -> f64 {
        self.looks.last().map_or(0.0, |&(gets, misses)| misses as f64 / gets.max(1) as f64)
    }

    pub fn miss_ratio_lately(&self) -> f64 {
        let before = self.looks.len().checked_sub(LATELY_LOOKS + 1);
        let (gets_before, misses_before) = before.map_or((0, 0), |place| self.looks[place]);
        let (gets, misses) = self.looks.last().copied().unwrap_or_default();
        (misses - misses_before) as f64 / (gets - gets_before).max(1) as f64
    }
}

fn range_of(chunk_size_bytes: u64) -> usize {
    let whole = chunk_size_bytes.max(RANGE_MIN_BYTES).next_power_of_two();
    (whole.ilog2() - RANGE_MIN_BYTES.ilog2()) as usize
}

impl Sight {
    pub fn text(&self) -> String {
        let sides = [&self.ours, &self.rival];
        let line = |name: String, [ours, rival]: [String; 2]| [name, ours, rival];
        let mut lines = vec![["chunks up to", "slabwise", "memcached"].map(str::to_owned)];
        for range in 0..self.ours.ranges.len().max(self.rival.ranges.len()) {
            let cells = sides.map(|side| cell(side, range));
            if cells.iter().any(|cell| !cell.is_empty()) {
                lines.push(line(size(RANGE_MIN_BYTES << range), cells));
            }
        }
        let mib = |side: &Side| format!("{:.1} MiB", side.bytes() as f64 / f64::from(1 << 20));
        lines.push(line("pages".to_owned(), sides.map(mib)));
        let ratios = |ratio: fn(&Side) -> f64| sides.map(|side| format!("{:.4}", ratio(side)));
        lines.push(line("miss ratio".to_owned(), ratios(Side::miss_ratio)));
        lines.push(line("lately".to_owned(), ratios(Side::miss_ratio_lately)));
        let columns = [Column::right(12), Column::left(BAR_WIDTH + 21), Column::left(0)];
        slabwise_text::table(&columns, lines).trim_end().to_owned()
    }

    pub fn line(&self) -> String {
        let lately = [&self.ours, &self.rival].map(Side::miss_ratio_lately);
        let classes =
            [&self.ours, &self.rival].map(|side| side.ranges.iter().map(|it| it.0).sum::<u32>());
        format!(
            "{:>10} requests: misses lately slabwise {:.4} in {} classes, memcached {:.4} in {}",
            self.requests, lately[0], classes[0], lately[1], classes[1]
        )
    }

    pub fn summary(&self) -> String {
        let (ours, rival) = (self.ours.miss_ratio_lately(), self.rival.miss_ratio_lately());
        let whole = fewer(self.ours.miss_ratio(), self.rival.miss_ratio());
        let lately = fewer(ours, rival);
        format!(
            "\n{} requests, every hit's bytes checked. slabwise missed {whole} than memcached's rules, and {lately} lately.",
            self.requests
        )
    }
}

fn fewer(ours: f64, rival: f64) -> String {
    match (1.0 - ours / rival) * 100.0 {
        _ if ours == rival => "neither more nor less".to_owned(),
        _ if rival == 0.0 => format!("{ours:.4} of the gets more"),
        percent if percent < 0.0 => format!("{:.1} % more", -percent),
        percent => format!("{percent:.1} % less"),
    }
}

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

fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        bytes if bytes >= 1 << 10 => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} B"),
    }
}
