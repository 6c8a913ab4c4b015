//! Checks the promises of `docs/glossary.md`: answers that exist, and one meaning per type name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Number of crates in which one public type name is too many.
const TOO_MANY_CRATES: usize = 3;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn glossary_answers_exist() {
    let page = include_str!("../../docs/glossary.md");
    let (_, questions) = page.split_once("## Where is").expect("the questions");
    let answers: Vec<&str> = questions
        .lines()
        .filter_map(|line| line.strip_suffix("` |")?.rsplit('`').next())
        .collect();
    assert!(answers.len() >= 20, "{answers:?}");
    let missing: Vec<_> = answers
        .iter()
        .filter(|answer| !root().join(answer).exists())
        .collect();
    assert!(missing.is_empty(), "no such file: {missing:?}");
}

#[test]
fn public_type_names_have_one_meaning() {
    let mut crates_by_name: BTreeMap<String, BTreeSet<PathBuf>> = BTreeMap::new();
    for family in folders(&root().join("crates")) {
        for package in folders(&family) {
            // Fakes of platforms have the same parts, such as a pushed message, and name them
            // alike.
            if package.to_string_lossy().ends_with("-fake") {
                continue;
            }
            for name in public_types(&package.join("src")) {
                let crates = crates_by_name.entry(name).or_default();
                crates.insert(package.clone());
            }
        }
    }
    assert!(crates_by_name.len() > 300, "the sources were not found");
    crates_by_name.retain(|_, crates| crates.len() >= TOO_MANY_CRATES);
    assert!(
        crates_by_name.is_empty(),
        "public types of the same name in {TOO_MANY_CRATES} crates: {crates_by_name:#?}"
    );
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.filter(|path| path.is_dir()).collect()
}

fn public_types(folder: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            names.extend(public_types(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path).expect("a source file");
            names.extend(source.lines().filter_map(public_type));
        }
    }
    names
}

/// Returns the name that a line defines for other crates. Associated types are indented.
fn public_type(line: &str) -> Option<String> {
    let definition = line.strip_prefix("pub ")?;
    let name = ["struct ", "enum ", "trait ", "type ", "union "]
        .iter()
        .find_map(|keyword| definition.strip_prefix(keyword))?;
    let end = |letter: char| !letter.is_alphanumeric() && letter != '_';
    name.split(end).next().map(str::to_owned)
}
