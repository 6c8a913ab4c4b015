//! Compares pages of the book with the code that they describe.

use std::fs;
use std::path::{Path, PathBuf};

use nanobot_agent_core::CommandTable;
use nanobot_providers::{LOCAL_SERVERS, ProviderKind, ProviderSpec, TABLE, WireProtocol};

/// Folders with the source of the messages that users see.
const SOURCES: [&str; 2] = ["crates", "bins"];

fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().expect("the workspace").to_owned()
}

fn page(name: &str) -> String {
    fs::read_to_string(root().join(name)).expect("a page")
}

fn is_usable(spec: &ProviderSpec) -> bool {
    spec.kind != ProviderKind::Speech
        && !matches!(spec.wire, WireProtocol::Unsupported(_) | WireProtocol::Demo)
}

/// Returns the row of a provider in `docs/providers.md`.
fn provider_row(spec: &ProviderSpec) -> String {
    let code = |text: &str| format!("`{text}`");
    let variables: Vec<String> = spec.environment.iter().map(|name| code(name)).collect();
    let or_none = |text: String| {
        if text.is_empty() {
            "–".to_owned()
        } else {
            text
        }
    };
    let kind = match spec.kind {
        ProviderKind::Vendor => "vendor",
        ProviderKind::Gateway => "gateway",
        ProviderKind::Local => "local",
        ProviderKind::SignIn => "[login](#logins)",
        ProviderKind::Direct | ProviderKind::Speech => "your address",
    };
    format!(
        "| `{}` | {} | {kind} | {} | {} | {} |",
        spec.name,
        spec.label,
        or_none(variables.join(", ")),
        or_none(spec.default_model.map(code).unwrap_or_default()),
        or_none(spec.base.map(code).unwrap_or_default()),
    )
}

#[test]
fn providers_are_the_vendor_table() {
    let page = page("docs/providers.md");
    let written: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    let rows: Vec<String> = TABLE
        .iter()
        .filter(|spec| is_usable(spec))
        .map(provider_row)
        .collect();
    assert_eq!(written, rows, "the table has to be\n{}", rows.join("\n"));
    for (name, port) in LOCAL_SERVERS {
        let server = format!("`{name}` at port {port}");
        assert!(page.contains(&server), "{server} is missing");
    }
    for spec in TABLE {
        if let WireProtocol::Unsupported(_) = spec.wire {
            let name = format!("`{}`", spec.name);
            assert!(page.contains(&name), "{name} is not named as unsupported");
        }
    }
}

#[test]
fn every_slash_command_is_documented() {
    let page = page("docs/commands.md");
    let missing: Vec<String> = CommandTable::built_in()
        .infos()
        .map(|info| format!("/{}", info.name))
        .filter(|command| {
            let mut words = page.split(|letter: char| !letter.is_alphanumeric() && letter != '/');
            !words.any(|word| word == command)
        })
        .collect();
    assert_eq!(missing, Vec::<String>::new());
}

/// Joins the lines of string literals that end with a backslash, so that a message is one text.
fn joined(source: &str) -> String {
    let mut whole = String::with_capacity(source.len());
    let mut is_continued = false;
    for line in source.lines() {
        let line = if is_continued {
            line.trim_start()
        } else {
            line
        };
        is_continued = line.ends_with('\\');
        whole.push_str(line.strip_suffix('\\').unwrap_or(line));
        if !is_continued {
            whole.push('\n');
        }
    }
    whole
}

fn sources(folder: &Path) -> String {
    let mut whole = String::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "tests") {
                whole.push_str(&sources(&path));
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            whole.push_str(&joined(&fs::read_to_string(&path).expect("a source file")));
        }
    }
    whole
}

/// A heading of `docs/troubleshooting.md` in quotes is a message. Its variable parts are `…`; the
/// rest has to be in the source.
#[test]
fn messages_of_the_troubleshooting_page_exist() {
    let page = page("docs/troubleshooting.md");
    let messages: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`'))
        .collect();
    assert!(messages.len() >= 20, "{messages:?}");
    let source: String = SOURCES.map(|folder| sources(&root().join(folder))).concat();
    let missing: Vec<&str> = messages
        .iter()
        .flat_map(|message| message.split('…'))
        .filter(|part| !source.contains(&part.replace('"', "\\\"")) && !source.contains(part))
        .collect();
    assert_eq!(missing, Vec::<&str>::new(), "not in the source");
}

/// Lines of code in a page are lines of the example that it names.
#[test]
fn snippets_are_those_of_the_examples() {
    for (name, language, examples) in [
        (
            "docs/embedding.md",
            "rust",
            &["examples/src/bin/embed-agent.rs"][..],
        ),
        (
            "docs/extending.md",
            "rust",
            &[
                "examples/own-assistant/src/main.rs",
                "examples/src/bin/embed-agent.rs",
                "examples/src/bin/custom-tool.rs",
                "examples/src/bin/custom-provider.rs",
            ],
        ),
    ] {
        let source: String = examples.iter().map(|example| page(example)).collect();
        let lines: Vec<&str> = source.lines().map(str::trim).collect();
        let page = page(name);
        let snippets: Vec<&str> = code_blocks(&page, language).concat();
        assert!(snippets.len() > 3, "{name} has no snippet");
        let unknown: Vec<&str> = snippets
            .into_iter()
            .filter(|line| !lines.contains(line))
            .collect();
        assert_eq!(unknown, Vec::<&str>::new(), "{name}: not in {examples:?}");
    }
}

/// Returns the lines of each fenced block of a language, without indentation.
fn code_blocks<'a>(page: &'a str, language: &str) -> Vec<Vec<&'a str>> {
    let mut blocks = Vec::new();
    let mut open: Option<(bool, Vec<&str>)> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), open.take()) {
            (Some(of), None) => open = Some((language == "*" || of == language, Vec::new())),
            (Some(_), Some((true, block))) => blocks.push(block),
            (None, Some((wanted, mut block))) => {
                block.push(line.trim());
                open = Some((wanted, block));
            }
            (Some(_), Some((false, _))) | (None, None) => {}
        }
    }
    blocks
}

/// Both READMEs have the same sections, links and code; comments and placeholders in code may be
/// translated.
#[test]
fn both_readmes_are_equal() {
    let english = page("README.md");
    let chinese = page("README.zh-CN.md");
    for (name, page) in [("README.md", &english), ("README.zh-CN.md", &chinese)] {
        let lines = page.lines().count();
        assert!(lines < 150, "{name} has {lines} lines");
    }
    let levels = |page: &str| -> Vec<usize> {
        let headings = page.lines().filter(|line| line.starts_with('#'));
        headings
            .map(|line| line.chars().take_while(|letter| *letter == '#').count())
            .collect()
    };
    let code = |page: &str| -> Vec<Vec<String>> {
        let of_block = |block: Vec<&str>| {
            let lines = block.into_iter();
            lines
                .map(|line| line.split(" # ").next().unwrap_or(line).trim().to_owned())
                .collect()
        };
        code_blocks(page, "*").into_iter().map(of_block).collect()
    };
    let links = |page: &str| -> Vec<String> {
        let targets = page.split("](").skip(1);
        let mut targets: Vec<String> = targets
            .filter_map(|rest| rest.split(')').next())
            .filter(|target| !target.starts_with("README"))
            .map(str::to_owned)
            .collect();
        targets.sort();
        targets
    };
    let numbers = |page: &str| -> Vec<String> {
        let words =
            page.split(|letter: char| !letter.is_ascii_digit() && letter != '.' && letter != ',');
        let mut numbers: Vec<String> = words
            .map(|word| word.trim_matches(['.', ',']).to_owned())
            .filter(|word| word.starts_with(|letter: char| letter.is_ascii_digit()))
            .collect();
        numbers.sort();
        numbers
    };
    assert_eq!(levels(&english), levels(&chinese), "headings");
    assert_eq!(code(&english), code(&chinese), "code");
    assert_eq!(links(&english), links(&chinese), "links");
    assert_eq!(numbers(&english), numbers(&chinese), "numbers");
}

/// Measured values are stated in `docs/performance.md`; the READMEs repeat them exactly.
#[test]
fn measured_numbers_are_those_of_the_performance_page() {
    let measured = page("docs/performance.md");
    for name in ["README.md", "README.zh-CN.md"] {
        let readme = page(name);
        let sizes: Vec<String> = readme
            .split(" MB")
            .filter_map(|before| before.rsplit(' ').next())
            .filter(|word| word.starts_with(|letter: char| letter.is_ascii_digit()))
            .map(|number| format!("| idle gateway, PSS | {number} MB |"))
            .collect();
        assert!(!sizes.is_empty(), "{name} states no size");
        for size in sizes {
            assert!(measured.contains(&size), "{name}: {size} was not measured");
        }
    }
}

/// The newest run of the crash suite is stated in `docs/crash-suite.md`.
#[test]
fn crash_numbers_are_those_of_the_last_full_run() {
    let suite = page("docs/crash-suite.md");
    let run = suite.split("## The last full run").nth(1).expect("the run");
    let run = run.split("\n## ").next().expect("its section");
    let checks: u64 = run
        .lines()
        .filter_map(|line| line.split('|').nth(2)?.trim().parse::<u64>().ok())
        .sum();
    let kills = run
        .split(" kills,")
        .next()
        .and_then(|before| before.split_whitespace().next_back())
        .and_then(|word| word.parse::<u64>().ok())
        .expect("the kills");
    let seed = run
        .split("--seed ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next())
        .expect("the seed");
    for name in ["README.md", "README.zh-CN.md"] {
        let readme = page(name);
        for number in [grouped(kills), grouped(checks), seed.to_owned()] {
            assert!(readme.contains(&number), "{name}: {number} is missing");
        }
    }
}

/// Formats a number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let comma = |(index, digit)| {
        let is_start = index > 0 && index % 3 == first;
        is_start.then_some(',').into_iter().chain([digit])
    };
    digits.chars().enumerate().flat_map(comma).collect()
}

/// Counts in prose are those of the code.
#[test]
fn counts_in_prose_are_those_of_the_code() {
    let skills = fs::read_dir(root().join("skills")).expect("the built-in skills");
    let skills = skills
        .filter_map(Result::ok)
        .filter(|entry| entry.path().join("SKILL.md").exists())
        .count();
    let voices = nanobot_providers::Speech::vendors().count();
    let words = ["five", "six", "seven", "eight", "nine", "ten"];
    let word = |count: usize| words[count - 5];
    let performance = page("docs/performance.md");
    let built_in = format!("{} built-in skills", word(skills));
    assert!(performance.contains(&built_in), "{built_in}");
    let readme = page("README.md");
    let voices = format!("one of {} providers", word(voices));
    assert!(readme.contains(&voices), "{voices}");
    let reference = page("docs/reference.md");
    let subagents = reference
        .split("| `maxConcurrentSubagents` | whole number | `")
        .nth(1)
        .and_then(|rest| rest.split('`').next())
        .expect("the limit of subagents");
    let subagents = format!("up to {subagents} at a time");
    assert!(readme.contains(&subagents), "{subagents}");
    let manifest = page("Cargo.toml");
    let version = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = \""))
        .and_then(|rest| rest.strip_suffix('"'))
        .expect("the Rust version");
    for name in ["README.md", "README.zh-CN.md"] {
        let stated = format!("Rust {version}");
        assert!(page(name).contains(&stated), "{name}: {stated}");
    }
}
