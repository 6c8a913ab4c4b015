//! Strict `getUpdates`: an update is returned until a higher offset confirms it, and never
//! afterwards.

use std::time::Duration;

use nanobot_testkit::Watched;
use serde_json::Value;
use tokio::time::Instant;

use crate::api::{ApiError, ApiResult};
use crate::params::Params;
use crate::state::TelegramState;

const LIMIT: i64 = 100;
const LONGEST: i64 = 50;

struct Poll {
    number: u64,
    limit: usize,
    timeout: Duration,
}

pub(crate) async fn get_updates(state: &Watched<TelegramState>, params: &Params) -> ApiResult {
    if state.read(|state| state.webhook.is_set()) {
        return Err(ApiError::webhook_is_active());
    }
    let poll = state.change(|state| state.begin_poll(params));
    let deadline = Instant::now() + poll.timeout;
    let mut changed = state.subscribe();
    loop {
        if state.read(|state| state.poll != poll.number) {
            state.change(|state| state.conflicts += 1);
            return Err(ApiError::conflict());
        }
        let updates = state.read(|state| state.seen_by(&poll));
        if !updates.is_empty() {
            return Ok(Value::Array(updates));
        }
        if state.read(|state| state.empty_answers > 0)
            && state.change(TelegramState::take_empty_answer)
        {
            return Ok(Value::Array(Vec::new()));
        }
        match tokio::time::timeout_at(deadline, changed.changed()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return Ok(Value::Array(Vec::new())),
        }
    }
}

impl TelegramState {
    fn seen_by(&self, poll: &Poll) -> Vec<Value> {
        let limit = if self.is_blind { 0 } else { poll.limit };
        self.updates.values().take(limit).cloned().collect()
    }

    /// Takes one of the scripted empty answers. Returns `true` if the poll has to end without
    /// updates.
    fn take_empty_answer(&mut self) -> bool {
        let ends = self.empty_answers > 0;
        self.empty_answers -= usize::from(ends);
        ends
    }

    /// Confirms updates up to the offset and ends the poll in progress.
    fn begin_poll(&mut self, params: &Params) -> Poll {
        self.poll += 1;
        self.confirm(params.number("offset").unwrap_or_default());
        if let Some(kinds) = params.json("allowed_updates").and_then(Value::as_array) {
            self.allowed = Some(
                kinds
                    .iter()
                    .filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect(),
            );
        }
        let limit = params
            .number("limit")
            .filter(|limit| (1..=LIMIT).contains(limit))
            .unwrap_or(LIMIT);
        let seconds = params
            .number("timeout")
            .unwrap_or_default()
            .clamp(0, LONGEST);
        Poll {
            number: self.poll,
            limit: usize::try_from(limit).unwrap_or_default(),
            timeout: Duration::from_secs(seconds.unsigned_abs()),
        }
    }

    /// Removes every update below `offset`; a negative offset counts from the end of the queue.
    fn confirm(&mut self, offset: i64) {
        let offset = if offset < 0 {
            let from_end = usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX);
            self.updates
                .keys()
                .nth(self.updates.len().saturating_sub(from_end))
                .copied()
                .unwrap_or_default()
        } else {
            offset
        };
        self.acknowledged = self.acknowledged.max(offset);
        self.updates = self.updates.split_off(&offset);
    }
}
