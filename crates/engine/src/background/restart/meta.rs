//! The .meta file: a first line that names the format, then lines of `name=value` in a fixed order, and at the end a
//! checksum of all lines before it.
//!
//! The first of these lines contain the settings that determine the layout of the arena. A start restores the items
//! only if its settings have the same values. Among them are also the memory limit and the size of the arena, which may
//! differ at the next start.

use super::outcome::{ColdReason, Stop};
use crate::class::{CHAINED, CLASS_NUMBERS};
use crate::config::EngineConfig;
use crate::evict::{ClassOrder, Lane, Order, dispatch};
use crate::layout::{CHUNK_ALIGN_BYTES, CHUNK_SIZE_BYTES_MIN, ChunkAddress, ClassTable, SizeModel};
use crate::space::{FlushSaved, WORK_CLOCK_LENS, WorkSaved};
use slabwise_base::{ClassId, KeyHasher, Seconds};
use std::collections::{BTreeMap, HashSet};
use std::fmt::{Display, Write};
use std::ops::Range;
use std::str::{FromStr, Lines};
use std::time::Duration;

/// The version of the file format. A change of the lines in this file needs a new version. So does a change of the
/// layout of headers and items (`mem/arena.rs`, `mem/state.rs`, `layout.rs`) or of the meaning of the queues.
const FORMAT: &str = "6";
/// An earlier version of the format, which this one can also read: all pages have blocks.
const FORMAT_WITHOUT_HOLES: &str = "5";
/// The start of the first line; the version of the format follows.
const FIRST_LINE: &str = "slabwise memory file, format ";
/// The first line of a .meta file that memcached has written.
const MEMCACHED_FIRST_LINE: &[u8] = b"Tmain\n";
/// The start of the last line; the checksum follows.
const CHECKSUM: &str = "checksum=";
/// The seed of the checksum's hash: "slabwise" in ASCII.
const CHECKSUM_SEED: u64 = 0x736c_6162_7769_7365;
/// The name of the page size.
const PAGE_SIZE: &str = "page_size_bytes";
/// The text for a page without an owner and for a queue without a tail.
const NONE: &str = "-";

/// The state of a process that is saved in the .meta file, because it is not in the arena.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// The memory limit at the stop.
    pub memory_limit_bytes: u64,
    /// The size of the arena in its file.
    pub arena_size_bytes: u64,
    /// The generation number, which is also stored after the arena. Its name in the text is `seal`.
    pub generation: u64,
    /// The time at which the process closed its cache.
    pub stop: Stop,
    pub flush: FlushSaved,
    /// The work clock.
    pub work: WorkSaved,
    /// The number of buckets of the index, so that the next process creates an index of this size at once.
    pub index_buckets: u64,
    /// The class table at the stop, which may differ from the configured one.
    pub table: ClassTable,
    /// The retired classes and their chunk sizes in bytes.
    pub retired: Vec<(ClassId, usize)>,
    /// One entry per page that was ever used: the class that owns the page, or `None` if the page is in the page pool.
    pub owners: Vec<Option<ClassId>>,
    /// The pages of the page pool that had no blocks in the memory file, as ranges of page numbers.
    pub holes: Vec<Range<u32>>,
    /// The tails of the queues of each class, indexed by class number.
    pub tails: Vec<Tails>,
    /// The saved state of the eviction order of each class (`Order::saved`), indexed by class number.
    pub rankings: Vec<[u32; 3]>,
}

/// The addresses of the tails of a class's four queues, by lane. `None`: the queue is empty.
pub type Tails = BTreeMap<Lane, [Option<ChunkAddress>; 4]>;

/// Returns the names and values of the settings that must be the same at the next start.
fn settings(config: &EngineConfig) -> [(&'static str, String); 6] {
    let sizes: Vec<String> = config.classes.sizes().iter().map(u32::to_string).collect();
    let size_model = match config.size_model {
        SizeModel::Exact => "exact",
        SizeModel::Memcached => "memcached",
    };
    let order = ClassOrder::new(config.eviction, &config.eviction_options);
    let byte_order = if cfg!(target_endian = "little") { "little" } else { "big" };
    [
        (PAGE_SIZE, config.page_size_bytes.to_string()),
        ("first_page_beyond_limit", config.first_page_beyond_limit.to_string()),
        ("chunk_sizes", sizes.join(",")),
        ("size_model", size_model.to_owned()),
        ("lanes", dispatch!(&order, lanes_name())),
        ("byte_order", byte_order.to_owned()),
    ]
}

/// Returns the text of the .meta file.
pub fn compose(config: &EngineConfig, saved: &Saved) -> String {
    let mut text = format!("{FIRST_LINE}{FORMAT}\n");
    let mut line = |name: &str, value: &dyn Display| {
        writeln!(text, "{name}={value}").expect("writing to a string does not fail");
    };
    let [(page_size_name, page_size), settings @ ..] = settings(config);
    line("memory_limit_bytes", &saved.memory_limit_bytes);
    line(page_size_name, &page_size);
    line("arena_size_bytes", &saved.arena_size_bytes);
    settings.iter().for_each(|(name, value)| line(name, value));
    line("seal", &saved.generation);
    line("unix_time_ns", &saved.stop.unix_time.as_nanos());
    line("clock_ns", &saved.stop.elapsed.as_nanos());
    line("cas", &saved.flush.last_cas);
    line("flush_cas_bound", &saved.flush.cas_bound);
    line("flush_due_second", &saved.flush.due_second);
    line("flush_mark", &saved.flush.mark);
    line("index_buckets", &saved.index_buckets);
    line("class_table", &compose_classes(saved.table.classes()));
    line("retired_classes", &compose_classes(saved.retired.iter().copied()));
    line("page_owners", &compose_owners(&saved.owners));
    line("holes", &compose_holes(&saved.holes));
    for class in queueing(&saved.table, &saved.retired) {
        line(&queue_tails_name(class), &compose_tails(&saved.tails[class.index()]));
        let ranks = saved.rankings[class.index()].map(|number| number.to_string()).join(",");
        line(&ranking_name(class), &ranks);
    }
    line("work_reading", &saved.work.reading);
    line("work_second", &saved.work.second);
    for (level, starts) in saved.work.starts.iter().enumerate() {
        line(&work_starts_name(level), &compose_starts(starts));
    }
    let checksum = checksum(&text);
    text + CHECKSUM + &checksum + "\n"
}

/// Formats the tails of each lane as the lane's number and four offsets: `0:64,-,128,-;7:-,-,256,-`.
fn compose_tails(tails: &Tails) -> String {
    let offset = |tail: &Option<ChunkAddress>| {
        tail.map_or(NONE.to_owned(), |address| address.offset().to_string())
    };
    let lane = |(lane, tails): (&Lane, &[Option<ChunkAddress>; 4])| {
        format!("{}:{}", lane.0, tails.each_ref().map(offset).join(","))
    };
    tails.iter().map(lane).collect::<Vec<String>>().join(";")
}

fn queue_tails_name(class: ClassId) -> String {
    format!("queue_tails.{}", class.0)
}

fn ranking_name(class: ClassId) -> String {
    format!("ranking.{}", class.0)
}

/// Returns the classes that may hold items, sorted by number: the classes of the table, the retired classes and
/// [`CHAINED`].
fn queueing(table: &ClassTable, retired: &[(ClassId, usize)]) -> Vec<ClassId> {
    let retired = retired.iter().map(|&(id, _)| id);
    let mut classes: Vec<ClassId> = table.ids().chain(retired).chain([CHAINED]).collect();
    classes.sort_unstable();
    classes
}

/// Returns the checksum of a text as 16 hexadecimal digits.
pub fn checksum(text: &str) -> String {
    format!("{:016x}", KeyHasher::new(CHECKSUM_SEED).hash(text.as_bytes()))
}

/// Formats each class as its number and its chunk size in bytes: `0:64,3:128`.
fn compose_classes(classes: impl Iterator<Item = (ClassId, usize)>) -> String {
    classes.map(|(id, size)| format!("{}:{size}", id.0)).collect::<Vec<String>>().join(",")
}

fn work_starts_name(level: usize) -> String {
    format!("work_starts.{level}")
}

/// Formats the work times at which seconds began as the differences from one to the next, modulo 2^64, in runs:
/// `5*1,1*3` means 5, 6, 7, 8.
fn compose_starts(starts: &[u64]) -> String {
    let before = std::iter::once(&0).chain(starts);
    let differences: Vec<u64> =
        starts.iter().zip(before).map(|(start, before)| start.wrapping_sub(*before)).collect();
    compose_runs(&differences, u64::to_string)
}

/// Formats the owners of pages as runs. `3*12,-*2,0*1` means: class 3 owns twelve pages, no class owns the next two,
/// and class 0 owns one.
fn compose_owners(owners: &[Option<ClassId>]) -> String {
    compose_runs(owners, |owner| owner.map_or(NONE.to_owned(), |class| class.0.to_string()))
}

/// Formats ranges of pages: `5*2,9*1` are the pages 5, 6 and 9.
fn compose_holes(holes: &[Range<u32>]) -> String {
    let holes = holes.iter().map(|hole| format!("{}*{}", hole.start, hole.end - hole.start));
    holes.collect::<Vec<String>>().join(",")
}

/// Formats each run of equal values as the value and its number: `3*12,4*2`.
fn compose_runs<T: PartialEq>(values: &[T], text: impl Fn(&T) -> String) -> String {
    let runs = values.chunk_by(|a, b| a == b);
    let runs = runs.map(|run| format!("{}*{}", text(&run[0]), run.len()));
    runs.collect::<Vec<String>>().join(",")
}

/// Returns the page size in the text of a .meta file or in the lines of [`layout`].
pub fn page_size_bytes(text: &str) -> Option<usize> {
    let value = |line: &str| line.strip_prefix(PAGE_SIZE)?.strip_prefix('=')?.parse().ok();
    text.lines().find_map(value)
}

/// True if the text of a .meta file, or the lines of [`layout`], have the settings of this configuration.
pub fn has_settings(text: &str, config: &EngineConfig) -> bool {
    let lines: HashSet<&str> = text.lines().collect();
    settings(config).iter().all(|(name, value)| lines.contains(&*format!("{name}={value}")))
}

/// Returns the version of the format, and the settings that must be the same in two processes of which one uses the arena
/// of the other, as lines.
pub fn layout(config: &EngineConfig) -> String {
    let lines = settings(config).map(|(name, value)| format!("{name}={value}\n"));
    format!("format={FORMAT}\n{}", lines.concat())
}

/// Parses a .meta file for a start with this configuration and a file with an arena of `arena_size_bytes`. Returns `None` if
/// neither slabwise nor memcached has written the file, and otherwise the saved state or the reason why it cannot be used.
pub fn parse(
    bytes: &[u8],
    config: &EngineConfig,
    arena_size_bytes: u64,
) -> Option<Result<Saved, ColdReason>> {
    if bytes.starts_with(MEMCACHED_FIRST_LINE) {
        return Some(Err(ColdReason::ByMemcached));
    }
    let rest = bytes.strip_prefix(FIRST_LINE.as_bytes())?;
    let format = rest.split(|&byte| byte == b'\n').next().unwrap_or_default();
    if ![FORMAT, FORMAT_WITHOUT_HOLES].map(str::as_bytes).contains(&format) {
        let format = String::from_utf8_lossy(format).chars().take(40).collect();
        return Some(Err(ColdReason::OtherFormat(format)));
    }
    Some(parse_lines(bytes, config, arena_size_bytes))
}

fn parse_lines(
    bytes: &[u8],
    config: &EngineConfig,
    arena_size_bytes: u64,
) -> Result<Saved, ColdReason> {
    let text = std::str::from_utf8(bytes).map_err(|_| damaged("the file is not UTF-8 text"))?;
    let body = text.rfind(CHECKSUM).and_then(|at| {
        let (body, line) = text.split_at(at);
        (line == format!("{CHECKSUM}{}\n", checksum(body))).then_some(body)
    });
    let body = body.ok_or_else(|| damaged("the checksum is wrong or missing"))?;
    let mut fields = Fields { lines: body.lines() };
    let has_holes = fields.lines.next().is_some_and(|line| !line.ends_with(FORMAT_WITHOUT_HOLES));
    let [page_size, settings @ ..] = settings(config);
    let memory_limit_bytes = fields.number("memory_limit_bytes")?;
    fields.same(page_size)?;
    let saved_size_bytes: u64 = fields.number("arena_size_bytes")?;
    settings.into_iter().try_for_each(|setting| fields.same(setting))?;
    if saved_size_bytes != arena_size_bytes {
        return Err(ColdReason::OtherArena);
    }
    let pages = (arena_size_bytes / config.page_size_bytes as u64) as usize;
    let mut saved = Saved {
        memory_limit_bytes,
        arena_size_bytes,
        generation: fields.number("seal")?,
        stop: Stop {
            unix_time: Duration::from_nanos(fields.number("unix_time_ns")?),
            // The clock and the CAS counter continue from the saved values. A forged file with huge values must not
            // make them overflow.
            elapsed: Duration::from_nanos(fields.number("clock_ns").map(clamped_to_half)?),
        },
        flush: FlushSaved {
            last_cas: fields.number("cas").map(clamped_to_half)?,
            cas_bound: fields.number("flush_cas_bound")?,
            due_second: fields.number("flush_due_second")?,
            mark: fields.number("flush_mark")?,
        },
        work: WorkSaved::default(),
        index_buckets: fields.number("index_buckets")?,
        table: fields.parsed("class_table", |text| parse_table(text, config))?,
        retired: Vec::new(),
        owners: Vec::new(),
        holes: Vec::new(),
        tails: vec![Tails::new(); CLASS_NUMBERS],
        rankings: vec![[0; 3]; CLASS_NUMBERS],
    };
    saved.retired =
        fields.parsed("retired_classes", |text| parse_retired(text, &saved.table, config))?;
    let queueing = queueing(&saved.table, &saved.retired);
    saved.owners = fields.parsed("page_owners", |text| parse_owners(text, &queueing, pages))?;
    if has_holes {
        saved.holes = fields.parsed("holes", |text| parse_holes(text, pages))?;
    }
    for class in queueing {
        let tails = |text: &str| parse_tails(text, arena_size_bytes);
        saved.tails[class.index()] = fields.parsed(&queue_tails_name(class), tails)?;
        saved.rankings[class.index()] = fields.parsed(&ranking_name(class), parse_ranking)?;
    }
    saved.work = parse_work(&mut fields, &saved.stop)?;
    Ok(saved)
}

/// Parses the state of the work clock. Its second must not be later than the stop, because the clock would then ignore
/// all seconds before it.
fn parse_work(fields: &mut Fields<'_>, stop: &Stop) -> Result<WorkSaved, ColdReason> {
    let second_max = stop.elapsed.as_secs() + u64::from(Seconds::START.0);
    let mut work = WorkSaved {
        reading: fields.number("work_reading").map(clamped_to_half)?,
        second: fields.parsed("work_second", |text| {
            text.parse().ok().filter(|&second: &u32| u64::from(second) <= second_max)
        })?,
        ..WorkSaved::default()
    };
    for (level, starts) in work.starts.iter_mut().enumerate() {
        *starts = fields.parsed(&work_starts_name(level), |text| parse_starts(text, level))?;
    }
    Ok(work)
}

/// Limits a number to the lower half of its range.
fn clamped_to_half(number: u64) -> u64 {
    number.min(u64::MAX / 2)
}

fn damaged(damage: &str) -> ColdReason {
    ColdReason::DamagedMeta(damage.to_owned())
}

fn damaged_line(name: &str) -> ColdReason {
    ColdReason::DamagedMeta(format!("the line {name}= is missing or invalid"))
}

/// The lines of the file that are not parsed yet.
struct Fields<'t> {
    lines: Lines<'t>,
}

impl<'t> Fields<'t> {
    /// Returns the value in the next line. Returns an error if the line has another name.
    fn next_value(&mut self, name: &str) -> Result<&'t str, ColdReason> {
        let line = self.lines.next();
        let value = line.and_then(|line| line.strip_prefix(name)?.strip_prefix('='));
        value.ok_or_else(|| damaged_line(name))
    }

    /// Reads a setting, which must have the present value.
    fn same(&mut self, (name, present): (&str, String)) -> Result<(), ColdReason> {
        let saved = self.next_value(name)?;
        if saved == present {
            return Ok(());
        }
        let (name, saved) = (name.to_owned(), saved.to_owned());
        Err(ColdReason::OtherSetting { name, saved, present })
    }

    fn parsed<T>(
        &mut self,
        name: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T, ColdReason> {
        parse(self.next_value(name)?).ok_or_else(|| damaged_line(name))
    }

    fn number<T: FromStr>(&mut self, name: &str) -> Result<T, ColdReason> {
        self.parsed(name, |text| text.parse().ok())
    }
}

fn parse_classes(text: &str) -> Option<Vec<(ClassId, usize)>> {
    let parse = |class: &str| {
        let (id, size) = class.split_once(':')?;
        let id = id.parse().ok().filter(|&id| usize::from(id) < ClassId::NUMBERS)?;
        Some((ClassId(id), size.parse().ok()?))
    };
    text.split(',').filter(|class| !class.is_empty()).map(parse).collect()
}

/// Returns `None` if the text is not a class table that this configuration permits.
fn parse_table(text: &str, config: &EngineConfig) -> Option<ClassTable> {
    let (ids, sizes): (Vec<ClassId>, Vec<usize>) = parse_classes(text)?.into_iter().unzip();
    let distinct: HashSet<&ClassId> = ids.iter().collect();
    if distinct.len() != ids.len() {
        return None;
    }
    let table = ClassTable::explicit(&sizes, config.page_size_bytes).ok()?.renumbered(ids);
    let exact = table.classes().map(|(_, size)| size).eq(sizes);
    let same_largest = table.classes().next_back() == config.classes.classes().next_back();
    (exact && same_largest).then_some(table)
}

/// Returns `None` if the text is not a list of retired classes that this class table and configuration permit.
fn parse_retired(
    text: &str,
    table: &ClassTable,
    config: &EngineConfig,
) -> Option<Vec<(ClassId, usize)>> {
    let retired = parse_classes(text)?;
    let largest = config.classes.chunk_size_bytes_max();
    let mut ids: HashSet<ClassId> = table.ids().collect();
    let mut sizes: HashSet<usize> = table.classes().map(|(_, size)| size).collect();
    let is_valid = |&(id, size): &(ClassId, usize)| {
        let possible = (CHUNK_SIZE_BYTES_MIN..largest).contains(&size)
            && size.is_multiple_of(CHUNK_ALIGN_BYTES);
        possible && ids.insert(id) && sizes.insert(size)
    };
    retired.iter().all(is_valid).then_some(retired)
}

/// Returns `None` if the text is malformed, names a class that is not in `classes`, or lists more than `pages_max`
/// pages.
fn parse_owners(text: &str, classes: &[ClassId], pages_max: usize) -> Option<Vec<Option<ClassId>>> {
    let owner = |owner: &str| {
        let owner = match owner {
            NONE => None,
            class => Some(ClassId(class.parse().ok()?)),
        };
        let known = owner.is_none_or(|class| class != CHAINED && classes.contains(&class));
        known.then_some(owner)
    };
    parse_runs(text.split(',').filter(|run| !run.is_empty()), pages_max, owner)
}

/// Returns `None` if the text is malformed, or names a page from `pages_max` on.
fn parse_holes(text: &str, pages_max: usize) -> Option<Vec<Range<u32>>> {
    let parse = |hole: &str| {
        let (start, count) = hole.split_once('*')?;
        let start: u32 = start.parse().ok()?;
        let end = start.checked_add(count.parse().ok()?)?;
        (end as usize <= pages_max).then_some(start..end)
    };
    text.split(',').filter(|hole| !hole.is_empty()).map(parse).collect()
}

/// Returns the values of runs that [`compose_runs`] has formatted. Returns `None` if a run is malformed, or if there are
/// more than `count_max` values.
fn parse_runs<'t, T: Clone>(
    runs: impl Iterator<Item = &'t str>,
    count_max: usize,
    parse: impl Fn(&str) -> Option<T>,
) -> Option<Vec<T>> {
    let mut values = Vec::new();
    for run in runs {
        let (value, count) = run.split_once('*')?;
        let (value, count): (T, usize) = (parse(value)?, count.parse().ok()?);
        if count > count_max - values.len() {
            return None;
        }
        values.resize(values.len() + count, value);
    }
    Some(values)
}

/// Returns `None` if the text is malformed or has another number of entries than this level of the work clock.
fn parse_starts(text: &str, level: usize) -> Option<Vec<u64>> {
    let len = WORK_CLOCK_LENS[level];
    let mut starts: Vec<u64> = parse_runs(text.split(','), len, |text| text.parse().ok())?;
    for at in 1..starts.len() {
        starts[at] = starts[at].wrapping_add(starts[at - 1]);
    }
    (starts.len() == len).then_some(starts)
}

/// Returns `None` if the text is malformed, the lanes are not in ascending order, or an offset is not in the arena.
fn parse_tails(text: &str, arena_size_bytes: u64) -> Option<Tails> {
    let mut tails = Tails::new();
    for lane in text.split(';').filter(|lane| !lane.is_empty()) {
        let (lane, offsets) = lane.split_once(':')?;
        let lane = Lane(lane.parse().ok().filter(|&lane| lane <= Lane::MAX.0)?);
        let in_order = tails.last_key_value().is_none_or(|(last, _)| *last < lane);
        tails.insert(lane, parse_lane_tails(offsets, arena_size_bytes).filter(|_| in_order)?);
    }
    Some(tails)
}

fn parse_ranking(text: &str) -> Option<[u32; 3]> {
    let numbers: Option<Vec<u32>> = text.split(',').map(|number| number.parse().ok()).collect();
    numbers?.try_into().ok()
}

fn parse_lane_tails(text: &str, arena_size_bytes: u64) -> Option<[Option<ChunkAddress>; 4]> {
    let parse = |offset: &str| {
        if offset == NONE {
            return Some(None);
        }
        let offset: u64 = offset.parse().ok()?;
        let possible = offset < arena_size_bytes && offset.is_multiple_of(8);
        possible.then(|| Some(ChunkAddress::from_offset(offset as usize)))
    };
    let tails: Option<Vec<_>> = text.split(',').map(parse).collect();
    tails?.try_into().ok()
}
