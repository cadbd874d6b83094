//! Custom resources, and what extends or configures the API server.

mod admission_policy;
mod api_service;
mod custom_resource;
mod custom_resource_definition;
mod flow_control;
mod rules;
mod structural;
mod webhook_configuration;

use berth_schema::resource::*;

pub use custom_resource_definition::FINALIZER as CUSTOM_RESOURCE_FINALIZER;

use crate::kinds::kind::kinds;
use crate::table::columns::DEFAULT;

kinds! {
    MUTATING_ADMISSION_POLICIES: admission_policy::MUTATING, admission_policy::MUTATING_COLUMNS, has_generation: true, needs_version: true;
    MUTATING_ADMISSION_POLICY_BINDINGS: admission_policy::MUTATING_BINDING, admission_policy::BINDING_COLUMNS, has_generation: true, needs_version: true;
    MUTATING_WEBHOOK_CONFIGURATIONS: webhook_configuration::MUTATING, webhook_configuration::COLUMNS, has_generation: true, needs_version: true;
    VALIDATING_ADMISSION_POLICIES: admission_policy::VALIDATING, admission_policy::VALIDATING_COLUMNS, has_generation: true, needs_version: true;
    VALIDATING_ADMISSION_POLICY_BINDINGS: admission_policy::VALIDATING_BINDING, admission_policy::BINDING_COLUMNS, has_generation: true, needs_version: true;
    VALIDATING_WEBHOOK_CONFIGURATIONS: webhook_configuration::VALIDATING, webhook_configuration::COLUMNS, has_generation: true, needs_version: true;
    CUSTOM_RESOURCE_DEFINITIONS: custom_resource_definition::CustomResourceDefinition, DEFAULT, has_generation: true, needs_version: true;
    API_SERVICES: api_service::STRATEGY, api_service::COLUMNS, needs_version: true;
    FLOW_SCHEMAS: flow_control::FLOW_SCHEMA, flow_control::FLOW_SCHEMA_COLUMNS, has_generation: true;
    PRIORITY_LEVEL_CONFIGURATIONS: flow_control::PRIORITY_LEVEL, flow_control::PRIORITY_LEVEL_COLUMNS, has_generation: true;
}
