//! Reads DuckDuckGo's result page for browsers without scripts.

use url::Url;

use super::Hit;

/// Explanation of the page that DuckDuckGo shows instead of results.
pub(super) const BOT_CHECK: &str = "DuckDuckGo shows its bot check instead of results, as it does after \
    many searches from one address. Wait some minutes, or set tools.web.search.provider with an \
    apiKey, or to searxng with a baseUrl";

/// Returns `true` if the page asks for a proof of being human.
pub(super) fn is_bot_check(page: &str) -> bool {
    page.contains("anomaly-modal") || page.contains("anomaly.js")
}

/// Maximum number of results parsed from a page, which is more than are ever listed.
const ENOUGH: usize = super::MAX_RESULTS as usize + 1;

/// Parses the links and snippets of a result page, in order. Attributes come in any order, so a
/// link is found by its class and its URL is looked up in the same tag. Runs in a single pass,
/// which stops at a link that is not closed.
pub(super) fn hits(page: &str) -> Vec<Hit> {
    let mut found: Vec<Hit> = Vec::new();
    let mut rest = page;
    while let Some((attributes, after)) = next_link(rest)
        && found.len() < ENOUGH
    {
        rest = after;
        let is_title = attributes.contains("class=\"result__a\"");
        if !is_title && !attributes.contains("class=\"result__snippet\"") {
            continue;
        }
        let Some((content, after)) = rest.split_once("</a>") else {
            break;
        };
        rest = after;
        let address = attributes
            .split_once("href=\"")
            .and_then(|(_, rest)| rest.split('"').next());
        let Some(url) = address.and_then(target_of) else {
            continue;
        };
        if is_title {
            found.push(Hit {
                title: content.to_owned(),
                url,
                snippet: String::new(),
            });
        } else if let Some(hit) = found.last_mut().filter(|hit| hit.url == url) {
            hit.snippet = content.to_owned();
        }
    }
    found
}

/// Returns the attributes of the next link, and the text after its tag.
fn next_link(page: &str) -> Option<(&str, &str)> {
    let mut rest = page;
    loop {
        let (_, tag) = rest.split_once("<a")?;
        if tag.starts_with(|next: char| next.is_ascii_whitespace()) {
            return tag.split_once('>');
        }
        rest = tag;
    }
}

/// Returns the target URL of a result: links go through a redirect that carries the target in a
/// parameter. Advertisements have none.
fn target_of(link: &str) -> Option<String> {
    let link = link.replace("&amp;", "&");
    let url = Url::parse("https://duckduckgo.com/")
        .ok()?
        .join(&link)
        .ok()?;
    if url
        .domain()
        .is_some_and(|domain| domain.ends_with("duckduckgo.com"))
    {
        return url
            .query_pairs()
            .find(|(key, _)| key == "uddg")
            .map(|(_, target)| target.into_owned());
    }
    Some(url.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_results_and_skips_advertisements() {
        let page = r##"
            <a rel="nofollow" class="result__a" href="https://duckduckgo.com/y.js?ad=1">Ad</a>
            <h2><a rel="nofollow" class="result__a" href="//duckduckgo.com/l/?uddg=https%3A%2F%2Ft.example%2Fa%3Fb%3D1&amp;rut=9">The <b>tea</b></a></h2>
            <a class="result__snippet" href="//duckduckgo.com/l/?uddg=https%3A%2F%2Ft.example%2Fa%3Fb%3D1&amp;rut=9">Hot <b>water</b></a>
            <a href="https://plain.example/" class="result__a">Plain</a>"##;
        let expected = [
            Hit {
                title: "The <b>tea</b>".into(),
                url: "https://t.example/a?b=1".into(),
                snippet: "Hot <b>water</b>".into(),
            },
            Hit {
                title: "Plain".into(),
                url: "https://plain.example/".into(),
                snippet: String::new(),
            },
        ];
        assert_eq!(hits(page), expected);
    }
}
