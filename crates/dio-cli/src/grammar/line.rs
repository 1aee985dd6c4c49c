//! A command line while it is read.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;

/// What of a command line has not been read yet.
#[derive(Debug, Default)]
pub(crate) struct Line {
    words: VecDeque<OsString>,
    /// The letters of the word that is being read, which is one of short options.
    letters: VecDeque<u8>,
    number: usize,
}

impl Line {
    /// All words behind the name of the tool.
    pub(crate) fn new(words: impl IntoIterator<Item = OsString>) -> Line {
        Line { words: words.into_iter().collect(), ..Line::default() }
    }

    /// The number of the word that is being read, from 1.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Takes the next word.
    pub(crate) fn next_word(&mut self) -> Option<OsString> {
        self.next_if(|_| true)
    }

    /// Takes the next word if it is one of those.
    pub(crate) fn next_if(&mut self, is: impl FnOnce(&OsStr) -> bool) -> Option<OsString> {
        is(self.words.front()?).then(|| self.number += 1)?;
        self.words.pop_front()
    }

    /// Gives the word back that was taken last.
    pub(crate) fn put_back(&mut self, word: OsString) {
        self.number -= 1;
        self.words.push_front(word);
    }

    /// The letters behind the one that is being read.
    pub(crate) fn letters(&mut self) -> &[u8] {
        self.letters.make_contiguous()
    }

    /// Takes that many letters of them.
    pub(crate) fn take_letters(&mut self, count: usize) -> Vec<u8> {
        self.letters.drain(..count).collect()
    }

    /// Sets the letters of the word that is being read.
    pub(super) fn set_letters(&mut self, letters: &[u8]) {
        self.letters = letters.iter().copied().collect();
    }

    /// Takes a value that stands among the letters: the first `count`; `None` for none.
    pub(super) fn attached(&mut self, count: usize) -> Option<OsString> {
        (count > 0).then(|| OsString::from_vec(self.take_letters(count)))
    }
}
