//! Outbound mails: threads, content, addresses.

use nanobot_channel::{Button, ChannelError, InboundMessage, MediaRef};
use nanobot_channel_email_fake::MailFake;
use serde_json::json;

use crate::support::{ANN, Running, Shown, channel, mail, news, note, reply, shown, with};

#[tokio::test]
async fn reply_continues_the_thread_and_is_marked_automatic() {
    let fake = MailFake::start().await.unwrap();
    let running = Running::at(&fake, &json!({}));
    fake.push(mail(
        ANN,
        "2@friend.test",
        "Subject: Gr\u{fc}\u{df}e\r\nReferences: <1@friend.test>\r\n\r\nhi",
    ));
    let inbound = running.assistant.message(1).await.unwrap();
    let mut part = reply(&inbound, "**Hi** & bye\n.\n..dots");
    part.text = "<p><b>Hi</b> &amp; bye</p>".to_owned();
    let sent = running.channel.send(&part).await.unwrap();
    let again = running.channel.send(&part).await.unwrap();
    running.stop().await;
    assert_eq!(sent, again, "a repetition can be recognised");
    let mail = fake.sent().remove(0);
    assert_eq!(
        (mail.from.as_str(), mail.to.as_slice()),
        ("bot@bot.test", [ANN.to_owned()].as_slice())
    );
    let headers = [
        "From",
        "To",
        "In-Reply-To",
        "References",
        "Auto-Submitted",
        "X-Auto-Response-Suppress",
        "MIME-Version",
    ];
    let expected = [
        "Nano <bot@bot.test>",
        ANN,
        "<2@friend.test>",
        "<1@friend.test> <2@friend.test>",
        "auto-replied",
        "All",
        "1.0",
    ];
    assert_eq!(headers.map(|name| mail.header(name)), expected);
    assert_eq!(mail.header("Message-ID"), sent.message_id.unwrap().as_str());
    assert!(
        mail.header("Message-ID").starts_with("<nanobot.")
            && mail.header("Message-ID").ends_with("@bot.test>")
    );
    let Shown { text, html, files } = shown(&mail.raw);
    assert_eq!((text.as_str(), files.len()), ("**Hi** & bye\n.\n..dots", 0));
    assert!(
        html.contains("<body>\r\n<p><b>Hi</b> &amp; bye</p>\r\n</body>")
            || html.contains("<body>\n<p><b>Hi</b> &amp; bye</p>\n</body>"),
        "{html}"
    );
}

#[tokio::test]
async fn unsolicited_mail_starts_a_thread() {
    let fake = MailFake::start().await.unwrap();
    let channel = channel(&fake, &json!({}));
    channel.send(&news(ANN, "Good morning")).await.unwrap();
    let report = with(news(ANN, "Numbers"), |message| {
        message
            .metadata
            .insert("subject".to_owned(), "Weekly\r\nBcc: evil@x.test".into());
    });
    channel.send(&report).await.unwrap();
    let headers = |name: &str| {
        fake.sent()
            .iter()
            .map(|mail| mail.header(name))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        headers("Subject"),
        ["nanobot reply", "Weekly Bcc: evil@x.test"]
    );
    assert_eq!(
        (headers("In-Reply-To"), headers("Bcc")),
        (vec![String::new(); 2], vec![String::new(); 2])
    );
    assert_eq!(
        headers("Auto-Submitted"),
        ["auto-generated", "auto-generated"]
    );
}

#[tokio::test]
async fn mail_shows_files_images_links_and_choices() {
    let fake = MailFake::start().await.unwrap();
    let channel = channel(&fake, &json!({}));
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    std::fs::write(path("wave.webp"), b"RIFF....WEBP").unwrap();
    std::fs::write(path("Bericht für Ann.pdf"), b"%PDF-1").unwrap();
    let places = [
        path("wave.webp"),
        path("Bericht für Ann.pdf"),
        path("missing.txt"),
        "https://x.test/a?b=1&c".to_owned(),
    ];
    let part = with(news(ANN, "Choose"), |message| {
        message.media = places.into_iter().map(MediaRef::new).collect();
        message.buttons = vec![vec![
            Button {
                label: "Yes".to_owned(),
            },
            Button {
                label: "<No>".to_owned(),
            },
        ]];
    });
    channel.send(&part).await.unwrap();
    let Shown { text, html, files } = shown(&fake.sent()[0].raw);
    assert_eq!(
        text,
        "Choose\n\n[Yes] [<No>]\n\n[Failed to send: missing.txt]\nhttps://x.test/a?b=1&c"
    );
    for piece in [
        "<p>[Yes] [&lt;No&gt;]</p>",
        "<p>https://x.test/a?b=1&amp;c</p>",
        "<img src=\"cid:file0@nanobot\" alt=\"wave.webp\">",
    ] {
        assert!(html.contains(piece), "{piece} in {html}");
    }
    let expected = [
        ("wave.webp", "image/webp", "RIFF....WEBP"),
        ("Bericht für Ann.pdf", "application/pdf", "%PDF-1"),
    ];
    let expected = expected
        .map(|(name, kind, bytes)| (name.to_owned(), kind.to_owned(), bytes.as_bytes().to_vec()));
    assert_eq!(files, expected);
}

#[tokio::test]
async fn disabled_auto_reply_sends_only_forced_replies() {
    let fake = MailFake::start().await.unwrap();
    let running = Running::at(&fake, &json!({"autoReplyEnabled": false}));
    fake.push(note(ANN, "1@friend.test", "hi"));
    let inbound = running.assistant.message(1).await.unwrap();
    running
        .channel
        .send(&reply(&inbound, "not sent"))
        .await
        .unwrap();
    let forced = with(reply(&inbound, "sent all the same"), |message| {
        message
            .metadata
            .insert("force_send".to_owned(), true.into());
    });
    running.channel.send(&forced).await.unwrap();
    running
        .channel
        .send(&news(ANN, "from a job"))
        .await
        .unwrap();
    running.stop().await;
    let texts: Vec<_> = fake
        .sent()
        .iter()
        .map(|mail| shown(&mail.raw).text)
        .collect();
    assert_eq!(texts, ["sent all the same", "from a job"]);
}

#[tokio::test]
async fn rejects_invalid_addresses_before_connecting() {
    let fake = MailFake::start().await.unwrap();
    let channel = channel(&fake, &json!({}));
    for chat in [
        "",
        "ann",
        "ann@x.test\r\nRCPT TO:<b@x.test>",
        "a@x.test, b@x.test",
    ] {
        let part = reply(&InboundMessage::text("email", chat, chat, ""), "x");
        assert!(
            matches!(channel.send(&part).await, Err(ChannelError::NotFound(_))),
            "{chat}"
        );
    }
    assert_eq!(fake.commands(), Vec::<String>::new());
}

#[tokio::test]
async fn probe_is_read_only() {
    let fake = MailFake::start().await.unwrap();
    let uid = fake.push(note(ANN, "1@friend.test", "hi"));
    let channel = channel(&fake, &json!({}));
    assert_eq!(
        channel.probe().unwrap().probe().await.unwrap(),
        "bot@bot.test"
    );
    let expected = [
        "LOGIN",
        "CAPABILITY",
        "ID",
        "EXAMINE",
        "LOGOUT",
        "EHLO",
        "AUTH",
        "QUIT",
    ];
    assert_eq!(fake.commands(), expected);
    assert!(!fake.has_flag(uid, r"\Seen"));
    fake.fail_next(
        "EXAMINE",
        nanobot_channel_email_fake::MailFault::Answer("{tag} NO gone\r\n".to_owned()),
    );
    let error = channel.probe().unwrap().probe().await.unwrap_err();
    assert!(
        matches!(error, ChannelError::Config { ref key, .. } if key == "imapMailbox"),
        "{error}"
    );
}
