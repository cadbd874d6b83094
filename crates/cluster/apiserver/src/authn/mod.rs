//! Authentication: who sends a request.

mod authenticator;
mod tokens;

pub use authenticator::Authenticator;
pub use tokens::{API_AUDIENCE, Bound, Claims, Tokens};
