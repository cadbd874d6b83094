//! How long the enforcer holds pods for which no node is feasible.

use std::time::Duration;

use berth_enforcer::{HoldOptions, HoldPeriod};

use super::node_args::duration;

/// Options about pods without a feasible node.
#[derive(Clone, Debug, clap::Args)]
pub struct HoldArgs {
    /// How long a pod that is to be evicted stays if no node is feasible for it: a duration, `never` to evict it at once, or `always` to
    /// wait for a feasible node
    ///
    /// A workload with one running pod is held six times as long. The annotation scheduling.berth.dev/without-target of a pod has
    /// precedence: evict, hold, or a duration.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = hold)]
    hold_without_target: HoldPeriod,
    /// The same for pods of a namespace, separated by commas: batch=never,db=1h
    #[arg(long, value_name = "NAMESPACE=DURATION", value_delimiter = ',', value_parser = of_namespace)]
    namespace_hold_without_target: Vec<(String, HoldPeriod)>,
}

impl HoldArgs {
    pub fn holds(&self) -> HoldOptions {
        let namespaces = self.namespace_hold_without_target.iter().cloned().collect();
        HoldOptions { default: self.hold_without_target, namespaces }
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
}
