//! Checks the links of every Markdown file, and that the book has a page for every file of `docs/`.
//!
//! Links of the book stay within `docs/`, because mdBook publishes nothing else. Pages name other
//! files of the repository as code. External links are checked for their form only: tests use no
//! network.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// Folders without documentation: build output, and texts of other programs.
const SKIPPED: [&str; 4] = ["target", ".cache", ".git", "corpus"];

/// Links and anchors of one Markdown text.
#[derive(Debug, Default)]
struct Page {
    links: Vec<String>,
    anchors: BTreeSet<String>,
}

impl Page {
    fn parse(text: &str) -> Self {
        let mut page = Self::default();
        let mut seen = BTreeMap::new();
        let mut heading: Option<String> = None;
        for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(dest_url.into_string());
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::Text(part) | Event::Code(part) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&part);
                    }
                }
                Event::End(TagEnd::Heading(_)) => {
                    let slug = slug(&heading.take().unwrap_or_default());
                    let count: &mut usize = seen.entry(slug.clone()).or_default();
                    page.anchors.insert(match *count {
                        0 => slug,
                        count => format!("{slug}-{count}"),
                    });
                    *count += 1;
                }
                _ => {}
            }
        }
        page
    }
}

/// Returns the anchor of a heading, by the rule of GitHub and mdBook.
fn slug(heading: &str) -> String {
    heading
        .trim()
        .chars()
        .filter_map(|letter| match letter {
            letter if letter.is_whitespace() => Some('-'),
            '-' | '_' => Some(letter),
            letter if letter.is_alphanumeric() => Some(letter),
            _ => None,
        })
        .flat_map(char::to_lowercase)
        .collect()
}

fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().expect("the workspace").to_owned()
}

/// Returns the Markdown files below a folder.
fn markdown_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_symlink() || SKIPPED.contains(&name.as_ref()) {
            continue;
        }
        if path.is_dir() {
            files.extend(markdown_files(&path));
        } else if name.ends_with(".md") {
            files.push(path);
        }
    }
    files
}

/// Resolves `.` and `..` without the file system.
fn normalized(path: &Path) -> PathBuf {
    let mut whole = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                whole.pop();
            }
            Component::CurDir => {}
            other => whole.push(other),
        }
    }
    whole
}

/// Returns the reason why a link of `file` is broken.
fn fault(root: &Path, file: &Path, page: &Page, link: &str) -> Option<String> {
    if let Some((scheme, rest)) = link.split_once(':') {
        let is_web = scheme == "https" && rest.starts_with("//") && rest.len() > 2;
        let fine = is_web && !rest.contains(char::is_whitespace) || scheme == "mailto";
        return (!fine).then(|| "is neither https nor relative".to_owned());
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    if path.is_empty() {
        let fine = page.anchors.contains(anchor);
        return (!fine).then(|| "has no such heading".to_owned());
    }
    let target = normalized(&file.parent()?.join(path));
    if !target.starts_with(root) {
        return Some("leaves the repository".to_owned());
    }
    if file.starts_with(root.join("docs")) && !target.starts_with(root.join("docs")) {
        return Some("leaves the book".to_owned());
    }
    if !target.exists() {
        return Some("does not exist".to_owned());
    }
    if anchor.is_empty() {
        return None;
    }
    let text = fs::read_to_string(&target).ok()?;
    let fine = Page::parse(&text).anchors.contains(anchor);
    (!fine).then(|| "has no such heading".to_owned())
}

fn faults(root: &Path) -> Vec<String> {
    let mut faults = Vec::new();
    for file in markdown_files(root) {
        let page = Page::parse(&fs::read_to_string(&file).expect("a page"));
        for link in &page.links {
            if let Some(fault) = fault(root, &file, &page, link) {
                let name = file.strip_prefix(root).unwrap_or(&file).display();
                faults.push(format!("{name}: {link} {fault}"));
            }
        }
    }
    faults.sort();
    faults
}

#[test]
fn links_of_all_markdown_files_exist() {
    assert_eq!(faults(&root()), Vec::<String>::new());
}

#[test]
fn every_page_is_in_the_summary_once() {
    let docs = root().join("docs");
    let summary = docs.join("SUMMARY.md");
    let text = fs::read_to_string(&summary).expect("the summary");
    let links = Page::parse(&text).links;
    let listed: BTreeSet<PathBuf> = links.iter().map(|link| docs.join(link)).collect();
    assert_eq!(listed.len(), links.len(), "a page is listed twice");
    let mut pages: BTreeSet<PathBuf> = markdown_files(&docs).into_iter().collect();
    pages.remove(&summary);
    assert_eq!(listed, pages);
}

/// Every kind of broken link is found, and no link of an odd but valid form is.
#[test]
fn broken_links_are_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    fs::create_dir(root.join("docs")).expect("a folder");
    fs::write(root.join("README.md"), "# A `b`, c_d\n[p](docs/p.md#x-1)").expect("a page");
    let page = "# X\n# X\n[a](#x) [b](./p.md#x-1) [c](https://example.org/a?b#c) `[d](no.md)`\n\n\
                [1](no.md) [2](#y) [3](p.md#y) [4](../README.md) [5](../../etc/passwd) \
                [6](http://example.org) [7](https://) [8](javascript:alert) ![9](no.png)\n";
    fs::write(root.join("docs/p.md"), page).expect("a page");
    let expected = [
        "#y has no such heading",
        "../../etc/passwd leaves the repository",
        "../README.md leaves the book",
        "http://example.org is neither https nor relative",
        "https:// is neither https nor relative",
        "javascript:alert is neither https nor relative",
        "no.md does not exist",
        "no.png does not exist",
        "p.md#y has no such heading",
    ];
    assert_eq!(
        faults(root),
        expected.map(|fault| format!("docs/p.md: {fault}"))
    );
    assert_eq!(slug(" A `b`, c_d – 提示 "), "a-b-c_d--提示");
}
