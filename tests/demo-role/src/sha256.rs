// SPDX-License-Identifier: BSD-2-Clause
//! SHA-256 (FIPS 180-4), as plain as it gets: honest work for a processor.

pub type Hash = [u8; 32];

/// First 32 bits of the fractional parts of the roots of the first primes.
fn constants<const N: usize>(root: impl Fn(f64) -> f64) -> [u32; N] {
    let mut out = [0; N];
    let mut found = 0;
    let mut n = 2u32;
    while found < N {
        if (2..n).take_while(|d| d * d <= n).all(|d| n % d != 0) {
            out[found] = (root(f64::from(n)).fract() * 4294967296.0) as u32;
            found += 1;
        }
        n += 1;
    }
    out
}

fn compress(state: &mut [u32; 8], block: &[u8], k: &[u32; 64]) {
    let mut w = [0u32; 64];
    for (i, word) in block.chunks_exact(4).enumerate() {
        w[i] = u32::from_be_bytes([word[0], word[1], word[2], word[3]]);
    }
    for i in 16..64 {
        let (x, y) = (w[i - 15], w[i - 2]);
        let s0 = x.rotate_right(7) ^ x.rotate_right(18) ^ (x >> 3);
        let s1 = y.rotate_right(17) ^ y.rotate_right(19) ^ (y >> 10);
        w[i] = w[i - 16]
            .wrapping_add(s0)
            .wrapping_add(w[i - 7])
            .wrapping_add(s1);
    }
    let mut v = *state;
    for i in 0..64 {
        let s1 = v[4].rotate_right(6) ^ v[4].rotate_right(11) ^ v[4].rotate_right(25);
        let ch = (v[4] & v[5]) ^ (!v[4] & v[6]);
        let t1 = v[7]
            .wrapping_add(s1)
            .wrapping_add(ch)
            .wrapping_add(k[i])
            .wrapping_add(w[i]);
        let s0 = v[0].rotate_right(2) ^ v[0].rotate_right(13) ^ v[0].rotate_right(22);
        let maj = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        v.rotate_right(1);
        v[4] = v[4].wrapping_add(t1);
        v[0] = t1.wrapping_add(s0).wrapping_add(maj);
    }
    for (s, x) in state.iter_mut().zip(v) {
        *s = s.wrapping_add(x);
    }
}

pub fn digest(data: &[u8]) -> Hash {
    use std::sync::OnceLock;
    static K: OnceLock<([u32; 8], [u32; 64])> = OnceLock::new();
    let (init, k) = K.get_or_init(|| (constants(f64::sqrt), constants(f64::cbrt)));
    let mut state = *init;
    let mut padded = data.to_vec();
    padded.push(0x80);
    padded.resize((data.len() + 9).div_ceil(64) * 64 - 8, 0);
    padded.extend((data.len() as u64 * 8).to_be_bytes());
    padded
        .chunks_exact(64)
        .for_each(|block| compress(&mut state, block, k));
    let mut out = [0; 32];
    for (bytes, word) in out.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    out
}

/// Bitcoin's hash: twice.
pub fn digest2(data: &[u8]) -> Hash {
    digest(&digest(data))
}

#[cfg(test)]
mod tests {
    #[test]
    fn abc() {
        let hex: String = super::digest(b"abc")
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        assert_eq!(
            hex,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
