//! Texts: quantities, versions, schedules, names and label keys in objects, the names of Berth's annotations, and numbers in
//! messages. This layer knows no object.

pub mod annotations;
pub mod cron;
pub mod format;
mod integer;
pub mod labels;
mod named;
mod names;
pub mod obeyed;
pub mod quantity;
pub mod shell;
pub mod similar;
mod version;

pub use integer::decimal_integer;
pub use names::{
    declared_subdomain, dns_1035_label, dns_label, dns_subdomain, label_key, label_value, path_segment,
    port_name, port_number, short_name,
};
pub use version::{compare_versions, is_version};
