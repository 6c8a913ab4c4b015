//! What was said in a conversation or a thread, page by page.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::channel::SlackChannel;
use crate::error::CallError;
use crate::place::{Cursor, Place};

/// A page of messages.
#[derive(Debug, Deserialize)]
pub(crate) struct Page<M> {
    #[serde(default = "Vec::new")]
    pub(crate) messages: Vec<M>,
    #[serde(default)]
    response_metadata: Cursor,
}

/// How much is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent<'a> {
    /// What was said up to here is left out, but for the message that a thread begins with.
    pub(crate) oldest: &'a str,
    /// How many messages are asked for at a time, at most 1,000.
    pub(crate) page: &'a str,
    /// How often.
    pub(crate) pages: usize,
    /// Whether the metadata of messages comes along.
    pub(crate) has_metadata: bool,
}

impl SlackChannel {
    /// What was said in a place, in no order that counts, and whether that is all.
    pub(crate) async fn said<M: DeserializeOwned>(
        &self,
        place: &Place,
        extent: Extent<'_>,
    ) -> Result<(Vec<M>, bool), CallError> {
        let mut query = vec![
            ("channel", place.chat.as_str()),
            ("oldest", extent.oldest),
            ("limit", extent.page),
        ];
        if extent.has_metadata {
            query.push(("include_all_metadata", "true"));
        }
        let method = match &place.thread {
            Some(thread) => {
                query.push(("ts", thread));
                "conversations.replies"
            }
            None => "conversations.history",
        };
        let (mut messages, mut cursor) = (Vec::new(), String::new());
        for _ in 0..extent.pages {
            let mut query = query.clone();
            if !cursor.is_empty() {
                query.push(("cursor", &cursor));
            }
            let page: Page<M> = self.api.ask(method, &query).await?;
            messages.extend(page.messages);
            cursor = page.response_metadata.next_cursor;
            if cursor.is_empty() {
                return Ok((messages, true));
            }
        }
        Ok((messages, false))
    }
}
