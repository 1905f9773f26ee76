//! What each page policy, eviction kind and mover is known for, on a server with real clients.

mod cache;
mod scenario;
mod scenarios;
mod traffic;

#[test]
#[ignore = "prints scores"]
fn scores() {
    use scenarios::*;
    let all = [SHIFT, DROP, TRICKLE, CONCAVE, CLIFF, SCAN, SCAN_AND_NEED, LOOP, LATE, COSTS];
    let names = std::env::var("SCENARIOS").unwrap_or_default();
    let options = std::env::var("OPTIONS").unwrap();
    let seeds: u64 = std::env::var("SEEDS").unwrap_or("1".into()).parse().unwrap();
    for scenario in all.iter().filter(|s| names.is_empty() || names.split(',').any(|n| n == s.name)) {
        for options in options.split_whitespace() {
            for seed in 1..=seeds {
                let start = crate::support::Deadline::after(std::time::Duration::from_secs(1000));
                let outcome = scenario.run_whole(options, seed);
                println!("{:14} {options:60} {seed} {:.1} moved {} {:?}", scenario.name, outcome.score, outcome.pages_moved,
                    std::time::Duration::from_secs(1000) - start.left());
            }
        }
    }
}
