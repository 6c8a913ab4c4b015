//! What every sink asks first: the URL guard and the path policy.
//!
//! One guard per kind of effect, called by everything that causes the effect. [`UrlGuard`] answers
//! "may this program open a connection there?" and hands out the addresses that it checked;
//! [`PathPolicy`] answers "may a tool touch this file?" and hands out a [`ResolvedPath`], which is
//! the only way to open it, so that what was checked is what is opened.
//!
//! Neither knows HTTP, tools or configuration files, and neither confines a child process: that is
//! the work of an operating-system sandbox.

mod address;
mod beneath;
mod denied;
mod links;
mod path;
mod resolver;
mod roots;
mod snapshot;
mod url;
mod work;

pub use crate::{
    address::{canonical, is_metadata, is_public},
    beneath::{Entry, ResolvedPath},
    denied::{PathDenied, UrlDenied},
    path::{CREDENTIAL_PATHS, PathPolicy, PathRules},
    resolver::{Resolver, SystemResolver},
    url::{CheckedUrl, MAX_REDIRECTS, UrlGuard},
};
