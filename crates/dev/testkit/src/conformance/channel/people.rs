//! Helpers for what people do and see on the platform.

use anyhow::Context as _;

use super::harness::{
    ChannelHarness, Destination, MessageCondition, ObservedChat, Participant, SampleFile,
    UserMessage, VisibleMessage,
};

/// Actions of the friend and the stranger, for every harness.
pub(super) trait People: ChannelHarness + Sized {
    /// Sends a text as the friend in the direct chat.
    async fn friend_says(&mut self, text: &str) -> anyhow::Result<()> {
        self.post(UserMessage::directly(Participant::Friend, text))
            .await
    }

    /// Sends a text as the stranger in the stranger's own direct chat.
    async fn stranger_says(&mut self, text: &str) -> anyhow::Result<()> {
        self.post(UserMessage::directly(Participant::Stranger, text))
            .await
    }

    /// Sends a text as the friend in the room.
    async fn friend_says_in_room(&mut self, text: &str, addressed: bool) -> anyhow::Result<()> {
        self.post(UserMessage {
            place: Destination::Room { addressed },
            ..UserMessage::directly(Participant::Friend, text)
        })
        .await
    }

    /// Sends a text as the stranger to the assistant in the same room.
    async fn stranger_says_in_room(&mut self, text: &str) -> anyhow::Result<()> {
        self.post(UserMessage {
            place: Destination::Room { addressed: true },
            ..UserMessage::directly(Participant::Stranger, text)
        })
        .await
    }

    /// Sends a file with a text to the person's direct chat.
    async fn sends(
        &mut self,
        who: Participant,
        file: &SampleFile,
        text: &str,
    ) -> anyhow::Result<()> {
        self.post(UserMessage {
            file: Some(file),
            ..UserMessage::directly(who, text)
        })
        .await
    }

    /// Waits until the friend sees `count` complete messages, and returns the texts of all
    /// messages.
    async fn friend_was_shown(&mut self, count: usize) -> anyhow::Result<Vec<String>> {
        let is_enough = |seen: &[VisibleMessage]| complete(seen).count() >= count;
        let seen = wait_to_see(
            self,
            ObservedChat::Friend,
            &format!("{count} messages"),
            &is_enough,
        )
        .await?;
        Ok(complete(&seen).map(|seen| seen.text.clone()).collect())
    }

    /// Waits until the friend sees exactly `text` in a message that may still grow.
    async fn friend_sees(&mut self, text: &str) -> anyhow::Result<()> {
        let is_there = |seen: &[VisibleMessage]| seen.iter().any(|seen| seen.text == text);
        wait_to_see(self, ObservedChat::Friend, text, &is_there)
            .await
            .map(drop)
    }

    /// Waits until the friend sees these messages, in this order, and nothing else: no draft,
    /// neither a growing nor an abandoned one.
    async fn friend_sees_only(&mut self, texts: &[&str]) -> anyhow::Result<()> {
        let is_all = |seen: &[VisibleMessage]| {
            seen.iter()
                .map(|seen| seen.text.as_str())
                .eq(texts.iter().copied())
        };
        wait_to_see(
            self,
            ObservedChat::Friend,
            &format!("nothing but {texts:?}"),
            &is_all,
        )
        .await
        .map(drop)
    }

    /// Waits until the friend has received `count` files, and returns all of them.
    async fn friend_got_files(&mut self, count: usize) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
        let is_enough = |seen: &[VisibleMessage]| {
            seen.iter().map(|seen| seen.files.len()).sum::<usize>() >= count
        };
        let seen = wait_to_see(
            self,
            ObservedChat::Friend,
            &format!("{count} files"),
            &is_enough,
        )
        .await?;
        Ok(seen.into_iter().flat_map(|seen| seen.files).collect())
    }

    /// Waits until the stranger sees a message in the direct chat, and returns all texts there.
    async fn stranger_was_told(&mut self) -> anyhow::Result<Vec<String>> {
        let seen = wait_to_see(self, ObservedChat::Stranger, "something", &|seen| {
            !seen.is_empty()
        })
        .await?;
        Ok(seen.into_iter().map(|seen| seen.text).collect())
    }
}

impl<H: ChannelHarness> People for H {}

/// Waits until people see a condition met; the error lists what they saw instead.
async fn wait_to_see(
    harness: &mut impl ChannelHarness,
    chat: ObservedChat,
    what: &str,
    is_there: &(dyn Fn(&[VisibleMessage]) -> bool + Sync),
) -> anyhow::Result<Vec<VisibleMessage>> {
    let wanted = MessageCondition::new(is_there);
    let seen = harness.wait_for_messages(chat, &wanted).await;
    seen.with_context(|| {
        format!(
            "waiting for {what} in the chat {chat:?}, where people see {:?}",
            wanted.last()
        )
    })
}

fn complete(seen: &[VisibleMessage]) -> impl Iterator<Item = &VisibleMessage> {
    seen.iter().filter(|seen| !seen.is_draft)
}
