//! Runs over a memory file: half way the cache is closed and opened again, and the oracle goes on as if
//! nothing had happened.

use crate::driver::{Course, Driver};
use crate::scenario::{Memory, Scenario};
use crate::{OPERATIONS_PER_SEED, seeds};
use slabwise_base::Random;
use slabwise_base::random::mix;
use slabwise_engine::{Engine, EngineConfig, Start, Stop};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The machine's date when a run begins.
const STARTED: Duration = Duration::from_secs(1_800_000_000);

/// A directory of one run's own, removed with it.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new(memory: Memory, seed: u64) -> TestDirectory {
        let name = format!("slabwise-model-{}-{memory:?}-{seed}", std::process::id());
        let ram = Path::new("/dev/shm");
        let base = if ram.is_dir() { ram.to_owned() } else { std::env::temp_dir() };
        let directory = base.join(name);
        std::fs::create_dir_all(&directory).expect("a directory for the test");
        TestDirectory(directory)
    }

    fn open(&self, config: &EngineConfig, unix_time: Duration) -> (Engine, Start) {
        let path = self.0.join("memory");
        Engine::open(config.clone(), &path, unix_time, &mut |_| {}).expect("it opens")
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        // A leftover in a ram disk or temporary directory is no failure.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn run(memory: Memory, seed: u64) {
    println!("{memory:?} seed {seed}: rerun with SLABWISE_SEED={seed}");
    let directory = TestDirectory::new(memory, seed);
    let mut random = Random::new(mix(seed) ^ memory as u64);
    let scenario = Scenario::random(memory, &mut random);
    let mut course = Course::new(&scenario, random);
    for life in 0..3 {
        let date = STARTED + course.elapsed();
        let (engine, start) = directory.open(&scenario.config, date);
        match start {
            Start::Warm(warm) => {
                assert_eq!(warm.elapsed, course.elapsed(), "law TIME: the clock goes on");
                let certain = course.known_count();
                assert!(warm.items >= certain, "law NO-LOSS: {} of {certain} items", warm.items);
            }
            Start::Cold(reason) => assert_eq!(life, 0, "law NO-LOSS: cold, as {reason}"),
        }
        engine.check();
        let mut driver = Driver::new(&engine, &scenario, course);
        for _ in 0..OPERATIONS_PER_SEED / 3 {
            driver.step();
        }
        course = driver.stop();
        let (unix_time, elapsed) = (STARTED + course.elapsed(), course.elapsed());
        engine.close(Stop { unix_time, elapsed }).expect("it is saved");
        course.pass(Duration::from_millis(1_700));
    }
    let (engine, _) = directory.open(&scenario.config, STARTED + course.elapsed());
    Driver::new(&engine, &scenario, course).finish();
}

#[test]
fn a_restart_makes_the_cache_neither_lie_nor_forget() {
    for memory in [Memory::Short, Memory::Refusing] {
        seeds().into_iter().for_each(|seed| run(memory, seed));
    }
}
