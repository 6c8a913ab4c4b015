//! Long polls for the events of a session.

use std::time::Duration;

use nanobot_testkit::Watched;
use serde_json::Value;
use tokio::time::Instant;

use crate::api::{ApiError, ApiResult};
use crate::state::MochatState;

/// A long poll that waits.
#[derive(Clone, Debug)]
pub(crate) struct LongPoll {
    pub(crate) session: String,
    pub(crate) cursor: u64,
    pub(crate) limit: usize,
    pub(crate) time: Duration,
    /// Number of times that waiting polls had been ended when it began.
    pub(crate) ended: u64,
}

/// Counts a long poll for as long as it waits, also if its client leaves.
struct Waiting<'a>(&'a Watched<MochatState>);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.change(|state| state.waiting_watches -= 1);
    }
}

/// Waits until there are events after the cursor, or the time is over.
pub(crate) async fn wait(state: &Watched<MochatState>, poll: &LongPoll) -> ApiResult {
    let deadline = Instant::now() + poll.time;
    let mut changed = state.subscribe();
    state.change(|state| state.waiting_watches += 1);
    let _waiting = Waiting(state);
    loop {
        let is_over = deadline <= Instant::now();
        let found = state.change_quietly(|state| state.poll(poll, is_over));
        if let Some(found) = found {
            return found;
        }
        tokio::select! {
            _ = changed.changed() => {}
            () = tokio::time::sleep_until(deadline) => {}
        }
    }
}

impl MochatState {
    /// Returns the answer to a long poll, if it is time for one.
    fn poll(&mut self, poll: &LongPoll, is_over: bool) -> Option<Result<Value, ApiError>> {
        if self.is_revoked {
            return Some(Err(ApiError::new(401)));
        }
        if let Err(error) = self.check_chat(&poll.session, true) {
            return Some(Err(error));
        }
        let chat = self.chats.get(&poll.session)?;
        let has_news = chat.last_seq() > poll.cursor || !chat.repeats.is_empty();
        let is_due = is_over || has_news || self.ended_watches > poll.ended;
        is_due.then(|| Ok(self.read_events(&poll.session, poll.cursor, poll.limit)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fake::MochatFake;
    use crate::probe::{ann, contents, text};

    fn poll(cursor: u64) -> LongPoll {
        LongPoll {
            session: ann().direct(),
            cursor,
            limit: 10,
            time: Duration::from_secs(600),
            ended: 0,
        }
    }

    #[tokio::test]
    async fn poll_ends_with_the_next_event() {
        let fake = MochatFake::start().await.unwrap();
        fake.add_person(&ann());
        let poll = poll(0);
        let push = async {
            fake.wait_for_waiting_watches(1).await.unwrap();
            fake.push(text("hello"))
        };
        let (answer, pushed) = tokio::join!(wait(&fake.state, &poll), push);
        let answer = answer.unwrap();
        assert_eq!(
            (contents(&answer), &answer["cursor"]),
            (vec![json!("hello")], &json!(1))
        );
        assert_eq!((fake.deliveries(&pushed), fake.waiting_watches()), (1, 0));
    }

    #[tokio::test]
    async fn poll_ends_for_other_reasons() {
        let fake = MochatFake::start().await.unwrap();
        let hello = fake.push(text("hello"));
        let ends: [(fn(&MochatFake), _); 3] = [
            (MochatFake::end_watches, Ok(json!([]))),
            (MochatFake::revoke_credentials, Err(401)),
            (|fake| fake.dissolve(&ann().direct()), Err(404)),
        ];
        let short = LongPoll {
            time: Duration::ZERO,
            ..poll(1)
        };
        let answer = wait(&fake.state, &short).await.unwrap();
        assert_eq!(
            (&answer["events"], &answer["cursor"]),
            (&json!([]), &json!(1))
        );
        fake.repeat(&hello);
        let again = wait(&fake.state, &poll(1)).await.unwrap();
        assert_eq!(contents(&again), [json!("hello")]);
        for (end, expected) in ends {
            let poll = LongPoll {
                ended: fake.state.read(|state| state.ended_watches),
                ..poll(1)
            };
            let later = async {
                fake.wait_for_waiting_watches(1).await.unwrap();
                end(&fake);
            };
            let (answer, ()) = tokio::join!(wait(&fake.state, &poll), later);
            let answer = answer.map(|answer| answer["events"].clone());
            assert_eq!(answer.map_err(|error| error.code), expected);
            fake.restore_credentials();
        }
    }
}
