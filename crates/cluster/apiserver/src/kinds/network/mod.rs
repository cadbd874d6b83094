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
    ENDPOINT_SLICES: endpoints::SLICE_STRATEGY, endpoints::SLICE_COLUMNS, has_generation: true;
    INGRESS_CLASSES: ingress::CLASS_STRATEGY, ingress::CLASS_COLUMNS, has_generation: true;
    INGRESSES: ingress::STRATEGY, ingress::COLUMNS, has_generation: true;
    IP_ADDRESSES: ip_address::STRATEGY, ip_address::COLUMNS;
    NETWORK_POLICIES: network_policy::STRATEGY, network_policy::COLUMNS, has_generation: true;
    SERVICE_CIDRS: ip_address::ServiceCidr, ip_address::CIDR_COLUMNS;
}
