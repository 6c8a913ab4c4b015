//! The fuzz targets: each takes any bytes and panics if its parser violates a property.
//!
//! Used by the fuzzer, and by an ordinary test that replays the findings in `regressions/`.

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use chrono::{DateTime, Utc};
use futures_util::FutureExt as _;
use nanobot_channel::{Format, Measure, PlainText, TextStyle, json};
use nanobot_channel_discord::DiscordMarkdown;
use nanobot_channel_email::MailHtml;
use nanobot_channel_feishu::CardMarkdown;
use nanobot_channel_slack::Mrkdwn;
use nanobot_channel_telegram::TelegramHtml;
use nanobot_channel_websocket::protocol::ClientFrame;
use nanobot_cron::{Schedule, time_in, zone_named};
use nanobot_extract::{ExtractRequest, ExtractResponse, MailText, PageRequest, TextMode};
use nanobot_guard::{Resolver, UrlGuard};
use nanobot_memory::{Reason, Version, VersionText};
use nanobot_provider::{Fold, StreamEvent};
use nanobot_providers::fuzz::AnswerForm;
use nanobot_tool::{Registry, Tool, ToolContext};
use nanobot_types::{Effect, FinishReason, ToolCall, ToolResult, ToolSource, ToolSpec};
use serde_json::Value;

/// Name and function of a target. Its folders have the same name.
type Target = (&'static str, fn(&[u8]));

const TARGETS: &[Target] = &[
    ("answer_anthropic", answer_anthropic),
    ("answer_openai", answer_openai),
    ("answer_responses", answer_responses),
    ("arguments", arguments),
    ("command", command),
    ("config", config),
    ("cron", cron),
    ("difference", difference),
    ("dingtalk", dingtalk),
    ("discord", discord),
    ("edit", edit),
    ("feishu", feishu),
    ("json", json),
    ("mail", mail),
    ("markdown", markdown),
    ("matrix", matrix),
    ("mochat", mochat),
    ("page", page),
    ("pdf", pdf),
    ("qq", qq),
    ("redact", redact),
    ("search_page", search_page),
    ("secrets", secrets),
    ("session_line", nanobot_session::fuzz::line),
    ("skill", skill),
    ("skill_archive", skill_archive),
    ("slack", slack),
    ("telegram", telegram),
    ("urls", urls),
    ("validation", validation),
    ("websocket", websocket),
    ("wecom", wecom),
    ("whatsapp", whatsapp),
];

/// Returns the target of that name.
pub(crate) fn find(name: &str) -> Option<fn(&[u8])> {
    TARGETS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, run)| *run)
}

/// Returns the names of all targets.
pub(crate) fn names() -> Vec<&'static str> {
    TARGETS.iter().map(|(name, _)| *name).collect()
}

fn text(data: &[u8], run: impl FnOnce(&str)) {
    if let Ok(text) = std::str::from_utf8(data) {
        run(text);
    }
}

fn answer_anthropic(data: &[u8]) {
    answer(data, AnswerForm::Anthropic);
}

fn answer_openai(data: &[u8]) {
    answer(data, AnswerForm::OpenAi);
}

fn answer_responses(data: &[u8]) {
    answer(data, AnswerForm::Responses);
}

fn command(data: &[u8]) {
    text(data, |text| {
        nanobot_tools::fuzz::command(text);
    });
}

fn dingtalk(data: &[u8]) {
    text(data, |text| {
        nanobot_channel_dingtalk::fuzz::frame(text);
        nanobot_channel_dingtalk::fuzz::message(text);
    });
}

fn discord(data: &[u8]) {
    text(data, |text| {
        nanobot_channel_discord::fuzz::frame(text);
        nanobot_channel_discord::fuzz::message(text);
    });
}

fn feishu(data: &[u8]) {
    nanobot_channel_feishu::fuzz::frame(data);
    nanobot_channel_feishu::fuzz::event(data);
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

fn wecom(data: &[u8]) {
    text(data, |text| {
        nanobot_channel_wecom::fuzz::frame(text);
        nanobot_channel_wecom::fuzz::message(text);
        nanobot_channel_wecom::fuzz::content(text);
        nanobot_channel_wecom::fuzz::file_name(text);
    });
    let key = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY";
    nanobot_channel_wecom::fuzz::decrypt(data, key);
}

fn whatsapp(data: &[u8]) {
    text(data, |text| {
        nanobot_channel_whatsapp::fuzz::frame(text);
        nanobot_channel_whatsapp::fuzz::message(text);
        nanobot_channel_whatsapp::fuzz::content(text, text);
    });
}

fn websocket(data: &[u8]) {
    text(data, |text| drop(ClientFrame::parse(text)));
}

/// Checks that any chunking of an answer gives the same result. The first byte is the chunk size.
fn answer(data: &[u8], form: AnswerForm) {
    let Some((cut, body)) = data.split_first() else {
        return;
    };
    let read = |chunks| nanobot_providers::fuzz::answer(chunks, form);
    let whole = read(vec![body.to_vec()]);
    let size = usize::from(*cut).max(1);
    let pieces = read(body.chunks(size).map(<[u8]>::to_vec).collect());
    match (whole, pieces) {
        (Ok(whole), Ok(pieces)) => {
            assert_eq!(shown(&whole), shown(&pieces), "cut every {size} bytes");
        }
        (whole, pieces) => assert_eq!(whole.is_err(), pieces.is_err(), "cut every {size} bytes"),
    }
    drop(nanobot_providers::fuzz::refusal(400, body));
}

/// Formats an answer without the ids that are generated anew each time.
fn shown(folded: &nanobot_provider::Folded) -> String {
    match folded {
        nanobot_provider::Folded::Whole(answer) => format!(
            "{:?} {:?} {:?} {:?}",
            answer.content,
            answer.finish_reason,
            answer.usage,
            answer
                .tool_calls
                .iter()
                .map(|call| (&call.name, &call.arguments))
                .collect::<Vec<_>>(),
        ),
        cut @ nanobot_provider::Folded::Cut { .. } => format!("{cut:?}"),
    }
}

/// Checks that arguments are the text of an object, or malformed.
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
        let nanobot_provider::Folded::Whole(answer) = fold.finish() else {
            panic!("a whole answer is cut")
        };
        for call in answer.tool_calls {
            assert!(
                matches!(serde_json::from_str(&call.arguments), Ok(Value::Object(_))),
                "{}",
                call.arguments
            );
        }
    });
}

fn config(data: &[u8]) {
    nanobot_config::fuzz::document(data);
    text(data, nanobot_config::fuzz::scan);
}

/// Checks that the next time is later. A search that takes too long is a timeout of the fuzzer.
fn cron(data: &[u8]) {
    text(data, |text| {
        let Some(now) = DateTime::<Utc>::from_timestamp(1_770_000_000, 0) else {
            return;
        };
        let (zone, expression) = text.split_once('\n').unwrap_or(("UTC", text));
        drop(zone_named(zone));
        for zone in ["UTC", "Europe/Berlin", "America/New_York"]
            .map(zone_named)
            .into_iter()
            .flatten()
        {
            drop(time_in(expression, zone));
            let Ok(schedule) = Schedule::cron(expression, zone) else {
                continue;
            };
            if let Some(next) = schedule.next_after(now, now) {
                assert!(next > now, "{expression:?} is next due at {next}");
            }
        }
    });
}

/// Checks that the difference of two texts, separated by a NUL, turns the first into the second,
/// unless it is too large.
fn difference(data: &[u8]) {
    text(data, |text| {
        let (before, text) = text.split_once('\0').unwrap_or(("", text));
        let version = Version {
            number: 2,
            at: DateTime::default(),
            file: "MEMORY.md".to_owned(),
            reason: Reason::Found,
            before: Some(1),
            bytes: 0,
            digest: String::new(),
            removed: false,
        };
        let versions = VersionText {
            version,
            before: before.to_owned(),
            text: text.to_owned(),
        };
        match versions.difference() {
            Some(difference) if !difference.starts_with("--- ") => {
                assert!(before.lines().count() + text.lines().count() > 200_000);
            }
            Some(difference) => assert!(
                patched(before, &difference).as_deref() == Some(text),
                "the difference does not apply"
            ),
            None => assert_eq!(before, text),
        }
    });
}

/// Applies a unified diff to a text; returns `None` if it does not apply.
fn patched(before: &str, difference: &str) -> Option<String> {
    const UNENDED: &str = "\\ No newline at end of file\n";
    let mut old = before.split_inclusive('\n');
    let mut shown = difference.split_inclusive('\n').skip(2).peekable();
    let (mut new, mut lines_taken, mut lines_made) = (String::new(), 0, 0);
    while let Some(header) = shown.next() {
        let (old_span, new_span) = header
            .strip_prefix("@@ -")?
            .strip_suffix(" @@\n")?
            .split_once(" +")?;
        let ((start, mut removed), (new_start, mut added)) = (span(old_span)?, span(new_span)?);
        let equal = start.checked_sub(lines_taken)?;
        new.extend(old.by_ref().take(equal));
        if lines_made + equal != new_start {
            return None;
        }
        (lines_taken, lines_made) = (start + removed, new_start + added);
        while removed + added > 0 {
            let (sign, mut line) = shown.next()?.split_at_checked(1)?;
            if shown.next_if_eq(&UNENDED).is_some() {
                line = line.strip_suffix('\n')?;
            }
            if sign != "+" {
                removed = removed.checked_sub(1)?;
                old.next().filter(|old| *old == line)?;
            }
            if sign != "-" {
                added = added.checked_sub(1)?;
                new.push_str(line);
            }
        }
    }
    new.extend(old);
    Some(new)
}

/// Parses a span of a unified diff into the number of lines before it and its length.
fn span(text: &str) -> Option<(usize, usize)> {
    let (start, length) = text.split_once(',').unwrap_or((text, "1"));
    let (start, length) = (start.parse::<usize>().ok()?, length.parse().ok()?);
    Some((start.checked_sub(usize::from(length > 0))?, length))
}

fn edit(data: &[u8]) {
    text(data, |text| {
        let (content, wanted) = text.split_once('\0').unwrap_or((text, text));
        drop(nanobot_tools::fuzz::locate(content, wanted));
    });
}

/// Checks that values within the limits are parsed as serde_json parses them.
fn json(data: &[u8]) {
    let bounded = json::from_slice::<Value>(data).ok();
    let data = data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(data);
    assert_eq!(bounded, serde_json::from_slice::<Value>(data).ok());
}

/// Checks that the numbers of authors, references and files of a mail are bounded.
fn mail(data: &[u8]) {
    if let Ok(ExtractResponse::MailHeader(header)) =
        nanobot_formats::read(ExtractRequest::MailHeader(data.to_vec()))
    {
        assert!(header.from.len() <= 2, "{} authors", header.from.len());
    }
    if let Ok(ExtractResponse::Mail(mail)) =
        nanobot_formats::read(ExtractRequest::Mail(data.to_vec()))
    {
        assert!(mail.files.len() <= MailText::MAX_FILES);
        assert!(!mail.text.contains('\r'), "{:?}", mail.text);
    }
}

/// Checks that every part is within the limit.
fn markdown(data: &[u8]) {
    text(data, |text| {
        for (format, measure) in [
            (Format::Markup(&PlainText), Measure::CodePoints),
            (Format::Markdown, Measure::CodePoints),
            (Format::Markup(&TelegramHtml), Measure::Utf16),
            (Format::Markup(&DiscordMarkdown), Measure::CodePoints),
            (Format::Markup(&CardMarkdown), Measure::Bytes),
            (Format::Markup(&Mrkdwn), Measure::CodePoints),
            (Format::Whole(&MailHtml), Measure::Bytes),
        ] {
            let limit = 500;
            let counts_markup = match format {
                Format::Markdown => true,
                Format::Markup(markup) => markup.overhead().is_some(),
                Format::Whole(_) => false,
            };
            let style = TextStyle {
                format,
                measure,
                limit,
            };
            for part in nanobot_text::render(text, style) {
                if !matches!(format, Format::Whole(_)) {
                    assert!(measure.of(&part.plain) <= limit, "{format:?}");
                }
                assert!(
                    !counts_markup || measure.of(&part.text) <= limit,
                    "{format:?}"
                );
            }
        }
    });
}

/// Parses a page. The first byte selects the text mode and the content type.
fn page(data: &[u8]) {
    let Some((first, body)) = data.split_first() else {
        return;
    };
    let types = [
        "text/html",
        "text/html; charset=shift_jis",
        "application/json",
        "",
    ];
    let page = PageRequest {
        url: "https://example.com/a/".to_owned(),
        content_type: types[usize::from(first >> 1) % types.len()].to_owned(),
        mode: if first & 1 == 0 {
            TextMode::Markdown
        } else {
            TextMode::Text
        },
        body: body.to_vec(),
    };
    drop(nanobot_formats::read(ExtractRequest::Page(page)));
}

/// Reads the text and draws the first page. Panics are part of reading and become errors; stack,
/// memory and time are limited by the helper process in the program, and by the fuzzer here.
fn pdf(data: &[u8]) {
    std::panic::set_hook(Box::new(|_| {}));
    drop(nanobot_formats::read(ExtractRequest::Pdf(data.to_vec())));
    drop(nanobot_formats::read(ExtractRequest::PdfPage(
        data.to_vec(),
        1,
    )));
}

/// Checks that redaction is idempotent.
fn matrix(data: &[u8]) {
    text(data, |text| {
        nanobot_channel_matrix::fuzz::sync(text);
        nanobot_channel_matrix::fuzz::event(text);
        nanobot_channel_matrix::fuzz::file(text);
        nanobot_channel_matrix::fuzz::people(text);
    });
}

fn mochat(data: &[u8]) {
    nanobot_channel_mochat::fuzz::binary_frame(data);
    text(data, |text| {
        nanobot_channel_mochat::fuzz::text_frame(text);
        nanobot_channel_mochat::fuzz::answer(text);
    });
}

fn qq(data: &[u8]) {
    text(data, |text| {
        nanobot_channel_qq::fuzz::frame(text);
        for event in [
            "C2C_MESSAGE_CREATE",
            "GROUP_AT_MESSAGE_CREATE",
            "DIRECT_MESSAGE_CREATE",
        ] {
            nanobot_channel_qq::fuzz::message(event, text);
        }
        nanobot_channel_qq::fuzz::content(text);
        nanobot_channel_qq::fuzz::text(text);
    });
}

fn redact(data: &[u8]) {
    text(data, |text| {
        let once = nanobot_redact::without_secrets(text);
        assert_eq!(nanobot_redact::without_secrets(&once), once);
    });
}

/// Checks that a secret between other texts is redacted with any chunking. The first byte is the
/// chunk size.
fn secrets(data: &[u8]) {
    let Some((cut, data)) = data.split_first() else {
        return;
    };
    text(data, |text| {
        let mut parts = text.splitn(3, '\0');
        let [Some(secret), Some(before), after] = [parts.next(), parts.next(), parts.next()] else {
            return;
        };
        let secret = secret.trim();
        // The placeholder consists of asterisks and could complete a secret that contains them.
        if !nanobot_redact::is_searched(secret) || text.contains('*') {
            return;
        }
        let secrets = nanobot_redact::Secrets::new([secret.to_owned()]);
        for spelling in [
            secret.to_owned(),
            STANDARD.encode(secret),
            URL_SAFE_NO_PAD.encode(secret),
        ] {
            let text = format!("{before}{spelling}{}", after.unwrap_or_default());
            let whole = secrets.redact(&text);
            assert!(!whole.contains(&spelling), "{whole:?}");
            let mut stream = secrets.stream();
            let characters: Vec<char> = text.chars().collect();
            let chunks = characters
                .chunks(usize::from(*cut).max(1))
                .map(String::from_iter);
            let mut pieces: String = chunks.map(|chunk| stream.push(&chunk)).collect();
            pieces.push_str(&stream.finish());
            assert_eq!(pieces, whole, "cut every {cut} characters");
        }
    });
}

/// Checks that a confined path leads into the workspace, and that addresses are judged by their
/// canonical form.
fn urls(data: &[u8]) {
    text(data, |text| {
        if let Ok(address) = text.parse() {
            let canonical = nanobot_guard::canonical(address);
            assert_eq!(nanobot_guard::canonical(canonical), canonical);
            assert!(!nanobot_guard::is_public(address) || nanobot_guard::is_public(canonical));
            assert!(!(nanobot_guard::is_public(address) && nanobot_guard::is_metadata(address)));
        }
        let guard = UrlGuard::new(Arc::new(Anywhere), Vec::new());
        if let Some(Ok(checked)) = guard.check(text).now_or_never() {
            // The HTTP client connects to the host and port that this parser finds in the URL, if
            // any.
            if let Ok(sent) = checked.url().as_str().parse::<http::Uri>() {
                assert_eq!(sent.host(), checked.url().host_str());
                assert_eq!(sent.port_u16(), checked.url().port());
            }
            for address in checked.addresses() {
                assert!(
                    nanobot_guard::is_public(address.ip()),
                    "{text:?} leads to {address}"
                );
            }
            let again = guard.check(checked.url().as_str()).now_or_never();
            assert_eq!(
                again
                    .and_then(Result::ok)
                    .map(|again| again.addresses().to_vec()),
                Some(checked.addresses().to_vec())
            );
        }
        let folder = std::env::temp_dir().join("nanobot-fuzz-workspace");
        let policy =
            nanobot_guard::PathPolicy::new(nanobot_guard::PathRules::new(&folder)).confined();
        if let Ok(found) = policy.read(Path::new(text)) {
            assert!(
                found.path().starts_with(policy.workspace()),
                "{text:?} leads to {}",
                found.path().display()
            );
        }
    });
}

/// Takes arguments of a call and, after a NUL, their schema. Checks that validation is idempotent.
fn validation(data: &[u8]) {
    text(data, |text| {
        let Some((arguments, schema)) = text.split_once('\0') else {
            return;
        };
        let Ok(schema) = json::from_str::<Value>(schema) else {
            return;
        };
        let registry = Registry::new();
        if registry.register(Arc::new(Echo(spec(schema)))).is_err() {
            return;
        }
        let run = |arguments: &str| {
            let call = ToolCall::new("1", "echo", arguments);
            let context = ToolContext::detached("fuzz");
            registry
                .run(&call, &context)
                .now_or_never()
                .expect("nothing is waited for")
        };
        let result = run(arguments);
        if result.success {
            assert_eq!(
                without_fractions(&run(&result.output).output),
                without_fractions(&result.output)
            );
        }
    });
}

/// Parses a text and replaces fractions by 0, because parsing does not preserve their last digit.
fn without_fractions(text: &str) -> Value {
    fn of(value: Value) -> Value {
        match value {
            Value::Number(number) if number.is_f64() => 0.into(),
            Value::Array(items) => items.into_iter().map(of).collect(),
            Value::Object(members) => members
                .into_iter()
                .map(|(name, member)| (name, of(member)))
                .collect(),
            value => value,
        }
    }
    of(serde_json::from_str(text).unwrap_or_default())
}

fn spec(parameters: Value) -> ToolSpec {
    ToolSpec {
        name: "echo".into(),
        description: String::new(),
        parameters,
        effect: Effect::Pure,
        source: ToolSource::BuiltIn,
    }
}

/// A tool that returns its arguments.
#[derive(Debug)]
struct Echo(ToolSpec);

#[async_trait]
impl Tool for Echo {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn execute(&self, arguments: Value, _context: &ToolContext) -> ToolResult {
        ToolResult::ok(arguments.to_string())
    }
}

/// Resolves every name to a public address.
#[derive(Debug)]
struct Anywhere;

#[async_trait]
impl Resolver for Anywhere {
    async fn resolve(&self, _host: &str) -> io::Result<Vec<IpAddr>> {
        Ok(vec![IpAddr::from([8, 8, 8, 8])])
    }
}
