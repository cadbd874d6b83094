//! Why a list or a watch ended.

use std::time::Duration;

use super::failure::WatchFailure;
use super::pages::ListError;
use crate::call::CallError;

#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    #[error("the server closed the watch")]
    Closed,
    #[error("the resource version expired")]
    Expired,
    #[error("the server does not support streaming lists")]
    NotStreaming,
    #[error("no data for {0:?}")]
    Silent(Duration),
    #[error(transparent)]
    Call(#[from] CallError),
    /// An event cannot be read: the same one would come again from the last resource version.
    #[error("an event cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// There are more objects than the client keeps.
    #[error(transparent)]
    TooLarge(WatchFailure),
    /// The connection broke, or the response is invalid.
    #[error("{0}")]
    Broken(String),
    #[error("the receiver was dropped")]
    Unwanted,
}

impl Ended {
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Ended::Call(error) => error.retry_after(),
            _ => None,
        }
    }
}

impl From<ListError> for Ended {
    fn from(error: ListError) -> Ended {
        match error {
            _ if error.code() == Some(410) => Ended::Expired,
            ListError::Call(error) => Ended::Call(error),
            ListError::TooLarge(failure) => Ended::TooLarge(failure),
            error => Ended::Broken(error.to_string()),
        }
    }
}
