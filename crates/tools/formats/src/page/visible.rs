//! Removes what a reader of a page does not see.
//!
//! Decision: attributes and inline styles are read, style sheets are not: their rules would need a
//! browser. So a page can still hide text, and the text stays marked as untrusted.

use dom_query::Document;

/// Elements that are never shown.
const HIDDEN: &str = "[hidden], [aria-hidden='true'], template, input, textarea";

/// Removes hidden elements, and puts parts that would run together on lines of their own.
pub(super) fn clean(document: &Document) {
    for node in document.select(HIDDEN).nodes() {
        if !is_root(node) {
            node.remove_from_parent();
        }
    }
    for node in document.select("[style]").nodes() {
        if !is_root(node) && node.attr("style").is_some_and(|style| hides(&style)) {
            node.remove_from_parent();
        }
    }
    document.select("dt, dd, figcaption, summary").rename("p");
    document.select("caption").append_html("<br>");
}

/// `true` for the elements around the whole page, which scripts make visible later.
fn is_root(node: &dom_query::NodeRef<'_>) -> bool {
    node.node_name()
        .is_some_and(|name| matches!(&*name, "html" | "body"))
}

/// Returns `true` if an inline style makes an element invisible.
fn hides(style: &str) -> bool {
    let style = style.to_ascii_lowercase();
    style.split(';').any(|declaration| {
        let Some((property, value)) = declaration.split_once(':') else {
            return false;
        };
        let value = value.trim().trim_end_matches("!important").trim();
        match property.trim() {
            "display" => value == "none",
            "visibility" => matches!(value, "hidden" | "collapse"),
            "opacity" | "font-size" => number(value) == Some(0.0),
            "left" | "right" | "top" | "text-indent" => {
                number(value).is_some_and(|place| place <= -900.0)
            }
            _ => false,
        }
    })
}

/// Returns the number at the beginning of a value, whatever its unit.
fn number(value: &str) -> Option<f64> {
    let digits = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-');
    let end = value.find(|c| !digits(c)).unwrap_or(value.len());
    value.get(..end)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_styles_are_recognised() {
        for (style, expected) in [
            ("display:none", true),
            ("color:red; Display : None !important", true),
            ("visibility: hidden", true),
            ("opacity:0.0", true),
            ("font-size:0", true),
            ("text-indent:-9999px", true),
            ("left:-1000em;position:absolute", true),
            ("opacity:.5", false),
            ("display:block", false),
            ("font-size:0.9em", false),
            ("left:-1px", false),
            ("nonsense", false),
            ("opacity:-", false),
        ] {
            assert_eq!(hides(style), expected, "{style}");
        }
    }
}
