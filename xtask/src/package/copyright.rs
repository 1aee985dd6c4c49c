//! The copyright file of a package, in Debian's machine-readable form: dio's own licences, and
//! those of everything that is linked into its program.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::metadata::{self, Crate};
use crate::Error;
use crate::deny;
use crate::tool::root;

/// Who answers for the packages.
pub(super) const MAINTAINER: &str = "The dio authors <dio-linux@users.noreply.github.com>";

const SOURCE: &str = "https://github.com/dio-linux/dio";

/// Where Debian has the text of this licence, which packages do not repeat.
const APACHE: &str = " On Debian systems, the text of the Apache License, Version 2.0, is in\n \
                      /usr/share/common-licenses/Apache-2.0.\n";

/// Licences of which one is taken where a crate leaves the choice, the first that fits; with
/// Debian's name of it, and words by which its text is found among the files of a crate.
const TAKEN: &[(&str, &str, &str)] = &[
    ("Apache-2.0", "Apache-2.0", ""),
    ("MIT", "Expat", "Permission is hereby granted, free of charge"),
    ("BSD-3-Clause", "BSD-3-Clause", "Redistribution and use in source and binary forms"),
    ("BSL-1.0", "BSL-1.0", "Boost Software License"),
    ("Zlib", "Zlib", "This software is provided 'as-is'"),
];

/// Returns the file for a program, which is built of `package` with these arguments of cargo.
pub(super) fn text(package: &str, features: &[&str]) -> Result<String, Error> {
    let mut out = format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: dio\nSource: {SOURCE}\n\
         Comment: The files below vendor are those of other projects that are linked into the\n \
         program. Where such a project offers several licences, one is named here.\n\n"
    );
    let own = fs::read_to_string(root().join("LICENSE-MIT"))?;
    paragraph(&mut out, "*", &holders(&own), "Apache-2.0 or Expat", "");
    let rust = ["The Rust Project contributors".to_owned()].into();
    paragraph(&mut out, "vendor/rust-standard-library/*", &rust, "Apache-2.0", "");
    for found in metadata::linked(package, features)?.iter().filter(|found| found.is_foreign) {
        of_crate(&mut out, found)?;
        for (_, _, ours) in deny::LINKED.iter().filter(|(name, _, _)| *name == found.name) {
            let text = fs::read_to_string(root().join(ours))?;
            let name = Path::new(ours).file_stem().unwrap_or_default().to_string_lossy();
            let files = format!("vendor/{}-{}/{name}/*", found.name, found.version);
            let license = if text.contains("Redistribution") { "BSD-3-Clause" } else { "Expat" };
            paragraph(&mut out, &files, &holders(&text), license, &indented(&text));
        }
    }
    write!(out, "License: Apache-2.0\n{APACHE}\nLicense: Expat\n{}", indented(&own))?;
    Ok(out)
}

fn paragraph(out: &mut String, files: &str, holders: &BTreeSet<String>, license: &str, text: &str) {
    let holders: Vec<&str> = holders.iter().map(String::as_str).collect();
    let holders = holders.join("\n ");
    // Writing to a string cannot fail.
    let _ = writeln!(out, "Files: {files}\nCopyright: {holders}\nLicense: {license}\n{text}");
}

/// Appends the paragraph of a crate.
fn of_crate(out: &mut String, found: &Crate) -> Result<(), Error> {
    let files = license_files(&found.directory)?;
    let all = files.join("\n");
    let mut holders = holders(&all);
    if holders.is_empty() {
        holders.extend(found.authors.iter().cloned());
    }
    if holders.is_empty() {
        holders.insert(format!("The authors of {} ({})", found.name, found.repository));
    }
    let wrong = |what: &str| format!("{} {}: {}: {what}", found.name, found.version, found.license);
    let words: Vec<&str> = found.license.split(['/', ' ', '(', ')']).collect();
    if words.contains(&"AND") {
        return Err(wrong("licences that hold together are not described yet").into());
    }
    let (spdx, name, mark) = TAKEN
        .iter()
        .find(|(spdx, _, _)| words.contains(spdx))
        .ok_or_else(|| wrong("no licence that is described here"))?;
    let text = match *spdx {
        "Apache-2.0" => {
            let notices = files.iter().filter(|text| is_notice(text));
            notices.map(|text| indented(text)).collect()
        }
        _ => match files.iter().find(|text| text.contains(mark)) {
            Some(text) => indented(text),
            // The general text is the same; the holders are named above it.
            None if *spdx == "MIT" => String::new(),
            None => return Err(wrong("the crate has no text of it").into()),
        },
    };
    // Text below a name that has a text of its own at the end would be a contradiction.
    let name = if text.is_empty() { (*name).to_owned() } else { format!("{name}-{}", found.name) };
    let text = if *spdx == "Apache-2.0" && !text.is_empty() {
        format!("{APACHE} .\n{text}")
    } else {
        text
    };
    let files = format!("vendor/{}-{}/*", found.name, found.version);
    paragraph(out, &files, &holders, &name, &text);
    Ok(())
}

/// Whether a file is a notice in the sense of the Apache licence, which goes where a program goes.
fn is_notice(text: &str) -> bool {
    text.starts_with(NOTICE)
}

/// What [`license_files`] puts before a file with the name NOTICE.
const NOTICE: &str = "Notice:\n";

/// The contents of the files of a crate that are about its licence.
fn license_files(directory: &Path) -> Result<Vec<String>, Error> {
    let mut paths: Vec<_> = fs::read_dir(directory)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    paths.sort();
    let mut texts = Vec::new();
    for path in paths.iter().filter(|path| path.is_file()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if !["LICEN", "COPYING", "COPYRIGHT", "NOTICE"].iter().any(|word| name.starts_with(word)) {
            continue;
        }
        let text = String::from_utf8_lossy(&fs::read(path)?).into_owned();
        texts.push(if name.starts_with("NOTICE") { format!("{NOTICE}{text}") } else { text });
    }
    Ok(texts)
}

/// The holders of the copyright, with their years, as the lines of a licence name them.
fn holders(text: &str) -> BTreeSet<String> {
    let lines = text.lines().map(|line| line.trim().trim_start_matches("//").trim());
    let named = lines.filter_map(|line| line.strip_prefix("Copyright"));
    named
        .map(|rest| rest.trim_start_matches([' ', ':']))
        .map(|rest| {
            ["(c)", "(C)", "©"].iter().fold(rest, |rest, sign| rest.trim_start_matches(sign).trim())
        })
        // The sample in the appendix of the Apache licence, and sentences about copyright.
        .filter(|rest| !rest.starts_with(['[', '{']) && !rest.contains("<year>"))
        .filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c.is_uppercase()))
        .filter(|rest| !rest.starts_with("License"))
        .map(|rest| rest.trim_end_matches("All rights reserved.").trim().to_owned())
        .collect()
}

/// A text as the value of a field: each line behind a blank, a dot for an empty one.
fn indented(text: &str) -> String {
    let line = |line: &str| match line.trim_end() {
        "" => " .\n".to_owned(),
        line => format!(" {line}\n"),
    };
    text.trim_matches('\n').lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_are_found_and_samples_are_not() {
        let text = "MIT License\n\nCopyright (c) 2015 Andrew Gallant\n  Copyright © 2020, A, B\n\
                    Copyright [yyyy] [name of copyright owner]\nCopyright 2013-2024 The X\n\
                    Copyright notice and this permission notice\n// Copyright (C) 1999 C. All rights reserved.";
        let found: Vec<String> = holders(text).into_iter().collect();
        assert_eq!(found, ["1999 C.", "2013-2024 The X", "2015 Andrew Gallant", "2020, A, B"]);
    }

    #[test]
    fn every_linked_crate_has_a_paragraph_with_a_licence() {
        let text = text("dio-cli", &[]).unwrap();
        for name in ["plotters-0.", "zstd-sys-2", "zstd-sys-2", "memchr-2"] {
            assert!(text.contains(&format!("Files: vendor/{name}")), "{name}");
        }
        assert!(text.contains("/zstd/*\nCopyright: "), "the C code of zstd");
        for paragraph in text.split("\n\n").filter(|paragraph| paragraph.starts_with("Files: ")) {
            let holder = paragraph.lines().find_map(|line| line.strip_prefix("Copyright: "));
            assert!(holder.is_some_and(|holder| !holder.is_empty()), "{paragraph}");
            assert!(paragraph.contains("\nLicense: "), "{paragraph}");
        }
    }
}
