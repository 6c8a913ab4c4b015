//! Files: fetches piece by piece, limits, uploads.

use nanobot_channel::{ChannelError, MediaRef};
use nanobot_channel_whatsapp_fake::{Fault, Incoming, SentFile};
use serde_json::json;

use crate::support::{Running, ann, in_doubt, reply, with};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";

fn direct(text: &str) -> Incoming {
    Incoming::direct(&ann(), text)
}

#[tokio::test]
async fn files_are_fetched_piece_by_piece() {
    let running = Running::start(json!({})).await;
    running.fake.limit_piece(100);
    let content: Vec<u8> = (0..=255).cycle().take(950).collect();
    let incoming = direct("look").with_file("a.bin", "application/x", content.clone());
    let message = running.receive(incoming, 1).await;
    assert_eq!(message.content, "look\n[file: /media/a.bin]");
    assert_eq!(running.assistant.seen().kept[0].bytes, content);
    assert_eq!(running.fake.calls_of("fetch").len(), 10);
    let message = running
        .receive(direct("").with_image("image/png", PNG), 2)
        .await;
    assert_eq!(
        (message.content.as_str(), message.media.len()),
        ("[image: /media/image.jpg]", 1)
    );
    running.assistant.will_transcribe("spoken");
    let message = running.receive(direct("").with_voice("sound"), 3).await;
    assert_eq!(message.content, "[transcription: spoken]");
    running.stop().await;
}

#[tokio::test]
async fn large_files_are_not_fetched() {
    let running = Running::start(json!({})).await;
    let large = || direct("see").with_file("a.bin", "application/x", vec![0; 1001]);
    let message = running.receive(large(), 1).await;
    assert_eq!(message.content, "see\n[file: download failed]");
    assert_eq!(running.fake.downloads(), 0);
    // One that is larger than announced is left at its first piece.
    running.fake.limit_piece(100);
    running.receive(large().announced_as(5), 2).await;
    assert_eq!(running.fake.calls_of("fetch").len(), 1);
    assert!(running.assistant.seen().kept.is_empty());
    running.stop().await;
}

#[tokio::test]
async fn failed_fetches_lose_no_message() {
    let running = Running::start(json!({})).await;
    let chunk = |changes| Fault::Answer(changes);
    let faults = [
        Fault::error("failed"),
        Fault::error("not_found"),
        Fault::error("not_connected"),
        chunk(json!({"type": "chunk"})),
        chunk(json!({"type": "chunk", "offset": 7, "data": "aGk=", "last": true})),
        chunk(json!({"type": "chunk", "offset": 0, "data": "***", "last": true})),
        chunk(json!({"type": "chunk", "offset": 0, "data": "", "last": false})),
        chunk(json!({"type": "chunk", "offset": 0, "data": "", "size": 1001})),
    ];
    for (count, fault) in (1..).zip(faults) {
        running.fake.fail_next("fetch", fault.clone());
        let incoming = direct("").with_file("a.txt", "text/plain", "words");
        let message = running.receive(incoming, count).await;
        assert_eq!(message.content, "[file: download failed]", "{fault:?}");
    }
    assert!(running.assistant.seen().kept.is_empty());
    running.stop().await;
}

#[tokio::test]
async fn files_are_sent_before_the_text() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        MediaRef::new(path.to_str().unwrap())
    };
    let large = vec![7; (1 << 20) + 5];
    let media = vec![
        write("cat.png", PNG),
        write("talk.ogg", b"OggS"),
        write("large.bin", &large),
        write("empty.txt", b""),
        MediaRef::new(folder.path().join("gone.pdf").to_str().unwrap()),
        MediaRef::new("https://example.com/a.pdf"),
    ];
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let part = with(reply(&hello, "see"), |message| message.media = media);
    running.channel.send(&part).await.unwrap();
    let sent = running.fake.sent();
    let files: Vec<&SentFile> = sent.iter().flat_map(|sent| &sent.files).collect();
    let shown: Vec<_> = files
        .iter()
        .map(|file| (file.kind.as_str(), file.name.as_str()))
        .collect();
    let expected = [
        ("image", "cat.png"),
        ("audio", "talk.ogg"),
        ("document", "large.bin"),
    ];
    assert_eq!(shown, expected);
    assert_eq!(files[2].bytes, large);
    let notes = [
        "[Failed to send: empty.txt]",
        "[Failed to send: gone.pdf]",
        "https://example.com/a.pdf",
        "see",
    ];
    assert_eq!(running.texts()[3..], notes);
    // A part in doubt is not sent twice, although its files are uploaded again.
    running.channel.send(&in_doubt(&part)).await.unwrap();
    assert_eq!(running.fake.sent().len(), sent.len());
    running.stop().await;
}

#[tokio::test]
async fn refused_image_is_sent_as_a_document() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cat.png");
    std::fs::write(&path, PNG).unwrap();
    let media = vec![MediaRef::new(path.to_str().unwrap())];
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let part = with(reply(&hello, "see"), |message| message.media = media);
    running.fake.fail_next("send", Fault::error("invalid"));
    running.channel.send(&part).await.unwrap();
    assert_eq!(running.fake.sent()[0].files[0].kind, "document");
    running.stop().await;
}

#[tokio::test]
async fn sent_files_are_left_out_of_the_next_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let media: Vec<MediaRef> = ["a.txt", "b.txt"]
        .iter()
        .map(|name| {
            let path = folder.path().join(name);
            std::fs::write(&path, name).unwrap();
            MediaRef::new(path.to_str().unwrap())
        })
        .collect();
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let part = with(reply(&hello, "see"), |message| message.media = media);
    let first = async {
        running.fake.wait_for_sent(1).await.unwrap();
        running
            .fake
            .fail_next("upload", Fault::error("not_connected"));
    };
    running.fake.fail_next("upload", Fault::error("failed"));
    let error = running.channel.send(&part).await.unwrap_err();
    assert!(matches!(error, ChannelError::Unavailable(_)), "{error}");
    let (sent, ()) = tokio::join!(running.channel.send(&part), first);
    // The second upload may have come before its fault.
    if sent.is_err() {
        running.channel.send(&part).await.unwrap();
    }
    assert_eq!(running.texts().last().unwrap(), "see");
    assert_eq!(running.fake.sent().len(), 3);
    running.stop().await;
}
