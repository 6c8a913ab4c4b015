//! Incoming and outgoing files.

use std::path::Path;

use anyhow::{Context as _, ensure};
use nanobot_channel::{InboundMessage, MediaRef, OutboundKind, OutboundPart};

use super::Suite;
use super::harness::{
    Ability, ChannelHarness, ObservedChat, Participant, PlatformEvent, SampleFile,
};
use super::people::People as _;
use super::running::RunningChannel;
use super::stage::FILE_LIMIT;
use crate::conformance::same;

/// A minimal PNG header.
const PNG: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89";

pub(super) async fn run<H: ChannelHarness>(
    suite: &Suite<impl AsyncFn() -> anyhow::Result<H>>,
) -> anyhow::Result<()> {
    if suite.has(Ability::IncomingFiles) {
        files_are_stored(suite.open().await?)
            .await
            .context("files are kept, whatever they are called")?;
        large_file_is_not_downloaded(suite.open().await?)
            .await
            .context("a file over the limit is left where it is")?;
        file_of_a_stranger_is_not_downloaded(suite.open().await?)
            .await
            .context("a stranger's file is left where it is")?;
    }
    if suite.has(Ability::IncomingFiles) && suite.has(Ability::BrokenDownloads) {
        failed_download_is_reported(suite.open().await?)
            .await
            .context("a broken download loses no message")?;
    }
    if suite.has(Ability::OutgoingFiles) {
        files_arrive(suite.open().await?)
            .await
            .context("files arrive as they are")?;
        missing_file_is_reported(suite.open().await?)
            .await
            .context("a file that is not there is said")?;
        too_large_file_is_reported(suite.open().await?)
            .await
            .context("a file that is too large is said")?;
    }
    Ok(())
}

fn sample(name: &str, mime: &str, bytes: &[u8]) -> SampleFile {
    SampleFile {
        name: name.to_owned(),
        mime: mime.to_owned(),
        bytes: bytes.to_vec(),
    }
}

/// Returns files with hostile or odd names, or with a false media type.
fn hostile() -> Vec<SampleFile> {
    let long = format!("{}.txt", "n".repeat(296));
    vec![
        sample("photo.png", "image/png", PNG),
        sample("../../../../etc/passwd", "text/plain", b"root"),
        sample("..\\..\\boot.ini", "text/plain", b"boot"),
        sample("/etc/shadow.txt", "text/plain", b"shadow"),
        sample("a\0b\r\nc.txt", "text/plain", b"nul"),
        sample(&long, "text/plain", b"long"),
        sample("報告書 2026.pdf", "application/pdf", b"%PDF-1.4"),
        sample("🙂.txt", "text/plain", b"emoji"),
        sample("no ending", "application/octet-stream", &[0, 159, 146, 150]),
        sample(
            "lie.png",
            "image/png",
            b"<html><script>alert(1)</script></html>",
        ),
        sample("lie.txt", "text/plain", b"\x7fELF\x02\x01\x01"),
        sample("nonsense.bin", "no/such; type=\"x", b"?"),
    ]
}

/// Returns `true` if a message gives the location of a file.
fn names(message: &InboundMessage, location: &str) -> bool {
    message.content.contains(location)
        || message.media.iter().any(|media| media.location == location)
}

async fn files_are_stored(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = RunningChannel::with_ledger(harness)?;
    for (index, file) in hostile().iter().enumerate() {
        let text = format!("file number {index}.");
        running
            .harness
            .sends(Participant::Friend, file, &text)
            .await?;
        let message = running.recorded(&text).await?;
        let kept = running.stage.read(|stage| stage.kept.clone());
        same(
            &format!("files kept after {:?}", file.name),
            &kept.len(),
            &(index + 1),
        )?;
        let last = kept.last().context("nothing is kept")?;
        same(
            &format!("the content of {:?}", file.name),
            &last.bytes,
            &file.bytes,
        )?;
        ensure!(
            names(&message, &last.location),
            "{:?} is nowhere in {message:#?}",
            file.name
        );
        ensure!(
            !message.content.contains(['\0', '\r']),
            "control characters reach the model: {:?}",
            message.content
        );
    }
    running.stop().await.map(drop)
}

async fn large_file_is_not_downloaded(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = RunningChannel::with_ledger(harness)?;
    let size = usize::try_from(FILE_LIMIT)? + 1;
    let file = sample("large.bin", "application/octet-stream", &vec![7; size]);
    running
        .harness
        .sends(Participant::Friend, &file, "see this")
        .await?;
    let message = running.recorded("see this").await?;
    same(
        "files kept",
        &running.stage.read(|stage| stage.kept.len()),
        &0,
    )?;
    same("downloads", &running.harness.downloads(), &0)?;
    same("media of the message", &message.media, &Vec::new())?;
    ensure!(
        message.content.trim() != "see this",
        "the message does not say that a file is missing"
    );
    let small = sample("small.bin", "application/octet-stream", b"7");
    running
        .harness
        .sends(Participant::Friend, &small, "and this")
        .await?;
    running.recorded("and this").await?;
    same(
        "files kept",
        &running.stage.read(|stage| stage.kept.len()),
        &1,
    )?;
    running.stop().await.map(drop)
}

async fn file_of_a_stranger_is_not_downloaded(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = RunningChannel::with_ledger(harness)?;
    let file = sample("gift.png", "image/png", PNG);
    running
        .harness
        .sends(Participant::Stranger, &file, "a gift")
        .await?;
    running.greeted().await?;
    same(
        "files kept",
        &running.stage.read(|stage| stage.kept.len()),
        &0,
    )?;
    same("downloads", &running.harness.downloads(), &0)?;
    same(
        "what the stranger notices",
        &running.harness.visible_actions(ObservedChat::Stranger),
        &Vec::new(),
    )?;
    running.stop().await.map(drop)
}

async fn failed_download_is_reported(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = RunningChannel::with_ledger(harness)?;
    running
        .harness
        .trigger(PlatformEvent::BrokenDownload)
        .await?;
    running
        .harness
        .sends(
            Participant::Friend,
            &sample("gone.txt", "text/plain", b"gone"),
            "where is it",
        )
        .await?;
    let message = running.recorded("where is it").await?;
    let kept = running.stage.read(|stage| stage.kept.clone());
    // A retry by the channel may succeed; otherwise the message has to mention the missing file.
    let got_it = kept
        .first()
        .is_some_and(|kept| names(&message, &kept.location));
    ensure!(
        got_it || message.content.trim() != "where is it",
        "the message does not say that a file is missing"
    );
    running.harness.acknowledged().await?;
    running.stop().await.map(drop)
}

/// Returns a reply with files.
fn with_files(
    running: &mut RunningChannel<impl ChannelHarness>,
    inbound: &InboundMessage,
    text: &str,
    paths: &[&Path],
) -> OutboundPart {
    let mut message = running.message(inbound, OutboundKind::Final, text.to_owned());
    message.media = paths
        .iter()
        .map(|path| MediaRef::new(path.to_string_lossy()))
        .collect();
    let (text, plain) = (text.to_owned(), text.to_owned());
    OutboundPart {
        message: message.into(),
        index: 0,
        count: 1,
        text,
        plain,
        blocks: Vec::new(),
        in_doubt: false,
    }
}

async fn files_arrive(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = RunningChannel::start(harness)?;
    let inbound = running.greeted().await?;
    let folder = tempfile::tempdir()?;
    let files = [
        ("plot.png", PNG),
        ("報告書.txt", "内容".as_bytes()),
        ("empty ending", b"x"),
    ];
    let paths = files.map(|(name, _)| folder.path().join(name));
    for (path, (_, bytes)) in paths.iter().zip(files) {
        std::fs::write(path, bytes)?;
    }
    let part = with_files(
        &mut running,
        &inbound,
        "three files",
        &paths.each_ref().map(AsRef::as_ref),
    );
    running.sent(&part).await?;
    let got = running.harness.friend_got_files(files.len()).await?;
    same(
        "the files",
        &got,
        &files
            .map(|(name, bytes)| (name.to_owned(), bytes.to_vec()))
            .to_vec(),
    )?;
    text_is_shown_once(&mut running, "three files").await?;
    running.stop().await.map(drop)
}

/// Checks that a text is shown in exactly one message, as its text or as the caption of a file.
async fn text_is_shown_once(
    running: &mut RunningChannel<impl ChannelHarness>,
    text: &str,
) -> anyhow::Result<()> {
    let shown = running.harness.friend_was_shown(1).await?;
    same(
        text,
        &shown.iter().filter(|shown| shown.contains(text)).count(),
        &1,
    )
}

async fn missing_file_is_reported(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = RunningChannel::start(harness)?;
    let inbound = running.greeted().await?;
    let folder = tempfile::tempdir()?;
    let part = with_files(
        &mut running,
        &inbound,
        "here it is",
        &[&folder.path().join("nowhere.txt")],
    );
    file_failure_is_reported(&mut running, &part, "nowhere.txt").await?;
    running.stop().await.map(drop)
}

async fn too_large_file_is_reported(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = RunningChannel::start(harness)?;
    let inbound = running.greeted().await?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("huge.bin");
    let largest = running
        .harness
        .largest_file()
        .context("the harness does not say how large a file may be")?;
    std::fs::File::create(&path)?.set_len(largest + 1)?;
    let part = with_files(&mut running, &inbound, "here it is", &[&path]);
    file_failure_is_reported(&mut running, &part, "huge.bin").await?;
    running.stop().await.map(drop)
}

/// Checks that a file that cannot be sent causes a permanent error or is mentioned to the friend.
async fn file_failure_is_reported(
    running: &mut RunningChannel<impl ChannelHarness>,
    part: &OutboundPart,
    name: &str,
) -> anyhow::Result<()> {
    if let Err(error) = running.channel.send(part).await {
        return same(
            &format!("what follows {error}"),
            &error.recovery(),
            &nanobot_channel::SendRecovery::GiveUp,
        );
    }
    let shown = running.harness.friend_was_shown(1).await?.join("\n");
    ensure!(
        shown.contains("here it is"),
        "the text is missing in {shown:?}"
    );
    ensure!(
        shown.contains(name),
        "nothing says what became of the file: {shown:?}"
    );
    Ok(())
}
