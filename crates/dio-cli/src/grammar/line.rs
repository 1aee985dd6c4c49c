//! A command line while it is parsed.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;

/// The rest of a command line that has not been parsed.
#[derive(Debug, Default)]
pub(crate) struct Line {
    words: VecDeque<OsString>,
    /// The remaining letters of the current word, if it consists of short options.
    letters: VecDeque<u8>,
    number: usize,
}

impl Line {
    /// Creates a line of all words behind the name of the tool.
    pub(crate) fn new(words: impl IntoIterator<Item = OsString>) -> Line {
        Line { words: words.into_iter().collect(), ..Line::default() }
    }

    /// Returns the number of the current word, from 1.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Takes the next word.
    pub(crate) fn next_word(&mut self) -> Option<OsString> {
        self.next_if(|_| true)
    }

    /// Takes the next word if `is` accepts it.
    pub(crate) fn next_if(&mut self, is: impl FnOnce(&OsStr) -> bool) -> Option<OsString> {
        is(self.words.front()?).then(|| self.number += 1)?;
        self.words.pop_front()
    }

    /// Puts back the word that was taken last.
    pub(crate) fn put_back(&mut self, word: OsString) {
        self.number -= 1;
        self.words.push_front(word);
    }

    /// Returns the letters behind the current one.
    pub(crate) fn letters(&mut self) -> &[u8] {
        self.letters.make_contiguous()
    }

    /// Takes the next `count` of these letters.
    pub(crate) fn take_letters(&mut self, count: usize) -> Vec<u8> {
        self.letters.drain(..count).collect()
    }

    /// Sets the letters of the current word.
    pub(super) fn set_letters(&mut self, letters: &[u8]) {
        self.letters = letters.iter().copied().collect();
    }

    /// Takes the first `count` letters as an attached value; `None` if `count` is 0.
    pub(super) fn attached(&mut self, count: usize) -> Option<OsString> {
        (count > 0).then(|| OsString::from_vec(self.take_letters(count)))
    }
}
