//! Writes of viewers to the cluster: only those of a list that the viewer has confirmed, in its order, until one fails.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use berth_console::writes::{Write, WritePlan};
use futures::future::BoxFuture;
use ring::hmac;
use ring::rand::SystemRandom;
use tokio::sync::Mutex;

use crate::access::RandomnessError;

/// Carries out a write: with the rights of the user of this bearer token, or without one with those of the console's own user. The error
/// is a message for viewers.
pub type WriteFn = Arc<dyn Fn(Write, Option<String>) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// Carries out lists of writes, one list at a time.
pub struct Changes {
    write: WriteFn,
    /// Lives as long as the process: forms of an earlier one do nothing.
    key: hmac::Key,
    turn: Mutex<()>,
}

impl Changes {
    /// With a new key.
    ///
    /// # Errors
    /// The operating system provides no random numbers.
    pub fn new(write: WriteFn) -> Result<Changes, RandomnessError> {
        let key =
            hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).map_err(|_| RandomnessError)?;
        Ok(Changes { write, key, turn: Mutex::default() })
    }

    /// What a form must have to carry out this list for the viewer with this token. It cannot be made without the key.
    pub fn digest(&self, plan: &WritePlan, token: Option<&str>) -> String {
        URL_SAFE_NO_PAD.encode(hmac::sign(&self.key, content(plan, token).as_bytes()))
    }

    /// Whether a viewer confirmed this list.
    pub fn is_confirmed(&self, plan: &WritePlan, token: Option<&str>, digest: &str) -> bool {
        let Ok(digest) = URL_SAFE_NO_PAD.decode(digest) else { return false };
        hmac::verify(&self.key, content(plan, token).as_bytes(), &digest).is_ok()
    }

    /// The results, which end with the first that failed.
    pub async fn carry_out(&self, plan: &WritePlan, token: Option<&str>) -> Vec<Result<(), String>> {
        let _turn = self.turn.lock().await;
        let mut results = Vec::new();
        for write in &plan.writes {
            let result = (self.write)(write.clone(), token.map(str::to_owned)).await;
            match &result {
                Ok(()) => tracing::info!("a viewer wrote: {write}"),
                Err(error) => tracing::warn!("a viewer could not write: {write}: {error}"),
            }
            let has_failed = result.is_err();
            results.push(result);
            if has_failed {
                break;
            }
        }
        results
    }
}

/// All that is written, and for whom; texts are quoted, so that different lists differ.
fn content(plan: &WritePlan, token: Option<&str>) -> String {
    format!("{token:?} {:?}", plan.writes)
}
