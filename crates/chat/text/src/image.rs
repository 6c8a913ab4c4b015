//! Turns images of Markdown into links, as every markup of a platform does.
//!
//! A client that shows an image fetches it at once, so that the address of an image can carry away
//! what a model read. Decision: only the `!` goes, and the text stays Markdown. Clients differ in
//! the HTML that they accept, so images inside of HTML count, too.

use std::borrow::Cow;

use pulldown_cmark::{Event, Parser, Tag};

use crate::parse::OPTIONS;

/// Beginning of an image.
const IMAGE: &str = "![";

/// Returns the Markdown with links in place of its images.
pub(crate) fn as_links(markdown: &str) -> Cow<'_, str> {
    if !markdown.contains(IMAGE) {
        return Cow::Borrowed(markdown);
    }
    let mut images = Vec::new();
    for (event, range) in Parser::new_ext(markdown, OPTIONS).into_offset_iter() {
        match event {
            Event::Start(Tag::Image { .. }) => images.push(range.start),
            Event::Html(_) | Event::InlineHtml(_) => {
                let html = markdown.get(range.clone()).unwrap_or_default();
                images.extend(html.match_indices(IMAGE).map(|(at, _)| range.start + at));
            }
            _ => {}
        }
    }
    images.sort_unstable();
    let mut text = String::with_capacity(markdown.len());
    let mut rest = markdown;
    for at in images {
        let begin = at.saturating_sub(markdown.len() - rest.len());
        let (before, image) = rest.split_at_checked(begin).unwrap_or((rest, ""));
        text.push_str(before);
        // Another `!` before it would begin an image again, so that this one is escaped.
        text.push_str(if text.ends_with('!') { "\\!" } else { "" });
        rest = image.strip_prefix('!').unwrap_or(image);
    }
    text.push_str(rest);
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_become_links_and_code_stays() {
        for (markdown, expected) in [
            (
                "see ![a](https://x.test/?q=1)!",
                "see [a](https://x.test/?q=1)!",
            ),
            (
                "![a][1]\n\n[1]: https://x.test",
                "[a][1]\n\n[1]: https://x.test",
            ),
            ("[![a](u)](v) ![b](w)", "[[a](u)](v) [b](w)"),
            ("![![a](u)](v)", "[[a](u)](v)"),
            ("!![a](u)", "!\\![a](u)"),
            ("<div>\n![a](u)\n</div>", "<div>\n[a](u)\n</div>"),
            ("`![a](u)` vec![1]", "`![a](u)` vec![1]"),
            ("```\n![a](u)\n```", "```\n![a](u)\n```"),
            ("很![好](u)", "很[好](u)"),
            ("no image", "no image"),
        ] {
            let linked = as_links(markdown);
            assert_eq!(linked, expected);
            let has_image = Parser::new_ext(&linked, OPTIONS)
                .any(|event| matches!(event, Event::Start(Tag::Image { .. })));
            assert!(!has_image, "{linked}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_image_remains(markdown in r"[!\[\]()\\`<>*_ \na-c]{0,40}") {
            let linked = as_links(&markdown);
            let has_image = Parser::new_ext(&linked, OPTIONS)
                .any(|event| matches!(event, Event::Start(Tag::Image { .. })));
            proptest::prop_assert!(!has_image, "{linked}");
        }
    }
}
