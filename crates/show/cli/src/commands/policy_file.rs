//! The file with an AdmissionPolicy.

use berth_admission::Policy;
use berth_api::inventory::InputError;
use berth_api::read::{Manifest, ReadError, read_manifests};
use berth_terminal::input::find_inputs;

use crate::error::CliError;

/// Reads a policy file; without one, the default policy.
///
/// # Errors
/// The file cannot be read or is invalid.
pub fn read(file: Option<&str>) -> Result<Policy, CliError> {
    let Some(file) = file else { return Ok(Policy::default()) };
    let mut found: Vec<Manifest> = Vec::new();
    for input in find_inputs(&[file.to_owned()])? {
        let take = &mut |manifest| {
            found.push(manifest);
            Ok::<(), ReadError>(())
        };
        let reader = input.open(|_| ())?;
        read_manifests(reader, &input.name(), take).map_err(InputError::from)?;
    }
    match found.as_slice() {
        [one] => Policy::from_value(&one.value)
            .map_err(|errors| CliError::Config { place: one.source.clone(), errors }),
        [] => Err(CliError::NotFound(format!("{file}: no AdmissionPolicy found"))),
        [_, second, ..] => Err(CliError::NotFound(format!(
            "{}: a second object; {file} must contain only one AdmissionPolicy",
            second.source
        ))),
    }
}
