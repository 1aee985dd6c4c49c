//! Names of the kernel's functions (`/proc/kallsyms`, `proc_kallsyms(5)`).

use std::io;

/// The kernel's functions by address.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    /// Start address and name, ordered by address.
    functions: Vec<(u64, Box<str>)>,
}

impl Symbols {
    /// Reads the table.
    ///
    /// # Errors
    /// When there is no table, or when its addresses are hidden (`kptr_restrict` of
    /// `proc_sys_kernel(5)`).
    pub(super) fn read() -> io::Result<Symbols> {
        let symbols = Symbols::parse(&std::fs::read_to_string("/proc/kallsyms")?);
        if symbols.functions.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "the addresses in /proc/kallsyms are hidden",
            ));
        }
        Ok(symbols)
    }

    /// Parses lines of `address type name [module]`; functions are of type t or w.
    fn parse(text: &str) -> Symbols {
        let function = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let address =
                u64::from_str_radix(words.next()?, 16).ok().filter(|address| *address != 0)?;
            words.next().filter(|kind| matches!(*kind, "t" | "T" | "w" | "W"))?;
            Some((address, Box::from(words.next()?)))
        };
        let mut functions: Vec<(u64, Box<str>)> = text.lines().filter_map(function).collect();
        functions.sort_by_key(|(address, _)| *address);
        Symbols { functions }
    }

    /// The name of the function that contains an address, without the suffix that the compiler adds
    /// after a dot.
    pub(super) fn name(&self, address: u64) -> Option<&str> {
        let behind = self.functions.partition_point(|(begin, _)| *begin <= address);
        let (_, name) = self.functions.get(behind.checked_sub(1)?)?;
        Some(name.split('.').next().unwrap_or(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_the_function_that_begins_before_it() {
        let text = "ffffffff81000100 t down_write\nffffffff81000200 D data\nffffffff81000180 T \
                    vfs_write\nffffffffc0000000 t ext4_da_write.isra.0\t[ext4]\n0000000000000000 t \
                    hidden\n";
        let symbols = Symbols::parse(text);
        assert_eq!(symbols.name(0xffff_ffff_8100_00ff), None);
        assert_eq!(symbols.name(0xffff_ffff_8100_0100), Some("down_write"));
        assert_eq!(symbols.name(0xffff_ffff_8100_0210), Some("vfs_write"));
        assert_eq!(symbols.name(0xffff_ffff_c000_0007), Some("ext4_da_write"));
    }
}
