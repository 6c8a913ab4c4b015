//! Programs that embed and extend nanobot.
