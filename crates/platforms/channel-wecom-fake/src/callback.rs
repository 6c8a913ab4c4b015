//! Callbacks that the bot answers, and the time for each answer.

use crate::api::{ApiError, INVALID_REQ_ID};
use crate::model::Callback;
use crate::state::WeComState;

/// Time for replies to a message, in milliseconds.
pub(crate) const REPLY_WINDOW: i64 = 86_400_000;
/// Time for the answer to an event, in milliseconds.
pub(crate) const EVENT_WINDOW: i64 = 5_000;

impl WeComState {
    /// Returns the callback of a `req_id`, if it is not older than `window`.
    pub(crate) fn callback(
        &mut self,
        req_id: &str,
        window: i64,
    ) -> Result<&mut Callback, ApiError> {
        let now = self.now();
        let Some(callback) = self.callbacks.get_mut(req_id) else {
            return Err(ApiError::new(INVALID_REQ_ID).clumsy());
        };
        // The delay of a network is no fault of the client.
        if now - callback.at >= window {
            return Err(ApiError::new(INVALID_REQ_ID));
        }
        Ok(callback)
    }

    /// Returns `true` if the bot replied to a callback, successfully or not.
    pub(crate) fn is_answered(&self, req_id: &str) -> bool {
        let mut calls = self.calls.all().iter();
        calls.any(|call| call.req_id == req_id && call.method.starts_with("aibot_respond"))
    }
}
