//! Inbound mails: content, proof of the sender, flags.

use std::sync::Arc;

use chrono::{Days, NaiveDate};
use nanobot_channel::{Admission, MediaRef, MessageId, Notes as _, Value};
use nanobot_channel_email_fake::MailFake;
use serde_json::json;

use crate::support::{ANN, MALLORY, Running, channel, mail, note, played, shown};

#[tokio::test]
async fn mail_becomes_a_message_with_its_thread() {
    let fake = MailFake::start().await.unwrap();
    let running = Running::at(&fake, &json!({}));
    let rest = "Subject: =?utf-8?b?R3LDvMOfZQ==?=\r\nIn-Reply-To: <b@x.test>\r\nReferences: <a@x.test> <b@x.test>\r\n\
                Content-Type: text/html; charset=iso-8859-1\r\n\r\n<p>Sch\u{f6}n</p><p>&amp; gut</p>";
    let latin: Vec<u8> = mail("Ann X <Ann@Friend.test>", "1@friend.test", rest)
        .chars()
        .map(|letter| letter as u8)
        .collect();
    let uid = fake.push(latin);
    let message = running.assistant.message(1).await.unwrap();
    let content = "[EMAIL-CONTEXT] Email received.\nFrom: Ann X <ann@friend.test>\nSubject: Grüße\n\
                   Date: Mon, 2 Nov 2026 10:00:00 +0100\n\nSchön\n& gut";
    // The fake writes the text as UTF-8, so what is not ASCII in the body arrives mangled.
    assert_eq!(
        message.content.replace("Sch\u{ef}\u{bf}\u{bd}n", "Schön"),
        content
    );
    assert_eq!(
        (message.sender_id.as_str(), message.chat_id.as_str()),
        (ANN, ANN)
    );
    assert!(message.id.unwrap().as_str().starts_with("<1@friend.test>#"));
    assert_eq!(message.session_key_override, None);
    let metadata = json!({
        "message_id": "<1@friend.test>", "subject": "Grüße", "date": "Mon, 2 Nov 2026 10:00:00 +0100",
        "sender_email": ANN, "uid": uid.to_string(), "uid_validity": 1,
        "untrusted": "e-mail",
    });
    assert_eq!(Value::Object(message.metadata), metadata);
    assert_eq!(message.delivery.thread.as_deref(), Some("<a@x.test>"));
    assert_eq!(
        message.delivery.reply_to,
        Some(MessageId::from("<1@friend.test>"))
    );
    let extra =
        json!({"subject": "Grüße", "references": ["<a@x.test>", "<b@x.test>", "<1@friend.test>"]});
    assert_eq!(Value::Object(message.delivery.extra), extra);
    fake.wait_for_flag(uid, r"\Seen").await.unwrap();
    running.stop().await;
    assert_eq!(fake.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn line_above_a_quotation_can_answer_a_question() {
    let fake = MailFake::start().await.unwrap();
    let running = Running::at(&fake, &json!({}));
    let quoted = "Yes K7QX\r\n\r\nOn Mon, 2 Nov 2026 at 10:00, Bot <bot@x.test> wrote:\r\n> May I?\r\n-- \r\nAnn";
    let table = [
        (quoted, Some("Yes K7QX")),
        ("Yes\r\n> May I?\r\n\r\nBut not that.", None),
    ];
    for (number, (text, own)) in (1..).zip(table) {
        fake.push(note(ANN, &format!("{number}@friend.test"), text));
        let message = running.assistant.message(number).await.unwrap();
        let line = message.metadata.get("own_line").and_then(Value::as_str);
        assert_eq!(line, own);
        assert!(message.content.starts_with("[EMAIL-CONTEXT]"));
    }
    running.stop().await;
}

#[tokio::test]
async fn commands_arrive_without_the_mail_heading() {
    let fake = MailFake::start().await.unwrap();
    let running = Running::at(&fake, &json!({}));
    let table = [
        ("/new\r\n\r\n-- \r\nSent from my telephone", Some("/new")),
        ("\r\n  /RESET please", Some("/RESET please")),
        ("/etc/hosts is a file", None),
        ("see /new", None),
    ];
    for (number, (text, command)) in (1..).zip(table) {
        fake.push(note(ANN, &format!("{number}@friend.test"), text));
        let content = running.assistant.message(number).await.unwrap().content;
        match command {
            Some(command) => assert_eq!(content, command),
            None => assert!(
                content.starts_with("[EMAIL-CONTEXT]") && content.contains(text),
                "{content}"
            ),
        }
    }
    running.stop().await;
}

#[tokio::test]
async fn quotation_of_the_assistant_is_removed() {
    let fake = MailFake::start().await.unwrap();
    let running = Running::at(&fake, &json!({"sessionPerThread": true}));
    let quoting = "Yes.\r\n\r\nOn Monday bot@bot.test wrote:\r\n> Really?\r\n";
    for (number, parent) in [(1, "nanobot.0123@bot.test"), (2, "other@friend.test")] {
        let rest = format!("Subject: Re: x\r\nIn-Reply-To: <{parent}>\r\n\r\n{quoting}");
        fake.push(mail(ANN, &format!("{number}@friend.test"), &rest));
    }
    let (ours, other) = (
        running.assistant.message(1).await.unwrap(),
        running.assistant.message(2).await.unwrap(),
    );
    assert!(
        ours.content
            .ends_with("Yes.\n\n[the quoted mail is left out]"),
        "{}",
        ours.content
    );
    assert!(other.content.ends_with("> Really?"), "{}", other.content);
    assert_ne!(ours.session_key(), other.session_key());
    assert!(
        ours.session_key()
            .as_str()
            .starts_with("email:ann@friend.test:thread:")
    );
    running.stop().await;
}

#[tokio::test]
async fn attachments_are_stored_within_configured_limits() {
    let fake = MailFake::start().await.unwrap();
    let keys = json!({
        "allowedAttachmentTypes": ["image/*", "text/csv", "audio/ogg"], "maxAttachmentSize": 20, "maxAttachmentsPerEmail": 3,
    });
    let running = Running::at(&fake, &keys);
    running.assistant.will_transcribe(" what Ann said ");
    let part = |kind: &str, name: &str, body: &str| {
        format!(
            "--b\r\nContent-Type: {kind}\r\nContent-Disposition: attachment; filename=\"{name}\"\r\n\r\n{body}\r\n"
        )
    };
    let parts = [
        part("image/gif", "../cat.gif", "GIF89a"),
        part("image/png", "lie.png", "MZ program"),
        part("text/csv", "long.csv", "1,2,3,4,5,6,7,8,9,10,11"),
        part("application/pdf", "report.pdf", "%PDF-1"),
        part("application/ms-tnef", "winmail.dat", "x"),
        part("text/csv", "a.csv", "1,2"),
        part("audio/ogg", "note.ogg", "OggS"),
        part("text/csv", "b.csv", "3,4"),
    ];
    let rest = format!(
        "Subject: files\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nSee.\r\n{}--b--\r\n",
        parts.concat()
    );
    fake.push(mail(ANN, "1@friend.test", &rest));
    let message = running.assistant.message(1).await.unwrap();
    let (_, body) = message.content.split_once("\n\n").unwrap();
    let expected = [
        "See.",
        "",
        "[image: /media/../cat.gif (../cat.gif)]",
        "[not kept: lie.png (application/x-msdownload, 10 bytes): files of its type are not allowed]",
        "[not kept: long.csv (text/csv, 23 bytes): it is larger than the 20 bytes that are allowed]",
        "[not kept: report.pdf (application/pdf, 6 bytes): files of its type are not allowed]",
        "[not kept: winmail.dat (application/ms-tnef, 1 bytes): it is in Outlook's own format]",
        "[file: /media/a.csv (a.csv)]",
        "[file: /media/note.ogg (note.ogg)]",
        "[transcription: what Ann said]",
        "[not kept: b.csv (text/csv, 3 bytes): only 3 files of a mail are kept]",
    ];
    assert_eq!(body, expected.join("\n"));
    assert_eq!(
        running.assistant.seen().recordings[0].location,
        "/media/note.ogg"
    );
    let image = MediaRef {
        location: "/media/../cat.gif".to_owned(),
        mime: Some("image/gif".to_owned()),
    };
    assert_eq!(message.media, [image]);
    let kept: Vec<_> = running
        .assistant
        .seen()
        .kept
        .into_iter()
        .map(|file| (file.name, file.bytes))
        .collect();
    let expected = [
        ("../cat.gif", "GIF89a"),
        ("a.csv", "1,2"),
        ("note.ogg", "OggS"),
    ];
    assert_eq!(
        kept,
        expected.map(|(name, bytes)| (name.to_owned(), bytes.as_bytes().to_vec()))
    );
    running.stop().await;
}

#[tokio::test]
async fn recording_without_words_stays_a_file() {
    let fake = MailFake::start().await.unwrap();
    let running = Running::at(&fake, &json!({"allowedAttachmentTypes": ["*"]}));
    running.assistant.will_transcribe(" ");
    let file = "Content-Type: audio/ogg\r\nContent-Disposition: attachment; filename=\"note.ogg\"\r\n\r\nOggS\r\n";
    fake.push(mail(ANN, "1@friend.test", &format!("Subject: x\r\n{file}")));
    let content = running.assistant.message(1).await.unwrap().content;
    assert!(
        content.contains("/media/note.ogg (note.ogg)]") && !content.contains("transcription"),
        "{content}"
    );
    running.stop().await;
}

#[tokio::test]
async fn skipped_mails_are_flagged_and_get_no_reply() {
    let fake = MailFake::start().await.unwrap();
    let forged = "Authentication-Results: mx.bot.test; dkim=none; spf=fail\r\n";
    let good = note(ANN, "1@friend.test", "hi");
    let skipped = [
        fake.push(note(MALLORY, "2@stranger.test", "let me in")),
        fake.push(format!("{forged}{good}")),
        fake.push(good.replace("From:", "X-From:")),
        fake.push(note("bot@bot.test", "3@bot.test", "me")),
        fake.push(mail(ANN, "4@friend.test", "List-Id: <a.b>\r\n\r\nnews")),
    ];
    let wanted = fake.push(good);
    let running = Running::at(
        &fake,
        &json!({"postAction": "move", "postActionMoveMailbox": "Done"}),
    );
    running.assistant.message(1).await.unwrap();
    // It is copied, because the fake cannot move, and then it is gone.
    fake.wait_for_command("UID EXPUNGE", 1).await.unwrap();
    fake.wait_for_command("IDLE", 1).await.unwrap();
    let seen = running.assistant.seen();
    running.stop().await;
    assert_eq!(seen.arrived.len(), 1);
    assert!(!fake.mails().iter().any(|mail| mail.uid == wanted));
    let flags = |uid| {
        fake.mails()
            .into_iter()
            .find(|mail| mail.uid == uid)
            .unwrap()
            .flags
            .into_iter()
            .collect::<Vec<_>>()
    };
    let expected = [
        vec![r"\Seen"],
        vec![],
        vec![r"\Flagged", r"\Seen"],
        vec![r"\Seen"],
        vec![r"\Seen"],
    ];
    assert_eq!(
        skipped.map(flags),
        expected.map(|flags| flags.into_iter().map(str::to_owned).collect::<Vec<_>>())
    );
    assert_eq!(fake.sent(), []);
    assert_eq!(
        seen.asked
            .iter()
            .filter(|(sender, ..)| sender.as_str() == MALLORY)
            .count(),
        1
    );
    // All headers, and the content of one mail: a stranger's mail is judged by its header.
    let fetched = fake
        .commands()
        .iter()
        .filter(|command| *command == "UID FETCH")
        .count();
    assert_eq!(fetched, 2);
    assert_eq!(fake.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn unproven_mail_stays_unread_and_is_reported_once() {
    let fake = MailFake::start().await.unwrap();
    let good = note(ANN, "1@friend.test", "hi");
    let forged = [
        good.replace("dkim=pass", "dkim=fail"),
        good.replace("mx.bot.test;", "mx.other.test;"),
    ];
    let forged = forged.map(|mail| fake.push(mail));
    let assistant = played();
    let channel = channel(&fake, &json!({"idleSeconds": 1}));
    let running = Running::of(Arc::clone(&channel), Arc::clone(&assistant));
    let seen = assistant
        .wait_until("both to be refused", |seen| seen.impaired.len() > 2)
        .await
        .unwrap();
    let why = "mail is refused and stays unread, because its sender is not proven (no valid DKIM signature of its \
               domain): `nanobot channels login` and docs/channels/email.md say what the mail server has to report";
    assert!(seen.impaired.iter().all(|said| said == why), "{seen:?}");
    assert_eq!(seen.arrived, []);
    fake.push(good);
    assistant.message(1).await.unwrap();
    let impaired = assistant.seen().impaired.len();
    let alive = assistant.seen().alive;
    let seen = assistant
        .wait_until("the next look", |seen| seen.alive > alive + 2)
        .await
        .unwrap();
    assert_eq!(
        seen.impaired.len(),
        impaired,
        "a mail that is proven ends it"
    );
    running.stop().await;
    for uid in forged {
        assert!(!fake.has_flag(uid, r"\Seen") && !fake.has_flag(uid, r"\Flagged"));
    }
    // What was refused is taken once the configuration says whom to trust.
    let trusting = crate::support::channel(&fake, &json!({"authservId": "mx.other.test"}));
    let running = Running::of(trusting, Arc::clone(&assistant));
    assistant.message(2).await.unwrap();
    running.stop().await;
}

#[tokio::test]
async fn refused_mail_is_fetched_once_per_trust_configuration() {
    let fake = MailFake::start().await.unwrap();
    let good = note(ANN, "1@friend.test", "hi");
    let forged = [
        good.replace("dkim=pass", "dkim=fail"),
        good.replace("mx.bot.test;", "mx.other.test;"),
    ];
    let forged = forged.map(|mail| fake.push(mail));
    let fetched = || {
        fake.commands()
            .iter()
            .filter(|command| *command == "UID FETCH")
            .count()
    };
    let assistant = played();
    let keys = json!({"idleSeconds": 1});
    let running = Running::of(channel(&fake, &keys), Arc::clone(&assistant));
    assistant
        .wait_until("both to be refused", |seen| seen.impaired.len() > 2)
        .await
        .unwrap();
    running.stop().await;
    assert_eq!(fetched(), 1);
    // Each start knows only what is on disk.
    for start in 1..=3 {
        let before = assistant.seen().impaired.len();
        let running = Running::of(channel(&fake, &keys), Arc::clone(&assistant));
        let seen = assistant
            .wait_until("a look", |seen| seen.impaired.len() > before + 2)
            .await
            .unwrap();
        running.stop().await;
        let why = seen.impaired.last().unwrap();
        assert!(
            why.starts_with("mail was refused and stays unread"),
            "{why}"
        );
        assert_eq!((fetched(), seen.arrived.len()), (1, 0), "start {start}");
    }
    // Other mails are read as before, and another server to trust is another question.
    fake.push(good);
    let running = Running::of(channel(&fake, &keys), Arc::clone(&assistant));
    assistant.message(1).await.unwrap();
    running.stop().await;
    let running = Running::of(
        channel(
            &fake,
            &json!({"authservId": "mx.other.test", "idleSeconds": 1}),
        ),
        Arc::clone(&assistant),
    );
    assistant.message(2).await.unwrap();
    running.stop().await;
    assert!(!fake.has_flag(forged[0], r"\Seen") && fake.has_flag(forged[1], r"\Seen"));
}

#[tokio::test]
async fn without_authserv_id_the_channel_is_impaired() {
    let fake = MailFake::start().await.unwrap();
    let uid = fake.push(note(ANN, "1@friend.test", "hi"));
    for missing in [Value::Null, json!(""), json!(" ")] {
        let running = Running::at(&fake, &json!({"authservId": missing, "idleSeconds": 1}));
        let seen = running
            .assistant
            .wait_until("a look", |seen| seen.impaired.len() > 2)
            .await
            .unwrap();
        running.stop().await;
        assert!(
            seen.impaired
                .iter()
                .all(|said| said.starts_with("authservId is not set")),
            "{seen:?}"
        );
        assert_eq!(
            seen.impaired.len(),
            seen.alive,
            "every sign of life says so"
        );
        assert_eq!(
            (seen.arrived, fake.has_flag(uid, r"\Seen")),
            (Vec::new(), false)
        );
    }
    assert_eq!(fake.sent(), []);
}

#[tokio::test]
async fn only_proven_strangers_get_the_pairing_text() {
    let fake = MailFake::start().await.unwrap();
    let running = Running::at(&fake, &json!({"verifyDkim": false, "verifySpf": false}));
    running.assistant.will_pair_strangers("Say <K7QX>");
    let unproven = fake.push(format!(
        "From: {MALLORY}\r\nMessage-ID: <1@stranger.test>\r\n\r\nhi\r\n"
    ));
    fake.wait_for_flag(unproven, r"\Seen").await.unwrap();
    assert_eq!(fake.sent(), []);
    fake.push(note(MALLORY, "2@stranger.test", "hi"));
    let sent = fake.wait_for_sent(1).await.unwrap().remove(0);
    running.stop().await;
    assert_eq!(
        (sent.to.as_slice(), shown(&sent.raw).text.as_str()),
        ([MALLORY.to_owned()].as_slice(), "Say <K7QX>")
    );
    assert_eq!(sent.header("In-Reply-To"), "<2@stranger.test>");
    assert!(shown(&sent.raw).html.contains("Say &lt;K7QX&gt;"));
}

#[tokio::test]
async fn unread_handled_mails_get_a_keyword() {
    let fake = MailFake::start().await.unwrap();
    let uid = fake.push(note(ANN, "1@friend.test", "hi"));
    let keys = json!({"markSeen": false});
    let running = Running::at(&fake, &keys);
    fake.wait_for_flag(uid, "NanobotHandled").await.unwrap();
    running.stop().await;
    assert!(!fake.has_flag(uid, r"\Seen"));
    let running = Running::at(&fake, &keys);
    fake.push(note(ANN, "2@friend.test", "again"));
    assert!(
        running
            .assistant
            .message(1)
            .await
            .unwrap()
            .content
            .ends_with("again"),
        "after a restart it is known"
    );
    running.stop().await;
}

#[tokio::test]
async fn without_keywords_handled_mails_are_noted() {
    let fake = MailFake::start().await.unwrap();
    fake.forget_keywords();
    let running = Running::at(&fake, &json!({"markSeen": false, "idleSeconds": 1}));
    for number in 1..=3 {
        fake.push(note(
            ANN,
            &format!("{number}@friend.test"),
            &format!("mail {number}"),
        ));
        assert!(
            running
                .assistant
                .message(number)
                .await
                .unwrap()
                .content
                .ends_with(&format!("mail {number}"))
        );
    }
    let seen = running.assistant.seen();
    assert_eq!(seen.arrived.len(), 3);
    // What is noted is noted before the next look.
    running
        .assistant
        .wait_until("the next look", |now| now.alive > seen.alive + 1)
        .await
        .unwrap();
    let assistant = Arc::clone(&running.assistant);
    running.stop().await;
    let restarted = channel(&fake, &json!({"markSeen": false, "idleSeconds": 1}));
    let running = Running::of(restarted, Arc::clone(&assistant));
    fake.push(note(ANN, "4@friend.test", "mail 4"));
    assert!(
        assistant
            .message(4)
            .await
            .unwrap()
            .content
            .ends_with("mail 4"),
        "the others are known"
    );
    running.stop().await;
}

#[tokio::test]
async fn copy_with_another_uid_has_the_same_id() {
    let fake = MailFake::start().await.unwrap();
    fake.push(note(ANN, "1@friend.test", "hi"));
    let channel = channel(&fake, &json!({"markSeen": false}));
    fake.forget_keywords();
    let running = Running::of(Arc::clone(&channel), played());
    let first = running.assistant.message(1).await.unwrap();
    running.stop().await;
    fake.renumber();
    let running = Running::of(channel, played());
    running.assistant.will_answer([Admission::Duplicate]);
    let again = running.assistant.message(1).await.unwrap();
    running.stop().await;
    assert_eq!(again.id, first.id);
    assert_ne!(again.metadata["uid"], first.metadata["uid"]);
}

#[tokio::test]
async fn mails_sharing_a_message_id_are_distinct() {
    let fake = MailFake::start().await.unwrap();
    let running = Running::at(&fake, &json!({}));
    fake.push(note(ANN, "same@friend.test", "one"));
    fake.push(note(ANN, "same@friend.test", "two"));
    let (one, two) = (
        running.assistant.message(1).await.unwrap(),
        running.assistant.message(2).await.unwrap(),
    );
    assert_ne!(one.id, two.id);
    running.stop().await;
}

#[tokio::test]
async fn mails_older_than_the_first_start_are_left_alone() {
    let fake = MailFake::start().await.unwrap();
    let old = fake.push_earlier(3, note(ANN, "old@friend.test", "years ago"));
    // Not of yesterday: a day may begin while this runs.
    let recent = fake.push(note(ANN, "1@friend.test", "today"));
    let assistant = played();
    let running = Running::of(channel(&fake, &json!({})), Arc::clone(&assistant));
    assert!(
        assistant
            .message(1)
            .await
            .unwrap()
            .content
            .ends_with("today")
    );
    fake.wait_for_flag(recent, r"\Seen").await.unwrap();
    running.stop().await;
    // As if all that had been ten days ago: what came meanwhile is taken, however long ago that is.
    let noted = assistant.notes().all()["first-start"].clone();
    let (mailbox, day) = noted.split_once(' ').unwrap();
    let day = day.parse::<NaiveDate>().unwrap() - Days::new(10);
    assistant
        .notes()
        .write("first-start", &format!("{mailbox} {day}"))
        .await
        .unwrap();
    let meanwhile = fake.push_earlier(2, note(ANN, "2@friend.test", "meanwhile"));
    let ancient = fake.push_earlier(30, note(ANN, "ancient@friend.test", "long ago"));
    fake.renumber();
    let running = Running::of(channel(&fake, &json!({})), Arc::clone(&assistant));
    assert!(
        assistant
            .message(2)
            .await
            .unwrap()
            .content
            .ends_with("years ago")
    );
    assert!(
        assistant
            .message(3)
            .await
            .unwrap()
            .content
            .ends_with("meanwhile")
    );
    fake.wait_for_flag(meanwhile + 1000, r"\Seen")
        .await
        .unwrap();
    running.stop().await;
    let flags = |uid| {
        fake.mails()
            .into_iter()
            .find(|mail| mail.uid == uid + 1000)
            .unwrap()
            .flags
    };
    assert!(flags(ancient).is_empty() && !flags(old).is_empty());
    // Another mailbox has a first start of its own, and the key says how far back that looks.
    fake.push_earlier(4, note(ANN, "4@friend.test", "four days ago"));
    let running = Running::of(
        channel(&fake, &json!({"imapMailbox": "inbox", "firstLookDays": 5})),
        Arc::clone(&assistant),
    );
    assert!(
        assistant
            .message(4)
            .await
            .unwrap()
            .content
            .ends_with("four days ago")
    );
    running.stop().await;
    assert_eq!(fake.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn server_without_idle_is_polled() {
    let fake = MailFake::start().await.unwrap();
    fake.forget_idle();
    let running = Running::at(&fake, &json!({"pollIntervalSeconds": 5}));
    running
        .assistant
        .wait_until("the first look", |seen| seen.alive > 1)
        .await
        .unwrap();
    fake.push(note(ANN, "1@friend.test", "hi"));
    running.assistant.message(1).await.unwrap();
    running.stop().await;
    assert_eq!(fake.violations(), Vec::<String>::new());
    assert!(!fake.commands().iter().any(|command| command == "IDLE"));
}
