//! SplitMix64: pseudo-random numbers for tests, simulations and benchmarks. They depend on the seed alone and are the same
//! on every machine.

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The sequence of numbers that a seed determines.
#[derive(Clone, Copy, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> SplitMix64 {
        SplitMix64(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GAMMA);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The number at this position of the sequence of a seed, from 0.
    pub fn nth(seed: u64, i: u64) -> u64 {
        SplitMix64(seed.wrapping_add(i.wrapping_mul(GAMMA))).draw()
    }
}

#[cfg(test)]
mod tests {
    use super::SplitMix64;

    #[test]
    fn the_sequence_of_a_seed_never_changes() {
        // The first numbers of the reference implementation for the seed 1234567.
        let expected = [6457827717110365317, 3203168211198807973, 9817491932198370423];
        let mut sequence = SplitMix64::new(1_234_567);
        assert_eq!(expected.map(|_| sequence.draw()), expected);
        assert_eq!([0, 1, 2].map(|i| SplitMix64::nth(1_234_567, i)), expected);
    }
}
