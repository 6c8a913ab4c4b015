//! Encrypts and decrypts messages of Matrix for nanobot.

fn main() {}
