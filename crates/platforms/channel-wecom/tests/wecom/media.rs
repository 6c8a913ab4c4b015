//! Files: encryption, limits, names, and uploads.

use bytes::Bytes;
use nanobot_channel::{ChannelError, MediaRef};
use nanobot_channel_wecom_fake::{Fault, Incoming, SentMessage};
use serde_json::json;

use crate::support::{Running, ann, reply, with};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";

fn file(content: &'static [u8]) -> Incoming {
    Incoming::direct(&ann(), "").with_file("文 a.txt", content)
}

#[tokio::test]
async fn files_are_decrypted_and_named() {
    let running = Running::start(json!({})).await;
    for (number, length) in (1..).zip([0, 1, 31, 32, 33, 1000]) {
        let content = vec![b'x'; length];
        let incoming = Incoming::direct(&ann(), "").with_file("文 a.txt", content.clone());
        running.receive(incoming, number).await;
        let kept = running.assistant.seen().kept;
        let kept = kept.last().unwrap();
        assert_eq!(
            (kept.name.as_str(), kept.bytes.as_slice()),
            ("文 a.txt", &content[..])
        );
    }
    running.stop().await;
}

#[tokio::test]
async fn failed_downloads_lose_no_message() {
    let running = Running::start(json!({})).await;
    let body = |bytes: &'static [u8]| Fault::Body(Bytes::from_static(bytes));
    let faults = [
        Fault::Status(403),
        Fault::Redirect("http://127.0.0.1:9/".to_owned()),
        Fault::Truncated,
        Fault::Drop,
        // Not encrypted, of odd length, and with a wrong padding.
        body(b""),
        body(b"plain text"),
        body(&[0; 64]),
    ];
    for (number, fault) in (1..).zip(faults) {
        running.fake.fail_next("file.get", fault.clone());
        let message = running.receive(file(b"words"), number).await;
        assert_eq!(message.content, "[file: download failed]", "{fault:?}");
    }
    assert!(running.assistant.seen().kept.is_empty());
    running.stop().await;
}

#[tokio::test]
async fn odd_addresses_and_keys_lose_no_message() {
    let running = Running::start(json!({})).await;
    let table = [
        json!({"url": "file:///etc/passwd", "aeskey": "k"}),
        json!({"url": "no address", "aeskey": "k"}),
        json!({"url": format!("{}/elsewhere", running.fake.media_url()), "aeskey": ""}),
    ];
    for (number, content) in (1..).zip(table) {
        let incoming = Incoming::direct(&ann(), "").of_kind("file", content.clone());
        let message = running.receive(incoming, number).await;
        assert_eq!(message.content, "[file: download failed]", "{content}");
    }
    let incoming = Incoming::direct(&ann(), "").of_kind("file", json!({"url": 5}));
    assert_eq!(running.receive(incoming, 4).await.content, "[file]");
}

#[tokio::test]
async fn wrong_key_is_a_failed_download() {
    let running = Running::start(json!({})).await;
    let pushed = running.fake.push(file(b"words"));
    running.assistant.message(1).await.unwrap();
    let mut body = running.fake.body(&pushed);
    body["msgid"] = json!("another");
    for (number, key) in (2..).zip(["A".repeat(43), String::from("short"), "!".repeat(43)]) {
        body["msgid"] = json!(format!("wrong {number}"));
        body["file"]["aeskey"] = json!(key);
        running.fake.push_payload(&body);
        let message = running.assistant.message(number).await.unwrap();
        assert_eq!(message.content, "[file: download failed]", "{key}");
    }
    running.stop().await;
}

#[tokio::test]
async fn files_precede_the_text_and_are_not_resent() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        MediaRef::new(path.to_str().unwrap())
    };
    let media = vec![
        file("plot.png", PNG),
        file("report.PDF", &vec![b'x'; (1 << 20) + 7]),
        file("film.mp4", b"moves"),
        file("talk.amr", b"#!AMR"),
        // WeCom takes no file of fewer than five bytes.
        file("few.txt", b"few"),
        file("nothing.txt", b""),
        MediaRef::new("https://x.test/a_b.zip"),
    ];
    let part = with(reply(&hello, "here"), |message| message.media = media);
    running
        .fake
        .fail_next("aibot_upload_media_chunk", Fault::error(-1));
    let error = running.channel.send(&part).await.unwrap_err();
    assert!(matches!(error, ChannelError::Unavailable(_)), "{error}");
    running.fake.fail_next("aibot_send_msg", Fault::RateLimited);
    let error = running.channel.send(&part).await.unwrap_err();
    assert_eq!(error.to_string(), "rate limited for 5000 ms");
    running.channel.send(&part).await.unwrap();
    let shown = |sent: &SentMessage| match sent.files.first() {
        Some(file) => format!("{} {} {}", sent.kind, file.name, file.bytes.len()),
        None => sent.text.clone(),
    };
    let shown: Vec<_> = running.fake.sent().iter().map(shown).collect();
    let expected = [
        "image plot.png 16",
        "file report.PDF 1048583",
        "video film.mp4 5",
        "voice talk.amr 5",
        "\\[Failed to send: few.txt\\]",
        "\\[Failed to send: nothing.txt\\]",
        "[https://x.test/a\\_b.zip](https://x.test/a%5Fb.zip)",
        "here",
    ];
    assert_eq!(shown.len(), expected.len());
    for (shown, expected) in shown
        .iter()
        .zip(expected)
        .filter(|(_, text)| !text.contains("x.test"))
    {
        assert_eq!(shown, expected);
    }
    assert!(shown[6].contains("x.test/a"), "{}", shown[6]);
    running.stop().await;
}

#[tokio::test]
async fn missing_and_large_files_are_mentioned() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let folder = tempfile::tempdir().unwrap();
    let largest = std::fs::File::create(folder.path().join("largest.bin")).unwrap();
    largest.set_len(20 << 20).unwrap();
    let large = std::fs::File::create(folder.path().join("large.bin")).unwrap();
    large.set_len((20 << 20) + 1).unwrap();
    let part = with(reply(&hello, "here"), |message| {
        let paths = ["gone.txt", "largest.bin", "large.bin"].map(|name| folder.path().join(name));
        let paths = paths.iter().map(|path| path.to_str().unwrap());
        message.media = paths.map(MediaRef::new).collect();
    });
    running.channel.send(&part).await.unwrap();
    let expected = [
        "\\[Failed to send: gone.txt\\]",
        "",
        "\\[Failed to send: large.bin\\]",
        "here",
    ];
    assert_eq!(running.texts(), expected);
    let largest = &running.fake.sent()[1].files[0];
    assert_eq!(
        (largest.name.as_str(), largest.bytes.len()),
        ("largest.bin", 20 << 20)
    );
    running.stop().await;
}

#[tokio::test]
async fn picture_that_is_refused_is_sent_as_a_file() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lie.png");
    std::fs::write(&path, "no picture").unwrap();
    let part = with(reply(&hello, ""), |message| {
        message.media = vec![MediaRef::new(path.to_str().unwrap())];
    });
    running.channel.send(&part).await.unwrap();
    let [sent] = running.fake.sent().try_into().unwrap();
    assert_eq!(
        (sent.kind.as_str(), sent.files[0].name.as_str()),
        ("file", "lie.png")
    );
    running.stop().await;
}

#[tokio::test]
async fn interrupted_upload_is_repeated() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.txt");
    std::fs::write(&path, "words").unwrap();
    let part = with(reply(&hello, "here"), |message| {
        message.media = vec![MediaRef::new(path.to_str().unwrap())];
    });
    running
        .fake
        .fail_next("aibot_upload_media_finish", Fault::DropAfterEffect);
    let error = running.channel.send(&part).await.unwrap_err();
    assert!(matches!(error, ChannelError::Unavailable(_)), "{error}");
    running.fake.wait_for_subscriptions(2).await.unwrap();
    running.fake.wait_for_subscribed().await.unwrap();
    running.receive(Incoming::direct(&ann(), "again"), 2).await;
    running.channel.send(&part).await.unwrap();
    assert_eq!(running.texts(), ["", "here"]);
    running.stop().await;
}
