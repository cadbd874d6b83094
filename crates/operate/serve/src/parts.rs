//! Processor time of the parts of a component, for the metric `berth_processor_seconds_total`.
//!
//! Reading the clock of a thread is a system call. One of 61 calls is therefore measured, and counts for all; what the
//! clock itself takes is left out. A part that calls another does not include it.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::Registry;

/// A prime: calls often alternate in short cycles.
const ONE_OF: u32 = 61;
const METRIC: &str = "berth_processor_seconds";

/// A part of a component, for all components of the process.
#[derive(Debug)]
pub struct Part {
    name: &'static str,
    nanos: AtomicU64,
}

/// System calls of the connections that a [`Listener`](crate::Listener) accepts.
pub static SOCKETS: Part = Part::new("sockets");
/// TLS of these connections.
pub static TLS: Part = Part::new("tls");

thread_local! {
    static CALLS: Calls = const { Calls { depth: Cell::new(0), n: Cell::new(0), weight: Cell::new(0), inner: Cell::new(0) } };
}

/// The measured calls of a thread.
struct Calls {
    /// Calls that have not returned.
    depth: Cell<u32>,
    /// Outermost calls.
    n: Cell<u32>,
    /// For how many calls the outermost one counts; 0 if it is not measured.
    weight: Cell<u32>,
    /// Nanoseconds of the calls within the innermost one that has not returned.
    inner: Cell<u64>,
}

impl Part {
    /// A part with this name in metrics.
    pub const fn new(name: &'static str) -> Part {
        Part { name, nanos: AtomicU64::new(0) }
    }

    /// Runs `work` as this part of the component; for work that is done very often.
    pub fn run<T>(&'static self, work: impl FnOnce() -> T) -> T {
        self.measured(ONE_OF, work)
    }

    /// Runs `work` as this part of the component, and measures each call; for long work.
    pub fn run_long<T>(&'static self, work: impl FnOnce() -> T) -> T {
        self.measured(1, work)
    }

    fn measured<T>(&'static self, one_of: u32, work: impl FnOnce() -> T) -> T {
        let _call = Call::begin(self, one_of);
        work()
    }

    /// Processor time so far.
    pub fn time(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Ordering::Relaxed))
    }
}

struct Call {
    part: &'static Part,
    begun_at: u64,
    /// What it takes to read the clock.
    reading: u64,
    /// What the call around it has called before.
    inner_before: u64,
}

impl Call {
    fn begin(part: &'static Part, one_of: u32) -> Call {
        CALLS.with(|calls| {
            if calls.depth.get() == 0 {
                let n = calls.n.get().wrapping_add(1);
                calls.n.set(n);
                calls.weight.set(if n.is_multiple_of(one_of) { one_of } else { 0 });
            }
            calls.depth.set(calls.depth.get() + 1);
            let first = if calls.weight.get() > 0 { thread_nanos() } else { 0 };
            let begun_at = if calls.weight.get() > 0 { thread_nanos() } else { 0 };
            Call { part, begun_at, reading: begun_at - first, inner_before: calls.inner.replace(0) }
        })
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        CALLS.with(|calls| {
            calls.depth.set(calls.depth.get() - 1);
            let weight = u64::from(calls.weight.get());
            let took = if weight > 0 { thread_nanos().saturating_sub(self.begun_at) } else { 0 };
            let own = took.saturating_sub(calls.inner.get() + self.reading);
            self.part.nanos.fetch_add(own * weight, Ordering::Relaxed);
            calls.inner.set(self.inner_before + took + 2 * self.reading);
        });
    }
}

/// Processor time of this thread; 0 where the system has no such clock.
fn thread_nanos() -> u64 {
    #[cfg(target_os = "linux")]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let nanos = time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec);
        u64::try_from(nanos).unwrap_or(0)
    }
    #[cfg(not(target_os = "linux"))]
    0
}

struct Parts(Box<[&'static Part]>);

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0).finish()
    }
}

impl Collector for Parts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Processor time of the parts of this process, measured on samples";
        let mut metric = encoder.encode_descriptor(METRIC, help, None, MetricType::Counter)?;
        for part in &self.0 {
            let counter = ConstCounter::new(part.time().as_secs_f64());
            counter.encode(metric.encode_family(&[("part", part.name)])?)?;
        }
        Ok(())
    }
}

pub fn register(registry: &mut Registry, parts: impl Into<Box<[&'static Part]>>) {
    registry.register_collector(Box::new(Parts(parts.into())));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Work that takes processor time.
    fn spin(millis: u64) {
        let end = thread_nanos() + millis * 1_000_000;
        while thread_nanos() < end {}
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_part_does_not_include_the_parts_that_it_calls_nor_the_time_that_it_sleeps() {
        static OUTER: Part = Part::new("outer");
        static INNER: Part = Part::new("inner");
        OUTER.run_long(|| {
            spin(2);
            std::thread::sleep(Duration::from_millis(20));
            INNER.run(|| spin(6));
            INNER.run(|| spin(6));
        });
        let (outer, inner) = (OUTER.time(), INNER.time());
        // The clocks of two processors differ by some microseconds.
        assert!(inner >= Duration::from_millis(11), "{inner:?}");
        assert!((Duration::from_millis(1)..Duration::from_millis(11)).contains(&outer), "{outer:?}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn samples_count_for_all_calls() {
        static SAMPLED: Part = Part::new("sampled");
        for _ in 0..ONE_OF {
            SAMPLED.run(|| spin(1));
        }
        assert!(SAMPLED.time() >= Duration::from_millis(u64::from(ONE_OF)), "{:?}", SAMPLED.time());
        let mut registry = Registry::default();
        register(&mut registry, [&SAMPLED]);
        let text = crate::health::encode(&registry).unwrap();
        assert!(text.contains("berth_processor_seconds_total{part=\"sampled\"} 0."), "{text}");
    }
}
