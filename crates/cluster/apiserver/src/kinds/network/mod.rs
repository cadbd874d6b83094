//! Services and their endpoints, ingresses, network policies and addresses.

mod endpoints;
mod ingress;
mod ip_address;
mod network_policy;
mod service;

use berth_schema::resource::*;

use crate::kinds::kind::kinds;

kinds! {
    ENDPOINTS: endpoints::STRATEGY, endpoints::COLUMNS;
    SERVICES: service::Service, service::COLUMNS;
    ENDPOINT_SLICES: endpoints::SLICE_STRATEGY, endpoints::SLICE_COLUMNS, with_generation;
    INGRESS_CLASSES: ingress::CLASS_STRATEGY, ingress::CLASS_COLUMNS, with_generation;
    INGRESSES: ingress::STRATEGY, ingress::COLUMNS, with_generation;
    IP_ADDRESSES: ip_address::STRATEGY, ip_address::COLUMNS;
    NETWORK_POLICIES: network_policy::STRATEGY, network_policy::COLUMNS, with_generation;
    SERVICE_CIDRS: ip_address::CIDR_STRATEGY, ip_address::CIDR_COLUMNS;
}
