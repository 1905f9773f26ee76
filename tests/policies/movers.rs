//! Movers: pages move while two clients send requests, and no value is wrong.

use slabwise_engine::MOVER_NAMES;

use super::cache::Cache;
use super::page_scenarios::CLIFF;
use super::traffic::Traffic;

/// The number of gets that each client sends before the moves are counted again.
const GETS: usize = 5_000;
/// The maximum number of such counts.
const ROUNDS_MAX: usize = 200;
/// The mover that may never empty a page while clients store items: it visits a chunk again only after all others, and
/// meanwhile stores reuse the chunks that it has emptied.
const MAY_NOT_MOVE: &str = "base_next";

#[test]
fn pages_move_while_two_clients_send_requests() {
    for mover in MOVER_NAMES {
        let options = format!("page_policy=lama:period_gets=5000,eviction=lru,page_mover={mover}");
        let mut cache = Cache::start(&options);
        let (fill, cliff) = (CLIFF.scenes[0], CLIFF.scenes[1]);
        cache.sender().send(&mut Traffic::new(fill.parts, 1), fill.rounds * fill.gets_per_round);
        let mut traffics = [Traffic::new(cliff.parts, 2), Traffic::new(cliff.parts, 3)];
        let mut rounds = 0;
        let counts = loop {
            let sender = cache.sender();
            std::thread::scope(|scope| {
                for traffic in &mut traffics {
                    scope.spawn(|| assert_eq!(sender.send(traffic, GETS).sets_refused, 0));
                }
            });
            rounds += 1;
            let [moved, visits] =
                ["moved", "chunks_visited"].map(|name| cache.client().stat_of("stats moves", name));
            if (moved >= 10 && visits >= 10) || rounds == ROUNDS_MAX {
                break (moved, visits);
            }
        };
        println!(
            "{mover}, seeds 1 to 3: {counts:?} pages moved and chunks visited in {rounds} rounds"
        );
        assert!(counts.1 > 0, "{mover} visits chunks");
        assert!(counts.0 > 0 || mover == MAY_NOT_MOVE, "{mover} moves pages");
        assert_eq!(cache.client().ask("debugcheck"), "OK", "{mover} keeps the invariants");
    }
}
