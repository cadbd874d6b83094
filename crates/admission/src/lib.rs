//! Admission: what Berth says of objects before they are stored, so that rules of one do not hurt all others.
//!
//! Decisions are pure: a request, a policy and the state of the cluster make an answer. The webhook server around
//! them adds TLS and HTTP, nothing else.
