//! The calls that the fake knows.

use crate::api::ApiResult;
use crate::params::Params;
use crate::state::MatrixState;

/// Type of a parameter.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Text,
    /// An integer that is not negative.
    Number,
    Flag,
    Object,
    List,
    Any,
    OneOf(&'static [&'static str]),
}

/// A parameter of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) is_needed: bool,
}

pub(crate) const fn need(name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        kind,
        is_needed: true,
    }
}

pub(crate) const fn may(name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        kind,
        is_needed: false,
    }
}

/// Body of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Body {
    Nothing,
    /// An object of these members.
    Fields(&'static [Field]),
    /// Like `Fields`, or no body.
    Optional(&'static [Field]),
    /// Any object.
    Object,
    Bytes,
}

/// Credentials of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Auth {
    Token,
    /// A token may be there, and is not looked at.
    Nothing,
}

/// A call.
#[derive(Debug)]
pub(crate) struct Route {
    /// Name of the call in records and faults.
    pub(crate) name: &'static str,
    pub(crate) method: &'static str,
    /// The path; `{}` is a variable segment.
    path: &'static str,
    pub(crate) auth: Auth,
    pub(crate) query: &'static [Field],
    pub(crate) body: Body,
    pub(crate) run: fn(&mut MatrixState, &Params) -> ApiResult,
}

impl Route {
    pub(crate) const fn get(
        name: &'static str,
        path: &'static str,
        run: fn(&mut MatrixState, &Params) -> ApiResult,
    ) -> Self {
        Self {
            name,
            method: "GET",
            path,
            auth: Auth::Token,
            query: &[],
            body: Body::Nothing,
            run,
        }
    }

    pub(crate) const fn post(
        name: &'static str,
        path: &'static str,
        body: Body,
        run: fn(&mut MatrixState, &Params) -> ApiResult,
    ) -> Self {
        Self {
            method: "POST",
            body,
            ..Self::get(name, path, run)
        }
    }

    pub(crate) const fn put(
        name: &'static str,
        path: &'static str,
        body: Body,
        run: fn(&mut MatrixState, &Params) -> ApiResult,
    ) -> Self {
        Self {
            method: "PUT",
            body,
            ..Self::get(name, path, run)
        }
    }

    pub(crate) const fn open(self) -> Self {
        Self {
            auth: Auth::Nothing,
            ..self
        }
    }

    pub(crate) const fn with_query(self, query: &'static [Field]) -> Self {
        Self { query, ..self }
    }

    /// Returns the decoded variable segments if the path is of this route.
    fn matches(&self, path: &str) -> Option<Vec<String>> {
        let mut variables = Vec::new();
        let mut given = path.split('/');
        for expected in self.path.split('/') {
            let segment = given.next()?;
            if expected == "{}" {
                variables.push(decoded(segment)?);
            } else if expected != segment {
                return None;
            }
        }
        // A state key may be empty, with and without the slash before it.
        let is_whole = given.next().is_none();
        is_whole.then_some(variables)
    }
}

/// Undoes the percent-encoding of a segment; `None` if it is empty or no UTF-8.
fn decoded(segment: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?];
        let digits = std::str::from_utf8(&digits).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
    }
    String::from_utf8(bytes)
        .ok()
        .filter(|text| !text.is_empty())
}

/// Finds a call by its method and its path, as it was sent.
pub(crate) fn find(method: &str, path: &str) -> Option<(&'static Route, Vec<String>)> {
    let mut routes = crate::routes::ROUTES.iter();
    routes.find_map(|route| {
        let variables = (route.method == method).then(|| route.matches(path))??;
        Some((route, variables))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found_by_method_and_path() {
        let table = [
            ("GET", "/_matrix/client/v3/sync", Some(("sync", vec![]))),
            ("POST", "/_matrix/client/v3/sync", None),
            ("GET", "/_matrix/client/v3/sync/", None),
            (
                "PUT",
                "/_matrix/client/v3/rooms/%21a%3Ab/send/m.room.message/x%2Fy",
                Some(("send", vec!["!a:b", "m.room.message", "x/y"])),
            ),
            (
                "PUT",
                "/_matrix/client/v3/rooms//send/m.room.message/x",
                None,
            ),
            (
                "PUT",
                "/_matrix/client/v3/rooms/%2/send/m.room.message/x",
                None,
            ),
            (
                "PUT",
                "/_matrix/client/v3/rooms/%ff/send/m.room.message/x",
                None,
            ),
            ("GET", "/_matrix/client/r0/sync", None),
        ];
        for (method, path, expected) in table {
            let found = find(method, path).map(|(route, variables)| (route.name, variables));
            let expected =
                expected.map(|(name, all)| (name, all.into_iter().map(str::to_owned).collect()));
            assert_eq!(found, expected, "{path}");
        }
    }
}
