//! The hot operations at growing numbers of nodes. `BERTH_BENCH_MILLION=1` adds a million nodes, which take
//! a while to set up.

use std::time::{Duration, Instant};

use berth_bench::ops::{Bench, Op};
use criterion::{BenchmarkId, Criterion};

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    operations(&mut criterion);
    criterion.final_summary();
}

fn operations(criterion: &mut Criterion) {
    let mut sizes = vec![1_000, 10_000, 100_000];
    if std::env::var_os("BERTH_BENCH_MILLION").is_some() {
        sizes.push(1_000_000);
    }
    for n_nodes in sizes {
        let mut bench = Bench::new(n_nodes);
        for op in Op::ALL {
            let mut group = criterion.benchmark_group(op.to_string());
            group.sample_size(10).warm_up_time(Duration::from_millis(500));
            group.measurement_time(Duration::from_secs(2));
            group.bench_function(BenchmarkId::from_parameter(n_nodes), |bencher| {
                bencher.iter_custom(|n_iterations| {
                    let mut total = Duration::ZERO;
                    for _ in 0..n_iterations {
                        let subject = bench.prepare(op);
                        let start = Instant::now();
                        bench.run(&subject);
                        total += start.elapsed();
                        bench.clear(subject);
                    }
                    total
                });
            });
            group.finish();
        }
    }
}
