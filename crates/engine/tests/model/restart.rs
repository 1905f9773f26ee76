//! Runs with a memory file. The cache is closed and opened again several times. The oracle continues over these
//! restarts.

use crate::driver::{Driver, RunState};
use crate::scenario::{Memory, Scenario};
use crate::{OPERATIONS_PER_SEED, seeds};
use slabwise_base::Random;
use slabwise_base::random::mix;
use slabwise_engine::{Engine, EngineConfig, Start, Stop};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The Unix time at which a run starts.
const STARTED: Duration = Duration::from_secs(1_800_000_000);

/// The path of a temporary directory. Dropping this value removes the directory.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new(memory: Memory, seed: u64) -> TestDirectory {
        let name = format!("slabwise-model-{}-{memory:?}-{seed}", std::process::id());
        let ram = Path::new("/dev/shm");
        let base = if ram.is_dir() { ram.to_owned() } else { std::env::temp_dir() };
        let directory = base.join(name);
        std::fs::create_dir_all(&directory).expect("the directory is created");
        TestDirectory(directory)
    }

    fn open(&self, config: &EngineConfig, unix_time: Duration) -> (Engine, Start) {
        let path = self.0.join("memory");
        Engine::open(config.clone(), &path, unix_time, &mut |_| {})
            .expect("the memory file can be opened")
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        // A directory that cannot be removed does not fail the test.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn run(memory: Memory, seed: u64) {
    println!("{memory:?} seed {seed}: rerun with SLABWISE_SEED={seed}");
    let directory = TestDirectory::new(memory, seed);
    let mut random = Random::new(mix(seed) ^ memory as u64);
    let scenario = Scenario::random(memory, &mut random);
    let mut state = RunState::new(&scenario, random);
    for start_number in 0..3 {
        let date = STARTED + state.elapsed();
        let (engine, start) = directory.open(&scenario.config, date);
        match start {
            Start::Warm(warm) => {
                assert_eq!(
                    warm.elapsed,
                    state.elapsed(),
                    "invariant TIME: the clock continues at the time of the stop plus the pause"
                );
                let certain = state.certain_count();
                assert!(
                    warm.items >= certain,
                    "invariant NO-LOSS: {} items were restored, but {certain} must exist",
                    warm.items
                );
            }
            Start::Cold(reason) => {
                assert_eq!(start_number, 0, "invariant NO-LOSS: an empty cache: {reason}")
            }
        }
        engine.check();
        let mut driver = Driver::new(&engine, &scenario, state);
        for _ in 0..OPERATIONS_PER_SEED / 3 {
            driver.step();
        }
        state = driver.stop();
        let (unix_time, elapsed) = (STARTED + state.elapsed(), state.elapsed());
        engine.close(Stop { unix_time, elapsed }).expect("the cache is saved");
        state.advance(Duration::from_millis(1_700));
    }
    let (engine, _) = directory.open(&scenario.config, STARTED + state.elapsed());
    Driver::new(&engine, &scenario, state).finish();
}

#[test]
fn a_restart_loses_nothing_and_returns_no_wrong_items() {
    for memory in [Memory::Short, Memory::Refusing] {
        seeds().into_iter().for_each(|seed| run(memory, seed));
    }
}
