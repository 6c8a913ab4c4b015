//! Long-term memory as Markdown files.
