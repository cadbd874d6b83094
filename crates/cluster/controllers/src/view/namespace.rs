//! Namespaces.

use super::{Condition, ObjectMeta};

berth_api::object_types! {
    pub(crate) struct Namespace {
        pub(crate) metadata: ObjectMeta,
        pub(crate) spec: NamespaceSpec,
        pub(crate) status: NamespaceStatus,
    }

    pub(crate) struct NamespaceSpec {
        pub(crate) finalizers: Vec<String>,
    }

    pub(crate) struct NamespaceStatus {
        pub(crate) conditions: Vec<Condition>,
    }
}
