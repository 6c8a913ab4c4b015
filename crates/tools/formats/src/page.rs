//! Extracts the main content of a web page.

use dom_smoothie::{Config, Readability, TextMode as Form};
use nanobot_extract::{PageRequest, TextMode};

/// Maximum number of elements of a page that is parsed.
const MAX_ELEMENTS: usize = 50_000;

/// Returns the main content of a page, with its title as the heading.
pub(crate) fn main_content(body: &str, request: &PageRequest) -> Option<String> {
    let config = Config {
        text_mode: match request.mode {
            TextMode::Markdown => Form::Markdown,
            TextMode::Text => Form::Formatted,
        },
        max_elements_to_parse: MAX_ELEMENTS,
        ..Config::default()
    };
    let mut page = Readability::new(body, Some(&request.url), Some(config)).ok()?;
    let article = page.parse().ok()?;
    let content = article.text_content.trim();
    if content.is_empty() {
        return None;
    }
    let title = article.title.trim();
    Some(if title.is_empty() {
        content.to_owned()
    } else {
        format!("# {title}\n\n{content}")
    })
}

#[cfg(test)]
mod tests {
    use nanobot_extract::{ExtractRequest, ExtractResponse, Extractor};

    use super::*;

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
