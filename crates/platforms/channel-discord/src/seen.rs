//! In which channels the assistant was talked to, and how far each of them is dealt with.
//!
//! Discord repeats events for a session that goes on, and for no other: what was said between two
//! sessions has to be asked for, channel by channel, behind the last message that was dealt with.
//! That is kept in a note over restarts: a channel from the moment at which somebody talks to the
//! assistant there, and how far it is dealt with a few seconds late. That does no harm, because what
//! is fetched twice is known by its id.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nanobot_channel::Notes;
use nanobot_channel_kit::LateNote;
use serde::{Deserialize, Serialize};
use serenity::model::id::{ChannelId, GuildId, MessageId, UserId};

/// What the note is called.
const NOTE: &str = "seen";
/// How many channels are remembered; those in which nothing was said for the longest are forgotten.
const REMEMBERED: usize = 500;
/// How many messages are known by their ids.
const RECENT: usize = 1024;

/// What is known about channels.
#[derive(Debug)]
pub(crate) struct Seen {
    known: Mutex<Known>,
    note: LateNote,
}

impl Default for Seen {
    /// Nothing is known before [`Self::read`].
    fn default() -> Self {
        Self {
            known: Mutex::default(),
            note: LateNote::new(NOTE),
        }
    }
}

#[derive(Debug, Default)]
struct Known {
    is_read: bool,
    /// Whose channels these are.
    bot: Option<UserId>,
    /// Counts the sessions.
    session: u64,
    channels: BTreeMap<ChannelId, Place>,
    /// The newest messages that were dealt with, in that order.
    recent: VecDeque<MessageId>,
}

/// A channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    guild: Option<GuildId>,
    /// The id of the last message that is dealt with, and of all before it.
    last: u64,
    /// What was said behind it may not have come.
    is_behind: bool,
}

/// A channel of which messages may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Behind {
    pub(crate) channel: ChannelId,
    /// The server that it is in.
    pub(crate) guild: Option<GuildId>,
    /// Everything up to the message of this id is dealt with.
    pub(crate) last: u64,
    session: u64,
}

/// The note.
#[derive(Debug, Deserialize, Serialize)]
struct Note {
    bot: Option<UserId>,
    channels: Vec<(ChannelId, Option<GuildId>, u64)>,
}

impl Seen {
    /// Reads the note, with the first run.
    pub(crate) async fn read(&self, notes: &dyn Notes) {
        if std::mem::replace(&mut self.known().is_read, true) {
            return;
        }
        let Some(note) = self.note.read::<Note>(notes).await else {
            return;
        };
        let mut known = self.known();
        known.bot = note.bot;
        known.channels = note
            .channels
            .into_iter()
            .take(REMEMBERED)
            .map(|(channel, guild, last)| {
                (
                    channel,
                    Place {
                        guild,
                        last,
                        is_behind: false,
                    },
                )
            })
            .collect();
    }

    /// Writes the note whenever it changed, but not too often. Does not return.
    pub(crate) async fn keep_written(&self, notes: &dyn Notes) {
        self.note.keep_written(notes, || self.known().note()).await;
    }

    /// Writes the note if it changed.
    pub(crate) async fn write(&self, notes: &dyn Notes) {
        self.note.write(notes, || self.known().note()).await;
    }

    /// A session began that knows nothing of what was said before it: every channel is behind.
    pub(crate) fn begin(&self, bot: UserId) {
        let mut known = self.known();
        if known.bot != Some(bot) {
            known.bot = Some(bot);
            known.channels.clear();
            self.note.change();
        }
        known.session += 1;
        for place in known.channels.values_mut() {
            place.is_behind = true;
        }
    }

    /// Somebody who may talk wrote a message of this id in a channel. `true` when nobody did before:
    /// it is not to be lost then that they do.
    pub(crate) fn hear(&self, channel: ChannelId, guild: Option<GuildId>, id: u64) -> bool {
        let mut known = self.known();
        if known.channels.contains_key(&channel) {
            return false;
        }
        if known.channels.len() >= REMEMBERED
            && let Some(oldest) = known
                .channels
                .iter()
                .min_by_key(|(_, place)| place.last)
                .map(|(id, _)| *id)
        {
            known.channels.remove(&oldest);
        }
        known.channels.insert(
            channel,
            Place {
                guild,
                last: id.saturating_sub(1),
                is_behind: false,
            },
        );
        self.note.change();
        true
    }

    /// Whether a message was dealt with a short time ago.
    pub(crate) fn is_dealt_with(&self, message: MessageId) -> bool {
        self.known().recent.contains(&message)
    }

    /// A message is dealt with. In a channel that is behind, earlier ones may not be.
    pub(crate) fn deal_with(&self, channel: ChannelId, message: MessageId) {
        let mut known = self.known();
        if known.recent.len() >= RECENT {
            known.recent.pop_front();
        }
        known.recent.push_back(message);
        let place = known
            .channels
            .get_mut(&channel)
            .filter(|place| !place.is_behind && place.last < message.get());
        if let Some(place) = place {
            place.last = message.get();
            self.note.change();
        }
    }

    /// Everything in a channel is dealt with up to here, though there may be more.
    pub(crate) fn reach(&self, channel: ChannelId, last: u64) {
        let mut known = self.known();
        if let Some(place) = known
            .channels
            .get_mut(&channel)
            .filter(|place| place.last < last)
        {
            place.last = last;
            self.note.change();
        }
    }

    /// What was missing in a channel is dealt with, unless another session began meanwhile.
    pub(crate) fn catch_up(&self, behind: Behind) {
        let mut known = self.known();
        if known.session == behind.session
            && let Some(place) = known.channels.get_mut(&behind.channel)
        {
            place.is_behind = false;
        }
    }

    /// A channel is gone, or not to be read any more.
    pub(crate) fn forget(&self, channel: ChannelId) {
        let mut known = self.known();
        known.channels.remove(&channel);
        self.note.change();
    }

    /// Whether something may be missing.
    pub(crate) fn is_behind(&self) -> bool {
        self.known().channels.values().any(|place| place.is_behind)
    }

    /// Where something may be missing, first where something was said last.
    pub(crate) fn behind(&self) -> Vec<Behind> {
        let known = self.known();
        let mut behind: Vec<_> = known
            .channels
            .keys()
            .filter_map(|channel| known.behind_in(*channel))
            .collect();
        behind.sort_by_key(|behind| std::cmp::Reverse(behind.last));
        behind
    }

    /// A channel, if something may be missing there.
    pub(crate) fn behind_in(&self, channel: ChannelId) -> Option<Behind> {
        self.known().behind_in(channel)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn behind_in(&self, channel: ChannelId) -> Option<Behind> {
        let Place { guild, last, .. } = *self
            .channels
            .get(&channel)
            .filter(|place| place.is_behind)?;
        Some(Behind {
            channel,
            guild,
            last,
            session: self.session,
        })
    }

    fn note(&self) -> Note {
        let channels = self
            .channels
            .iter()
            .map(|(channel, place)| (*channel, place.guild, place.last));
        Note {
            bot: self.bot,
            channels: channels.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use nanobot_channel::LONGEST_NOTE;
    use nanobot_testkit::NoteBook;

    use super::*;

    const BOT: UserId = UserId::new(1);
    const GUILD: GuildId = GuildId::new(7);

    fn channel(id: u64) -> ChannelId {
        ChannelId::new(id)
    }

    fn behind(seen: &Seen) -> Vec<(u64, Option<GuildId>, u64)> {
        seen.behind()
            .into_iter()
            .map(|behind| (behind.channel.get(), behind.guild, behind.last))
            .collect()
    }

    #[tokio::test]
    async fn a_restart_is_behind_where_the_assistant_was_talked_to() {
        let notes = NoteBook::default();
        let seen = Seen::default();
        seen.read(&notes).await;
        seen.begin(BOT);
        assert!(!seen.is_behind(), "nobody talked yet");
        seen.deal_with(channel(9), MessageId::new(40));
        assert!(seen.hear(channel(5), Some(GUILD), 50));
        assert!(seen.hear(channel(6), None, 60));
        assert!(!seen.hear(channel(6), None, 61));
        seen.deal_with(channel(5), MessageId::new(55));
        seen.deal_with(channel(5), MessageId::new(54));
        seen.write(&notes).await;
        let restarted = Seen::default();
        restarted.read(&notes).await;
        assert_eq!(
            (
                restarted.is_behind(),
                restarted.is_dealt_with(MessageId::new(55))
            ),
            (false, false)
        );
        restarted.begin(BOT);
        assert_eq!(behind(&restarted), [(6, None, 59), (5, Some(GUILD), 55)]);
        let of_another_bot = Seen::default();
        of_another_bot.read(&notes).await;
        of_another_bot.begin(UserId::new(2));
        assert!(!of_another_bot.is_behind());
    }

    #[test]
    fn what_is_behind_stays_there_until_it_is_caught_up() {
        let seen = Seen::default();
        seen.begin(BOT);
        seen.hear(channel(5), None, 50);
        seen.deal_with(channel(5), MessageId::new(50));
        seen.begin(BOT);
        seen.deal_with(channel(5), MessageId::new(70));
        assert_eq!(
            (behind(&seen), seen.is_dealt_with(MessageId::new(70))),
            (vec![(5, None, 50)], true)
        );
        seen.reach(channel(5), 60);
        assert_eq!(behind(&seen), [(5, None, 60)]);
        let before = seen.behind()[0];
        seen.begin(BOT);
        seen.catch_up(before);
        assert_eq!(behind(&seen), [(5, None, 60)], "more was missed meanwhile");
        seen.catch_up(seen.behind()[0]);
        seen.deal_with(channel(5), MessageId::new(80));
        seen.begin(BOT);
        assert_eq!(behind(&seen), [(5, None, 80)]);
        seen.forget(channel(5));
        assert!(!seen.is_behind());
    }

    #[tokio::test]
    async fn the_note_is_bounded_and_the_quiet_go_first() {
        let (notes, seen) = (NoteBook::default(), Seen::default());
        seen.begin(UserId::new(u64::MAX));
        let newest = u64::MAX - 1;
        for number in 0..=REMEMBERED as u64 {
            seen.hear(
                channel(newest - number),
                Some(GuildId::new(newest)),
                newest - number,
            );
        }
        seen.write(&notes).await;
        assert!(notes.all()[NOTE].len() < LONGEST_NOTE);
        seen.begin(UserId::new(u64::MAX));
        let kept = seen.behind();
        assert_eq!((kept.len(), kept[0].channel), (REMEMBERED, channel(newest)));
        // The quietest of those that were there gave way.
        assert_eq!(
            kept.last().map(|kept| kept.channel),
            Some(channel(newest - REMEMBERED as u64))
        );
    }

    #[tokio::test]
    async fn a_note_that_is_none_of_ours_is_a_first_start() {
        let (notes, seen) = (NoteBook::default(), Seen::default());
        notes.write(NOTE, "{").await.unwrap();
        seen.read(&notes).await;
        seen.begin(BOT);
        assert!(!seen.is_behind());
    }
}
