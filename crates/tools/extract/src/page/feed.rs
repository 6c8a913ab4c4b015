//! Reads news feeds: RSS and Atom.
//!
//! Decision: entries are found by the names of their tags in one pass, without a parser of XML: a feed
//! that is not well-formed, as many are, is read as far as possible, and entities cannot expand.

use crate::plain;

/// Maximum number of entries that are listed.
const MAX_ENTRIES: usize = 100;
/// Maximum length of the summary of an entry, in characters.
const MAX_SUMMARY: usize = 1_000;

/// Lists the entries of a feed in Markdown; `None` if the document is not a feed.
pub(super) fn feed(body: &str) -> Option<String> {
    let start = body.get(..body.floor_char_boundary(1024)).unwrap_or(body);
    let start = start.trim_start_matches('\u{feff}').trim_start();
    let is_xml =
        start.starts_with("<?xml") || start.starts_with("<rss") || start.starts_with("<feed");
    let roots = ["<rss", "<feed", "<rdf:RDF"];
    if !is_xml || roots.iter().all(|root| !start.contains(root)) {
        return None;
    }
    let kind = if body.contains("<item") {
        "item"
    } else {
        "entry"
    };
    let mut rest = body;
    let mut text = String::new();
    let head = element(&mut rest, kind).map_or(body, |(before, entry)| {
        add(&mut text, entry);
        before
    });
    let mut count = 1;
    while let Some((_, entry)) = element(&mut rest, kind) {
        if count == MAX_ENTRIES {
            text.push_str("\n\n(There are more entries.)");
            break;
        }
        add(&mut text, entry);
        count += 1;
    }
    let title = value(head, &["title"]).unwrap_or_else(|| "Feed".to_owned());
    Some(format!("# {title}{text}"))
}

fn add(text: &mut String, entry: &str) {
    let title = value(entry, &["title"]).unwrap_or_else(|| "(no title)".to_owned());
    text.push_str(&format!("\n\n## {title}"));
    let link = value(entry, &["link"]).or_else(|| attribute(entry, "<link", "href"));
    let date = value(entry, &["pubDate", "published", "updated", "dc:date"]);
    for line in [link, date].into_iter().flatten() {
        text.push_str(&format!("\n{line}"));
    }
    if let Some(summary) = value(
        entry,
        &["description", "summary", "content:encoded", "content"],
    ) {
        let short: String = summary.chars().take(MAX_SUMMARY).collect();
        let end = if short.len() < summary.len() {
            "…"
        } else {
            ""
        };
        text.push_str(&format!("\n\n{short}{end}"));
    }
}

/// Splits the next element of that name off; returns the text before it and its content.
fn element<'a>(rest: &mut &'a str, name: &str) -> Option<(&'a str, &'a str)> {
    let whole = *rest;
    let open = format!("<{name}");
    let mut from = 0;
    let (at, after) = loop {
        let at = from + whole.get(from..)?.find(&open)?;
        let after = whole.get(at + open.len()..)?;
        if after.starts_with(|next: char| next == '>' || next.is_ascii_whitespace()) {
            break (at, after);
        }
        from = at + open.len();
    };
    let (attributes, content) = after.split_once('>')?;
    if attributes.ends_with('/') {
        *rest = content;
        return Some((whole.get(..at)?, ""));
    }
    let close = format!("</{name}>");
    let (content, after) = content.split_once(&close).unwrap_or((content, ""));
    *rest = after;
    Some((whole.get(..at)?, content))
}

/// Returns the text of the first of these elements that has some.
fn value(text: &str, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| {
        let (_, content) = element(&mut { text }, name)?;
        let content = content.trim();
        let content = content
            .strip_prefix("<![CDATA[")
            .map_or(content, |data| data.trim_end_matches("]]>"));
        // Summaries are HTML, escaped or as character data.
        let value = plain(&plain(content));
        (!value.is_empty()).then_some(value)
    })
}

fn attribute(text: &str, tag: &str, name: &str) -> Option<String> {
    let (_, after) = text.split_once(tag)?;
    let (attributes, _) = after.split_once('>')?;
    let (_, value) = attributes.split_once(&format!("{name}="))?;
    let quote = value
        .chars()
        .next()
        .filter(|quote| matches!(quote, '"' | '\''))?;
    let value = plain(value.get(1..)?.split(quote).next()?);
    (!value.is_empty()).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feeds_become_lists() {
        let rss = "<?xml version=\"1.0\"?><rss><channel><title>News</title><link>http://n.example/</link>\
            <item><title><![CDATA[A & B]]></title><link>http://n.example/1</link><pubDate>Mon</pubDate>\
            <description>&lt;p&gt;Hello &lt;b&gt;you&lt;/b&gt;&lt;/p&gt;</description></item>\
            <item><title>Second</title></item></channel></rss>";
        assert_eq!(
            feed(rss).unwrap(),
            "# News\n\n## A & B\nhttp://n.example/1\nMon\n\nHello you\n\n## Second"
        );
        let atom = "<feed xmlns='x'><title>Blog</title><entry><title>T</title>\
            <link href='http://b.example/?a=1&amp;b=2'/><updated>2026</updated><summary>S</summary></entry></feed>";
        assert_eq!(
            feed(atom).unwrap(),
            "# Blog\n\n## T\nhttp://b.example/?a=1&b=2\n2026\n\nS"
        );
        assert_eq!(feed("<?xml version='1.0'?><svg/>"), None);
        assert_eq!(feed("<html><body>&lt;rss</body></html>"), None);
    }

    #[test]
    fn hostile_feeds_are_read_in_linear_time() {
        for part in [
            "<item>",
            "<items",
            "<item",
            "<item><title>",
            "<item/>",
            "<![CDATA[",
        ] {
            let body = format!("<rss>{}", part.repeat(200_000));
            let text = feed(&body).unwrap();
            assert!(
                text.len() < MAX_ENTRIES * (MAX_SUMMARY * 4 + 100),
                "{}",
                text.len()
            );
        }
    }
}
