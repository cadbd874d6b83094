//! Who may see the console.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use berth_api::resource::{NODES, PODS, Resource};
use berth_client::delegated::DelegatedAuthorizer;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};

#[derive(Debug, thiserror::Error)]
#[error("the operating system provides no random numbers for the token of the console")]
pub struct RandomnessError;

/// A random token: it is the permission to see the console.
#[derive(Clone)]
pub struct AccessToken(String);

impl AccessToken {
    /// A new token of 256 random bits.
    pub fn random() -> Result<AccessToken, RandomnessError> {
        let mut secret = [0; 32];
        SystemRandom::new().fill(&mut secret).map_err(|_| RandomnessError)?;
        Ok(AccessToken(URL_SAFE_NO_PAD.encode(secret)))
    }

    /// The text, for the printed URL only.
    pub fn secret(&self) -> &str {
        &self.0
    }

    /// Whether a text is the token. The digests are compared: the time says nothing about the token.
    pub(crate) fn is(&self, text: &str) -> bool {
        digest(&SHA256, self.0.as_bytes()).as_ref() == digest(&SHA256, text.as_bytes()).as_ref()
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessToken(..)")
    }
}

#[derive(Clone)]
pub enum Authenticator {
    /// By a token in the printed URL.
    Token(AccessToken),
    /// By a bearer token of the cluster, whose user may list nodes and pods: the API server decides.
    Delegated(Arc<DelegatedAuthorizer>),
}

/// Viewers see all of these, so that they need the permission to list them.
pub(crate) const VIEWED: [Resource; 2] = [NODES, PODS];
