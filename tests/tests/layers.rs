//! Checks the crate table of ARCHITECTURE.md against Cargo's metadata.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};

/// Crates for development, in addition to the fakes: they may use any crate.
const DEVELOPMENT: [&str; 8] = [
    "testkit",
    "chat-fakes",
    "crash-suite",
    "safety-suite",
    "examples",
    "own-assistant",
    "tests",
    "benches",
];
/// The examples of third-party channels, with the crates of ours that they use. They have no rows.
const THIRD_PARTY_CHANNELS: [(&str, &[&str]); 2] = [
    ("custom-channel", &["nanobot-channel"]),
    (
        "custom-platform",
        &["nanobot-channel", "nanobot-channel-kit"],
    ),
];
/// Maximum number of third-party crates that come with a crate: for a program that embeds the agent
/// alone, one that takes our tools and providers too, and a channel.
const MOST_CRATES: [(&str, usize); 3] = [
    ("nanobot-agent-core", 80),
    ("nanobot-sdk", 170),
    ("nanobot-channel", 30),
];

struct Row {
    layer: u32,
    may_use: BTreeSet<String>,
}

fn table() -> BTreeMap<String, Row> {
    let page = include_str!("../../ARCHITECTURE.md");
    page.lines().filter_map(row).collect()
}

fn row(line: &str) -> Option<(String, Row)> {
    let cells: Vec<&str> = line.strip_prefix('|')?.split('|').map(str::trim).collect();
    let layer = cells.first()?.parse().ok()?;
    let may_use = cells
        .get(3)?
        .split(',')
        .map(str::trim)
        .filter(|name| *name != "–")
        .map(str::to_owned)
        .collect();
    Some((cells.get(1)?.to_string(), Row { layer, may_use }))
}

fn metadata() -> Metadata {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
    // Our own manifests are sufficient. Dependencies for other systems may not be downloaded.
    let offline = ["--offline".to_owned(), "--locked".to_owned()];
    MetadataCommand::new()
        .manifest_path(manifest)
        .no_deps()
        .other_options(offline)
        .exec()
        .expect("cargo metadata")
}

fn short(name: &str) -> String {
    match name {
        "nanobot" | "nanobot-gateway" => name.to_owned(),
        other => other.trim_start_matches("nanobot-").to_owned(),
    }
}

/// `true` for fakes of chat platforms.
fn is_fake(name: &str) -> bool {
    name.starts_with("channel-") && name.ends_with("-fake")
}

/// `true` for crates that no crate of the table may use, except in its tests.
fn is_third_party(name: &str) -> bool {
    let mut examples = THIRD_PARTY_CHANNELS.iter();
    examples.any(|(example, _)| *example == name)
}

fn is_for_development(name: &str) -> bool {
    DEVELOPMENT.contains(&name) || is_fake(name)
}

#[test]
fn crates_import_lower_layers_only() {
    let table = table();
    let metadata = metadata();
    let mut wrong = Vec::new();
    for package in metadata.workspace_packages() {
        let name = short(&package.name);
        if is_for_development(&name) || is_third_party(&name) {
            continue;
        }
        let Some(row) = table.get(&name) else {
            wrong.push(format!("{name} is not in the table"));
            continue;
        };
        for dependency in package
            .dependencies
            .iter()
            .filter(|dependency| dependency.kind != DependencyKind::Development)
        {
            let used = short(&dependency.name);
            let Some(below) = table.get(&used) else {
                if dependency.path.is_some() {
                    wrong.push(format!("{name} may use {used} in its tests only"));
                }
                continue;
            };
            if below.layer >= row.layer || !row.may_use.contains(&used) {
                wrong.push(format!("{name} may not use {used}"));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn every_dependency_of_the_table_is_used() {
    let metadata = metadata();
    let mut unused = Vec::new();
    for (name, row) in table() {
        let package = metadata
            .workspace_packages()
            .into_iter()
            .find(|package| short(&package.name) == name);
        let dependencies = package.iter().flat_map(|package| &package.dependencies);
        let normal =
            dependencies.filter(|dependency| dependency.kind != DependencyKind::Development);
        let used: BTreeSet<String> = normal.map(|dependency| short(&dependency.name)).collect();
        unused.extend(
            row.may_use
                .difference(&used)
                .map(|edge| format!("{name} does not use {edge}")),
        );
    }
    assert_eq!(unused, Vec::<String>::new());
}

#[test]
fn third_party_channels_use_the_contract_and_the_kit_only() {
    let metadata = metadata();
    for (name, allowed) in THIRD_PARTY_CHANNELS {
        let packages = metadata.workspace_packages();
        let package = packages
            .iter()
            .find(|package| package.name.as_str() == name)
            .expect("the example");
        let normal = package
            .dependencies
            .iter()
            .filter(|dependency| dependency.kind == DependencyKind::Normal);
        let ours: Vec<&str> = normal
            .map(|dependency| dependency.name.as_str())
            .filter(|name| name.starts_with("nanobot"))
            .collect();
        assert_eq!(ours, allowed, "{name}");
    }
}

#[test]
fn fakes_share_no_code_with_their_channel() {
    let metadata = metadata();
    let packages = metadata.workspace_packages();
    let fakes: Vec<_> = packages
        .iter()
        .filter(|package| is_fake(&short(&package.name)))
        .collect();
    assert_ne!(fakes.len(), 0);
    for fake in fakes {
        let ours: Vec<&str> = fake
            .dependencies
            .iter()
            .filter(|dependency| dependency.path.is_some())
            .map(|dependency| dependency.name.as_str())
            .collect();
        assert_eq!(ours, ["nanobot-testkit"], "{}", fake.name);
    }
}

#[test]
fn table_lists_existing_crates_only() {
    let metadata = metadata();
    let there: BTreeSet<String> = metadata
        .workspace_packages()
        .iter()
        .map(|package| short(&package.name))
        .collect();
    let gone: Vec<String> = table()
        .into_keys()
        .filter(|name| !there.contains(name))
        .collect();
    assert_eq!(gone, Vec::<String>::new());
}

/// Returns the third-party crates that `cargo tree` shows below a package.
fn third_party(package: &str) -> BTreeSet<String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
    let output = std::process::Command::new(cargo)
        .args([
            "tree",
            "--offline",
            "--locked",
            "--manifest-path",
            manifest,
            "-p",
            package,
        ])
        .args([
            "-e",
            "normal",
            "--target",
            "x86_64-unknown-linux-gnu",
            "--prefix",
            "none",
        ])
        .output()
        .expect("cargo tree");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| !name.starts_with("nanobot"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn embedding_programs_and_channels_pull_few_crates() {
    for (package, limit) in MOST_CRATES {
        let crates = third_party(package);
        let count = crates.len();
        assert!(count <= limit, "{package}: {count} crates: {crates:?}");
    }
}

#[test]
fn only_one_crypto_library_is_linked() {
    let banned = ["openssl-sys", "native-tls", "aws-lc-rs", "aws-lc-sys"];
    let crates = third_party("nanobot");
    let found: Vec<&str> = banned
        .into_iter()
        .filter(|name| crates.contains(*name))
        .collect();
    assert_eq!(found, Vec::<&str>::new());
}
