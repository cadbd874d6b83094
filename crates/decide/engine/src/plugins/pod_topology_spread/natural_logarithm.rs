//! A logarithm that is equal on all platforms.

/// The natural logarithm of a finite number of at least 1, with the algorithm of the FreeBSD math library that Go
/// uses. The function of the platform may differ in the last bit, and scores are rounded.
pub(super) fn natural_logarithm(x: f64) -> f64 {
    const LN2_HI: f64 = 6.931_471_803_691_238e-1;
    const LN2_LO: f64 = 1.908_214_929_270_587_7e-10;
    // Coefficients of the approximation by a polynomial in s².
    const L: [f64; 7] = [
        6.666_666_666_666_735e-1,
        3.999_999_999_940_942e-1,
        2.857_142_874_366_239e-1,
        2.222_219_843_214_978_4e-1,
        1.818_357_216_161_805e-1,
        1.531_383_769_920_937_3e-1,
        1.479_819_860_511_658_6e-1,
    ];
    // x = 2^k × (1 + f), with 1 + f between √½ and √2.
    let bits = x.to_bits();
    let mut k = ((bits >> 52) & 0x7ff) as i64 - 1022;
    let mut fraction = f64::from_bits((bits & !(0x7ff << 52)) | (1022 << 52));
    if fraction < std::f64::consts::SQRT_2 / 2.0 {
        fraction *= 2.0;
        k -= 1;
    }
    let f = fraction - 1.0;
    let k = k as f64;
    let s = f / (2.0 + f);
    let s2 = s * s;
    let s4 = s2 * s2;
    let t1 = s2 * (L[0] + s4 * (L[2] + s4 * (L[4] + s4 * L[6])));
    let t2 = s4 * (L[1] + s4 * (L[3] + s4 * L[5]));
    let r = t1 + t2;
    let half_square = 0.5 * f * f;
    k * LN2_HI - ((half_square - (s * (half_square + r) + k * LN2_LO)) - f)
}

#[cfg(test)]
mod tests {
    use super::natural_logarithm;

    #[test]
    fn natural_logarithm_is_right_to_the_last_bits() {
        for n in 1..100_000 {
            let (ours, platform) = (natural_logarithm(f64::from(n)), f64::from(n).ln());
            assert!((ours - platform).abs() <= platform.abs() * 2.3e-16, "{n}: {ours} {platform}");
        }
    }
}
