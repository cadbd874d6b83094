//! The report of a soak test: samples of a cluster under constant load, and whether memory, latency, file descriptors and disk
//! size stay flat.

use serde::Serialize;

/// A sample is part of the start-up until so much of the time has passed: caches fill, histories reach their limits.
const WARM_UP: f64 = 0.25;
/// A value is flat if it grows by no more than this fraction of its mean in the time after the start-up.
const MAX_GROWTH: f64 = 0.1;

/// A moment of the test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    /// Since the start of the load.
    pub seconds: f64,
    /// Resident memory of the cluster's process.
    pub rss_bytes: u64,
    /// Its open file descriptors.
    pub files: u64,
    /// Size of its data directory.
    pub disk_bytes: u64,
    /// Requests since the last sample.
    pub requests: usize,
    /// Requests that failed since the last sample.
    pub failed: usize,
    /// Median latency of these requests in microseconds.
    pub p50_us: f64,
    /// Their 99th percentile.
    pub p99_us: f64,
}

/// How a value develops after the start-up.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Trend {
    /// The value.
    pub name: &'static str,
    /// Its mean.
    pub mean: f64,
    /// Its growth per hour, by linear regression.
    pub growth_per_hour: f64,
    /// Whether it is flat: it grows by at most a tenth of its mean in the measured time, or falls.
    pub is_flat: bool,
}

/// The report.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SoakReport {
    /// Nodes.
    pub nodes: usize,
    /// Pods that the workloads ask for, on average.
    pub pods: usize,
    /// Actions per second.
    pub actions_per_second: usize,
    /// The samples.
    pub samples: Vec<Sample>,
    /// Trends of the samples after the start-up.
    pub trends: Vec<Trend>,
    /// Whether all trends are flat.
    pub is_flat: bool,
}

type Value = (&'static str, fn(&Sample) -> f64);

const VALUES: [Value; 4] = [
    ("memory", |sample| sample.rss_bytes as f64),
    ("file descriptors", |sample| sample.files as f64),
    ("disk size", |sample| sample.disk_bytes as f64),
    ("median latency", |sample| sample.p50_us),
];

impl SoakReport {
    /// A report of these samples.
    pub fn new(nodes: usize, pods: usize, actions_per_second: usize, samples: Vec<Sample>) -> SoakReport {
        let end = samples.last().map_or(0.0, |sample| sample.seconds);
        let steady: Vec<&Sample> = samples.iter().filter(|s| s.seconds >= end * WARM_UP).collect();
        let trends: Vec<Trend> = VALUES.iter().map(|value| trend(*value, &steady)).collect();
        let is_flat = trends.iter().all(|trend| trend.is_flat);
        SoakReport { nodes, pods, actions_per_second, samples, trends, is_flat }
    }
}

/// Least squares over the samples.
fn trend((name, of): Value, samples: &[&Sample]) -> Trend {
    let n = samples.len().max(1) as f64;
    let mean_time = samples.iter().map(|s| s.seconds).sum::<f64>() / n;
    let mean = samples.iter().map(|s| of(s)).sum::<f64>() / n;
    let covariance: f64 = samples.iter().map(|s| (s.seconds - mean_time) * (of(s) - mean)).sum();
    let variance: f64 = samples.iter().map(|s| (s.seconds - mean_time).powi(2)).sum();
    let slope = if variance > 0.0 { covariance / variance } else { 0.0 };
    let length =
        samples.last().zip(samples.first()).map_or(0.0, |(last, first)| last.seconds - first.seconds);
    Trend { name, mean, growth_per_hour: slope * 3600.0, is_flat: slope * length <= MAX_GROWTH * mean }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(rss: impl Fn(usize) -> u64) -> SoakReport {
        let sample = |i: usize| Sample {
            seconds: i as f64 * 60.0,
            rss_bytes: rss(i),
            files: 50,
            disk_bytes: 1 << 20,
            p50_us: 100.0,
            ..Sample::default()
        };
        SoakReport::new(1, 1, 1, (0..=60).map(sample).collect())
    }

    #[test]
    fn growth_is_told_from_a_start_up_and_from_noise() {
        // It grows in the first minutes only.
        assert!(report(|i| 100_000 + 10_000 * i.min(10) as u64).is_flat);
        assert!(report(|i| 100_000 + 5_000 * (i % 3) as u64).is_flat);
        assert!(report(|i| 100_000 - 500 * i as u64).is_flat);
        let growing = report(|i| 100_000 + 1_000 * i as u64);
        assert!(!growing.is_flat && growing.trends.iter().filter(|trend| !trend.is_flat).count() == 1);
        assert!((growing.trends[0].growth_per_hour - 60_000.0).abs() < 1.0, "{:?}", growing.trends[0]);
    }
}
