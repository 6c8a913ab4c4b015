//! Tells when files may have changed, without looking at them all the time.
//!
//! Decision: the system is asked to tell of the folders that files are in, because editors, and our
//! own stores, put a new file in the place of the old one. What is told is only that a look is worth
//! it: whoever follows a file compares it with what they know. So a notification too many costs a
//! look, and one that is lost only time, because a look is worth it every half minute anyway: some
//! file systems tell nothing. Where the system tells nothing at all, it is one twice a second.

mod followed;
mod place;
mod watch;

pub use watch::{FileChanges, FileWatch};
