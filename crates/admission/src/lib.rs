//! Admission: what Berth says of objects before they are stored, so that rules of one do not hurt all others.
//!
//! Decisions are pure: a request, a [`Policy`] and, where a rule needs it, the [`State`] of the cluster make an
//! [`Answer`] ([`review`]). [`Admission`] keeps the state under a lock that is held briefly, and waits a little for what
//! the state has not been told yet; [`server`] puts TLS and HTTP around it.
//!
//! Nothing here follows a cluster: the state is fed by who uses this crate.

mod admission;
mod answer;
mod merged;
pub mod policy;
mod request;
mod review;
mod rules;
pub mod server;
mod state;

pub use admission::Admission;
pub use answer::{Answer, Denial, Unanswered};
pub use policy::Policy;
pub use request::{AdmissionRequest, Operation, RequestError, UserInfo};
pub use review::{Endpoint, Rule, review};
pub use state::{Hold, Known, Nothing, State};
