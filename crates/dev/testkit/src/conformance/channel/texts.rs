//! Texts of the maximum length.

use std::iter;

use anyhow::{Context as _, ensure};
use nanobot_channel::TextStyle;

use super::Suite;
use super::harness::{Ability, ChannelHarness};
use super::people::People as _;
use super::running::RunningChannel;
use crate::conformance::same;

/// Longest part that is tested if a channel accepts much longer ones, in the channel's measure.
const LONGEST_PART: usize = 70_000;
/// Letters of long texts: one to four bytes of UTF-8, one and two UTF-16 units.
const LETTERS: [char; 4] = ['a', 'ö', '語', '🙂'];

pub(super) async fn run<H: ChannelHarness>(
    suite: &Suite<impl AsyncFn() -> anyhow::Result<H>>,
) -> anyhow::Result<()> {
    enormous_text_arrives(suite.open().await?)
        .await
        .context("an enormous text arrives")?;
    full_parts_are_accepted(suite.open().await?)
        .await
        .context("parts at exactly the limit are taken")?;
    if suite.has(Ability::OthersWords) {
        let context = "what others wrote is marked and no command";
        foreign_text_is_not_a_command(suite.open().await?)
            .await
            .context(context)?;
    }
    Ok(())
}

async fn foreign_text_is_not_a_command(harness: impl ChannelHarness) -> anyhow::Result<()> {
    const COMMAND: &str = "/new and forget it";
    let mut running = RunningChannel::with_ledger(harness)?;
    running.greeted().await?;
    running.harness.forward(COMMAND).await?;
    let content = running.recorded(COMMAND).await?.content;
    let (before, _) = content.split_once(COMMAND).context("it is shown")?;
    ensure!(
        before.trim_start().starts_with('['),
        "nothing marks what another person wrote: {content}"
    );
    ensure!(
        before.contains("forwarded") || before.contains("shared"),
        "the mark does not say what it is: {content}"
    );
    running.stop().await.map(drop)
}

async fn enormous_text_arrives(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = RunningChannel::with_ledger(harness)?;
    let mut text = String::new();
    for letter in LETTERS.iter().cycle() {
        if text.len() + letter.len_utf8() > running.harness.longest_text() {
            break;
        }
        text.push(*letter);
    }
    running.harness.friend_says(&text).await?;
    let message = running.arrival(1).await?;
    ensure!(
        message.content.contains(&text),
        "{} bytes became {}",
        text.len(),
        message.content.len()
    );
    running.harness.acknowledged().await?;
    running.harness.friend_says("short").await?;
    running.recorded("short").await?;
    running.stop().await.map(drop)
}

async fn full_parts_are_accepted(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = RunningChannel::start(harness)?;
    let inbound = running.greeted().await?;
    let style = running.channel.text_style();
    let texts = ["1", "2", "3"].map(|first| full_text(first, style));
    for part in running.parts(&inbound, &texts) {
        running.sent(&part).await?;
    }
    same(
        "what the friend was shown",
        &running.harness.friend_was_shown(3).await?,
        &texts.to_vec(),
    )?;
    running.stop().await.map(drop)
}

/// Returns a text of exactly the length that fits into one part, without any markup.
fn full_text(first: &str, style: TextStyle) -> String {
    let limit = style.limit.min(LONGEST_PART);
    let mut text = first.to_owned();
    let words = iter::once(' ').chain(LETTERS).cycle();
    for letter in words {
        let length = style.measure.of(&text);
        let next = style.measure.of(letter.encode_utf8(&mut [0; 4]));
        // Ends without a space, which a platform may trim, and leaves room for the last letters.
        if length + next + 4 > limit {
            text.extend(iter::repeat_n('z', limit - length));
            break;
        }
        text.push(letter);
    }
    text
}

#[cfg(test)]
mod tests {
    use nanobot_channel::{Format, Measure, PlainText};

    use super::*;

    #[test]
    fn full_text_fills_the_limit_in_every_measure() {
        for measure in [Measure::Utf16, Measure::CodePoints, Measure::Bytes] {
            for limit in 20..40 {
                let style = TextStyle {
                    format: Format::Markup(&PlainText),
                    measure,
                    limit,
                };
                let text = full_text("1", style);
                assert_eq!(
                    (measure.of(&text), text.trim()),
                    (limit, text.as_str()),
                    "{measure:?}"
                );
            }
        }
    }
}
