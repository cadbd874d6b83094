//! Namespaces.

use super::{Condition, Object};

pub(crate) type Namespace = Object<NamespaceSpec, NamespaceStatus>;

berth_api::object_types! {
    pub(crate) struct NamespaceSpec {
        pub(crate) finalizers: Vec<String>,
    }

    pub(crate) struct NamespaceStatus {
        pub(crate) conditions: Vec<Condition>,
    }
}
