//! mulberry32, the generator the dataset is defined by.
//!
//! Its state only ever moves by a constant, so any draw can be reached directly: [`Random::skip`]
//! costs one multiplication however far it goes. That is what lets the dataset be streamed in
//! constant memory although its definition draws everything from one stream in several passes.

const STEP: u32 = 0x6D2B_79F5;

#[derive(Clone, Debug)]
pub struct Random {
    state: u32,
}

impl Random {
    pub fn new(seed: u32) -> Self {
        Self { state: seed }
    }

    /// Uniform in [0, 1), a multiple of 2^-32.
    pub fn next(&mut self) -> f64 {
        self.state = self.state.wrapping_add(STEP);
        let a = self.state;
        let mut t = (a ^ (a >> 15)).wrapping_mul(a | 1);
        t ^= t.wrapping_add((t ^ (t >> 7)).wrapping_mul(t | 61));
        f64::from(t ^ (t >> 14)) / 4_294_967_296.0
    }

    /// Passes over `draws` draws without making them.
    pub fn skip(&mut self, draws: u64) {
        // The state has period 2^32, so the number of draws matters only modulo 2^32.
        self.state = self.state.wrapping_add(STEP.wrapping_mul(draws as u32));
    }

    /// Uniform in `lo..=hi`.
    pub fn integer(&mut self, lo: u32, hi: u32) -> u32 {
        debug_assert!(lo <= hi);
        lo + (self.next() * f64::from(hi - lo + 1)) as u32
    }

    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[(self.next() * list.len() as f64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_draws_of_seed_42_are_those_of_the_reference() {
        let mut random = Random::new(42);
        let drawn = [random.next(), random.next(), random.next()];
        assert_eq!(
            drawn,
            [0.6011037519201636, 0.44829055899754167, 0.8524657934904099]
        );
    }

    #[test]
    fn skipping_lands_where_drawing_does() {
        let mut drawn = Random::new(42);
        for _ in 0..1000 {
            drawn.next();
        }
        let mut skipped = Random::new(42);
        skipped.skip(1000);
        assert_eq!(skipped.next(), drawn.next());
    }
}
