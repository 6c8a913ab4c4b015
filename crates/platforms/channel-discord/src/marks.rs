//! The marks of catch-up: the last handled message of each channel, and their note.

use nanobot_channel_kit::catch_up::{CatchUpMarks, Lag, MarkNote, NotedMark};
use serde::{Deserialize, Serialize};
use serenity::model::id::{ChannelId, GuildId, UserId};

/// Maximum number of channels with a mark.
const MAX_MARKS: usize = 500;

/// The last handled message of each channel.
pub(crate) type DiscordMarks = CatchUpMarks<SeenNote>;

/// The note with the marks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct SeenNote {
    bot: Option<UserId>,
    channels: Vec<(ChannelId, Option<GuildId>, u64)>,
}

impl MarkNote for SeenNote {
    const NAME: &'static str = "seen";
    const LIMIT: usize = MAX_MARKS;
    type Account = Option<UserId>;
    type Place = ChannelId;
    /// The server of the channel.
    type Facts = Option<GuildId>;
    type Cursor = u64;

    fn new(bot: &Option<UserId>, marks: impl Iterator<Item = NotedMark<Self>>) -> Self {
        let (bot, channels) = (*bot, marks.collect());
        Self { bot, channels }
    }

    fn into_parts(self) -> (Option<UserId>, Vec<NotedMark<Self>>) {
        (self.bot, self.channels)
    }
}

/// A channel that may miss messages.
pub(crate) type ChannelLag = Lag<SeenNote>;

#[cfg(test)]
mod tests {
    use nanobot_channel::{MAX_NOTE_BYTES, Notes as _};
    use nanobot_testkit::NoteBook;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn note_round_trips_over_a_restart() {
        let (notes, marks) = (NoteBook::default(), DiscordMarks::default());
        let note = json!({"bot": "1", "channels": [["5", "7", 55], ["6", null, 59]]});
        notes
            .write(SeenNote::NAME, &note.to_string())
            .await
            .unwrap();
        marks.open(&notes).await;
        marks.open_gap(&Some(UserId::new(1)));
        let lags = marks.lags();
        let lags: Vec<_> = lags
            .iter()
            .map(|lag| (lag.place.get(), lag.facts, lag.after))
            .collect();
        assert_eq!(lags, [(6, None, 59), (5, Some(GuildId::new(7)), 55)]);
        marks.add(&ChannelId::new(8), None, 80);
        marks.write(&notes).await;
        let noted: serde_json::Value = serde_json::from_str(&notes.all()[SeenNote::NAME]).unwrap();
        assert_eq!(
            noted,
            json!({"bot": "1", "channels": [["5", "7", 55], ["6", null, 59], ["8", null, 80]]})
        );
    }

    #[tokio::test]
    async fn note_is_bounded() {
        let (notes, marks) = (NoteBook::default(), DiscordMarks::default());
        marks.open_gap(&Some(UserId::new(u64::MAX)));
        let newest = u64::MAX - 1;
        for number in 0..=MAX_MARKS as u64 {
            let (channel, guild) = (ChannelId::new(newest - number), GuildId::new(newest));
            marks.add(&channel, Some(guild), newest - number);
        }
        marks.write(&notes).await;
        assert!(notes.all()[SeenNote::NAME].len() < MAX_NOTE_BYTES);
    }
}
