//! A channel that can find out whether a part arrived is asked to look before anything is repeated.

use nanobot_bus::{Bus as _, EntryState, MemoryBus, SettleOutcome};
use nanobot_channel::markup::{Document, Overhead, TableLimits};
use nanobot_channel::{
    Block, ChannelError, DeliveryGuarantee, Format, Markup, Measure, PlainText, Table, TextStyle,
};
use nanobot_channels::UncertainPolicy;
use nanobot_testkit::RecordingChannel;
use nanobot_testkit::channel::SendFault;

use crate::{Fixture, UNCERTAIN, reply, start, start_on, unreachable};

/// Text with the mark of a repetition.
const MARKED: &str = "↻ This may be a repetition:\ntext";

/// Plain text with native tables.
#[derive(Debug)]
struct NativeTables;

impl Markup for NativeTables {
    fn render(&self, document: &Document) -> String {
        PlainText.render(document)
    }

    fn link_schemes(&self) -> &'static [&'static str] {
        PlainText.link_schemes()
    }

    fn overhead(&self) -> Option<&dyn Overhead> {
        None
    }

    fn table_limits(&self) -> Option<TableLimits> {
        Some(TableLimits {
            tables: 1,
            rows: 9,
            columns: 9,
            cells: 100,
            text: 100,
            total: 100,
        })
    }
}

fn detectable() -> RecordingChannel {
    RecordingChannel::new("chat").with_guarantee(DeliveryGuarantee::Detectable)
}

/// The channel took the part, but reports an ambiguous error.
fn taken_but_failed() -> SendFault {
    SendFault::TakeThenFail(ChannelError::Ambiguous("reset".to_owned()))
}

/// The channel cannot look for the part, and sends nothing.
fn unreachable_probe() -> SendFault {
    SendFault::Refuse(ChannelError::Ambiguous("no permission to look".to_owned()))
}

/// Returns the parts that the channel took, and whether each was sent in doubt.
fn sent_parts(fixture: &Fixture) -> Vec<(String, bool)> {
    fixture.channels[0]
        .parts()
        .into_iter()
        .map(|part| (part.text, part.in_doubt))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn probe_decides_before_the_policy() {
    use UncertainPolicy::{Ask, Drop, ResendMarked};
    let table = [
        (
            Ask,
            vec![taken_but_failed()],
            EntryState::Sent,
            vec![("text", false), ("text", true)],
        ),
        (
            Drop,
            vec![SendFault::Hang],
            EntryState::Sent,
            vec![("text", true)],
        ),
        (
            ResendMarked,
            vec![taken_but_failed()],
            EntryState::Sent,
            vec![("text", false), ("text", true)],
        ),
        // The channel is unreachable in between: the doubt remains.
        (
            Ask,
            vec![taken_but_failed(), unreachable()],
            EntryState::Sent,
            vec![("text", false), ("text", true)],
        ),
        (
            Ask,
            vec![taken_but_failed(), unreachable_probe()],
            EntryState::Uncertain,
            vec![("text", false), (UNCERTAIN, false)],
        ),
        (
            Drop,
            vec![taken_but_failed(), unreachable_probe()],
            EntryState::Uncertain,
            vec![("text", false)],
        ),
        (
            ResendMarked,
            vec![taken_but_failed(), unreachable_probe()],
            EntryState::Sent,
            vec![("text", false), (MARKED, false)],
        ),
    ];
    for (number, (policy, faults, state, expected)) in table.into_iter().enumerate() {
        let fixture = start(vec![detectable()]);
        fixture
            .settings
            .send_modify(|settings| settings.delivery.uncertain = policy);
        faults
            .into_iter()
            .for_each(|fault| fixture.channels[0].fail_next(fault));
        fixture.publish(reply("1", 0, "text")).await;
        assert_eq!(fixture.settled().await[0].1, state, "row {number}");
        let expected: Vec<_> = expected
            .into_iter()
            .map(|(text, sent_parts)| (text.to_owned(), sent_parts))
            .collect();
        assert_eq!(sent_parts(&fixture), expected, "row {number}");
    }
}

#[tokio::test(start_paused = true)]
async fn repeated_table_block_carries_the_mark() {
    let style = TextStyle {
        format: Format::Markup(&NativeTables),
        measure: Measure::CodePoints,
        limit: 4000,
    };
    let fixture = start(vec![detectable().with_style(style)]);
    fixture
        .settings
        .send_modify(|settings| settings.delivery.uncertain = UncertainPolicy::ResendMarked);
    fixture.channels[0].fail_next(taken_but_failed());
    fixture.channels[0].fail_next(unreachable_probe());
    fixture
        .publish(reply("1", 0, "text\n\n|a|\n|-|\n|b|"))
        .await;
    assert_eq!(fixture.settled().await[0].1, EntryState::Sent);
    let rows = vec![vec!["a".to_owned()], vec!["b".to_owned()]];
    let text = |text: &str| Block::Text(text.to_owned());
    let shown = [
        text("text"),
        Block::Table(Table {
            rows,
            right: vec![false],
        }),
    ];
    let marked: Vec<_> = [text("↻ This may be a repetition:")]
        .into_iter()
        .chain(shown.clone())
        .collect();
    let blocks: Vec<_> = fixture.channels[0]
        .parts()
        .into_iter()
        .map(|part| part.blocks)
        .collect();
    assert_eq!(blocks, [shown.to_vec(), marked]);
}

#[tokio::test(start_paused = true)]
async fn zero_retries_still_allow_one_probe() {
    let fixture = start(vec![detectable()]);
    fixture
        .settings
        .send_modify(|settings| settings.delivery.send_max_retries = 0);
    fixture.channels[0].fail_next(taken_but_failed());
    fixture.publish(reply("1", 0, "text")).await;
    assert_eq!(fixture.settled().await[0].1, EntryState::Sent);
    fixture.channels[0].fail_next(taken_but_failed());
    fixture.channels[0].fail_next(unreachable());
    fixture.publish(reply("2", 0, "other")).await;
    let ledger = fixture.settled().await;
    let states: Vec<_> = ledger
        .iter()
        .map(|(content, state, _)| (content.as_str(), *state))
        .collect();
    let expected = [
        ("text", EntryState::Sent),
        ("other", EntryState::Uncertain),
        (UNCERTAIN, EntryState::Sent),
    ];
    assert_eq!(states, expected);
}

#[tokio::test(start_paused = true)]
async fn only_the_interrupted_part_is_in_doubt() {
    let bus = MemoryBus::new();
    bus.publish_outbound(reply("1", 0, "one\n\ntwo\n\nthree"))
        .await
        .unwrap();
    let mut crashed = bus.outbound(&"chat".into()).await.unwrap();
    crashed
        .next()
        .await
        .unwrap()
        .settle(SettleOutcome::PartSent(0))
        .await
        .unwrap();
    drop(crashed);
    let style = TextStyle {
        format: Format::Markup(&PlainText),
        measure: Measure::CodePoints,
        limit: 6,
    };
    let fixture = start_on(bus, vec![detectable().with_style(style)]);
    assert_eq!(fixture.settled().await[0].1, EntryState::Sent);
    assert_eq!(
        sent_parts(&fixture),
        [("two".to_owned(), true), ("three".to_owned(), false)]
    );
}
