//! The webhook's policy, read to know that the webhook will be able to.

use std::path::Path;

use berth_admission::Policy;
use berth_api::read::{ReadError, read_manifests};

use super::InstallError;
use crate::error::CliError;

/// The policy in the text of a file.
///
/// # Errors
/// The text has no policy or several, or fields that mean nothing.
pub fn from_text(file: &Path, text: &str) -> Result<Policy, CliError> {
    let file = file.display().to_string();
    let mut manifests = Vec::new();
    read_manifests::<ReadError>(text.as_bytes(), &file, &mut |manifest| {
        manifests.push(manifest);
        Ok(())
    })
    .map_err(InstallError::from)?;
    match manifests.as_slice() {
        [one] => Policy::from_value(&one.value)
            .map_err(|errors| CliError::Config { place: one.source.clone(), errors }),
        _ => Err(CliError::Usage(format!(
            "--policy {file}: one AdmissionPolicy has to be in it, and nothing else"
        ))),
    }
}
