//! How long the enforcer holds pods for which no node is feasible.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_api::syntax::dns_label;
use berth_enforcer::{HoldOptions, HoldPeriod};

use super::node_args::duration;
use crate::error::CliError;

/// Options about pods without a feasible node.
#[derive(Clone, Debug, clap::Args)]
pub struct HoldArgs {
    /// How long a pod that is to be evicted stays if no node is feasible for it: a duration, `never` to evict it at once, or `always` to
    /// wait for a feasible node
    ///
    /// Pods of workloads with one replica and bare pods are held six times as long. The annotation scheduling.berth.dev/without-target
    /// of a pod has precedence: evict, hold, or a duration.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = hold)]
    hold_without_target: HoldPeriod,
    /// The same for pods of a namespace, separated by commas: batch=never,db=1h
    #[arg(long, value_name = "NAMESPACE=DURATION", value_delimiter = ',', value_parser = of_namespace)]
    namespace_hold_without_target: Vec<(String, HoldPeriod)>,
}

impl HoldArgs {
    pub fn holds(&self) -> Result<HoldOptions, CliError> {
        let mut namespaces = BTreeMap::new();
        for (namespace, hold) in &self.namespace_hold_without_target {
            if namespaces.insert(namespace.clone(), *hold).is_some() {
                let message =
                    format!("--namespace-hold-without-target: {namespace} is given twice: remove one");
                return Err(CliError::Usage(message));
            }
        }
        Ok(HoldOptions { default: self.hold_without_target, namespaces })
    }
}

fn hold(text: &str) -> Result<HoldPeriod, String> {
    match text {
        "never" => Ok(HoldPeriod::For(Duration::ZERO)),
        "always" => Ok(HoldPeriod::Always),
        text => duration(text).map(HoldPeriod::For).map_err(|error| format!("{error}; or never, or always")),
    }
}

fn of_namespace(text: &str) -> Result<(String, HoldPeriod), String> {
    let (namespace, value) = text.split_once('=').ok_or("must be NAMESPACE=DURATION, for example db=1h")?;
    if let [problem, ..] = dns_label(namespace).as_slice() {
        return Err(format!("invalid namespace {namespace:?}: {problem}"));
    }
    Ok((namespace.to_owned(), hold(value)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_are_durations_never_or_always() {
        assert_eq!(hold("90s"), Ok(HoldPeriod::For(Duration::from_secs(90))));
        assert_eq!(
            (hold("never"), hold("always")),
            (Ok(HoldPeriod::For(Duration::ZERO)), Ok(HoldPeriod::Always))
        );
        assert!(hold("soon").unwrap_err().ends_with("; or never, or always"));
        assert_eq!(of_namespace("db=always"), Ok(("db".to_owned(), HoldPeriod::Always)));
        assert!(of_namespace("db").is_err());
    }

    #[test]
    fn holds_of_namespaces_that_cannot_exist_or_are_given_twice_are_errors() {
        for (text, expected) in [
            ("=5m", "invalid namespace \"\": a lowercase RFC 1123 label"),
            ("A_=5m", "invalid namespace \"A_\": a lowercase RFC 1123 label"),
        ] {
            let error = of_namespace(text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        let args = |of: &[&str]| HoldArgs {
            hold_without_target: HoldPeriod::Always,
            namespace_hold_without_target: of.iter().map(|text| of_namespace(text).unwrap()).collect(),
        };
        assert_eq!(args(&["a=5m", "b=5m"]).holds().unwrap().namespaces.len(), 2);
        let error = args(&["a=5m", "a=6m"]).holds().unwrap_err().to_string();
        assert_eq!(error, "--namespace-hold-without-target: a is given twice: remove one");
    }
}
