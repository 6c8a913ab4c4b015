//! The build profiles in Cargo.toml.

use std::collections::BTreeMap;

/// Returns the lines of each `[profile…]` table, without comments.
fn profiles() -> BTreeMap<&'static str, Vec<&'static str>> {
    let manifest = include_str!("../../Cargo.toml");
    let mut profiles: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut table = "";
    for line in manifest
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        match line
            .strip_prefix('[')
            .and_then(|line| line.strip_suffix(']'))
        {
            Some(name) => table = name,
            None if table.starts_with("profile.") => profiles.entry(table).or_default().push(line),
            None => {}
        }
    }
    profiles
}

/// A number from a platform or a model may be arbitrarily large. An addition that overflows must
/// end the task instead of continuing with a wrong number. The parser of mails relies on wrapping.
#[test]
fn shipped_builds_check_overflow_except_mail_parser() {
    let profiles = profiles();
    assert!(
        profiles["profile.release"].contains(&"overflow-checks = true"),
        "{profiles:?}"
    );
    assert!(
        profiles["profile.dist"].contains(&"inherits = \"release\""),
        "{profiles:?}"
    );
    let is_shipped =
        |name: &str| name.starts_with("profile.release") || name.starts_with("profile.dist");
    let unchecked: Vec<_> = profiles
        .iter()
        .filter(|(name, lines)| is_shipped(name) && lines.contains(&"overflow-checks = false"))
        .map(|(name, _)| *name)
        .collect();
    assert_eq!(unchecked, ["profile.release.package.mail-parser"]);
    let built_in = [
        include_str!("../../Dockerfile"),
        include_str!("../../.cargo/config.toml"),
    ];
    assert!(
        built_in
            .iter()
            .all(|text| !text.contains("overflow-checks")),
        "a flag overrides the profile"
    );
}
