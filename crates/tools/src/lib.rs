//! The built-in tools: files, shell and web.
