//! The argument for feature gates.

use berth_api::feature_gates::{FeatureGates, GateSetting};
use berth_terminal::output;

/// The feature gates.
#[derive(Clone, Debug, clap::Args)]
pub struct FeatureGateArgs {
    /// Feature gates of Kubernetes, separated by commas: NAME=true or NAME=false [default: those of Kubernetes 1.36]
    ///
    /// All gates of kube-scheduler 1.36 are accepted, and AllAlpha and AllBeta. docs/feature-gates.md lists the gates with what
    /// Berth does; a warning names gates that have no effect.
    #[arg(long, value_name = "NAME=BOOL", value_delimiter = ',', value_parser = GateSetting::parse)]
    feature_gates: Vec<GateSetting>,
}

impl FeatureGateArgs {
    /// The gates as set. Warns of settings without effect.
    pub fn gates(&self) -> FeatureGates {
        let without_effect = self.feature_gates.iter().filter_map(GateSetting::without_effect);
        without_effect.for_each(|text| output::warning(&format!("--feature-gates: {text}")));
        FeatureGates::new(&self.feature_gates)
    }
}
