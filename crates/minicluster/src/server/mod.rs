//! HTTPS, identities and limits.

mod accept;
mod authorize;
pub(crate) mod body;
mod credentials;
mod identity;
mod listener;
mod metrics;
mod query;
mod reply;
mod route;
mod service;
pub mod status;

pub use accept::{Form, choose};
pub use authorize::{Attributes, is_allowed, refusal, rules_for};
pub use credentials::{Credentials, CredentialsError, url};
pub use identity::{MASTERS, NODES, Tokens, User};
pub use listener::run;
pub use metrics::{InFlight, Metrics};
pub use query::Query;
pub use reply::Reply;
pub use route::{RequestInfo, Verb, is_served};
pub use service::{ApiRequest, Shared};
