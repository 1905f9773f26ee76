//! The JSON document of `slabwise top --once --json`.
//!
//! The document has these fields. A rate is `null` if it is not known: if the server was restarted between the samples,
//! if a counter is lower than before, or if the server does not have the counter. Rates belong to the time between the
//! two samples. All other values are those of the second sample.
//!
//! ```text
//! interval_seconds            number   the requested time between the samples
//! total                       object   the sums over all servers that could be read; null if fewer than two could be read.
//!                                      It has the fields of a server from requests_per_second to page_moves_per_second
//! servers                     array    one object for each server, in the order of the arguments
//!   address                   string   HOST:PORT or unix:PATH
//!   reachable                 boolean  false if one of the two samples could not be read
//!   error                     string   only if not reachable: the reason; all other fields are missing
//!   program                   string   "slabwise" or "memcached"
//!   version                   string   the version that the server reports
//!   uptime_seconds            integer
//!   elapsed_seconds           number   the time between the two samples; null after a restart of the server
//!   requests_per_second       number   gets, sets, touches, deletes, increments and decrements
//!   hit_ratio                 number   hits divided by gets, 0 to 1; null if there was no get
//!   memory_bytes              integer  bytes that items use
//!   memory_limit_bytes        integer
//!   evictions_per_second      number
//!   connections               integer
//!   items                     integer
//!   page_moves_per_second     number
//!   differences               array    how the server differs from the others
//!     value                   string   "hit_ratio" or "memory"
//!     own                     number   the hit ratio, or the share of the memory in small chunks, 0 to 1
//!     median                  number   the median of this value over all servers
//!     chunk_size_bytes        integer  only "memory": the largest of these chunks
//!   classes                   array    the classes that own pages or hold items, sorted by chunk size
//!     class                   integer  the number of the class
//!     chunk_size_bytes        integer
//!     pages                   integer
//!     items                   integer
//!     tail_age_seconds        integer  null if the class holds no item
//!     hits_per_second         number
//!     sets_per_second         number
//!     evictions_per_second    number
//!     free_chunks             integer
//!     retired                 boolean  true if slabwise empties the class
//!   profile                   object   only slabwise with profiles
//!     miss_ratio              number   the estimated miss ratio of recent gets
//!     predictions             array    empty until the profile has predictions
//!       memory_percent        integer  a memory size, in percent of the present memory
//!       miss_ratio            number   the predicted miss ratio with this memory
//!   plan                      object   only slabwise
//!     page_policy             string
//!     moves_planned           integer  page moves planned since the policy was selected
//!     last                    object   the last plan with page moves; null if there was none
//!       age_seconds           integer
//!       reason                string
//!       moves                 integer
//!       moves_begun           integer
//!       moves_refused         integer
//! ```

use crate::pool;
use crate::rates::{ClassReading, Reading};
use crate::sample::{Plan, Profile};
use crate::server::{Server, ServerState};
use serde::Serialize;
use slabwise_fleet::outliers::Difference;
use std::time::Duration;

/// Returns the document for these servers.
pub fn document(servers: &[Server], interval: Duration) -> Result<String, serde_json::Error> {
    let total = pool::total(servers);
    let total = total.as_ref().and_then(Server::reading).map(SumsJson::from);
    let all = servers.iter().zip(pool::differences(servers));
    let servers = all.map(|(server, differences)| ServerJson::new(server, &differences)).collect();
    let interval_seconds = interval.as_secs_f64();
    serde_json::to_string_pretty(&Document { interval_seconds, total, servers })
}

#[derive(Serialize)]
struct Document<'a> {
    interval_seconds: f64,
    total: Option<SumsJson>,
    servers: Vec<ServerJson<'a>>,
}

#[derive(Serialize)]
struct ServerJson<'a> {
    address: &'a str,
    reachable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(flatten)]
    reading: Option<ReadingJson<'a>>,
}

#[derive(Serialize)]
struct ReadingJson<'a> {
    program: &'static str,
    version: &'a str,
    uptime_seconds: u64,
    elapsed_seconds: Option<f64>,
    #[serde(flatten)]
    sums: SumsJson,
    differences: Vec<DifferenceJson>,
    classes: Vec<ClassJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<ProfileJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<PlanJson<'a>>,
}

/// The values that can be added up over servers.
#[derive(Serialize)]
struct SumsJson {
    requests_per_second: Option<f64>,
    hit_ratio: Option<f64>,
    memory_bytes: u64,
    memory_limit_bytes: u64,
    evictions_per_second: Option<f64>,
    connections: u64,
    items: u64,
    page_moves_per_second: Option<f64>,
}

#[derive(Serialize)]
struct DifferenceJson {
    value: &'static str,
    own: f64,
    median: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    chunk_size_bytes: Option<u64>,
}

#[derive(Serialize)]
struct ClassJson {
    class: u64,
    chunk_size_bytes: u64,
    pages: u64,
    items: u64,
    tail_age_seconds: Option<u64>,
    hits_per_second: Option<f64>,
    sets_per_second: Option<f64>,
    evictions_per_second: Option<f64>,
    free_chunks: u64,
    retired: bool,
}

#[derive(Serialize)]
struct ProfileJson {
    miss_ratio: Option<f64>,
    predictions: Vec<PredictionJson>,
}

#[derive(Serialize)]
struct PredictionJson {
    memory_percent: u64,
    miss_ratio: f64,
}

#[derive(Serialize)]
struct PlanJson<'a> {
    page_policy: &'a str,
    moves_planned: u64,
    last: Option<LastPlanJson<'a>>,
}

#[derive(Serialize)]
struct LastPlanJson<'a> {
    age_seconds: u64,
    reason: &'a str,
    moves: u64,
    moves_begun: u64,
    moves_refused: u64,
}

impl<'a> ServerJson<'a> {
    fn new(server: &'a Server, differences: &[Difference]) -> ServerJson<'a> {
        let error = match &server.state {
            ServerState::Up(_) => None,
            ServerState::Waiting => Some("no sample was read"),
            ServerState::Down(reason) => Some(reason.as_str()),
        };
        let reading = server.reading().map(|reading| ReadingJson::new(reading, differences));
        ServerJson { address: &server.address, reachable: error.is_none(), error, reading }
    }
}

impl<'a> ReadingJson<'a> {
    fn new(reading: &'a Reading, differences: &[Difference]) -> ReadingJson<'a> {
        let sample = &reading.sample;
        ReadingJson {
            program: sample.program(),
            version: &sample.totals.version,
            uptime_seconds: sample.totals.uptime_seconds,
            elapsed_seconds: reading.elapsed_seconds,
            sums: SumsJson::from(reading),
            differences: differences.iter().map(DifferenceJson::from).collect(),
            classes: reading.classes.iter().map(ClassJson::from).collect(),
            profile: sample.profile.as_ref().map(ProfileJson::from),
            plan: sample.plan.as_ref().map(PlanJson::from),
        }
    }
}

impl From<&Reading> for SumsJson {
    fn from(reading: &Reading) -> SumsJson {
        let (totals, rates) = (&reading.sample.totals, &reading.rates);
        SumsJson {
            requests_per_second: rates.requests_per_second,
            hit_ratio: rates.hit_ratio,
            memory_bytes: totals.memory_bytes,
            memory_limit_bytes: totals.memory_limit_bytes,
            evictions_per_second: rates.evictions_per_second,
            connections: totals.connections,
            items: totals.items,
            page_moves_per_second: rates.page_moves_per_second,
        }
    }
}

impl From<&Difference> for DifferenceJson {
    fn from(difference: &Difference) -> DifferenceJson {
        match *difference {
            Difference::HitRatio { own, median } => {
                DifferenceJson { value: "hit_ratio", own, median, chunk_size_bytes: None }
            }
            Difference::Memory { chunk_size_bytes, own, median } => {
                let chunk_size_bytes = Some(chunk_size_bytes);
                DifferenceJson { value: "memory", own, median, chunk_size_bytes }
            }
        }
    }
}

impl From<&ClassReading> for ClassJson {
    fn from(row: &ClassReading) -> ClassJson {
        ClassJson {
            class: row.class.number,
            chunk_size_bytes: row.class.chunk_size_bytes,
            pages: row.class.pages,
            items: row.class.items,
            tail_age_seconds: row.class.tail_age_seconds,
            hits_per_second: row.hits_per_second,
            sets_per_second: row.sets_per_second,
            evictions_per_second: row.evictions_per_second,
            free_chunks: row.class.free_chunks,
            retired: row.class.retired,
        }
    }
}

impl From<&Profile> for ProfileJson {
    fn from(profile: &Profile) -> ProfileJson {
        let predictions = profile
            .what_if
            .iter()
            .map(|&(memory_percent, miss_ratio)| PredictionJson { memory_percent, miss_ratio });
        ProfileJson { miss_ratio: profile.miss_ratio, predictions: predictions.collect() }
    }
}

impl<'a> From<&'a Plan> for PlanJson<'a> {
    fn from(plan: &'a Plan) -> PlanJson<'a> {
        let last = plan.last.as_ref().map(|last| LastPlanJson {
            age_seconds: last.age_seconds,
            reason: &last.reason,
            moves: last.moves,
            moves_begun: last.moves_begun,
            moves_refused: last.moves_refused,
        });
        PlanJson { page_policy: &plan.policy, moves_planned: plan.moves_planned, last }
    }
}

#[cfg(test)]
mod tests {
    use super::document;
    use crate::examples;
    use serde_json::{Value, json};
    use std::time::Duration;

    fn servers() -> Value {
        let text = document(&examples::servers(), Duration::from_millis(500));
        let mut document: Value = serde_json::from_str(&text.expect("the values are finite"))
            .expect("the document is JSON");
        assert_eq!(document["interval_seconds"], json!(0.5));
        document["servers"].take()
    }

    #[test]
    fn a_slabwise_server_has_a_profile_and_a_plan() {
        let server = &servers()[0];
        assert_eq!((&server["program"], &server["reachable"]), (&json!("slabwise"), &json!(true)));
        assert_eq!(server["requests_per_second"], json!(45_600.0));
        assert_eq!(server["hit_ratio"], json!(0.75));
        assert_eq!(server["memory_bytes"], json!(60 << 20));
        let prediction = json!({ "memory_percent": 25, "miss_ratio": 0.41 });
        assert_eq!(server["profile"]["predictions"][0], prediction);
        assert_eq!(server["plan"]["last"]["moves"], json!(80));
        let class = &server["classes"][0];
        assert_eq!((&class["class"], &class["chunk_size_bytes"]), (&json!(1), &json!(96)));
        assert!(server.get("error").is_none());
    }

    #[test]
    fn a_memcached_server_has_no_profile_and_no_plan() {
        let server = &servers()[1];
        assert_eq!(server["program"], json!("memcached"));
        assert!(server.get("profile").is_none() && server.get("plan").is_none());
        assert_eq!(server["hit_ratio"], Value::Null, "there was no get");
    }

    #[test]
    fn a_server_that_is_down_has_only_a_reason() {
        let error = "cannot connect: Connection refused (os error 111)";
        let expected = json!({ "address": "127.0.0.1:1", "reachable": false, "error": error });
        assert_eq!(servers()[2], expected);
    }
}
