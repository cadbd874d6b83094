//! In-process admission: the same review and response as a webhook's, without the network.

use serde_json::Value;

use super::review::{self, Answer};
use super::{AdmissionAttributes, Denied, Mutated};
use crate::admission::{Admission, Phase};
use crate::request::Reason;

/// Calls the plugin in the mutating phase; the plugin may change the object.
pub(crate) async fn mutate(
    admission: &dyn Admission,
    attributes: &AdmissionAttributes<'_>,
    mutated: &mut Option<Mutated>,
    warnings: &mut Vec<String>,
) -> Result<(), Denied> {
    let object = mutated.as_ref().map(|mutated| &mutated.object);
    let answer = ask(admission, Phase::Mutating, attributes, object, warnings).await?;
    if let (Some(patch), Some(mutated)) = (answer.patch, mutated.as_mut()) {
        mutated.patch(&attributes.form, &patch)?;
    }
    Ok(())
}

/// Calls the plugin in the validating phase.
pub(crate) async fn validate(
    admission: &dyn Admission,
    attributes: &AdmissionAttributes<'_>,
    object: Option<&Value>,
    warnings: &mut Vec<String>,
) -> Result<(), Denied> {
    ask(admission, Phase::Validating, attributes, object, warnings).await.map(|_| ())
}

async fn ask(
    admission: &dyn Admission,
    phase: Phase,
    attributes: &AdmissionAttributes<'_>,
    object: Option<&Value>,
    warnings: &mut Vec<String>,
) -> Result<Answer, Denied> {
    let uid = uuid::Uuid::new_v4().to_string();
    let request = review::request(&uid, attributes, &attributes.form, object);
    let response = admission.review(phase, request).await;
    let answer = review::response(&uid, &response, |status| Denied {
        code: review::code(status).unwrap_or(403),
        reason: Reason::named(status["reason"].as_str().unwrap_or_default()),
        message: status["message"].as_str().unwrap_or("denied without explanation").to_owned(),
    })
    .map_err(|why| Denied::internal(format!("admission answered what cannot be understood: {why}")))?;
    warnings.extend(answer.warnings.iter().cloned());
    match answer.denied {
        Some(denied) => Err(denied),
        None => Ok(answer),
    }
}
