//! The answer to a command, and its meaning.

use nanobot_channel::Value;

use crate::error::{CallError, from_code};

/// An answer as WeCom gives it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    /// The code; `None` if there is no number.
    pub(crate) code: Option<i64>,
    pub(crate) message: String,
    pub(crate) body: Value,
}

impl Answer {
    /// Returns the body of an accepted command.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) fn judged(self) -> Result<Value, CallError> {
        match self.code {
            Some(0) => Ok(self.body),
            Some(code) => Err(from_code(code, &self.message)),
            None => Err(CallError::Misunderstood("it has no code".to_owned())),
        }
    }
}
