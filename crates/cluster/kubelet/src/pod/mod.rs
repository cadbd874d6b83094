//! A pod on a simulated node.

pub mod annotation;
mod conditions;
mod containers;
pub(crate) mod lifecycle;
pub(crate) mod plan;
pub(crate) mod resize;
pub(crate) mod status;
#[cfg(test)]
mod tests;
pub(crate) mod view;
