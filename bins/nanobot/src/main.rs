//! A self-hosted personal AI assistant.

fn main() {}
