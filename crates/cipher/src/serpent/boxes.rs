//! The S-boxes of Serpent and their inverses as circuits of and, or, exclusive or and not, for as many blocks at once as a word has lanes.
//!
//! Found by a search of our own (a beam over straight-line programs, by how near the outputs are): 14 to 18 gates each. A test holds
//! each against its published table.

use super::Word;

/// Four bits of as many lanes: the lowest first.
type Nibbles<W> = [W; 4];

/// S-box number `N` of each lane.
#[inline(always)]
pub(super) fn substituted<W: Word, const N: usize>(x: Nibbles<W>) -> Nibbles<W> {
    match N {
        0 => s0(x),
        1 => s1(x),
        2 => s2(x),
        3 => s3(x),
        4 => s4(x),
        5 => s5(x),
        6 => s6(x),
        _ => s7(x),
    }
}

/// The inverse of S-box number `N` of each lane.
#[inline(always)]
pub(super) fn restored<W: Word, const N: usize>(x: Nibbles<W>) -> Nibbles<W> {
    match N {
        0 => inverse0(x),
        1 => inverse1(x),
        2 => inverse2(x),
        3 => inverse3(x),
        4 => inverse4(x),
        5 => inverse5(x),
        6 => inverse6(x),
        _ => inverse7(x),
    }
}

#[inline(always)]
fn s0<W: Word>([x0, x1, x2, x3]: Nibbles<W>) -> Nibbles<W> {
    let t4 = x3.or(x0);
    let t5 = x2.or(x1);
    let t6 = x3.xor(x1);
    let t7 = t6.xor(x0);
    let t8 = t7.and(t5);
    let t9 = x3.and_not(x2);
    let t10 = t5.xor(x3);
    let t11 = t10.or(t9);
    let t12 = t11.not();
    let t13 = t12.or(t8);
    let t14 = t7.and_not(x1);
    let t15 = t9.xor(t8);
    let t16 = t13.xor(x2);
    let t17 = t13.xor(x0);
    let t18 = t4.xor(x1);
    let t19 = t18.xor(x2);
    let t20 = t16.xor(t14);
    [t17, t20, t15, t19]
}

#[inline(always)]
fn s1<W: Word>([x0, x1, x2, x3]: Nibbles<W>) -> Nibbles<W> {
    let t4 = x1.not();
    let t5 = t4.or(x0);
    let t6 = t5.xor(x2);
    let t7 = t6.xor(x3);
    let t8 = x0.and_not(x2);
    let t9 = t7.or(t4);
    let t10 = t8.or(x3);
    let t11 = t10.xor(x1);
    let t12 = t9.and_not(t11);
    let t13 = t12.xor(x0);
    let t14 = t11.xor(t7);
    let t15 = t13.and_not(t14);
    let t16 = x3.and_not(t13);
    let t17 = t16.xor(t14);
    let t18 = t15.xor(t6);
    [t18, t17, t7, t13]
}

#[inline(always)]
fn s2<W: Word>([x0, x1, x2, x3]: Nibbles<W>) -> Nibbles<W> {
    let t4 = x2.or(x0);
    let t5 = t4.xor(x1);
    let t6 = t5.xor(x3);
    let t7 = t6.xor(x0);
    let t8 = t7.xor(x2);
    let t9 = x0.and_not(x3);
    let t10 = t8.and_not(x1);
    let t11 = t9.xor(t8);
    let t12 = t11.or(t5);
    let t13 = t10.xor(t6);
    let t14 = t13.not();
    let t15 = t12.xor(t4);
    let t16 = t12.xor(t10);
    let t17 = t15.xor(t9);
    [t7, t16, t17, t14]
}

#[inline(always)]
fn s3<W: Word>([x0, x1, x2, x3]: Nibbles<W>) -> Nibbles<W> {
    let t4 = x2.and_not(x3);
    let t5 = x1.and_not(x2);
    let t6 = t4.or(x0);
    let t7 = t6.xor(x1);
    let t8 = x3.and_not(x1);
    let t9 = t7.or(t5);
    let t10 = t7.and_not(t8);
    let t11 = t10.xor(x2);
    let t12 = t9.xor(x3);
    let t13 = t12.or(t7);
    let t14 = t12.xor(t11);
    let t15 = t13.xor(x0);
    let t16 = t15.and(t14);
    let t17 = t16.xor(t7);
    let t18 = t15.xor(t11);
    [t17, t11, t18, t12]
}

#[inline(always)]
fn s4<W: Word>([x0, x1, x2, x3]: Nibbles<W>) -> Nibbles<W> {
    let t4 = x0.and_not(x3);
    let t5 = t4.xor(x2);
    let t6 = x3.xor(x0);
    let t7 = t6.or(x1);
    let t8 = t7.xor(t5);
    let t9 = t7.xor(x0);
    let t10 = t6.xor(x1);
    let t11 = t9.or(t8);
    let t12 = t11.and_not(t10);
    let t13 = t12.xor(t5);
    let t14 = t13.xor(x3);
    let t15 = t8.not();
    let t16 = t8.or(x1);
    let t17 = t16.xor(t6);
    let t18 = t11.xor(t10);
    [t15, t14, t18, t17]
}

#[inline(always)]
fn s5<W: Word>([x0, x1, x2, x3]: Nibbles<W>) -> Nibbles<W> {
    let t4 = x1.and_not(x0);
    let t5 = x1.xor(x0);
    let t6 = t4.xor(x2);
    let t7 = x3.not();
    let t8 = t7.or(t5);
    let t9 = t8.xor(t6);
    let t10 = t6.xor(x0);
    let t11 = t10.and(t9);
    let t12 = t7.and_not(t6);
    let t13 = t12.xor(t5);
    let t14 = t13.and(t11);
    let t15 = t11.xor(t5);
    let t16 = t14.xor(t7);
    let t17 = t15.xor(t7);
    let t18 = t16.xor(t10);
    [t9, t13, t17, t18]
}

#[inline(always)]
fn s6<W: Word>([x0, x1, x2, x3]: Nibbles<W>) -> Nibbles<W> {
    let t4 = x3.and(x0);
    let t5 = t4.xor(x2);
    let t6 = t5.xor(x1);
    let t7 = t6.not();
    let t8 = x3.xor(x0);
    let t9 = x0.and_not(t5);
    let t10 = x1.and_not(t8);
    let t11 = t7.and_not(t10);
    let t12 = t11.or(t8);
    let t13 = t11.xor(x3);
    let t14 = t12.xor(t9);
    let t15 = t13.xor(t9);
    let t16 = t14.xor(x1);
    let t17 = t16.and_not(t15);
    let t18 = t17.xor(t5);
    [t15, t7, t16, t18]
}

#[inline(always)]
fn s7<W: Word>([x0, x1, x2, x3]: Nibbles<W>) -> Nibbles<W> {
    let t4 = x2.and_not(x1);
    let t5 = t4.xor(x3);
    let t6 = x0.and_not(t5);
    let t7 = x2.xor(x1);
    let t8 = t7.xor(x0);
    let t9 = t8.xor(t5);
    let t10 = t5.and_not(x1);
    let t11 = t10.xor(x2);
    let t12 = t11.or(t8);
    let t13 = t9.and_not(t6);
    let t14 = t13.not();
    let t15 = t14.xor(t6);
    let t16 = t9.and_not(t11);
    let t17 = t16.xor(t5);
    let t18 = t15.xor(t12);
    let t19 = t7.xor(t6);
    let t20 = t13.xor(x2);
    [t18, t20, t17, t19]
}

#[inline(always)]
fn inverse0<W: Word>([x0, x1, x2, x3]: Nibbles<W>) -> Nibbles<W> {
    let t4 = x1.or(x0);
    let t5 = t4.xor(x2);
    let t6 = x3.not();
    let t7 = t6.xor(t5);
    let t8 = t7.xor(x1);
    let t9 = x3.and_not(t5);
    let t10 = t8.xor(x0);
    let t11 = t6.and_not(t10);
    let t12 = t11.xor(x0);
    let t13 = t12.and(t5);
    let t14 = t13.xor(t10);
    let t15 = t11.or(t5);
    let t16 = x1.and_not(t10);
    let t17 = t16.xor(t15);
    let t18 = t14.xor(t12);
    let t19 = t18.xor(t9);
    [t19, t17, t7, t14]
}

#[inline(always)]
fn inverse1<W: Word>([x0, x1, x2, x3]: Nibbles<W>) -> Nibbles<W> {
    let t4 = x3.and_not(x1);
    let t5 = t4.xor(x0);
    let t6 = t5.xor(x2);
    let t7 = x2.xor(x1);
    let t8 = t7.xor(x3);
    let t9 = t5.or(x2);
    let t10 = t9.and(t8);
    let t11 = t8.not();
    let t12 = t10.or(t5);
    let t13 = t12.xor(x1);
    let t14 = t11.or(x3);
    let t15 = x1.and_not(t6);
    let t16 = t13.and(t6);
    let t17 = t16.xor(t11);
    let t18 = t15.xor(t10);
    let t19 = t14.xor(t12);
    [t17, t18, t19, t6]
}

#[inline(always)]
fn inverse2<W: Word>([x0, x1, x2, x3]: Nibbles<W>) -> Nibbles<W> {
    let t4 = x2.xor(x1);
    let t5 = t4.xor(x3);
    let t6 = x1.and_not(t5);
    let t7 = t6.xor(x0);
    let t8 = t7.xor(t4);
    let t9 = x3.and_not(t7);
    let t10 = t9.xor(x1);
    let t11 = t5.and_not(x2);
    let t12 = t11.not();
    let t13 = t10.and_not(t8);
    let t14 = t13.xor(t5);
    let t15 = t13.or(t12);
    let t16 = t14.xor(t12);
    let t17 = t16.xor(t7);
    let t18 = t15.xor(t10);
    [t8, t14, t17, t18]
}

#[inline(always)]
fn inverse3<W: Word>([x0, x1, x2, x3]: Nibbles<W>) -> Nibbles<W> {
    let t4 = x1.and_not(x2);
    let t5 = t4.xor(x0);
    let t6 = t5.or(x3);
    let t7 = x2.xor(x1);
    let t8 = t7.xor(x3);
    let t9 = t8.xor(t5);
    let t10 = t9.or(x1);
    let t11 = t10.xor(x2);
    let t12 = t11.and(t8);
    let t13 = t10.and_not(t5);
    let t14 = t6.and_not(t9);
    let t15 = t13.or(t12);
    let t16 = t14.xor(x1);
    let t17 = t7.xor(t6);
    let t18 = t12.xor(t9);
    [t17, t15, t16, t18]
}

#[inline(always)]
fn inverse4<W: Word>([x0, x1, x2, x3]: Nibbles<W>) -> Nibbles<W> {
    let t4 = x3.or(x2);
    let t5 = t4.and(x0);
    let t6 = t5.xor(x1);
    let t7 = t6.and(x0);
    let t8 = t7.xor(x2);
    let t9 = t8.xor(x3);
    let t10 = x3.xor(x0);
    let t11 = t9.not();
    let t12 = t11.or(t7);
    let t13 = t10.or(t6);
    let t14 = t11.and_not(t10);
    let t15 = t8.and_not(x3);
    let t16 = t14.xor(t6);
    let t17 = t15.xor(t6);
    let t18 = t13.xor(x3);
    let t19 = t18.xor(t12);
    [t16, t9, t19, t17]
}

#[inline(always)]
fn inverse5<W: Word>([x0, x1, x2, x3]: Nibbles<W>) -> Nibbles<W> {
    let t4 = x3.and(x1);
    let t5 = x0.and_not(t4);
    let t6 = x2.and_not(x1);
    let t7 = t6.xor(x3);
    let t8 = t5.xor(x2);
    let t9 = t8.xor(t7);
    let t10 = t9.xor(x1);
    let t11 = t7.and(x0);
    let t12 = t11.xor(t10);
    let t13 = t10.not();
    let t14 = t9.and_not(t12);
    let t15 = t13.or(x0);
    let t16 = t6.or(t5);
    let t17 = t15.xor(t7);
    let t18 = t16.xor(t14);
    [t9, t12, t18, t17]
}

#[inline(always)]
fn inverse6<W: Word>([x0, x1, x2, x3]: Nibbles<W>) -> Nibbles<W> {
    let t4 = x2.and_not(x0);
    let t5 = x3.not();
    let t6 = t5.xor(t4);
    let t7 = t6.xor(x1);
    let t8 = x2.and_not(x1);
    let t9 = t6.and_not(x1);
    let t10 = x2.xor(x0);
    let t11 = t10.and_not(t9);
    let t12 = t6.and_not(t11);
    let t13 = t12.xor(x0);
    let t14 = t11.xor(t7);
    let t15 = t7.and_not(t13);
    let t16 = t15.xor(x3);
    let t17 = t16.xor(t14);
    let t18 = t14.xor(t8);
    let t19 = t13.xor(t8);
    [t19, t7, t17, t18]
}

#[inline(always)]
fn inverse7<W: Word>([x0, x1, x2, x3]: Nibbles<W>) -> Nibbles<W> {
    let t4 = x1.and(x0);
    let t5 = x3.and_not(t4);
    let t6 = x3.or(x0);
    let t7 = t5.xor(x2);
    let t8 = x2.or(x1);
    let t9 = x0.not();
    let t10 = t7.and(t6);
    let t11 = t9.xor(t8);
    let t12 = t11.or(t10);
    let t13 = x1.xor(x0);
    let t14 = x3.and_not(t13);
    let t15 = t7.or(t4);
    let t16 = t12.xor(x3);
    let t17 = t8.and_not(t7);
    let t18 = t10.xor(x1);
    let t19 = t15.xor(t14);
    let t20 = t16.xor(x1);
    let t21 = t17.xor(t9);
    [t21, t20, t18, t19]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Biham, Anderson and Knudsen, "Serpent: A New Block Cipher Proposal", appendix A.
    const TABLES: [[u32; 16]; 8] = [
        [3, 8, 15, 1, 10, 6, 5, 11, 14, 13, 4, 2, 7, 0, 9, 12],
        [15, 12, 2, 7, 9, 0, 5, 10, 1, 11, 14, 8, 6, 13, 3, 4],
        [8, 6, 7, 9, 3, 12, 10, 15, 13, 1, 14, 4, 0, 11, 5, 2],
        [0, 15, 11, 8, 12, 9, 6, 3, 13, 1, 2, 4, 10, 7, 5, 14],
        [1, 15, 8, 3, 12, 0, 11, 6, 2, 5, 4, 10, 9, 14, 7, 13],
        [15, 5, 2, 11, 4, 10, 9, 12, 0, 3, 14, 8, 13, 6, 7, 1],
        [7, 2, 12, 5, 8, 4, 6, 11, 14, 9, 1, 15, 13, 3, 10, 0],
        [1, 13, 15, 0, 14, 8, 2, 11, 7, 4, 12, 10, 9, 3, 5, 6],
    ];

    /// A number in each of 16 lanes.
    fn lanes(numbers: [u32; 16]) -> [u32; 4] {
        core::array::from_fn(|bit| (0..16).map(|lane| (numbers[lane] >> bit & 1) << lane).sum())
    }

    fn check<const N: usize>() {
        let all = lanes(core::array::from_fn(|number| number as u32));
        let table = lanes(TABLES[N]);
        // What is above the 16 lanes is no lane's.
        let kept = |x: [u32; 4]| x.map(|word| word & 0xffff);
        assert_eq!(kept(substituted::<_, N>(all)), table, "S{N}");
        assert_eq!(kept(restored::<_, N>(table)), all, "the inverse of S{N}");
    }

    #[test]
    fn each_box_is_its_published_table() {
        check::<0>();
        check::<1>();
        check::<2>();
        check::<3>();
        check::<4>();
        check::<5>();
        check::<6>();
        check::<7>();
    }
}
