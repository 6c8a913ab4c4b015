//! Decides which turns are suspects, from the notes of a process that died.

use std::collections::{BTreeMap, BTreeSet};

use nanobot_types::TraceId;

use super::{Suspicion, TurnStep};

/// Returns the suspicions after a crash. `under_way` are the steps under way, and `before` the
/// suspicions that the dead process knew.
pub(super) fn of(
    under_way: &BTreeMap<TraceId, TurnStep>,
    before: &BTreeMap<TraceId, Suspicion>,
) -> BTreeMap<TraceId, Suspicion> {
    let mut after = before.clone();
    for turn in under_way.keys() {
        let suspicion = after.entry(turn.clone()).or_default();
        suspicion.seen = suspicion.seen.saturating_add(1);
    }
    let suspects = suspects(under_way, before);
    // If exactly one of them was a suspect before, it ran without any other known suspect and is
    // blamed.
    let known = suspects
        .iter()
        .filter(|turn| before.get(*turn).is_some_and(|known| known.suspect))
        .count();
    for turn in &suspects {
        let is_known = before.get(turn).is_some_and(|known| known.suspect);
        if let Some(suspicion) = after.get_mut(turn) {
            suspicion.owed |= suspects.len() == 1 || (known == 1 && is_known);
            suspicion.suspect = true;
        }
    }
    after
}

/// Returns the turns that were working rather than waiting for a model; if there are none, all that
/// waited.
fn suspects(
    under_way: &BTreeMap<TraceId, TurnStep>,
    before: &BTreeMap<TraceId, Suspicion>,
) -> BTreeSet<TraceId> {
    let is_again = |turn: &TraceId| before.get(turn).is_some_and(|known| known.seen > 0);
    let at_work: BTreeSet<_> = under_way
        .iter()
        .filter(|(turn, step)| **step != TurnStep::Model || is_again(turn))
        .map(|(turn, _)| turn.clone())
        .collect();
    if at_work.is_empty() {
        under_way.keys().cloned().collect()
    } else {
        at_work
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crash(
        before: &BTreeMap<TraceId, Suspicion>,
        steps: &[(&str, TurnStep)],
    ) -> (BTreeMap<TraceId, Suspicion>, Vec<String>, Vec<String>) {
        let under_way = steps
            .iter()
            .map(|(turn, step)| (TraceId::from(*turn), *step))
            .collect();
        let mut after = of(&under_way, before);
        let names = |wanted: fn(&Suspicion) -> bool| {
            after
                .iter()
                .filter(|(_, known)| wanted(known))
                .map(|(turn, _)| turn.to_string())
                .collect::<Vec<_>>()
        };
        let (suspects, blamed) = (names(|known| known.suspect), names(|known| known.owed));
        after.values_mut().for_each(|known| known.owed = false);
        (after, suspects, blamed)
    }

    #[test]
    fn blames_the_running_turn_not_those_waiting_for_a_model() {
        let steps = [
            ("a", TurnStep::Model),
            ("b", TurnStep::Tools),
            ("c", TurnStep::Model),
        ];
        let (_, suspects, blamed) = crash(&BTreeMap::new(), &steps);
        assert_eq!(
            (suspects, blamed),
            (vec!["b".to_owned()], vec!["b".to_owned()])
        );
    }

    #[test]
    fn several_turns_are_suspects_until_one_crashes_alone() {
        let (known, suspects, blamed) = crash(
            &BTreeMap::new(),
            &[("a", TurnStep::Tools), ("b", TurnStep::Answer)],
        );
        assert_eq!(suspects, ["a", "b"]);
        assert!(blamed.is_empty(), "{blamed:?}");
        let (known, suspects, blamed) = crash(&known, &[("b", TurnStep::Tools)]);
        assert_eq!(suspects, ["a", "b"], "the other suspect has not run");
        assert_eq!(blamed, ["b"]);
        let (_, suspects, blamed) =
            crash(&known, &[("a", TurnStep::Tools), ("new", TurnStep::Tools)]);
        assert_eq!(suspects, ["a", "b", "new"]);
        assert_eq!(blamed, ["a"], "a known suspect, not the new turn");
    }

    #[test]
    fn finds_a_crashing_model_call_next_to_running_tools() {
        let steps = [("killer", TurnStep::Model), ("tool", TurnStep::Tools)];
        let (known, suspects, blamed) = crash(&BTreeMap::new(), &steps);
        assert_eq!(
            (suspects, blamed),
            (vec!["tool".to_owned()], vec!["tool".to_owned()])
        );
        let (known, suspects, _) = crash(&known, &steps);
        assert_eq!(suspects, ["killer", "tool"], "both ran in two crashes");
        let (_, _, blamed) = crash(&known, &[("killer", TurnStep::Model)]);
        assert_eq!(blamed, ["killer"]);
    }

    #[test]
    fn all_turns_are_suspects_if_all_waited_for_models() {
        let (_, suspects, blamed) = crash(
            &BTreeMap::new(),
            &[("a", TurnStep::Model), ("b", TurnStep::Model)],
        );
        assert_eq!(suspects, ["a", "b"]);
        assert!(blamed.is_empty(), "{blamed:?}");
        let (_, _, blamed) = crash(&BTreeMap::new(), &[("a", TurnStep::Model)]);
        assert_eq!(blamed, ["a"]);
    }
}
