//! A sample: the statistics of one server at one time, as typed values.

use slabwise_client::Rows;
use std::collections::BTreeMap;

/// The statistics of a server at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// The time of the sample, in nanoseconds of the clock of the command.
    pub nanos: u64,
    /// The statistics of the whole server.
    pub totals: Totals,
    /// The classes that own a page or hold an item, sorted by chunk size.
    pub classes: Vec<Class>,
    /// The profile; `None` if the server has none.
    pub profile: Option<Profile>,
    /// The page policy and its last plan; `None` if the server has none.
    pub plan: Option<Plan>,
}

/// The statistics of a whole server, from `stats`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The version that the server reports.
    pub version: String,
    /// The process id.
    pub pid: u64,
    /// The seconds since the start of the server.
    pub uptime_seconds: u64,
    /// The number of gets, sets, touches, deletes, increments and decrements since the start.
    pub requests: u64,
    /// The number of gets since the start.
    pub gets: u64,
    /// The number of gets that hit since the start.
    pub hits: u64,
    /// The number of evicted items since the start.
    pub evictions: u64,
    /// The number of page moves since the start; `None` if the server moves no pages.
    pub page_moves: Option<u64>,
    /// The number of items.
    pub items: u64,
    /// The number of open connections.
    pub connections: u64,
    /// The number of bytes that items use.
    pub memory_bytes: u64,
    /// The memory limit in bytes.
    pub memory_limit_bytes: u64,
}

/// The statistics of a class, from `stats items` and `stats slabs`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// The number of the class.
    pub number: u64,
    /// The size of a chunk in bytes.
    pub chunk_size_bytes: u64,
    /// The number of pages that the class owns.
    pub pages: u64,
    /// The number of items.
    pub items: u64,
    /// The number of free chunks.
    pub free_chunks: u64,
    /// The age of the tail (`age` of `stats items`), in seconds; `None` if the class holds no item.
    pub tail_age_seconds: Option<u64>,
    /// The number of gets that hit since the start.
    pub hits: u64,
    /// The number of sets since the start.
    pub sets: u64,
    /// The number of evicted items since the start.
    pub evictions: u64,
    /// True if slabwise empties the class because its chunk size is not in the current class table.
    pub retired: bool,
}

/// Predicted miss ratios, from `stats profile`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// The estimated miss ratio of recent gets.
    pub miss_ratio: Option<f64>,
    /// Pairs of a memory size, in percent of the present memory, and the miss ratio that is predicted for it.
    pub what_if: Vec<(u64, f64)>,
}

/// The page policy and its last plan, from `stats plan`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The name of the page policy.
    pub policy: String,
    /// The number of page moves that the policy planned since the start.
    pub moves_planned: u64,
    /// The last plan with page moves; `None` if there was none.
    pub last: Option<LastPlan>,
}

/// The last plan with page moves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LastPlan {
    /// The seconds since the plan.
    pub age_seconds: u64,
    /// The reason for the plan.
    pub reason: String,
    /// The number of planned moves.
    pub moves: u64,
    /// The number of moves that have begun.
    pub moves_begun: u64,
    /// The number of moves that the mover did not start.
    pub moves_refused: u64,
}

impl Sample {
    /// Returns the name of the server's program: `slabwise` if the server has page policies, otherwise `memcached`.
    pub fn program(&self) -> &'static str {
        if self.plan.is_some() { "slabwise" } else { "memcached" }
    }
}

impl Totals {
    /// Returns the values of the rows of `stats`. The error names a row that is missing.
    pub fn parse(rows: &Rows) -> Result<Totals, String> {
        let needed = |name: &str| {
            number(rows, name).ok_or_else(|| {
                format!(
                    "the reply to `stats` has no number {name}; give the address of a memcached \
                     or slabwise server"
                )
            })
        };
        const CHANGES: [&str; 7] = [
            "cmd_touch",
            "delete_hits",
            "delete_misses",
            "incr_hits",
            "incr_misses",
            "decr_hits",
            "decr_misses",
        ];
        let changes = CHANGES.iter().filter_map(|name| number(rows, name));
        let changes = changes.fold(0, u64::saturating_add);
        let gets = needed("cmd_get")?;
        Ok(Totals {
            version: text(rows, "version").unwrap_or_default(),
            pid: number(rows, "pid").unwrap_or(0),
            uptime_seconds: number(rows, "uptime").unwrap_or(0),
            requests: gets.saturating_add(needed("cmd_set")?).saturating_add(changes),
            gets,
            hits: needed("get_hits")?,
            evictions: needed("evictions")?,
            page_moves: number(rows, "slabs_moved"),
            items: needed("curr_items")?,
            connections: needed("curr_connections")?,
            memory_bytes: needed("bytes")?,
            memory_limit_bytes: needed("limit_maxbytes")?,
        })
    }
}

/// Returns the classes that the rows of `stats items` and `stats slabs` describe, sorted by chunk size.
pub fn classes(items: &Rows, slabs: &Rows) -> Vec<Class> {
    let mut classes: BTreeMap<u64, Class> = BTreeMap::new();
    for row in items.0.iter().chain(&slabs.0) {
        let Some((class, field)) = row.class_field() else { continue };
        let (Ok(class_number), Ok(value)) = (class.parse::<u64>(), row.value.parse::<u64>()) else {
            continue;
        };
        let class = classes.entry(class_number).or_default();
        class.number = class_number;
        match field {
            "number" => class.items = value,
            "age" => class.tail_age_seconds = Some(value),
            "evicted" => class.evictions = value,
            "chunk_size" => class.chunk_size_bytes = value,
            "total_pages" => class.pages = value,
            "free_chunks" => class.free_chunks = value,
            "get_hits" => class.hits = value,
            "cmd_set" => class.sets = value,
            "retired" => class.retired = value == 1,
            _ => {}
        }
    }
    let mut classes: Vec<Class> = classes.into_values().collect();
    classes.retain(|class| class.pages > 0 || class.items > 0);
    for class in classes.iter_mut().filter(|class| class.items == 0) {
        class.tail_age_seconds = None;
    }
    classes.sort_by_key(|class| (class.chunk_size_bytes, class.number));
    classes
}

impl Profile {
    /// Returns the values of the rows of `stats profile`, or `None` if profiles are off.
    pub fn parse(rows: &Rows) -> Option<Profile> {
        if rows.get("profile")?.value != "on" {
            return None;
        }
        let what_if = rows.0.iter().filter_map(|row| {
            let percent = row.name.strip_prefix("what_if:")?.parse().ok()?;
            Some((percent, ratio(&row.value)?))
        });
        let miss_ratio = rows.get("miss_ratio").and_then(|row| ratio(&row.value));
        Some(Profile { miss_ratio, what_if: what_if.collect() })
    }
}

impl Plan {
    /// Returns the values of the rows of `stats plan`, or `None` if the rows have no page policy.
    pub fn parse(rows: &Rows) -> Option<Plan> {
        let last_number = |name: &str| number(rows, name).unwrap_or(0);
        let last = number(rows, "last:age").map(|age_seconds| LastPlan {
            age_seconds,
            reason: text(rows, "last:reason").unwrap_or_default(),
            moves: last_number("last:moves"),
            moves_begun: last_number("last:moves_begun"),
            moves_refused: last_number("last:moves_refused"),
        });
        let moves_planned = number(rows, "moves_planned").unwrap_or(0);
        Some(Plan { policy: text(rows, "page_policy")?, moves_planned, last })
    }
}

/// Returns the value of a row. A control character, which could change the state of the terminal, becomes `?`.
fn text(rows: &Rows, name: &str) -> Option<String> {
    Some(printable(&rows.get(name)?.value))
}

/// Replaces each control character of a text by `?`.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

fn number(rows: &Rows, name: &str) -> Option<u64> {
    rows.get(name)?.value.parse().ok()
}

/// Parses a number from 0 to 1.
fn ratio(text: &str) -> Option<f64> {
    text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio))
}

#[cfg(test)]
mod tests {
    use super::{Class, LastPlan, Plan, Profile, Totals, classes, printable};
    use slabwise_client::{Row, Rows};

    fn rows(text: &str) -> Rows {
        let row = |line: &str| {
            let (name, value) = line.trim().split_once(' ').expect("a row has a name and a value");
            Row { name: name.to_owned(), value: value.to_owned() }
        };
        Rows(text.lines().filter(|line| !line.trim().is_empty()).map(row).collect())
    }

    const STATS: &str = "pid 7\nuptime 9\nversion 1.6.45\ncmd_get 10\ncmd_set 5\ncmd_touch 1\nget_hits 8\n\
        delete_hits 1\ndelete_misses 1\nincr_hits 1\nevictions 3\ncurr_items 4\ncurr_connections 2\nbytes 100\n\
        limit_maxbytes 1000\n";

    #[test]
    fn requests_are_the_sum_of_all_commands_on_items() {
        let totals = Totals::parse(&rows(STATS)).expect("no row is missing");
        assert_eq!((totals.requests, totals.gets, totals.hits), (19, 10, 8));
        assert_eq!((totals.version.as_str(), totals.pid, totals.uptime_seconds), ("1.6.45", 7, 9));
        assert_eq!(totals.page_moves, None, "the server has no row slabs_moved");
        let moving = Totals::parse(&rows(&format!("{STATS}slabs_moved 6")));
        assert_eq!(moving.expect("no row is missing").page_moves, Some(6));
    }

    #[test]
    fn an_error_names_the_missing_row() {
        let error = Totals::parse(&rows("cmd_get 1\ncmd_set 1")).expect_err("rows are missing");
        assert!(error.contains("get_hits") && error.contains("give the address"), "{error}");
    }

    #[test]
    fn a_class_has_the_rows_of_items_and_slabs() {
        let items = rows("items:5:number 3\nitems:5:age 60\nitems:5:evicted 2\nitems:5:age_hot 1");
        let slabs = rows(
            "5:chunk_size 96\n5:total_pages 1\n5:free_chunks 7\n5:get_hits 11\n5:cmd_set 12\n\
             2:chunk_size 400\n2:total_pages 1\n2:retired 1\n1:chunk_size 48\n1:total_pages 0\n\
             active_slabs 2",
        );
        let five = Class {
            number: 5,
            chunk_size_bytes: 96,
            pages: 1,
            items: 3,
            free_chunks: 7,
            tail_age_seconds: Some(60),
            hits: 11,
            sets: 12,
            evictions: 2,
            retired: false,
        };
        let two =
            Class { number: 2, chunk_size_bytes: 400, pages: 1, retired: true, ..Class::default() };
        assert_eq!(classes(&items, &slabs), [five, two], "class 1 is unused");
    }

    #[test]
    fn a_profile_has_the_valid_predictions() {
        let text = "profile on\nmiss_ratio 0.25\nwhat_if:50 0.4\nwhat_if:100 0.2\nwhat_if:x 1\n\
                    what_if:200 nan";
        let profile = Profile::parse(&rows(text)).expect("profiles are on");
        assert_eq!(profile.miss_ratio, Some(0.25));
        assert_eq!(profile.what_if, [(50, 0.4), (100, 0.2)]);
        assert_eq!(Profile::parse(&rows("profile off")), None);
        assert_eq!(Profile::parse(&Rows::default()), None);
    }

    #[test]
    fn a_plan_may_have_no_moves_yet() {
        let none = Plan::parse(&rows("page_policy none\nmoves_planned 0")).expect("a plan");
        assert_eq!((none.policy.as_str(), none.last), ("none", None));
        let text = "page_policy space_time\nmoves_planned 9\nlast:age 4\nlast:reason a b\n\
                    last:moves 3\nlast:moves_begun 2\nlast:moves_refused 1";
        let plan = Plan::parse(&rows(text)).expect("a plan");
        let last = LastPlan {
            age_seconds: 4,
            reason: "a b".to_owned(),
            moves: 3,
            moves_begun: 2,
            moves_refused: 1,
        };
        assert_eq!((plan.moves_planned, plan.last), (9, Some(last)));
        assert_eq!(Plan::parse(&Rows::default()), None);
    }

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(printable("1.6\u{1b}[2J"), "1.6?[2J");
    }
}
