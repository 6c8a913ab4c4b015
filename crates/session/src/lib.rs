//! Append-only session logs and their replay into a valid transcript.
