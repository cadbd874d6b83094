//! The file with an AdmissionPolicy.

use berth_admission::Policy;
use berth_api::read::Manifest;

use super::read_inputs::read_each;
use crate::error::CliError;

/// Reads a policy file; without one, the default policy.
///
/// # Errors
/// The file cannot be read or is invalid.
pub fn read(file: Option<&str>) -> Result<Policy, CliError> {
    let Some(file) = file else { return Ok(Policy::default()) };
    let mut found: Vec<Manifest> = Vec::new();
    read_each(&[file.to_owned()], |manifest| found.push(manifest))?;
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
