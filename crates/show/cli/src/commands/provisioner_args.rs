//! Arguments of the simulated provisioner of volumes.

use std::time::Duration;

use berth_api::feature_gates::FeatureGates;
use berth_client::call::CallError;
use berth_controllers::{ControllerOptions, ProvisionerOptions, install_storage_class};
use kube::Client;

use super::node_args::{duration, fraction};

/// How volumes are provisioned.
#[derive(Debug, clap::Args)]
pub struct ProvisionerArgs {
    /// Do not simulate a provisioner of volumes, and do not create the storage class `standard`
    #[arg(long, conflicts_with_all = ["provisioner_delay", "provisioner_failures"])]
    no_provisioner: bool,
    /// Time that the provisioning of a volume takes
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = duration)]
    provisioner_delay: Duration,
    /// Fraction of the attempts to provision a volume that fail, from 0 to 1
    #[arg(long, value_name = "FRACTION", default_value_t = 0.0, value_parser = fraction)]
    provisioner_failures: f64,
}

impl ProvisionerArgs {
    /// Creates the storage class of the provisioner, unless none runs.
    pub async fn install(&self, client: Client) -> Result<(), CallError> {
        if self.no_provisioner {
            return Ok(());
        }
        install_storage_class(client).await
    }

    pub fn controllers(&self, feature_gates: FeatureGates) -> ControllerOptions {
        let mut options = ControllerOptions::default();
        options.feature_gates = feature_gates;
        options.provisioner = (!self.no_provisioner).then_some(ProvisionerOptions {
            delay: self.provisioner_delay,
            failures: self.provisioner_failures,
        });
        options
    }
}
