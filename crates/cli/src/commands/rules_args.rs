//! Arguments that settle by which rules pods are placed.

use berth_api::config::SchedulerConfig;
use berth_api::read::{Inventory, Manifest, SourceLocation};
use berth_engine::Settings;

use super::cluster_args::read;
use crate::error::CliError;
use crate::output;

/// The rules.
#[derive(Debug, clap::Args)]
pub struct RulesArgs {
    /// Scheduler configuration (KubeSchedulerConfiguration v1); the defaults of kube-scheduler without it
    #[arg(long, value_name = "FILE")]
    config: Option<String>,
    /// Leave Berth's extensions out: decide exactly as kube-scheduler does
    ///
    /// The proposals' fields are ignored with a warning, Gt and Lt in pod affinity are errors, and no namespace
    /// is exempt from anti-affinity.
    #[arg(long)]
    strict_v1: bool,
    /// Pods in these namespaces neither block nor are blocked by anti-affinity, that of v1 fields included
    ///
    /// Without it, pods in kube-system are exempt from anti-affinity in the proposals' fields only.
    #[arg(long, value_name = "NAMESPACE", value_delimiter = ',', num_args = 1, conflicts_with = "strict_v1")]
    exempt_namespaces: Option<Vec<String>>,
}

impl RulesArgs {
    /// The settings; `in_input` are the scheduler configurations found among other objects.
    ///
    /// # Errors
    /// The configuration cannot be read, is not valid, or there are several.
    pub fn settings(&self, in_input: &[Manifest]) -> Result<Settings, CliError> {
        let config = self.scheduler_config(in_input)?;
        if self.strict_v1 {
            return Ok(Settings::strict_v1(config));
        }
        let settings = Settings { config, ..Settings::default() };
        Ok(match &self.exempt_namespaces {
            None => settings,
            Some(names) => Settings { exempt_namespaces: names.clone(), exempt_from_v1: true, ..settings },
        })
    }

    /// Whether a scheduler configuration is given.
    pub fn is_configured(&self) -> bool {
        self.config.is_some()
    }

    /// From `--config`, or else from the input.
    fn scheduler_config(&self, in_input: &[Manifest]) -> Result<SchedulerConfig, CliError> {
        let Some(path) = &self.config else {
            return match in_input {
                [] => Ok(SchedulerConfig::default()),
                [one] => resolve(one),
                [first, second, ..] => Err(CliError::SeveralConfigs {
                    first: first.source.clone(),
                    second: second.source.clone(),
                }),
            };
        };
        if let [first, ..] = in_input {
            output::note(&format!(
                "{}: KubeSchedulerConfiguration is not used: --config is given",
                first.source
            ));
        }
        let mut in_file = Inventory::default();
        read(&mut in_file, std::slice::from_ref(path))?;
        match in_file.scheduler_configurations.as_slice() {
            [one] => resolve(one),
            [first, second, ..] => {
                Err(CliError::SeveralConfigs { first: first.source.clone(), second: second.source.clone() })
            }
            [] => Err(CliError::NoConfig { file: path.clone() }),
        }
    }
}

fn resolve(manifest: &Manifest) -> Result<SchedulerConfig, CliError> {
    let place: &SourceLocation = &manifest.source;
    match SchedulerConfig::read(&manifest.value) {
        Ok((config, warnings)) => {
            warnings.iter().for_each(|w| output::warning(&format!("{place}: {w}")));
            Ok(config)
        }
        Err(errors) => Err(CliError::Config { place: place.clone(), errors }),
    }
}
