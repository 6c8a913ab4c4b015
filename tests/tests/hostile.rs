//! Hostile input from outside: every parser uses at most 64 MB more than an idle process, and at
//! most two seconds per input.
//!
//! The time is the CPU time of a process of its own, which other load on the machine hardly
//! affects.

use std::iter::once;

use nanobot_testkit::{HOSTILE_MARKDOWN, check_bounded};

use crate::fuzz_targets::find;

/// Maximum size of a body from a provider or a platform, in bytes.
const BODY: usize = 8 << 20;

/// Maximum size that is read of a page, in bytes.
const PAGE: usize = 4 << 20;

/// Maximum size that is read of a memory file, in bytes.
const MEMORY: usize = 5 << 20;

/// Runs a target on each input in a process whose memory and time are measured.
fn within_bounds(test: &str, target: &str, inputs: impl Iterator<Item = Vec<u8>>) {
    let run = find(target).unwrap();
    check_bounded(&format!("hostile::{test}"), inputs, |input| run(&input)).unwrap();
}

/// Returns `unit` repeated to `size` bytes, between `before` and `after`.
fn filled(before: &str, unit: &str, after: &str, size: usize) -> Vec<u8> {
    [before, &unit.repeat(size / unit.len()), after]
        .concat()
        .into_bytes()
}

/// Returns JSON texts that are large when parsed, inserted at each `@` of `template`.
fn values(template: &'static str, size: usize) -> impl Iterator<Item = Vec<u8>> {
    let units = [
        "[],",
        "{},",
        "0,",
        "\"\",",
        "{\"\":0},",
        "{\"\":[{}]},",
        "[[[[0]]]],",
    ];
    let (before, after) = template.split_once('@').unwrap();
    let wide = units
        .into_iter()
        .map(move |unit| filled(&format!("{before}["), unit, &format!("0]{after}"), size));
    let deep = ["[", "{\"a\":"]
        .into_iter()
        .map(move |unit| filled(before, unit, after, size));
    wide.chain(deep)
}

#[test]
fn openai_answers_within_bounds() {
    let frames = [
        "1@",
        "1data: @\n\n",
        "1data: {\"choices\":[{\"delta\":{\"content\":@}}]}\n\n",
    ];
    let inputs = frames.into_iter().flat_map(|frame| values(frame, 4 << 20));
    let calls = filled(
        "1data: {\"choices\":[{\"delta\":{\"tool_calls\":[",
        "{\"id\":\"a\"},",
        "{}]}}]}\n\n",
        1 << 18,
    );
    let lines = ["\n", "\r", "\r\n", ":\n", "data:\n", "data: {}\n\n"]
        .map(|unit| filled("\u{fe}", unit, "", 1 << 19));
    within_bounds(
        "openai_answers_within_bounds",
        "answer_openai",
        inputs.chain(once(calls)).chain(lines),
    );
}

#[test]
fn anthropic_answers_within_bounds() {
    let inputs = values(
        "1data: {\"type\":\"content_block_start\",\"content_block\":@}\n\n",
        4 << 20,
    );
    within_bounds(
        "anthropic_answers_within_bounds",
        "answer_anthropic",
        inputs,
    );
}

#[test]
fn responses_answers_within_bounds() {
    let inputs = values(
        "1data: {\"type\":\"response.output_item.done\",\"item\":@}\n\n",
        4 << 20,
    );
    let items = filled(
        "1data: {\"object\":\"response\",\"output\":[",
        "{\"type\":\"message\"},",
        "{}]}\n\n",
        1 << 18,
    );
    within_bounds(
        "responses_answers_within_bounds",
        "answer_responses",
        inputs.chain(once(items)),
    );
}

#[test]
fn call_arguments_within_bounds() {
    let quoted = filled("{'a': ['\"', ", "[],", "]}", 4 << 20);
    within_bounds(
        "call_arguments_within_bounds",
        "arguments",
        values("{\"a\": @}", 4 << 20).chain(once(quoted)),
    );
}

#[test]
fn telegram_updates_within_bounds() {
    let templates = [
        "@",
        "{\"update_id\":1,\"odd\":@}",
        "{\"update_id\":1,\"message\":{\"message_id\":1,\"date\":1,\"chat\":{\"id\":1,\"type\":\"private\"},\"text\":\"x\",\"entities\":@}}",
    ];
    within_bounds(
        "telegram_updates_within_bounds",
        "telegram",
        templates
            .into_iter()
            .flat_map(|template| values(template, BODY)),
    );
}

#[test]
fn dingtalk_frames_within_bounds() {
    let templates = [
        "@",
        "{\"type\":\"CALLBACK\",\"headers\":@}",
        "{\"msgtype\":\"richText\",\"content\":{\"richText\":@}}",
        "{\"msgtype\":\"text\",\"text\":{\"repliedMsg\":@}}",
    ];
    within_bounds(
        "dingtalk_frames_within_bounds",
        "dingtalk",
        templates
            .into_iter()
            .flat_map(|template| values(template, BODY)),
    );
}

#[test]
fn discord_frames_within_bounds() {
    let templates = [
        "@",
        "{\"op\":0,\"s\":1,\"t\":\"MESSAGE_CREATE\",\"d\":@}",
        "{\"op\":0,\"d\":{\"embeds\":@}}",
    ];
    within_bounds(
        "discord_frames_within_bounds",
        "discord",
        templates
            .into_iter()
            .flat_map(|template| values(template, BODY)),
    );
}

#[test]
fn feishu_events_within_bounds() {
    let templates = [
        "@",
        "{\"header\":{\"event_type\":\"im.message.receive_v1\"},\"event\":{\"message\":{\"mentions\":@}}}",
        "{\"header\":{\"event_type\":\"im.message.receive_v1\"},\"event\":{\"message\":{\"message_type\":\"interactive\",\"content\":\"@\"}}}",
    ];
    // Headers, groups and lengths of protobuf.
    let frames = ["\x2a\x02\x0a\x00", "\x2a\x00", "\x0b", "\x08\x7f"];
    let frames = frames.map(|unit| filled("", unit, "", BODY));
    let inputs = templates
        .into_iter()
        .flat_map(|template| values(template, BODY))
        .chain(frames);
    within_bounds("feishu_events_within_bounds", "feishu", inputs);
}

#[test]
fn mochat_packets_within_bounds() {
    let templates = [
        "@",
        "42[\"claw.session.events\",@]",
        "42[\"notify:chat.message.add\",{\"_id\":\"m1\",\"author\":\"A\",\"content\":@}]",
        "{\"sessionId\":\"s\",\"cursor\":1,\"events\":@}",
    ];
    within_bounds(
        "mochat_packets_within_bounds",
        "mochat",
        templates
            .into_iter()
            .flat_map(|template| values(template, BODY)),
    );
}

#[test]
fn qq_frames_within_bounds() {
    let templates = [
        "@",
        "{\"op\":0,\"s\":1,\"t\":\"C2C_MESSAGE_CREATE\",\"d\":@}",
        "{\"id\":\"m1\",\"author\":{\"user_openid\":\"A\"},\"attachments\":@}",
        "{\"id\":\"m1\",\"author\":{\"user_openid\":\"A\"},\"content\":\"hi\",\"msg_elements\":@}",
    ];
    within_bounds(
        "qq_frames_within_bounds",
        "qq",
        templates
            .into_iter()
            .flat_map(|template| values(template, BODY)),
    );
}

#[test]
fn slack_envelopes_within_bounds() {
    let templates = [
        "@",
        "{\"envelope_id\":\"1\",\"type\":\"events_api\",\"payload\":{\"event\":{\"type\":\"message\",\"files\":@}}}",
    ];
    let text = ["<", "<@U1|", "&amp;", "<!date^1^"].map(|unit| filled("", unit, "", 1 << 18));
    let inputs = templates
        .into_iter()
        .flat_map(|template| values(template, BODY))
        .chain(text);
    within_bounds("slack_envelopes_within_bounds", "slack", inputs);
}

#[test]
fn wecom_frames_within_bounds() {
    let templates = [
        "@",
        "{\"cmd\":\"aibot_msg_callback\",\"headers\":{\"req_id\":\"r\"},\"body\":@}",
        "{\"msgid\":\"m\",\"from\":{\"userid\":\"A\"},\"msgtype\":\"mixed\",\"mixed\":{\"msg_item\":@}}",
    ];
    within_bounds(
        "wecom_frames_within_bounds",
        "wecom",
        templates
            .into_iter()
            .flat_map(|template| values(template, BODY)),
    );
}

#[test]
fn whatsapp_frames_within_bounds() {
    let templates = [
        "@",
        "{\"type\":\"message\",\"seq\":1,\"id\":\"m\",\"sender\":\"1@s.whatsapp.net\",\"media\":@}",
        "{\"type\":\"message\",\"seq\":1,\"id\":\"m\",\"sender\":\"1@g.us\",\"quoted\":@}",
    ];
    within_bounds(
        "whatsapp_frames_within_bounds",
        "whatsapp",
        templates
            .into_iter()
            .flat_map(|template| values(template, 1 << 20)),
    );
}

#[test]
fn matrix_answers_within_bounds() {
    let templates = [
        "@",
        "{\"next_batch\":\"1\",\"rooms\":{\"join\":{\"!a:x\":{\"timeline\":{\"events\":@}}}}}",
        "{\"type\":\"m.room.message\",\"event_id\":\"$1\",\"sender\":\"@a:x\",\"content\":@}",
    ];
    within_bounds(
        "matrix_answers_within_bounds",
        "matrix",
        templates
            .into_iter()
            .flat_map(|template| values(template, BODY)),
    );
}

#[test]
fn websocket_frames_within_bounds() {
    within_bounds(
        "websocket_frames_within_bounds",
        "websocket",
        values("{\"content\":@}", 1 << 20),
    );
}

#[test]
fn markdown_replies_within_bounds() {
    let flat = HOSTILE_MARKDOWN
        .into_iter()
        .map(|unit| filled("", unit, "", 100_000));
    let ticks = (1..400)
        .map(|count| "`".repeat(count) + "a")
        .collect::<String>()
        .into_bytes();
    let stairs = (0..400)
        .map(|depth| " ".repeat(2 * depth) + "- a\n")
        .collect::<String>()
        .into_bytes();
    let table = format!(
        "{}\n{}\n{}",
        "|a".repeat(2000),
        "|-".repeat(2000),
        "|\n".repeat(2000)
    )
    .into_bytes();
    within_bounds(
        "markdown_replies_within_bounds",
        "markdown",
        flat.chain([ticks, stairs, table]),
    );
}

#[test]
fn skill_headers_within_bounds() {
    let units = [
        "[",
        "{",
        "- ",
        "? ",
        "a: ",
        "&a ",
        "*a ",
        "!t ",
        "'",
        "\"\\x",
        "|\n ",
        ">\n",
        "a: &a [*a]\n",
        "- - x\n",
        "# x\n",
        "%TAG\n",
    ];
    let inputs = units
        .into_iter()
        .flat_map(|unit| [60_000, 1 << 20].map(|size| filled("---\n", unit, "\n---\nBody", size)));
    within_bounds("skill_headers_within_bounds", "skill", inputs);
}

#[test]
fn cron_expressions_within_bounds() {
    let units = ["*/1,", "0-59,", "1,", "* ", "mon#1,", "9", "-", "/"];
    let inputs = units
        .into_iter()
        .flat_map(|unit| [900, 1 << 20].map(|size| filled("", unit, "0 * * * *", size)));
    let never = [
        "0 0 31 2 *",
        "0 0 30 2 * 0 2099",
        "* * * * * * 1970",
        "59 23 31 12 * 59 2099",
    ]
    .map(|text| text.as_bytes().to_vec());
    within_bounds(
        "cron_expressions_within_bounds",
        "cron",
        inputs.chain(never),
    );
}

#[test]
fn file_edits_within_bounds() {
    let same = filled(
        "",
        "a\n",
        &format!("\0 {}b", "a\n".repeat(100_000)),
        400_000,
    );
    let lines = |lines: &mut dyn Iterator<Item = usize>| {
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    let reversed = format!(
        "{}\0{}",
        lines(&mut (0..20_000)),
        lines(&mut (0..20_000).rev())
    )
    .into_bytes();
    let half = format!(
        "{}\0{}",
        lines(&mut (0..20_000).map(|line| line % 100)),
        lines(&mut (0..10_000).map(|line| line % 101))
    );
    within_bounds(
        "file_edits_within_bounds",
        "edit",
        [same, reversed, half.into_bytes()].into_iter(),
    );
}

/// Memory is read up to 5 MB. The computation of the smallest difference has a time limit, so the
/// output differs from run to run.
#[test]
fn version_diffs_within_bounds() {
    let lines = |lines: &mut dyn Iterator<Item = usize>| {
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    let count = 20_000;
    let changed = format!(
        "{}\0{}",
        lines(&mut (0..count)),
        lines(&mut (count..2 * count))
    );
    let every_second = format!(
        "{}\0{}",
        lines(&mut (0..count)),
        lines(&mut (0..count).map(|line| line + line % 2 * count))
    );
    let reversed = format!(
        "{}\0{}",
        lines(&mut (0..count)),
        lines(&mut (0..count).rev())
    );
    let cycles = |lengths: [usize; 2]| {
        let [old, new] = lengths.map(|length| lines(&mut (0..count).map(|line| line % length)));
        format!("{old}\0{new}")
    };
    let repeated = [[1, 2], [2, 3], [3, 2], [100, 101], [2, 1]].map(cycles);
    let longer = format!("{}\0{}b\n{0}", "a\n".repeat(count), "a\nc\n".repeat(count));
    let megabytes = format!("{}\0{}", "a".repeat(MEMORY), "b".repeat(MEMORY));
    let blank = format!("{}\0{}", "\n".repeat(MEMORY), "\n".repeat(MEMORY - 1));
    let new = format!("\0{}", "a\n".repeat(MEMORY / 2));
    let apart = format!("{}\0{}", "a\n".repeat(MEMORY / 2), "b\n".repeat(MEMORY / 2));
    let inputs = [
        changed,
        every_second,
        reversed,
        longer,
        megabytes,
        blank,
        new,
        apart,
    ];
    let inputs = inputs.into_iter().chain(repeated).map(String::into_bytes);
    within_bounds("version_diffs_within_bounds", "difference", inputs);
}

#[test]
fn commands() {
    let units = [
        "$(", "`", "(", "{ ", "\"$(", "'", "\\", "<<a ", "a|", "a;", "$((", "${a:-", "\"${", "if ",
        "a=(", ">a ", "sh -c \"", "<(", "\n",
    ];
    within_bounds(
        "commands",
        "command",
        units.into_iter().map(|unit| filled("", unit, "", 100_000)),
    );
}

#[test]
fn configurations() {
    let units = ["[", "{\"a\":", "\"", "//\n", "/*", "[],", "\\u0000", "-"];
    within_bounds(
        "configurations",
        "config",
        units.into_iter().map(|unit| filled("", unit, "", 1 << 20)),
    );
}

#[test]
fn secret_redaction_within_bounds() {
    let units = [
        "sk-",
        "sk-aaaaaaaaaaaaaaaaaaaaaaaa ",
        "token=",
        "Bearer ",
        "a:",
        "://a:b@",
        "-----BEGIN ",
        "eyJ.",
        "a@",
    ];
    within_bounds(
        "secret_redaction_within_bounds",
        "redact",
        units.into_iter().map(|unit| filled("", unit, "", 200_000)),
    );
}

#[test]
fn search_pages_within_bounds() {
    let units = [
        "<a ",
        "<a class=\"result__a\">",
        "<a class=\"result__a\" href=\"",
        "</a>",
        "<a class=\"result__a\" href=\"https://a.b\">x</a>",
        "<a class=\"result__snippet\" href=\"https://a.b\">x</a>",
        "<a class=\"result__a\" href=\"?uddg=&amp;",
    ];
    let within = [
        "<",
        "<b",
        "<script>",
        "<style></",
        "<!--",
        "&",
        "&#x",
        "&amp;",
    ];
    let title = |unit| {
        filled(
            "<a class=\"result__a\" href=\"https://a.b\">",
            unit,
            "</a>",
            PAGE,
        )
    };
    let pages = units
        .into_iter()
        .map(|unit| filled("", unit, "", PAGE))
        .chain(within.into_iter().map(title));
    within_bounds("search_pages_within_bounds", "search_page", pages);
}

#[test]
fn session_lines_within_bounds() {
    let templates = [
        "{\"role\":\"user\",\"content\":@}",
        "{\"role\":\"assistant\",\"tool_calls\":@}",
        "{\"_type\":\"metadata\",\"metadata\":@}",
    ];
    within_bounds(
        "session_lines_within_bounds",
        "session_line",
        templates
            .into_iter()
            .flat_map(|template| values(template, 1 << 19)),
    );
}

/// Returns an archive with a directory of `count` entries, each with a name of `name` bytes.
fn archive(count: u32, name: u16, is_64: bool) -> Vec<u8> {
    let mut entry = b"PK\x01\x02".to_vec();
    entry.resize(46, 0);
    entry[28..30].copy_from_slice(&name.to_le_bytes());
    entry.resize(46 + usize::from(name), b'a');
    let mut bytes = entry.repeat(count as usize);
    let size = u32::try_from(bytes.len()).unwrap();
    if is_64 {
        let place = u64::from(size);
        bytes.extend_from_slice(b"PK\x06\x06");
        bytes.extend_from_slice(&44_u64.to_le_bytes());
        bytes.extend_from_slice(&[45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        for number in [u64::from(count), u64::from(count), u64::from(size), 0] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(b"PK\x06\x07\0\0\0\0");
        bytes.extend_from_slice(&place.to_le_bytes());
        bytes.extend_from_slice(&1_u32.to_le_bytes());
    }
    let short = u16::try_from(count).unwrap_or(u16::MAX).to_le_bytes();
    bytes.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    bytes.extend_from_slice(&[short, short].concat());
    bytes.extend_from_slice(&size.to_le_bytes());
    bytes.extend_from_slice(&[0; 6]);
    bytes
}

#[test]
fn archive_directories_within_bounds() {
    let inputs = [
        (60_000, 0, false),
        (400_000, 1, true),
        (60_000, 300, false),
        (300, 60_000, false),
        (1_990, 2000, false),
    ];
    within_bounds(
        "archive_directories_within_bounds",
        "skill_archive",
        inputs
            .into_iter()
            .map(|(count, name, is_64)| archive(count, name, is_64)),
    );
}
