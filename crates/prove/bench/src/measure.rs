//! Durations, their distribution, memory, and the checksum of a sequence of decisions.

use std::time::{Duration, Instant};

use serde::Serialize;

/// Runs `f` and measures its duration.
pub fn timed<T>(f: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let value = f();
    (value, start.elapsed())
}

#[derive(Clone, Debug, Default)]
pub struct Samples {
    nanos: Vec<u64>,
}

impl Samples {
    pub fn add(&mut self, duration: Duration) {
        self.nanos.push(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds all durations of `other`.
    pub fn extend(&mut self, other: &Samples) {
        self.nanos.extend_from_slice(&other.nanos);
    }

    pub fn figures(mut self) -> Figures {
        self.nanos.sort_unstable();
        let total_nanos: u64 = self.nanos.iter().fold(0, |sum, n| sum.saturating_add(*n));
        let seconds = total_nanos as f64 / 1e9;
        let rate = if seconds > 0.0 { self.nanos.len() as f64 / seconds } else { 0.0 };
        Figures {
            decisions: self.nanos.len(),
            decisions_per_second: (rate * 10.0).round() / 10.0,
            p50_us: self.percentile_us(50),
            p99_us: self.percentile_us(99),
            max_us: self.percentile_us(100),
        }
    }

    /// A percentile of the samples, which are sorted.
    fn percentile_us(&self, percent: usize) -> f64 {
        let rank = (self.nanos.len() * percent).div_ceil(100);
        rank.checked_sub(1).and_then(|i| self.nanos.get(i)).map_or(0.0, |nanos| *nanos as f64 / 1000.0)
    }
}

/// Rate and distribution of decisions, the assignment included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    pub decisions: usize,
    /// Number of decisions divided by the sum of their durations.
    pub decisions_per_second: f64,
    /// Median duration in microseconds.
    pub p50_us: f64,
    /// 99th percentile in microseconds.
    pub p99_us: f64,
    /// Longest duration in microseconds.
    pub max_us: f64,
}

impl Figures {
    /// The median of each figure over several runs; with an even number of runs the lower one.
    pub fn median(runs: &[Figures]) -> Figures {
        let median = |figure: fn(&Figures) -> f64| {
            let mut values: Vec<f64> = runs.iter().map(figure).collect();
            values.sort_unstable_by(f64::total_cmp);
            values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
        };
        Figures {
            decisions: runs.first().map_or(0, |f| f.decisions),
            decisions_per_second: median(|f| f.decisions_per_second),
            p50_us: median(|f| f.p50_us),
            p99_us: median(|f| f.p99_us),
            max_us: median(|f| f.max_us),
        }
    }
}

/// FNV-1a, 64 bits, over `namespace/name=node` lines: equal decisions in equal order have equal checksums.
#[derive(Clone, Copy, Debug)]
pub struct Checksum(u64);

impl Default for Checksum {
    fn default() -> Self {
        Checksum(0xcbf2_9ce4_8422_2325)
    }
}

impl Checksum {
    /// Adds a decision; `node` is empty for a pod that fits on no node.
    pub fn add(&mut self, namespace: &str, name: &str, node: &str) {
        for part in [namespace, "/", name, "=", node, "\n"] {
            for byte in part.bytes() {
                self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
    }

    /// As 16 hexadecimal digits.
    pub fn hex(self) -> String {
        format!("{:016x}", self.0)
    }
}

/// Resets the peak memory of this process, where the system can.
pub fn reset_peak_rss() {
    // Where it cannot, the peak is that since the start of the process.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Peak resident memory of this process, in bytes; on Linux only.
pub fn peak_rss_bytes() -> Option<u64> {
    memory_of("self", "VmHWM")
}

/// A figure in `/proc/PROCESS/status` in bytes; `process` is an id or `self`.
pub fn memory_of(process: &str, figure: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(figure)?.strip_prefix(':'))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_durations_that_were_seen() {
        let mut samples = Samples::default();
        (1..=200).rev().for_each(|us| samples.add(Duration::from_micros(us)));
        let figures = samples.figures();
        assert_eq!((figures.p50_us, figures.p99_us, figures.max_us), (100.0, 198.0, 200.0));
        assert_eq!((figures.decisions, figures.decisions_per_second), (200, 9950.2));
        assert_eq!(Samples::default().figures(), Figures::default());
    }

    #[test]
    fn medians_are_taken_figure_by_figure() {
        let run = |rate, max_us| Figures { decisions_per_second: rate, max_us, ..Figures::default() };
        let median = Figures::median(&[run(1.0, 9.0), run(3.0, 7.0), run(2.0, 8.0)]);
        assert_eq!((median.decisions_per_second, median.max_us), (2.0, 8.0));
    }

    #[test]
    fn the_checksum_is_fnv_1a() {
        assert_eq!(Checksum::default().hex(), "cbf29ce484222325");
        let mut checksum = Checksum::default();
        checksum.add("a", "b", "c");
        // Of the bytes "a/b=c\n".
        let expected = b"a/b=c\n"
            .iter()
            .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(1_099_511_628_211));
        assert_eq!(checksum.hex(), format!("{expected:016x}"));
    }
}
