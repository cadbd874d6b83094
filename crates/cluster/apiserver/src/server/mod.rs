//! HTTPS, identities and limits.

mod accept;
mod authenticate;
mod authorize;
pub(crate) mod body;
mod budget;
mod credentials;
mod expiry;
mod fairness;
mod identity;
mod in_process;
mod metrics;
mod node_authorizer;
mod offload;
mod query;
mod rbac;
mod reply;
mod route;
mod sending;
mod service;
mod start;
pub mod status;

pub use accept::{Form, choose};
pub use authorize::{Attributes, refusal};
pub use budget::Share;
pub use credentials::CredentialsError;
pub use identity::{API_AUDIENCE, Bound, Claims, MASTERS, User};
pub use in_process::InProcessServer;
pub use metrics::InFlight;
pub use query::Query;
pub use rbac::{GROUP as RBAC_GROUP, PolicyRule, quoted};
pub use reply::Reply;
pub use route::{RequestInfo, Verb};
pub use service::{ApiRequest, Shared};
pub use start::{ApiServer, StartError};
