//! Servers that stall, break off, and answer nonsense.

use std::sync::Arc;

use nanobot_channel::{Admission, ChannelError, Notes as _, SendRecovery};
use nanobot_channel_email_fake::{MailFake, MailFault};
use serde_json::json;

use crate::support::{
    ANN, DEADLY, DEADLY_HEADER, Running, channel, channel_without_reader, mail, news, note, played,
};

fn answer(text: &str) -> MailFault {
    MailFault::Answer(text.to_owned())
}

/// Runs the channel again and again, as a supervisor does, until so many messages were offered.
async fn supervised(fake: &MailFake, keys: serde_json::Value, messages: usize) -> Vec<String> {
    let (channel, assistant) = (channel(fake, &keys), played());
    loop {
        let running = Running::of(Arc::clone(&channel), Arc::clone(&assistant));
        let watched = Arc::clone(&running.assistant);
        tokio::select! {
            _ = watched.message(messages) => {}
            error = running.end() => {
                assert!(matches!(error, ChannelError::Unavailable(_)), "{error}");
                continue;
            }
        }
        return watched
            .seen()
            .arrived
            .into_iter()
            .map(|(message, _)| message.content)
            .collect();
    }
}

#[tokio::test]
async fn unfetchable_mail_does_not_block_others() {
    let fake = MailFake::start().await.unwrap();
    let bad = fake.push(note(ANN, "1@friend.test", "never"));
    fake.push(note(ANN, "2@friend.test", "after it"));
    for nonsense in [
        "* 1 FETCH (UID 1 BODY[HEADER]<0> {500000000}\r\n",
        "* 1 FETCH (UID 1 BODY[HEADER]<0> {-5}\r\nx)\r\n",
        "* 1 FETCH (((((((\r\n{tag} OK done\r\n",
        "\0\0\0\r\n",
    ] {
        fake.fail_next("UID FETCH", answer(nonsense));
    }
    let contents = supervised(&fake, json!({}), 1).await;
    assert!(contents[0].ends_with("after it"), "{contents:?}");
    assert!(fake.has_flag(bad, r"\Flagged") && fake.has_flag(bad, r"\Seen"));
}

/// More runs than a mail is tried: none of them counts as a try.
#[tokio::test]
async fn mail_waits_until_its_reader_is_installed() {
    let fake = MailFake::start().await.unwrap();
    let waiting = fake.push(note(ANN, "1@friend.test", "patience"));
    let assistant = played();
    for _ in 0..6 {
        let running = Running::of(channel_without_reader(&fake), Arc::clone(&assistant));
        let error = running.end().await;
        assert!(matches!(error, ChannelError::Unavailable(_)), "{error}");
        assert!(
            error.to_string().contains(nanobot_extract::PROGRAM),
            "{error}"
        );
    }
    assert!(!fake.has_flag(waiting, r"\Seen") && !fake.has_flag(waiting, r"\Flagged"));
    let running = Running::of(channel(&fake, &json!({})), assistant);
    let message = running.assistant.message(1).await.unwrap();
    assert!(message.content.ends_with("patience"), "{message:?}");
}

#[tokio::test]
async fn mail_that_crashes_the_process_is_quarantined() {
    let fake = MailFake::start().await.unwrap();
    let bad = fake.push(note(ANN, "1@friend.test", "never"));
    let assistant = played();
    // Each start knows only what is on disk.
    for start in 1..=4 {
        fake.fail_next("UID FETCH", MailFault::Stall);
        let running = Running::of(channel(&fake, &json!({})), Arc::clone(&assistant));
        fake.wait_for_command("UID FETCH", start).await.unwrap();
        assert!(
            assistant.notes().all().contains_key("tries"),
            "it is noted before anything of it is here"
        );
        let killed = assistant.notes().all()["tries"].clone();
        running.stop().await;
        assert!(!fake.has_flag(bad, r"\Seen"), "start {start}");
        assert_ne!(
            assistant.notes().all()["tries"],
            killed,
            "a stop is not the fault of a mail"
        );
        // A kill leaves the note as it was.
        assistant.notes().write("tries", &killed).await.unwrap();
    }
    fake.push(note(ANN, "2@friend.test", "after it"));
    let running = Running::of(channel(&fake, &json!({})), Arc::clone(&assistant));
    let message = assistant.message(1).await.unwrap();
    assert!(message.content.ends_with("after it"), "{}", message.content);
    running.stop().await;
    assert!(fake.has_flag(bad, r"\Flagged") && fake.has_flag(bad, r"\Seen"));
    assert!(
        assistant
            .seen()
            .impaired
            .iter()
            .any(|why| why.contains("flagged in the mailbox"))
    );
    assert!(
        assistant.notes().all()["tries"]
            .split_once(' ')
            .unwrap()
            .1
            .trim()
            .is_empty(),
        "what was read is forgotten"
    );
}

/// Such a mail stays in the mailbox with a flag, and the connection and the next mail go on.
#[tokio::test]
async fn mails_that_crash_the_parser_are_flagged_and_skipped() {
    let fake = MailFake::start().await.unwrap();
    let content = fake.push(note(ANN, "1@friend.test", DEADLY));
    let header = fake.push(mail(
        ANN,
        "2@friend.test",
        &format!("{DEADLY_HEADER}\r\n\r\nx"),
    ));
    fake.push(note(ANN, "3@friend.test", "after them"));
    let running = Running::at(&fake, &json!({}));
    running.assistant.message(1).await.unwrap();
    let arrived = running.assistant.seen().arrived;
    assert!(arrived[0].0.content.ends_with("after them"), "{arrived:?}");
    for uid in [content, header] {
        fake.wait_for_flag(uid, r"\Flagged").await.unwrap();
        fake.wait_for_flag(uid, r"\Seen").await.unwrap();
    }
    assert_eq!(
        fake.commands()
            .iter()
            .filter(|command| *command == "LOGIN")
            .count(),
        1
    );
    running.stop().await;
}

#[tokio::test]
async fn broken_connections_lose_nothing() {
    let fake = MailFake::start().await.unwrap();
    let uid = fake.push(note(ANN, "1@friend.test", "hi"));
    for command in ["LOGIN", "CAPABILITY", "SELECT", "UID SEARCH", "UID FETCH"] {
        fake.fail_next(command, MailFault::Cut);
    }
    fake.fail_next("ID", answer("{tag} BAD what\r\n"));
    fake.fail_next(
        "LOGIN",
        answer("{tag} NO [UNAVAILABLE] try again later\r\n"),
    );
    fake.fail_next("SELECT", answer("* BYE too many connections\r\n"));
    fake.fail_next("UID SEARCH", answer("* SEARCH 1 2 x\r\n{tag} OK done\r\n"));
    fake.fail_next("UID STORE", MailFault::Cut);
    let contents = supervised(&fake, json!({}), 2).await;
    assert_eq!(
        contents[0], contents[1],
        "it comes again, because it could not be marked"
    );
    assert!(!fake.has_flag(uid, r"\Flagged"));
}

#[tokio::test]
async fn stalled_server_ends_the_run() {
    for command in [
        "LOGIN",
        "UID SEARCH",
        "UID FETCH",
        "UID STORE",
        "IDLE",
        "DONE",
    ] {
        let fake = MailFake::start().await.unwrap();
        fake.push(note(ANN, "1@friend.test", "hi"));
        fake.fail_next(command, MailFault::Stall);
        loop {
            let error = Running::at(&fake, &json!({"requestTimeout": 1, "idleSeconds": 1}))
                .end()
                .await;
            assert!(
                matches!(error, ChannelError::Unavailable(_)),
                "{command}: {error}"
            );
            // A busy machine may be too slow for anything before that.
            if fake.commands().iter().any(|known| known == command) {
                assert!(
                    error.to_string().ends_with("took longer than 1 s"),
                    "{command}: {error}"
                );
                break;
            }
        }
    }
}

#[tokio::test]
async fn repeated_announcements_cause_no_search_loop() {
    let fake = MailFake::start().await.unwrap();
    for _ in 0..9 {
        fake.fail_next(
            "UID SEARCH",
            answer("* SEARCH\r\n* 3 EXISTS\r\n{tag} OK done\r\n"),
        );
    }
    let running = Running::at(&fake, &json!({}));
    fake.wait_for_command("IDLE", 1).await.unwrap();
    running.stop().await;
    assert_eq!(
        fake.commands()
            .iter()
            .filter(|command| *command == "UID SEARCH")
            .count(),
        2
    );
}

#[tokio::test]
async fn refused_login_is_final_with_a_reason_or_repeated() {
    let fake = MailFake::start().await.unwrap();
    fake.change_password("another");
    assert!(matches!(
        Running::at(&fake, &json!({})).end().await,
        ChannelError::Auth(_)
    ));
    let channel = channel(&fake, &json!({}));
    for is_final in [false, false, true] {
        fake.fail_next("LOGIN", answer("{tag} NO LOGIN failed.\r\n"));
        let error = Running::of(Arc::clone(&channel), played()).end().await;
        assert_eq!(matches!(error, ChannelError::Auth(_)), is_final, "{error}");
    }
}

#[tokio::test]
async fn bye_greeting_is_reported_with_its_reason() {
    let fake = MailFake::start().await.unwrap();
    fake.fail_next(
        "GREETING",
        answer("* BYE Too many connections from your address\r\n"),
    );
    let error = Running::at(&fake, &json!({})).end().await;
    assert!(matches!(error, ChannelError::Unavailable(_)), "{error}");
    assert!(
        error
            .to_string()
            .ends_with("turns us away: Too many connections from your address"),
        "{error}"
    );
}

#[tokio::test]
async fn missing_mailbox_is_reported_by_key() {
    let fake = MailFake::start().await.unwrap();
    let error = Running::at(&fake, &json!({"imapMailbox": "Nowhere"}))
        .end()
        .await;
    let ChannelError::Config { key, message } = error else {
        panic!("{error}")
    };
    assert_eq!(key, "imapMailbox");
    assert!(
        message.starts_with("the mailbox Nowhere cannot be opened: "),
        "{message}"
    );
}

#[tokio::test]
async fn password_is_not_sent_without_required_encryption() {
    let fake = MailFake::start().await.unwrap();
    let error = Running::at(&fake, &json!({"imapUseTls": true})).end().await;
    assert!(
        matches!(error, ChannelError::Config { ref key, .. } if key == "imapUseTls"),
        "{error}"
    );
    let error = channel(&fake, &json!({"smtpUseTls": true}))
        .send(&news(ANN, "x"))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("STARTTLS"), "{error}");
    assert!(
        !fake
            .commands()
            .iter()
            .any(|command| command == "LOGIN" || command == "AUTH"),
        "{:?}",
        fake.commands()
    );
}

#[tokio::test]
async fn unstored_mail_keeps_its_place() {
    let fake = MailFake::start().await.unwrap();
    let running = Running::at(&fake, &json!({}));
    running.assistant.will_answer([
        Admission::TryLater,
        Admission::Accepted,
        Admission::ShuttingDown,
    ]);
    let first = fake.push(note(ANN, "1@friend.test", "one"));
    fake.wait_for_flag(first, r"\Seen").await.unwrap();
    let second = fake.push(note(ANN, "2@friend.test", "two"));
    running.assistant.message(3).await.unwrap();
    running.stop().await;
    assert!(!fake.has_flag(second, r"\Seen"));
}

#[tokio::test]
async fn send_failures_map_to_recovery() {
    let again = SendRecovery::Retry { after: None };
    let table = [
        ("EHLO", MailFault::Cut, again),
        (
            "AUTH",
            answer("454 4.7.0 temporary authentication failure"),
            again,
        ),
        (
            "AUTH",
            answer("535 5.7.8 bad password"),
            SendRecovery::GiveUp,
        ),
        ("MAIL", answer("421 4.7.0 too many connections"), again),
        ("RCPT", answer("450 4.2.1 busy"), again),
        ("RCPT", answer("550 5.1.1 unknown"), SendRecovery::GiveUp),
        ("DATA", MailFault::Cut, again),
        ("DATA", answer("nonsense"), again),
        ("CONTENT", answer("451 4.3.0 try later"), again),
        ("CONTENT", answer("554 5.7.1 spam"), SendRecovery::GiveUp),
        ("CONTENT", MailFault::Cut, SendRecovery::Uncertain),
        (
            "CONTENT",
            MailFault::CutAfterEffect,
            SendRecovery::Uncertain,
        ),
        ("CONTENT", answer("nonsense"), SendRecovery::Uncertain),
    ];
    for (command, fault, recovery) in table {
        let fake = MailFake::start().await.unwrap();
        let channel = channel(&fake, &json!({}));
        fake.fail_next(command, fault.clone());
        let error = channel.send(&news(ANN, "x")).await.unwrap_err();
        assert_eq!(error.recovery(), recovery, "{command} {fault:?}: {error:?}");
    }
}

#[tokio::test]
async fn stalled_sends_map_to_recovery() {
    for (command, recovery) in [
        ("MAIL", SendRecovery::Retry { after: None }),
        ("CONTENT", SendRecovery::Uncertain),
    ] {
        let fake = MailFake::start().await.unwrap();
        let channel = channel(&fake, &json!({"requestTimeout": 1}));
        fake.fail_next(command, MailFault::Stall);
        loop {
            let error = channel.send(&news(ANN, "x")).await.unwrap_err();
            // A busy machine may be too slow for anything before that.
            if fake.commands().iter().any(|known| known == command) {
                assert_eq!(error.recovery(), recovery, "{command}: {error:?}");
                break;
            }
        }
    }
}
