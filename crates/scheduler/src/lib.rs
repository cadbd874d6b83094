//! The scheduler: pods that wait go through a queue to a decision of the engine and are bound.
//!
//! `queue` orders and parks pods, `bind` writes decisions to the API server. The engine decides; this
//! crate only carries questions to it and answers away.
