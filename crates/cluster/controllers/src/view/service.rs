//! Services, and the endpoints that the controllers keep of them.

use serde_json::Value;

use super::{Object, ObjectMeta, WorkloadSelector};

pub(crate) type Service = Object<ServiceSpec>;

berth_api::object_types! {
    pub(crate) struct ServiceSpec {
        pub(crate) selector: WorkloadSelector,
        #[serde(rename = "type")]
        pub(crate) kind: String,
        #[serde(rename = "clusterIP")]
        pub(crate) cluster_ip: String,
        pub(crate) ports: Vec<ServicePort>,
        pub(crate) publish_not_ready_addresses: bool,
    }

    pub(crate) struct ServicePort {
        pub(crate) name: String,
        pub(crate) protocol: String,
        pub(crate) app_protocol: Option<String>,
        pub(crate) port: i32,
        /// A number, or the name of a port of the pod.
        pub(crate) target_port: Value,
    }

    /// What is compared of the endpoints of a service.
    pub(crate) struct Endpoints {
        pub(crate) metadata: ObjectMeta,
        pub(crate) subsets: Vec<Value>,
    }

    /// Its endpoints and ports stay JSON: they are written as a whole.
    pub(crate) struct EndpointSlice {
        pub(crate) metadata: ObjectMeta,
        pub(crate) endpoints: Vec<Value>,
        pub(crate) ports: Vec<Value>,
    }
}

impl Service {
    /// Whether its endpoints are those of the pods that it selects.
    pub(crate) fn selects_pods(&self) -> bool {
        self.spec.kind != "ExternalName" && !self.spec.selector.is_nothing()
    }
}
