//! The colours of plots.

use std::fmt::Write;

use plotters::prelude::RGBColor;

/// A colour on a white background, and its counterpart on a dark one.
pub(super) struct Tone(pub(super) RGBColor, pub(super) RGBColor);

/// Colours of what is not data: text, lesser text, axes, grid, the background of marked times.
pub(super) const INK: Tone = Tone(RGBColor(0x1b, 0x1f, 0x24), RGBColor(0xe8, 0xea, 0xed));
pub(super) const MUTED: Tone = Tone(RGBColor(0x55, 0x5e, 0x68), RGBColor(0xad, 0xb5, 0xbd));
pub(super) const AXIS: Tone = Tone(RGBColor(0x8b, 0x94, 0x9e), RGBColor(0x76, 0x7f, 0x88));
pub(super) const GRID: Tone = Tone(RGBColor(0xe2, 0xe5, 0xe9), RGBColor(0x33, 0x39, 0x40));
pub(super) const GROUND: Tone = Tone(RGBColor(0xf0, 0xf2, 0xf4), RGBColor(0x24, 0x29, 0x2f));
/// Idle with I/O in progress: nearly the colour of idle, but visible.
pub(super) const PALE: Tone = Tone(RGBColor(0xc8, 0xdc, 0xea), RGBColor(0x2d, 0x43, 0x54));

/// Colours of data, after Okabe and Ito (2008), which people with colour blindness can tell apart.
/// A colour whose contrast with white was below three is darker here than in their paper.
pub(super) const TONES: [Tone; 7] = [
    Tone(RGBColor(0x33, 0x36, 0x3a), RGBColor(0xd9, 0xdc, 0xe0)),
    Tone(RGBColor(0x00, 0x72, 0xb2), RGBColor(0x56, 0xb4, 0xe9)),
    Tone(RGBColor(0xd5, 0x5e, 0x00), RGBColor(0xf5, 0x87, 0x45)),
    Tone(RGBColor(0xb0, 0x7d, 0x00), RGBColor(0xf0, 0xc0, 0x4a)),
    Tone(RGBColor(0x00, 0x8f, 0x68), RGBColor(0x33, 0xc7, 0x9b)),
    Tone(RGBColor(0x98, 0x4b, 0x94), RGBColor(0xdb, 0x95, 0xd6)),
    Tone(RGBColor(0x74, 0x7a, 0x80), RGBColor(0x9d, 0xa5, 0xad)),
];

/// Number of colours of data; a tone is an index below it.
pub const TONE_COUNT: usize = TONES.len();

/// The colour of a tone; higher numbers start over from the first.
pub(super) fn tone(number: usize) -> RGBColor {
    TONES[number % TONES.len()].0
}

/// Style rules that change every colour into its counterpart for dark surroundings.
pub fn dark() -> String {
    let mut rules = String::new();
    let hex = |colour: &RGBColor| format!("#{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2);
    for Tone(light, dark) in [INK, MUTED, AXIS, GRID, GROUND, PALE].iter().chain(&TONES) {
        let (light, dark) = (hex(light), hex(dark));
        for property in ["fill", "stroke"] {
            // Writing to a string cannot fail.
            let _ = write!(rules, "[{property}=\"{light}\"]{{{property}:{dark}}}");
        }
    }
    rules
}
