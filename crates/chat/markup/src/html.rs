//! Escaping for HTML and for markups that borrow its entities.

/// Appends `text` to `html` with `&`, `<` and `>` as entities.
pub fn escape(text: &str, html: &mut String) {
    for c in text.chars() {
        escape_char(c, html);
    }
}

/// Appends one character to `html`, `&`, `<` and `>` as entities.
pub fn escape_char(c: char, html: &mut String) {
    match c {
        '&' => html.push_str("&amp;"),
        '<' => html.push_str("&lt;"),
        '>' => html.push_str("&gt;"),
        _ => html.push(c),
    }
}

/// Returns `text` escaped for an attribute in double quotes.
#[must_use]
pub fn attribute(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    escape(text, &mut escaped);
    escaped.replace('"', "&quot;")
}
