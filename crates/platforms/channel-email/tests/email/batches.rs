//! Many mails at once: few commands, order, and what an interruption leaves.

use std::collections::BTreeMap;
use std::sync::Arc;

use nanobot_channel::{Admission, Notes as _};
use nanobot_channel_email_fake::{MailFake, MailFault};
use nanobot_testkit::Assistant;
use serde_json::json;

use crate::support::{ANN, DEADLY, Running, channel, note, played};

fn answer(text: &str) -> MailFault {
    MailFault::Answer(text.to_owned())
}

fn count(fake: &MailFake, command: &str) -> usize {
    fake.commands()
        .iter()
        .filter(|known| *known == command)
        .count()
}

/// Adds a mail from each of so many people.
fn push_each(fake: &MailFake, people: usize) -> Vec<u32> {
    let mails = (1..=people).map(|person| {
        let sender = format!("p{person}@friend.test");
        fake.push(note(&sender, &format!("{person}@friend.test"), "hi"))
    });
    mails.collect()
}

async fn wait_until_seen(fake: &MailFake, uids: &[u32]) {
    for uid in uids {
        fake.wait_for_flag(*uid, r"\Seen").await.unwrap();
    }
}

/// The senders of the messages that arrived, without their domains.
fn senders(assistant: &Assistant) -> Vec<String> {
    let arrived = assistant.seen().arrived.into_iter();
    let sender = |sender: &str| sender.split('@').next().unwrap().to_owned();
    arrived
        .map(|(message, _)| sender(message.sender_id.as_str()))
        .collect()
}

/// The noted attempts, without the fingerprint of the mailbox.
fn tries(assistant: &Assistant) -> String {
    let notes = assistant.notes().all();
    let (_, counts) = notes.get("tries").unwrap().split_once(' ').unwrap();
    counts.to_owned()
}

#[tokio::test]
async fn hundred_mails_take_few_commands_and_keep_their_order() {
    let fake = MailFake::start().await.unwrap();
    let mails = (0..100).map(|number| {
        let sender = format!("p{}@friend.test", number % 10);
        fake.push(note(
            &sender,
            &format!("{number}@x.test"),
            &format!("{number:02}"),
        ))
    });
    let mails: Vec<_> = mails.collect();
    let running = Running::at(&fake, &json!({}));
    wait_until_seen(&fake, &mails).await;
    let mut by_sender = BTreeMap::<_, Vec<_>>::new();
    for (message, _) in running.assistant.seen().arrived {
        let text = message.content.lines().last().unwrap().to_owned();
        by_sender.entry(message.sender_id).or_default().push(text);
    }
    assert_eq!(by_sender.len(), 10);
    for (sender, texts) in by_sender {
        assert!(
            texts.len() == 10 && texts.is_sorted(),
            "{sender}: {texts:?}"
        );
    }
    // Two batches, each with its headers, its contents and its marks.
    assert_eq!(
        (count(&fake, "UID FETCH"), count(&fake, "UID STORE")),
        (4, 2)
    );
    running.stop().await;
    assert_eq!(fake.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn senders_do_not_wait_for_each_other() {
    let fake = MailFake::start().await.unwrap();
    push_each(&fake, 20);
    let assistant = played();
    assistant.hold(true);
    let running = Running::of(channel(&fake, &json!({})), Arc::clone(&assistant));
    assistant.message(20).await.unwrap();
    assert_eq!(count(&fake, "UID STORE"), 0, "none is durable");
    assistant.hold(false);
    fake.wait_for_command("UID STORE", 1).await.unwrap();
    running.stop().await;
}

#[tokio::test]
async fn bad_and_huge_mails_do_not_harm_their_batch() {
    let fake = MailFake::start().await.unwrap();
    let good = note(ANN, "1@friend.test", "first");
    let huge = note(ANN, "2@friend.test", &"long text\r\n".repeat(30_000));
    let uids = [
        fake.push(good.as_str()),
        fake.push(note(ANN, "3@friend.test", DEADLY)),
        fake.push(good.replace("From:", "X-From:")),
        fake.push("\0\u{1}\u{2}".repeat(100)),
        fake.push(huge),
        fake.push(note(ANN, "4@friend.test", "last")),
    ];
    let running = Running::at(&fake, &json!({"maxMessageSize": 100_000}));
    wait_until_seen(&fake, &uids).await;
    let arrived = running.assistant.seen().arrived;
    let ends: Vec<_> = arrived
        .iter()
        .map(|(message, _)| message.content.lines().last().unwrap())
        .collect();
    let cut = "[the mail is too large: only its beginning was read, and no files]";
    assert_eq!(ends, ["first", cut, "last"]);
    let flagged = uids.map(|uid| fake.has_flag(uid, r"\Flagged"));
    assert_eq!(flagged, [false, true, true, true, false, false]);
    // The headers, the contents before the huge mail, its beginning, and the contents after it.
    assert_eq!(count(&fake, "UID FETCH"), 4);
    running.stop().await;
}

#[tokio::test]
async fn stop_within_a_batch_marks_what_was_delivered() {
    let fake = MailFake::start().await.unwrap();
    let mails = push_each(&fake, 5);
    let running = Running::at(&fake, &json!({}));
    running.assistant.will_answer([Admission::Accepted; 2]);
    running.assistant.will_answer([Admission::TryLater; 100]);
    running
        .assistant
        .wait_until("three to wait", |seen| seen.degraded.len() >= 3)
        .await
        .unwrap();
    let assistant = Arc::clone(&running.assistant);
    running.stop().await;
    let seen: Vec<_> = mails
        .iter()
        .map(|uid| fake.has_flag(*uid, r"\Seen"))
        .collect();
    assert_eq!(seen, [true, true, false, false, false]);
    assert_eq!(tries(&assistant), "", "the mails were parsed");
    let running = Running::at(&fake, &json!({}));
    wait_until_seen(&fake, &mails).await;
    assert_eq!(senders(&running.assistant), ["p3", "p4", "p5"]);
    running.stop().await;
}

#[tokio::test]
async fn stop_does_not_wait_for_a_stalled_server() {
    let fake = MailFake::start().await.unwrap();
    fake.fail_next("UID STORE", MailFault::Stall);
    push_each(&fake, 2);
    let running = Running::at(&fake, &json!({"requestTimeout": 600}));
    fake.wait_for_command("UID STORE", 1).await.unwrap();
    running.stop().await;
}

#[tokio::test]
async fn mails_of_a_killed_batch_are_handled_one_at_a_time() {
    let fake = MailFake::start().await.unwrap();
    let mails = push_each(&fake, 3);
    fake.fail_next("UID FETCH", MailFault::Stall);
    let assistant = played();
    let running = Running::of(channel(&fake, &json!({})), Arc::clone(&assistant));
    fake.wait_for_command("UID FETCH", 1).await.unwrap();
    let killed = assistant.notes().all()["tries"].clone();
    assert_eq!(tries(&assistant), "1 1 1,1 2 1,1 3 1");
    running.stop().await;
    assert_eq!(tries(&assistant), "", "a stop is not the fault of a mail");
    // A kill leaves the note as it was.
    assistant.notes().write("tries", &killed).await.unwrap();
    let running = Running::of(channel(&fake, &json!({})), Arc::clone(&assistant));
    wait_until_seen(&fake, &mails).await;
    running.stop().await;
    assert_eq!(senders(&assistant), ["p1", "p2", "p3"]);
    assert_eq!(
        (count(&fake, "UID FETCH"), count(&fake, "UID STORE")),
        (7, 3)
    );
    assert_eq!(tries(&assistant), "");
}

/// A server may refuse a set because of one mail, or leave it out.
#[tokio::test]
async fn mail_missing_in_the_answer_is_fetched_alone() {
    let fake = MailFake::start().await.unwrap();
    let mails = push_each(&fake, 4);
    fake.fail_next("UID FETCH", answer("{tag} NO [SERVERBUG] not these\r\n"));
    let running = Running::at(&fake, &json!({}));
    wait_until_seen(&fake, &mails).await;
    assert_eq!(senders(&running.assistant), ["p1", "p2", "p3", "p4"]);
    // The refused one; the first mail alone; the others together.
    assert_eq!((count(&fake, "UID FETCH"), count(&fake, "LOGIN")), (5, 1));
    assert_eq!(tries(&running.assistant), "");
    running.stop().await;
}

#[tokio::test]
async fn vanished_mail_is_skipped() {
    let fake = MailFake::start().await.unwrap();
    let mails = push_each(&fake, 3);
    for _ in 0..2 {
        fake.fail_next("UID FETCH", answer("{tag} OK nothing\r\n"));
    }
    let running = Running::at(&fake, &json!({}));
    wait_until_seen(&fake, &mails[1..]).await;
    assert_eq!(senders(&running.assistant), ["p2", "p3"]);
    assert!(!fake.has_flag(mails[0], r"\Seen"));
    running.stop().await;
}

#[tokio::test]
async fn refused_mark_of_a_set_is_repeated_for_each_mail() {
    let fake = MailFake::start().await.unwrap();
    let mails = push_each(&fake, 3);
    fake.fail_next(
        "UID STORE",
        answer("{tag} NO [EXPUNGEISSUED] one is gone\r\n"),
    );
    let running = Running::at(&fake, &json!({}));
    wait_until_seen(&fake, &mails).await;
    fake.wait_for_command("IDLE", 1).await.unwrap();
    running.stop().await;
    assert_eq!((count(&fake, "UID STORE"), count(&fake, "LOGIN")), (4, 1));
}

#[tokio::test]
async fn noted_position_does_not_skip_undelivered_mails() {
    let fake = MailFake::start().await.unwrap();
    fake.forget_keywords();
    push_each(&fake, 3);
    let keys = json!({"markSeen": false});
    let running = Running::at(&fake, &keys);
    running.assistant.will_answer([
        Admission::Accepted,
        Admission::TryLater,
        Admission::Accepted,
    ]);
    running.assistant.will_answer([Admission::TryLater; 100]);
    running
        .assistant
        .wait_until("the second mail to wait", |seen| {
            !seen.degraded.is_empty() && seen.arrived.len() >= 4
        })
        .await
        .unwrap();
    let notes = Arc::clone(running.assistant.notes());
    running.stop().await;
    let noted = notes.all()["last-mail"].clone();
    assert!(noted.ends_with(" 1 1"), "{noted}");
}
