//! Seeded random numbers: the same tree and the same order of reads every time.

/// SplitMix64 (Steele, Lea, Flood 2014).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in 0…`bound`, exclusive.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Uniform in 0…1, never 0.
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 1.0) / (1u64 << 53) as f64
    }

    /// Log-normal with the given median and sigma of the logarithm, drawn again until within `min..=max`.
    pub(crate) fn log_normal(&mut self, median: f64, sigma: f64, min: u64, max: u64) -> u64 {
        loop {
            // Box and Muller's transform gives one normal value from two uniform ones.
            let normal = (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos();
            let value = (median.ln() + sigma * normal).exp() as u64;
            if (min..=max).contains(&value) {
                return value;
            }
        }
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn log_normal_keeps_its_bounds_and_median() {
        let mut random = Random::new(1);
        let mut sizes: Vec<u64> = (0..20_000).map(|_| random.log_normal(4096.0, 1.0, 100, 65536)).collect();
        sizes.sort_unstable();
        assert!(sizes[0] >= 100 && sizes[sizes.len() - 1] <= 65536);
        let median = sizes[sizes.len() / 2];
        assert!((3800..4400).contains(&median), "{median}");
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes() {
        let (mut a, mut b) = ([0; 13], [0; 13]);
        Random::new(7).fill(&mut a);
        Random::new(7).fill(&mut b);
        assert_eq!(a, b);
        assert!((0..1000).all(|s| Random::new(s).below(10) < 10));
    }
}
