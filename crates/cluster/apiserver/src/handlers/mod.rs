//! Request handlers, by verb and subresource. They know nothing of connections: [`Api`] is all that they work with.

mod admission;
mod api;
mod autoscaler;
mod binding;
mod body;
mod content;
mod convert;
mod decode;
mod delete;
mod delete_collection;
mod dispatch;
mod eviction;
mod list;
mod log;
mod metrics;
mod object;
mod options;
mod read_options;
mod reply;
mod review;
mod scale;
mod strict_json;
mod token;
mod watch;
mod write;

pub use admission::AdmissionChain;
pub use api::Api;
pub use body::Body;
pub use convert::stored_value;
pub use decode::media_type;
pub use dispatch::handle;
pub use eviction::compile_budgets;
pub use reply::Reply;
pub use watch::{PROTOBUF_WATCH, watch};
