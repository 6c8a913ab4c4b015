//! A fake homeserver of Matrix.
