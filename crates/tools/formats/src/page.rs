//! Extracts the content of a web page.
//!
//! Decision: elements that a reader does not see are removed first, because their text is a place for
//! instructions to a model. Then the main content is taken, or else the whole page. Markdown is written
//! by `dom_query`, which `dom_smoothie` uses anyway: a second HTML parser would cost 1 MB of program.

mod visible;

use dom_query::Document;
use dom_smoothie::{Config, Readability, TextMode as Form};
use nanobot_extract::{Extractor, PageRequest, TextMode};
use url::Url;

/// Maximum number of elements of a page whose main content is searched for.
const MAX_ELEMENTS: usize = 50_000;
/// Elements of a whole page whose content is not text for a reader.
const UNREAD: &str = "head, script, style, noscript, template, svg, iframe, object, button, select";

/// Returns the main content of a page with its title as the heading, or all of its visible text.
pub(crate) fn content(body: &str, request: &PageRequest) -> Option<(String, Extractor)> {
    let document = || {
        let document = Document::from(body);
        visible::clean(&document);
        document
    };
    main_content(document(), request)
        .map(|text| (text, Extractor::Readability))
        .or_else(|| Some((whole_page(&document(), request)?, Extractor::Raw)))
}

fn main_content(document: Document, request: &PageRequest) -> Option<String> {
    let config = Config {
        text_mode: match request.mode {
            TextMode::Markdown => Form::Markdown,
            TextMode::Text => Form::Formatted,
        },
        max_elements_to_parse: MAX_ELEMENTS,
        ..Config::default()
    };
    let mut page = Readability::with_document(document, Some(&request.url), Some(config)).ok()?;
    let article = page.parse().ok()?;
    titled(&article.title, &article.text_content)
}

fn whole_page(document: &Document, request: &PageRequest) -> Option<String> {
    let title = document.select_single("title").text();
    make_links_absolute(document, request);
    document.select(UNREAD).remove();
    let text = match request.mode {
        TextMode::Markdown => document.md(None),
        TextMode::Text => document.formatted_text(),
    };
    titled(&title, &text)
}

/// Returns `None` for a page without text.
fn titled(title: &str, text: &str) -> Option<String> {
    let (title, text) = (title.trim(), text.trim());
    match (title.is_empty(), text.is_empty()) {
        (_, true) => None,
        (true, false) => Some(text.to_owned()),
        (false, false) => Some(format!("# {title}\n\n{text}")),
    }
}

/// Resolves links against the address of the page. A link that is no web address becomes text.
fn make_links_absolute(document: &Document, request: &PageRequest) {
    let base = document.select_single("base").attr("href");
    let page = Url::parse(&request.url).ok();
    let base = base
        .and_then(|base| page.as_ref()?.join(&base).ok())
        .or(page);
    let Some(base) = base else { return };
    for (elements, attribute) in [("a[href]", "href"), ("img[src]", "src")] {
        for node in document.select(elements).nodes() {
            let address = node.attr(attribute).unwrap_or_default();
            match base.join(&address) {
                Ok(url) if matches!(url.scheme(), "http" | "https" | "mailto") => {
                    node.set_attr(attribute, url.as_str());
                }
                _ => node.remove_attr(attribute),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use nanobot_extract::{ExtractRequest, ExtractResponse, PageText};

    use super::*;

    fn read(html: &str, mode: TextMode) -> PageText {
        let request = PageRequest {
            url: "http://x.example/dir/a".to_owned(),
            content_type: "text/html".to_owned(),
            mode,
            body: html.as_bytes().to_vec(),
        };
        match crate::read(ExtractRequest::Page(request)) {
            Ok(ExtractResponse::Page(found)) => found,
            other => panic!("{other:?}"),
        }
    }

    const PARTS: &str = r##"<p>See <a href="/more">more</a>, <a href="b.html">b</a>, <a href="javascript:alert(1)">bad</a>.</p>
        <table><tr><th>Kind</th><th>Minutes</th></tr><tr><td>Green | x</td><td>2</td></tr></table>
        <pre><code>fn main() {
    let x = 1;
}
</code></pre>
        <ul><li>One<ul><li>Nested</li></ul></li><li>Two</li></ul><ol start="3"><li>Third</li></ol>
        <dl><dt>Term</dt><dd>Definition</dd></dl>
        <p hidden>HIDDEN-1</p><p style="display: none">HIDDEN-2</p><div aria-hidden="true">HIDDEN-3</div>
        <span style="font-size:0px">HIDDEN-4</span><span style="OPACITY:0">HIDDEN-5</span>
        <p style="position:absolute;left:-9999px">HIDDEN-6</p><script>HIDDEN-7</script><style>HIDDEN-8</style>
        <!-- HIDDEN-9 --><template>HIDDEN-10</template><noscript>HIDDEN-11</noscript>"##;

    fn check(text: &str) {
        for expected in [
            "[more](http://x.example/more), [b](http://x.example/dir/b.html), bad",
            "| Green \\| x | 2 |",
            "```\nfn main() {\n    let x = 1;\n}\n```",
            "- One\n    - Nested\n- Two",
            "3. Third",
            "Term\n\nDefinition",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(!text.contains("HIDDEN"), "{text}");
    }

    #[test]
    fn main_content_keeps_its_structure_and_nothing_hidden() {
        let filler = "<p>Boil it, let it cool a little, pour it over the leaves.</p>".repeat(12);
        let html = format!("<title>Tea</title><nav>menu</nav><article>{filler}{PARTS}</article>");
        let found = read(&html, TextMode::Markdown);
        assert_eq!(found.extractor, Extractor::Readability);
        check(&found.text);
        let text = read(&html, TextMode::Text).text;
        assert!(
            text.contains("let x = 1;") && !text.contains("]("),
            "{text}"
        );
        assert!(!text.contains("HIDDEN") && !text.contains("menu"), "{text}");
    }

    #[test]
    fn page_without_main_content_is_read_whole() {
        let found = read(&format!("<title>Tea</title>{PARTS}"), TextMode::Markdown);
        check(&found.text);
        let many = format!(
            "<title>Tea</title>{}{PARTS}",
            "<b>x</b> ".repeat(MAX_ELEMENTS)
        );
        let found = read(&many, TextMode::Markdown);
        assert_eq!(found.extractor, Extractor::Raw);
        check(&found.text);
    }

    #[test]
    fn page_without_text_is_empty() {
        let found = read("<html><script>x</script></html>", TextMode::Text);
        assert_eq!((found.text.as_str(), found.extractor), ("", Extractor::Raw));
    }

    #[test]
    fn page_becomes_title_and_main_content() {
        let tea = format!(
            "<html><head><title>Tea</title></head><body><article><h2>Water</h2><p>{}</p>\
             <p>See <a href='/more'>more</a>.</p></article></body></html>",
            "Boil it, let it cool a little, pour it over the leaves. ".repeat(12)
        );
        let request = PageRequest {
            url: "http://x.example/a".to_owned(),
            content_type: "text/html".to_owned(),
            mode: TextMode::Markdown,
            body: tea.into_bytes(),
        };
        let Ok(ExtractResponse::Page(found)) = crate::read(ExtractRequest::Page(request)) else {
            panic!("the page is unreadable")
        };
        assert_eq!(found.extractor, Extractor::Readability);
        assert!(found.text.starts_with("# Tea\n\n"), "{}", found.text);
        assert!(
            found.text.contains("[more](http://x.example/more)"),
            "{}",
            found.text
        );
    }
}
