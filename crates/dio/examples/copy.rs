//! Copies one file: `cargo run --release -p dio --example copy -- SOURCE TARGET [BLOCK_KIB] [DEPTH]`.

use dio::transfer::{Copier, Job, NoWatch, data_ranges};
use dio::{File, Io, OpenOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (source, target) = (args.next().ok_or("no source")?, args.next().ok_or("no target")?);
    let block: usize = args.next().map_or(Ok(1024), |kib| kib.parse())?;
    let depth = args.next().map_or(Ok(16), |depth| depth.parse())?;
    let source = File::open(source)?;
    let target = OpenOptions::new().write(true).create(true).truncate(true).open(target)?;
    let size = source.size()?;
    target.allocate(0..size, true)?;
    let mut copier = Copier::new(&Io::shared()?, block << 10, depth)?;
    let ranges = data_ranges(&source, size)?;
    copier.run(
        &Job { source: &source, target: Some(&target), ranges: &ranges, pace: None, skip_zeros: false },
        &mut NoWatch,
    )?;
    target.sync_all()?;
    println!("{:?}\n{:?}", source.counters(), target.counters());
    Ok(())
}
