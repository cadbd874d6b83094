//! Tests of the types as other crates use them.

mod pod_fields;
