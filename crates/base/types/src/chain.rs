//! Error messages with their sources.

/// Formats an error and its sources in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        source = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct Layer(u32);

    impl fmt::Display for Layer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "layer {}", self.0)
        }
    }

    impl std::error::Error for Layer {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            match self.0 {
                0 => Some(&Self(1)),
                1 => Some(&Self(2)),
                _ => None,
            }
        }
    }

    #[test]
    fn chain_appends_the_sources_of_an_error() {
        assert_eq!(chain(&Layer(2)), "layer 2");
        assert_eq!(chain(&Layer(0)), "layer 0: layer 1: layer 2");
    }
}
