//! Files with one object that is no object of a cluster: an AdmissionPolicy, or a policy of the descheduler.

use berth_admission::{Policy, policy};
use berth_api::read::{Manifest, ReadError};
use berth_input::inventory::{InputError, Inventory};
use berth_rebalance::descheduler::{self, Translation};
use berth_rules::admission::Priority;
use jiff::Timestamp;

use super::read_inputs::read_each;
use crate::error::CliError;

/// Reads a policy file; without one, the default policy.
pub fn read(file: Option<&str>) -> Result<Policy, CliError> {
    let Some(file) = file else { return Ok(Policy::default()) };
    let one = read_one(file, policy::KIND, policy::API_VERSION)?;
    Policy::from_value(&one.value).map_err(|errors| CliError::Config { place: one.source, errors })
}

/// Reads a policy of the descheduler; its priority classes are those of the inventory.
pub fn read_descheduler_policy(file: &str, inventory: &Inventory) -> Result<Translation, CliError> {
    let one = read_one(file, descheduler::KIND, descheduler::API_VERSION)?;
    let classes: Vec<_> = inventory.priority_classes.iter().map(|entry| entry.object.clone()).collect();
    let priority_of = |class: &str| Priority::of_class(class, None, "", &classes).ok().map(|of| of.value);
    Translation::from_value(&one.value, &priority_of, Timestamp::now())
        .map_err(|errors| CliError::Config { place: one.source, errors })
}

/// The only object of a file.
fn read_one(file: &str, kind: &str, api_version: &str) -> Result<Manifest, CliError> {
    let mut found: Vec<Manifest> = Vec::new();
    read_each(&[file.to_owned()], |manifest| found.push(manifest)).map_err(|error| match error {
        CliError::Input(InputError::Read(ReadError::MissingField { place, field, .. })) => {
            let value = if field == "kind" { kind } else { api_version };
            CliError::NotFound(format!("{place}: {field} is missing: add it: `{field}: {value}`"))
        }
        other => other,
    })?;
    match found.as_slice() {
        [_] => Ok(found.remove(0)),
        [] => Err(CliError::NotFound(format!("{file}: no {kind} found"))),
        [_, second, ..] => Err(CliError::NotFound(format!(
            "{}: a second object; {file} must contain only one {kind}",
            second.source
        ))),
    }
}
