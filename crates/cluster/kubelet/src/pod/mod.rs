//! A pod on a simulated node.

mod allocation;
pub mod annotation;
mod conditions;
mod containers;
pub(crate) mod lifecycle;
pub(crate) mod plan;
pub(crate) mod rejection;
pub(crate) mod resize;
mod stage;
pub(crate) mod status;
#[cfg(test)]
mod tests;
pub(crate) mod view;
