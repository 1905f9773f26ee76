/work/wt/server/bench/load/target/release/slabwise-bench-load: /work/wt/server/bench/load/src/main.rs
