//! Chooses the messages that leave a conversation.
//!
//! Decision: the cut is always before a person's message, so that the rest begins with one.
//! Messages of an unfinished turn stay, and so do the newest few messages.

use nanobot_context::estimate_message;
use nanobot_session::{Entry, Seq, SessionView, replay};
use nanobot_types::ChatMessage;

/// The amount that has to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Removal {
    /// Estimated tokens to remove.
    pub(super) tokens: usize,
    /// Minimum number of newest messages to keep.
    pub(super) kept_messages: usize,
}

/// The size of a conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) messages: usize,
    pub(crate) tokens: usize,
}

/// Returns the size of a conversation.
pub(crate) fn size(view: &SessionView) -> Size {
    let mut size = Size::default();
    for_each(view, |_, _, tokens| {
        size.messages += 1;
        size.tokens += tokens;
    });
    size
}

/// Returns the position before which messages leave, and the tokens they take. This is the first
/// position before a person's message at which enough has left, or else the last possible one.
/// Returns `None` if nothing may leave.
pub(super) fn boundary(view: &SessionView, need: Removal) -> Option<(Seq, usize)> {
    let total = size(view).messages;
    let open = replay(view).open_turn.map(|turn| turn.began);
    let (mut before, mut removed, mut last, mut enough) = (0, 0, None, None);
    for_each(view, |seq, is_user, tokens| {
        let may_end = is_user
            && before > 0
            && total - before >= need.kept_messages
            && open.is_none_or(|open| seq <= open);
        if may_end {
            last = Some((seq, removed));
            if removed >= need.tokens && enough.is_none() {
                enough = last;
            }
        }
        before += 1;
        removed += tokens;
    });
    enough.or(last)
}

/// Returns the position before which messages leave if only the tail of the conversation was read:
/// the first person's message in that tail.
pub(super) fn backlog(view: &SessionView) -> Option<Seq> {
    let open = replay(view).open_turn.map(|turn| turn.began);
    let mut first = None;
    for_each(view, |seq, is_user, _| {
        if is_user && first.is_none() {
            first = Some(seq);
        }
    });
    first.filter(|first| open.is_none_or(|open| *first <= open))
}

/// Returns the position before the newest `kept_messages` messages, or an earlier one; `None` if
/// that is nothing.
pub(crate) fn old_messages(view: &SessionView, kept_messages: usize) -> Option<Seq> {
    boundary(
        view,
        Removal {
            tokens: usize::MAX,
            kept_messages,
        },
    )
    .map(|(upto, _)| upto)
}

fn for_each(view: &SessionView, mut visit: impl FnMut(Seq, bool, usize)) {
    for record in view.effective_records() {
        if record.seq < view.cursor {
            continue;
        }
        if let Entry::Message(entry) = &record.entry {
            let runtime = entry
                .runtime
                .as_deref()
                .map_or(0, nanobot_context::estimate_tokens);
            let tokens = estimate_message(&entry.message) + runtime;
            visit(
                record.seq,
                matches!(*entry.message, ChatMessage::User(_)),
                tokens,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use nanobot_session::{Record, TurnEnd, TurnOutcome};

    use super::*;

    fn view(turns: usize) -> SessionView {
        let mut view = SessionView::default();
        for turn in 0..turns {
            for message in [
                ChatMessage::user(format!("question {turn}")),
                ChatMessage::assistant("answer"),
            ] {
                view.records.push(Record {
                    seq: view.head,
                    entry: Entry::message(message),
                });
                view.head = view.head.next();
            }
            let end = TurnEnd {
                turn: format!("{turn}").into(),
                inbound: Vec::new(),
                outcome: TurnOutcome::Replied,
                visible: None,
            };
            view.records.push(Record {
                seq: view.head,
                entry: Entry::TurnEnded(end),
            });
        }
        view
    }

    #[test]
    fn boundary_removes_enough_and_keeps_the_newest() {
        let view = view(6);
        let at = |tokens, kept_messages| {
            boundary(
                &view,
                Removal {
                    tokens,
                    kept_messages,
                },
            )
            .map(|(Seq(seq), _)| seq)
        };
        assert_eq!(
            at(1, 2),
            Some(2),
            "the first position before which enough has left"
        );
        assert_eq!(at(13, 2), Some(4));
        assert_eq!(at(usize::MAX, 2), Some(10));
        assert_eq!(at(usize::MAX, 8), Some(4));
        assert_eq!(at(usize::MAX, 5), Some(6), "a turn is not split");
        assert_eq!(at(usize::MAX, 11), None);
    }

    #[test]
    fn boundary_keeps_the_open_turn() {
        let mut view = view(3);
        view.records.push(Record {
            seq: view.head,
            entry: Entry::message(ChatMessage::user("and")),
        });
        view.head = view.head.next();
        view.records.push(Record {
            seq: view.head,
            entry: Entry::message(ChatMessage::user("now")),
        });
        view.head = view.head.next();
        let (upto, _) = boundary(
            &view,
            Removal {
                tokens: usize::MAX,
                kept_messages: 1,
            },
        )
        .unwrap();
        assert_eq!(upto, Seq(7));
        view.cursor = Seq(7);
        assert_eq!(
            boundary(
                &view,
                Removal {
                    tokens: usize::MAX,
                    kept_messages: 0
                }
            ),
            None
        );
    }
}
