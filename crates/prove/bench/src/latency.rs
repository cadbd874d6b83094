//! Latencies of requests from the metrics of an API server.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

/// Latency of requests of one verb, as upper bounds of the server's histogram buckets in seconds; none above the largest bucket.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Latency {
    /// Verb.
    pub verb: String,
    /// Requests.
    pub requests: u64,
    /// Upper bound of the median.
    pub p50_seconds: Option<f64>,
    /// Upper bound of the 99th percentile.
    pub p99_seconds: Option<f64>,
}

/// Reads `apiserver_request_duration_seconds` from the metrics, without the long-running watches.
pub fn latencies(metrics: &str) -> Vec<Latency> {
    let mut buckets: BTreeMap<String, HashMap<String, u64>> = BTreeMap::new();
    for line in metrics.lines() {
        let Some(rest) = line.strip_prefix("apiserver_request_duration_seconds_bucket{") else { continue };
        let Some((labels, value)) = rest.rsplit_once("} ") else { continue };
        let label = |name: &str| {
            let text = labels.split(',').find_map(|l| l.strip_prefix(name)?.strip_prefix("=\""))?;
            Some(text.trim_end_matches('"').to_owned())
        };
        let count = value.split(' ').next().and_then(|v| v.parse::<f64>().ok());
        if let (Some(verb), Some(bound), Some(count)) = (label("verb"), label("le"), count)
            && verb != "WATCH"
        {
            *buckets.entry(verb).or_default().entry(bound).or_default() += count as u64;
        }
    }
    buckets.into_iter().map(|(verb, buckets)| latency(verb, buckets)).collect()
}

fn latency(verb: String, buckets: HashMap<String, u64>) -> Latency {
    let mut buckets: Vec<(f64, u64)> = buckets
        .into_iter()
        .filter_map(|(bound, n)| Some((bound.replace("+Inf", "inf").parse().ok()?, n)))
        .collect();
    buckets.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let requests = buckets.last().map_or(0, |(_, n)| *n);
    let quantile = |percent: u64| {
        let bound = buckets.iter().find(|(_, n)| n * 100 >= requests * percent).map(|(bound, _)| *bound);
        bound.filter(|bound| bound.is_finite())
    };
    Latency { verb, requests, p50_seconds: quantile(50), p99_seconds: quantile(99) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_bounds_of_buckets_over_all_resources() {
        let metrics = "# HELP x\n\
            apiserver_request_duration_seconds_bucket{verb=\"GET\",resource=\"pods\",le=\"0.1\"} 98\n\
            apiserver_request_duration_seconds_bucket{verb=\"GET\",resource=\"pods\",le=\"0.5\"} 99\n\
            apiserver_request_duration_seconds_bucket{verb=\"GET\",resource=\"pods\",le=\"+Inf\"} 99\n\
            apiserver_request_duration_seconds_bucket{verb=\"GET\",resource=\"nodes\",le=\"0.1\"} 0\n\
            apiserver_request_duration_seconds_bucket{verb=\"GET\",resource=\"nodes\",le=\"0.5\"} 0\n\
            apiserver_request_duration_seconds_bucket{verb=\"GET\",resource=\"nodes\",le=\"+Inf\"} 1\n\
            apiserver_request_duration_seconds_bucket{verb=\"WATCH\",le=\"+Inf\"} 7\n";
        let expected =
            Latency { verb: "GET".to_owned(), requests: 100, p50_seconds: Some(0.1), p99_seconds: Some(0.5) };
        assert_eq!(latencies(metrics), [expected]);
    }
}
