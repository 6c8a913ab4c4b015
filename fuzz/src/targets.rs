//! The fuzz targets: each takes any bytes and panics when a promise of its parser is broken.
//!
//! Read by the fuzzer and, for the findings in `regressions/`, by an ordinary test.

use std::path::Path;

use chrono::{DateTime, Utc};
use nanobot_channel::{Dialect, Measure, TextStyle, json};
use nanobot_channel_websocket::protocol::ClientFrame;
use nanobot_cron::{Schedule, time_in, zone_named};
use nanobot_provider::{Fold, StreamEvent};
use nanobot_types::FinishReason;
use serde_json::Value;

/// A target and its name, which is also the name of its folders.
type Target = (&'static str, fn(&[u8]));

const TARGETS: &[Target] = &[
    ("answer_anthropic", answer_anthropic),
    ("answer_openai", answer_openai),
    ("arguments", arguments),
    ("command", command),
    ("config", config),
    ("cron", cron),
    ("discord", discord),
    ("edit", edit),
    ("json", json),
    ("markdown", markdown),
    ("redact", redact),
    ("search_page", search_page),
    ("session_line", nanobot_session::fuzz::line),
    ("skill", skill),
    ("skill_archive", skill_archive),
    ("slack", slack),
    ("telegram", telegram),
    ("urls", urls),
    ("websocket", websocket),
];

/// The target of that name.
pub(crate) fn find(name: &str) -> Option<fn(&[u8])> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, run)| *run)
}

/// The names of all targets.
pub(crate) fn names() -> Vec<&'static str> {
    TARGETS.iter().map(|(name, _)| *name).collect()
}

fn text(data: &[u8], run: impl FnOnce(&str)) {
    if let Ok(text) = std::str::from_utf8(data) {
        run(text);
    }
}

fn answer_anthropic(data: &[u8]) {
    answer(data, true);
}

fn answer_openai(data: &[u8]) {
    answer(data, false);
}

fn command(data: &[u8]) {
    text(data, |text| {
        nanobot_tools::fuzz::command(text);
    });
}

fn discord(data: &[u8]) {
    text(data, |text| {
        nanobot_channel_discord::fuzz::frame(text);
        nanobot_channel_discord::fuzz::message(text);
    });
}

fn search_page(data: &[u8]) {
    text(data, |text| {
        nanobot_tools::fuzz::search_page(text);
    });
}

fn skill(data: &[u8]) {
    text(data, |text| {
        nanobot_skills::fuzz::document(text);
    });
}

fn skill_archive(data: &[u8]) {
    drop(nanobot_skills::fuzz::archive(data));
}

fn slack(data: &[u8]) {
    text(data, |text| {
        nanobot_channel_slack::fuzz::envelope(text);
        nanobot_channel_slack::fuzz::text(text);
    });
}

fn telegram(data: &[u8]) {
    text(data, |text| {
        nanobot_channel_telegram::fuzz::update(text);
    });
}

fn websocket(data: &[u8]) {
    text(data, |text| drop(ClientFrame::parse(text)));
}

/// Any chunking of an answer gives the same result. The first byte says where it is cut.
fn answer(data: &[u8], is_anthropic: bool) {
    let Some((cut, body)) = data.split_first() else { return };
    let read = |chunks| nanobot_providers::fuzz::answer(chunks, is_anthropic);
    let whole = read(vec![body.to_vec()]);
    let size = usize::from(*cut).max(1);
    let pieces = read(body.chunks(size).map(<[u8]>::to_vec).collect());
    match (whole, pieces) {
        (Ok(whole), Ok(pieces)) => assert_eq!(shown(&whole), shown(&pieces), "cut every {size} bytes"),
        (whole, pieces) => assert_eq!(whole.is_err(), pieces.is_err(), "cut every {size} bytes"),
    }
    drop(nanobot_providers::fuzz::refusal(400, body));
}

/// The answer without ids that are made up anew each time.
fn shown(folded: &nanobot_provider::Folded) -> String {
    match folded {
        nanobot_provider::Folded::Whole(answer) => format!(
            "{:?} {:?} {:?} {:?}",
            answer.content,
            answer.finish_reason,
            answer.usage,
            answer.tool_calls.iter().map(|call| (&call.name, &call.arguments)).collect::<Vec<_>>(),
        ),
        cut @ nanobot_provider::Folded::Cut { .. } => format!("{cut:?}"),
    }
}

/// Arguments are the text of an object, or malformed.
fn arguments(data: &[u8]) {
    text(data, |text| {
        let mut fold = Fold::new();
        fold.push(StreamEvent::ToolCall {
            index: 0,
            id: Some("1".to_owned()),
            name: Some("tool".to_owned()),
            arguments: text.to_owned(),
            extra: Default::default(),
            function_extra: Default::default(),
        });
        fold.push(StreamEvent::Finished(FinishReason::ToolCalls));
        let nanobot_provider::Folded::Whole(answer) = fold.finish() else { panic!("a whole answer is cut") };
        for call in answer.tool_calls {
            assert!(matches!(serde_json::from_str(&call.arguments), Ok(Value::Object(_))), "{}", call.arguments);
        }
    });
}

fn config(data: &[u8]) {
    nanobot_config::fuzz::document(data);
    text(data, nanobot_config::fuzz::scan);
}

/// The next time is later, and no search goes on for long.
fn cron(data: &[u8]) {
    text(data, |text| {
        let Some(now) = DateTime::<Utc>::from_timestamp(1_770_000_000, 0) else { return };
        let (zone, expression) = text.split_once('\n').unwrap_or(("UTC", text));
        drop(zone_named(zone));
        for zone in ["UTC", "Europe/Berlin", "America/New_York"].map(zone_named).into_iter().flatten() {
            drop(time_in(expression, zone));
            let Ok(schedule) = Schedule::cron(expression, zone) else { continue };
            if let Some(next) = schedule.next_after(now, now) {
                assert!(next > now, "{expression:?} comes again at {next}");
            }
        }
    });
}

fn edit(data: &[u8]) {
    text(data, |text| {
        let (content, wanted) = text.split_once('\0').unwrap_or((text, text));
        drop(nanobot_tools::fuzz::locate(content, wanted));
    });
}

/// Values within bounds are read as serde_json reads them.
fn json(data: &[u8]) {
    let bounded = json::from_slice::<Value>(data).ok();
    let data = data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(data);
    assert_eq!(bounded, serde_json::from_slice::<Value>(data).ok());
}

/// Every part fits.
fn markdown(data: &[u8]) {
    text(data, |text| {
        for (dialect, measure, limit) in [
            (Dialect::Plain, Measure::CodePoints, 500),
            (Dialect::TelegramHtml, Measure::Utf16, 500),
            (Dialect::Discord, Measure::CodePoints, 500),
            (Dialect::SlackMrkdwn, Measure::CodePoints, 500),
        ] {
            for part in nanobot_channels::text::render(text, TextStyle { dialect, measure, limit }) {
                assert!(measure.of(&part.plain) <= limit, "{dialect:?}");
                assert!(dialect == Dialect::TelegramHtml || measure.of(&part.text) <= limit, "{dialect:?}");
            }
        }
        let style = TextStyle { dialect: Dialect::EmailHtml, measure: Measure::Bytes, limit: 1 };
        drop(nanobot_channels::text::render(text, style));
    });
}

/// Redaction is idempotent.
fn redact(data: &[u8]) {
    text(data, |text| {
        let once = nanobot_redact::without_secrets(text);
        assert_eq!(nanobot_redact::without_secrets(&once), once);
    });
}

/// A path of a text is inside what it may be in. Addresses are judged as what they stand for.
fn urls(data: &[u8]) {
    text(data, |text| {
        if let Ok(address) = text.parse() {
            let canonical = nanobot_guard::canonical(address);
            assert_eq!(nanobot_guard::canonical(canonical), canonical);
            assert!(!nanobot_guard::is_public(address) || nanobot_guard::is_public(canonical));
            assert!(!(nanobot_guard::is_public(address) && nanobot_guard::is_metadata(address)));
        }
        let folder = std::env::temp_dir().join("nanobot-fuzz-workspace");
        let policy = nanobot_guard::PathPolicy::new(nanobot_guard::PathRules::new(&folder)).confined();
        if let Ok(found) = policy.read(Path::new(text)) {
            assert!(found.path().starts_with(policy.workspace()), "{text:?} leads to {}", found.path().display());
        }
    });
}
