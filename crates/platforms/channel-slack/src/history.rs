//! Reads the messages of a conversation or a thread, page by page.

use nanobot_channel_kit::catch_up::read_pages;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::channel::Slack;
use crate::error::CallError;
use crate::target::{NextPage, SendTarget};

/// A page of messages.
#[derive(Debug, Deserialize)]
pub(crate) struct MessagePage<M> {
    #[serde(default = "Vec::new")]
    pub(crate) messages: Vec<M>,
    #[serde(default)]
    response_metadata: NextPage,
}

/// The range of a history, and its limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent<'a> {
    /// Messages up to this `ts` are left out, except the first one of a thread.
    pub(crate) oldest: &'a str,
    /// Messages in a page, at most 1,000.
    pub(crate) page: &'a str,
    /// Maximum number of pages.
    pub(crate) pages: usize,
    /// Includes the metadata of messages.
    pub(crate) has_metadata: bool,
}

impl Slack {
    /// Returns messages in no particular order, and `true` if that is all of them.
    pub(crate) async fn read_history<M: DeserializeOwned + Send>(
        &self,
        place: &SendTarget,
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
        let query = &query;
        read_pages(extent.pages, async |cursor: Option<String>| {
            let mut query = query.clone();
            query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
            let page: MessagePage<M> = self.api.query(method, &query).await?;
            let next = page.response_metadata.next_cursor;
            Ok((page.messages, Some(next).filter(|next| !next.is_empty())))
        })
        .await
    }
}
