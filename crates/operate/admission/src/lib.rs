//! Admission: checks objects before they are stored, so that the rules of one user do not harm all others.
//!
//! Decisions are pure: a request, a [`Policy`] and, where a rule needs it, the [`State`] of the cluster make an
//! [`Answer`] ([`review`]). [`AdmissionController`] keeps the state under a lock that is held briefly, mirrors a cluster into it, and
//! waits a little for events that have not arrived yet; [`server`] puts TLS and HTTP around it.

mod admission;
mod answer;
mod findings;
mod mirroring;
mod offline;
mod placement;
pub mod policy;
mod quota;
mod request;
mod review;
mod rule;
mod rules;
pub mod server;
mod shared_holds;
mod state;

pub use admission::AdmissionController;
pub use answer::{Answer, Denial, ReviewError};
pub use berth_rules::admission::Operation;
pub use offline::OfflineAdmission;
pub use policy::Policy;
pub use quota::QuotaMetrics;
pub use request::{AdmissionRequest, RequestError, UserInfo};
pub use review::{Endpoint, review};
pub use rule::Rule;
pub use state::{Hold, Nothing, State, StateAccess};
