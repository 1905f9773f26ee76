/work/wt/server/bench/load/target/release/deps/slabwise_bench_load-404db06d23baaa6b.d: src/main.rs

/work/wt/server/bench/load/target/release/deps/slabwise_bench_load-404db06d23baaa6b: src/main.rs

src/main.rs:
