//! A harness' declarations in one list.

/// Declares, within `impl ChannelHarness`, what a harness can do: a name alone is an
/// [`Ability`](crate::conformance::Ability) that the harness has itself, a name with a text one that
/// is missing for this reason.
#[macro_export]
macro_rules! abilities {
    (@declared $name:ident $ability:ident) => {
        fn $name(&mut self) -> $crate::conformance::Ability<'_, dyn $crate::conformance::$ability> {
            $crate::conformance::Ability::Offered(self)
        }
    };
    (@declared $name:ident $ability:ident $reason:literal) => {
        fn $name(&mut self) -> $crate::conformance::Ability<'_, dyn $crate::conformance::$ability> {
            $crate::conformance::Ability::Missing($reason)
        }
    };
    (@redelivery $($reason:literal)?) => { $crate::abilities! { @declared redelivery Redelivery $($reason)? } };
    (@rooms $($reason:literal)?) => { $crate::abilities! { @declared rooms Rooms $($reason)? } };
    (@pairing $($reason:literal)?) => { $crate::abilities! { @declared pairing Pairing $($reason)? } };
    (@incoming_files $($reason:literal)?) => { $crate::abilities! { @declared incoming_files IncomingFiles $($reason)? } };
    (@outgoing_files $($reason:literal)?) => { $crate::abilities! { @declared outgoing_files OutgoingFiles $($reason)? } };
    (@send_faults $($reason:literal)?) => { $crate::abilities! { @declared send_faults SendFaults $($reason)? } };
    (@transport $($reason:literal)?) => { $crate::abilities! { @declared transport Transport $($reason)? } };
    (@pulse $($reason:literal)?) => { $crate::abilities! { @declared pulse Pulse $($reason)? } };
    (@draft_view $($reason:literal)?) => { $crate::abilities! { @declared draft_view DraftView $($reason)? } };
    (@oddities $($reason:literal)?) => { $crate::abilities! { @declared oddities Oddities $($reason)? } };
    (@credentials $($reason:literal)?) => { $crate::abilities! { @declared credentials Credentials $($reason)? } };
    (@rivals $($reason:literal)?) => { $crate::abilities! { @declared rivals Rivals $($reason)? } };
    ($($name:ident $(: $reason:literal)?),+ $(,)?) => {
        $($crate::abilities! { @$name $($reason)? })+
    };
}
