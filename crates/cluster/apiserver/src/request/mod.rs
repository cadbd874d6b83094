//! A request: its user, its target and its parameters, and the status that answers what fails.

mod accept;
mod api_request;
mod attributes;
mod conversions;
mod delete_options;
mod query;
mod route;
pub mod status;
mod user;

pub use accept::{Form, MediaType, accepts_gzip, choose, not_acceptable, wrong_form};
pub use api_request::{ApiRequest, MAX_BODY_BYTES};
pub use attributes::{Attributes, refusal};
#[cfg(test)]
pub use conversions::CONVERSIONS;
pub use conversions::note_conversion;
pub use delete_options::DeleteOptions;
pub use query::{Query, decode, not_a_number};
pub use route::{RequestInfo, Route, UnknownResource, Verb, route};
pub use status::{ApiResult, Cause, CauseType, Reason, Status};
pub use user::{AUTHENTICATED, MASTERS, SERVICE_ACCOUNT_PREFIX, User, service_account};
