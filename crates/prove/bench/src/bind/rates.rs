//! Rate and processor time of bindings, from the metrics of the API server and the scheduler.

use std::time::{Duration, Instant};

use serde::Serialize;

const BOUND: (&str, &str) = ("scheduler_schedule_attempts_total", "result=\"scheduled\"");
const PROCESSOR: &str = "berth_processor_seconds_total";

/// Rate and processor time over the bindings after the first tenth.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rates {
    pub per_second: f64,
    /// Processor time of the API server for each binding, in microseconds; Linux only, and not with `--failover`, like the next.
    pub server_cpu_us: Option<f64>,
    /// Processor time of the scheduler for each binding.
    pub scheduler_cpu_us: Option<f64>,
    /// The parts of both.
    pub parts: Vec<PartTime>,
}

/// Processor time of a part of a process.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PartTime {
    pub process: &'static str,
    pub part: String,
    /// Processor time for each binding, in microseconds.
    pub cpu_us: f64,
}

/// How many pods a scheduler with these metrics has bound.
pub fn n_bound(metrics: &str) -> usize {
    sum(metrics, BOUND.0, BOUND.1) as usize
}

/// The sum of a metric over all lines with a label.
fn sum(text: &str, name: &str, label: &str) -> f64 {
    let lines = text.lines().filter(|line| line.starts_with(name) && line.contains(label));
    lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}

/// The processor time of all parts in metrics, in seconds.
fn parts(text: &str) -> Vec<(String, f64)> {
    let lines = text.lines().filter(|line| line.starts_with(PROCESSOR));
    let part = |line: &str| {
        let (labels, seconds) = line.rsplit_once(' ')?;
        Some((labels.split('"').nth(1)?.to_owned(), seconds.parse().ok()?))
    };
    lines.filter_map(part).collect()
}

/// The bindings and the processor time until a moment.
#[derive(Clone, Debug)]
pub struct Sample {
    pub at: Instant,
    n_bound: usize,
    /// Of the API server, and of the scheduler.
    cpu: [Option<Duration>; 2],
    parts: [Vec<(String, f64)>; 2],
}

impl Sample {
    /// From the metrics of the API server and the scheduler.
    pub fn new(at: Instant, cpu: [Option<Duration>; 2], metrics: [&str; 2]) -> Sample {
        Sample { at, n_bound: n_bound(metrics[1]), cpu, parts: metrics.map(parts) }
    }

    /// Rate and processor time from here to a later sample.
    pub fn until(&self, end: &Sample) -> Rates {
        let n = end.n_bound.saturating_sub(self.n_bound).max(1) as f64;
        let us = |seconds: f64| seconds * 1e6 / n;
        let cpu_us = |i: usize| Some(us((end.cpu[i]? - self.cpu[i]?).as_secs_f64()));
        let mut parts = Vec::new();
        for (i, process) in ["API server", "scheduler"].into_iter().enumerate() {
            let begin =
                |name: &str| self.parts[i].iter().find(|(part, _)| part == name).map_or(0.0, |(_, at)| *at);
            let of_part = |(part, at): &(String, f64)| PartTime {
                process,
                part: part.clone(),
                cpu_us: us(at - begin(part)),
            };
            let named: Vec<PartTime> = end.parts[i].iter().map(of_part).collect();
            let known: f64 = named.iter().map(|part| part.cpu_us).sum();
            parts.extend(named);
            let rest = cpu_us(i).map(|all| PartTime {
                process,
                part: "other".to_owned(),
                cpu_us: (all - known).max(0.0),
            });
            parts.extend(rest);
        }
        let per_second = n / end.at.duration_since(self.at).as_secs_f64();
        Rates { per_second, server_cpu_us: cpu_us(0), scheduler_cpu_us: cpu_us(1), parts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "scheduler_schedule_attempts_total{result=\"scheduled\",profile=\"a\"} 3\n\
        scheduler_schedule_attempts_total{result=\"error\",profile=\"a\"} 9\n\
        scheduler_schedule_attempts_total{result=\"scheduled\",profile=\"b\"} 4\n\
        berth_processor_seconds_total{part=\"store\"} 0.5\n";

    fn sample(at: Instant, n_bound: usize, cpu: u64, store: f64) -> Sample {
        let cpu = Some(Duration::from_millis(cpu));
        Sample { at, n_bound, cpu: [cpu, cpu], parts: [vec![("store".to_owned(), store)], Vec::new()] }
    }

    #[test]
    fn metrics_are_summed_over_other_labels() {
        assert_eq!(sum(TEXT, BOUND.0, BOUND.1), 7.0);
        assert_eq!(parts(TEXT), [("store".to_owned(), 0.5)]);
    }

    #[test]
    fn what_no_part_has_is_other() {
        let begin = Instant::now();
        let end = sample(begin + Duration::from_secs(2), 1100, 1500, 1.25);
        let rates = sample(begin, 100, 500, 1.0).until(&end);
        assert_eq!(
            (rates.per_second, rates.server_cpu_us, rates.scheduler_cpu_us),
            (500.0, Some(1000.0), Some(1000.0))
        );
        let part = |process, part: &str, cpu_us| PartTime { process, part: part.to_owned(), cpu_us };
        let expected = [
            part("API server", "store", 250.0),
            part("API server", "other", 750.0),
            part("scheduler", "other", 1000.0),
        ];
        assert_eq!(rates.parts, expected);
    }
}
