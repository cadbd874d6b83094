//! The enforcer: rules required during execution go on being held after a pod was placed, by eviction.
//!
//! The engine says which running pods break such a rule and who would have to go; this crate adds what takes time:
//! patience before a rule counts as broken for good, brakes, and the Eviction API.
