//! Expressions of the Common Expression Language with the functions of Kubernetes 1.36.
//!
//! An expression is parsed (`lexer`, `parser`, `macros`), checked (`check`, with the types of `types` and the functions
//! of `library`), and evaluated (`eval`); `estimate` bounds the cost beforehand. Results, errors and costs are those of cel-go, which kube-apiserver and
//! kube-scheduler use. Nothing here trusts an expression: the depth of trees, the sizes of types, and the steps, texts
//! and costs of an evaluation have limits.

mod budget;
mod check;
mod declare;
mod estimate;
mod eval;
mod function;
mod issue;
mod lexer;
mod library;
mod macros;
mod opaque;
mod parser;
mod program;
mod tree;
mod types;
mod value;

pub use budget::Budget;
pub use estimate::{LargestSize, Step};
pub use eval::CompositedVariables;
pub use library::time::parse_duration;
pub use opaque::semver::Semver;
pub use parser::{is_identifier, is_reserved};
pub use program::{MAX_COST, Program};
pub use types::{ObjectType, Type};
pub use value::{Key, Map, Value};

#[cfg(test)]
mod tests;
