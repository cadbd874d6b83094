//! Values of Kubernetes' libraries that expressions cannot look into.

pub mod cidr;
pub mod semver;
pub mod url;
