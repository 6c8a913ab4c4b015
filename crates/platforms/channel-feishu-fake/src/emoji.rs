//! Emoji types of reactions, a part of Feishu's list.

/// Returns `true` if Feishu knows the emoji type. Upper and lower case differ.
pub(crate) fn is_known(emoji_type: &str) -> bool {
    KNOWN
        .iter()
        .any(|line| line.split(' ').any(|name| name == emoji_type))
}

const KNOWN: &[&str] = &[
    "OK THUMBSUP THANKS MUSCLE FINGERHEART APPLAUSE FISTBUMP JIAYI DONE SMILE BLUSH LAUGH SMIRK",
    "LOL FACEPALM LOVE WINK PROUD WITTY SMART SCOWL THINKING SOB CRY ERROR NOSEPICK HAUGHTY SLAP",
    "SPITBLOOD TOASTED GLANCE DULL INNOCENTSMILE JOYFUL WOW TRICK YEAH ENOUGH TEARS EMBARRASSED",
    "KISS SMOOCH DROOL OBSESSED MONEY TEASE SHOWOFF COMFORT CLAP PRAISE STRIVE XBLUSH SILENT WAVE",
    "WHAT FROWN SHY DIZZY LOOKDOWN CHUCKLE WAIL CRAZY WHIMPER HUG BLUBBER WRONGED HUSKY SHHH SMUG",
    "ANGRY HAMMER SHOCKED TERROR PETRIFIED SKULL SWEAT SPEECHLESS SLEEP DROWSY YAWN SICK PUKE",
    "BETRAYED HEADSET EatingFood MeMeMe Sigh Typing Lemon Get LGTM OnIt OneSecond VRHeadset",
    "YouAreTheBest SALUTE SHAKE HIGHFIVE UPPERLEFT ThumbsDown SLIGHT TONGUE EYESCLOSED RoarForYou",
    "CALF BEAR BULL RAINBOWPUKE ROSE HEART PARTY LIPS BEER CAKE GIFT CUCUMBER Drumstick Pepper",
    "CANDIEDHAWS BubbleTea Coffee Yes No OKR CheckMark CrossMark MinusOne Hundred AWESOMEN Pin",
    "Alarm Loudspeaker Trophy Fire BOMB Music XmasTree Snowman XmasHat FIREWORKS REDPACKET FORTUNE",
    "LUCK FIRECRACKER StickyRiceBalls HEARTBROKEN POOP CLEAVER Soccer Basketball TV Movie Pumpkin",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_case_sensitive() {
        assert!(is_known("THUMBSUP") && is_known("OnIt"));
        assert!(!is_known("thumbsup") && !is_known("") && !is_known("OK THUMBSUP"));
    }
}
