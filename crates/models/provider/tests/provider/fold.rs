//! An answer folds to the same response, however it is split into events.

use nanobot_provider::{Fold, Folded, StreamEvent};
use nanobot_types::{FinishReason, Map};
use proptest::prelude::*;

/// Splits the text at the given characters.
fn pieces(text: &str, cuts: &[usize]) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (chars.len() + 1)).collect();
    cuts.extend([0, chars.len()]);
    cuts.sort_unstable();
    cuts.windows(2)
        .map(|pair| chars[pair[0]..pair[1]].iter().collect())
        .collect()
}

fn events(text: &str, calls: &[(String, String)], cuts: &[usize]) -> Vec<StreamEvent> {
    let mut events: Vec<StreamEvent> = pieces(text, cuts)
        .into_iter()
        .map(StreamEvent::Text)
        .collect();
    events.extend(pieces(text, cuts).into_iter().map(StreamEvent::Reasoning));
    for (index, (name, arguments)) in calls.iter().enumerate() {
        for (position, piece) in pieces(arguments, cuts).into_iter().enumerate() {
            events.push(StreamEvent::ToolCall {
                index,
                id: (position == 0).then(|| format!("call{index}")),
                name: (position == 0).then(|| name.clone()),
                arguments: piece,
                extra: Map::new(),
                function_extra: Map::new(),
            });
        }
    }
    events.push(StreamEvent::Finished(FinishReason::Stop));
    events
}

fn fold(events: Vec<StreamEvent>) -> Folded {
    let mut fold = Fold::new();
    for event in events {
        fold.push(event);
    }
    fold.finish()
}

proptest! {
    #[test]
    fn chunking_does_not_change_the_response(
        text in "\\PC{0,20}",
        calls in proptest::collection::vec(("[a-z_.]{0,8}", "[{}\\[\\]\"':,a1\\\\ 你]{0,16}"), 0..4),
        cuts in proptest::collection::vec(0_usize..64, 0..12),
    ) {
        prop_assert_eq!(fold(events(&text, &calls, &cuts)), fold(events(&text, &calls, &[])));
    }

    #[test]
    fn call_arguments_are_always_a_json_object(arguments in "[{}\\[\\]\"':,a1\\\\ 你]{0,24}") {
        let Folded::Whole(response) = fold(events("", &[("x".to_owned(), arguments)], &[])) else {
            return Err(TestCaseError::fail("cut"));
        };
        prop_assert!(serde_json::from_str::<Map>(&response.tool_calls[0].arguments).is_ok());
    }
}
