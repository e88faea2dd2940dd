//! The S-box circuits of [`super::sbox`] for Thumb-2 (ARMv7-M and later), where they are two thirds of AES.
//!
//! The operations are the same, in an order that fits 14 registers: 22 and 28 loads and stores beside them, found by
//! simulated annealing over all orders with the farthest next use put on the stack. The compiler's order takes over 80.
//! Tested against the other backends where the firmware runs, in `crates/testkit/tests/embedded`.

use core::arch::naked_asm;

/// SubBytes without adding 0x63. Plane i holds bit i of every byte.
///
/// # Safety
///
/// `planes` points to eight words.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn sub_bytes(planes: *mut u32) {
    naked_asm!(
        "push {{r0, r4-r11, lr}}",
        "sub sp, #44",
        "ldm r0, {{r0-r7}}",  // u7 to u0
        "eor r8, r4, r2",     // y14 = u3 ^ u5
        "eor r9, r7, r1",     // y13 = u0 ^ u6
        "eor r5, r6, r5",     // t0 = u1 ^ u2
        "eor r10, r5, r0",    // y1 = t0 ^ u7
        "eor r1, r10, r1",    // y5 = y1 ^ u6
        "eor r11, r9, r8",    // y12 = y13 ^ y14
        "eor r3, r3, r11",    // t1 = u4 ^ y12
        "eor r6, r3, r6",     // y20 = t1 ^ u1
        "and r12, r1, r10",   // t8 = y5 & y1
        "eor r3, r3, r2",     // y15 = t1 ^ u5
        "eor r2, r7, r2",     // y8 = u0 ^ u5
        "eor lr, r3, r0",     // y6 = y15 ^ u7
        "str r1, [sp, #0]",   // y5
        "eor r1, r1, r2",     // y3 = y5 ^ y8
        "str lr, [sp, #4]",   // y6
        "and lr, r1, lr",     // t3 = y3 & y6
        "str r11, [sp, #8]",  // y12
        "and r11, r11, r3",   // t2 = y12 & y15
        "str r1, [sp, #12]",  // y3
        "eor r1, r10, r4",    // y4 = y1 ^ u3
        "str r3, [sp, #16]",  // y15
        "eor r3, r3, r5",     // y10 = y15 ^ t0
        "eor r4, r7, r4",     // y9 = u0 ^ u3
        "str r1, [sp, #20]",  // y4
        "and r1, r1, r0",     // t5 = y4 & u7
        "eor lr, lr, r11",    // t4 = t3 ^ t2
        "eor lr, lr, r6",     // t17 = t4 ^ y20
        "eor r6, r6, r4",     // y11 = y20 ^ y9
        "eor r5, r5, r6",     // y16 = t0 ^ y11
        "eor r1, r1, r11",    // t6 = t5 ^ t2
        "and r11, r2, r3",    // t15 = y8 & y10
        "str r4, [sp, #24]",  // y9
        "and r4, r4, r6",     // t12 = y9 & y11
        "eor r11, r11, r4",   // t16 = t15 ^ t12
        "str r2, [sp, #28]",  // y8
        "eor r2, r3, r2",     // y19 = y10 ^ y8
        "str r3, [sp, #32]",  // y10
        "eor r3, r3, r6",     // y17 = y10 ^ y11
        "str r3, [sp, #36]",  // y17
        "and r3, r8, r3",     // t13 = y14 & y17
        "eor r3, r3, r4",     // t14 = t13 ^ t12
        "eor r1, r1, r11",    // t18 = t6 ^ t16
        "and r4, r9, r5",     // t7 = y13 & y16
        "eor r1, r1, r2",     // t22 = t18 ^ y19
        "eor r2, r12, r4",    // t9 = t8 ^ t7
        "eor r2, r2, r3",     // t19 = t9 ^ t14
        "eor r3, lr, r3",     // t21 = t17 ^ t14
        "eor r12, r9, r5",    // y21 = y13 ^ y16
        "eor lr, r10, r7",    // y2 = y1 ^ u0
        "str r0, [sp, #40]",  // u7
        "eor r0, r0, r6",     // y7 = u7 ^ y11
        "eor r2, r2, r12",    // t23 = t19 ^ y21
        "and r12, lr, r0",    // t10 = y2 & y7
        "eor r7, r7, r5",     // y18 = u0 ^ y16
        "eor r4, r12, r4",    // t11 = t10 ^ t7
        "eor r4, r4, r11",    // t20 = t11 ^ t16
        "eor r4, r4, r7",     // t24 = t20 ^ y18
        "eor r7, r2, r4",     // t30 = t23 ^ t24
        "and r11, r3, r2",    // t26 = t21 & t23
        "eor r12, r1, r11",   // t31 = t22 ^ t26
        "and r7, r12, r7",    // t32 = t31 & t30
        "eor r3, r3, r1",     // t25 = t21 ^ t22
        "eor r11, r4, r11",   // t27 = t24 ^ t26
        "and r12, r3, r11",   // t28 = t25 & t27
        "eor r1, r12, r1",    // t29 = t28 ^ t22
        "and r0, r1, r0",     // z5 = t29 & y7
        "eor r7, r7, r4",     // t33 = t32 ^ t24
        "eor r12, r11, r7",   // t35 = t27 ^ t33
        "and r4, r4, r12",    // t36 = t24 & t35
        "eor r11, r11, r4",   // t38 = t27 ^ t36
        "eor r2, r2, r7",     // t34 = t23 ^ t33
        "and r11, r1, r11",   // t39 = t29 & t38
        "eor r3, r3, r11",    // t40 = t25 ^ t39
        "eor r2, r4, r2",     // t37 = t36 ^ t34
        "eor r4, r1, r3",     // t43 = t29 ^ t40
        "and r10, r3, r10",   // z4 = t40 & y1
        "eor r11, r1, r7",    // t42 = t29 ^ t33
        "and r6, r11, r6",    // z6 = t42 & y11
        "and r5, r4, r5",     // z3 = t43 & y16
        "ldr r12, [sp, #24]", // y9
        "and r12, r11, r12",  // z15 = t42 & y9
        "and r4, r4, r9",     // z12 = t43 & y13
        "ldr r9, [sp, #0]",   // y5
        "and r9, r3, r9",     // z13 = t40 & y5
        "eor r3, r3, r2",     // t41 = t40 ^ t37
        "eor r0, r5, r0",     // tc12 = z3 ^ z5
        "eor r5, r5, r10",    // tc6 = z3 ^ z4
        "and r1, r1, lr",     // z14 = t29 & y2
        "eor r10, r11, r3",   // t45 = t42 ^ t41
        "and r8, r10, r8",    // z16 = t45 & y14
        "ldr r11, [sp, #12]", // y3
        "and r11, r2, r11",   // z10 = t37 & y3
        "eor r8, r12, r8",    // tc1 = z15 ^ z16
        "ldr lr, [sp, #36]",  // y17
        "and r10, r10, lr",   // z7 = t45 & y17
        "eor r10, r10, r5",   // tc8 = z7 ^ tc6
        "ldr lr, [sp, #4]",   // y6
        "and lr, r2, lr",     // z1 = t37 & y6
        "eor r9, r9, r8",     // tc13 = z13 ^ tc1
        "eor r2, r7, r2",     // t44 = t33 ^ t37
        "eor r8, r11, r8",    // tc2 = z10 ^ tc1
        "ldr r11, [sp, #16]", // y15
        "and r11, r2, r11",   // z0 = t44 & y15
        "eor lr, lr, r11",    // tc5 = z1 ^ z0
        "eor r5, r5, lr",     // tc11 = tc6 ^ tc5
        "ldr lr, [sp, #40]",  // u7
        "and lr, r7, lr",     // z2 = t33 & u7
        "eor r11, r11, lr",   // tc4 = z0 ^ z2
        "ldr lr, [sp, #20]",  // y4
        "and r7, r7, lr",     // z11 = t33 & y4
        "ldr lr, [sp, #8]",   // y12
        "and r2, r2, lr",     // z9 = t44 & y12
        "eor r2, r2, r8",     // tc3 = z9 ^ tc2
        "eor r5, r2, r5",     // s3 = tc3 ^ tc11
        "eor r7, r8, r7",     // tc21 = tc2 ^ z11
        "eor r6, r6, r10",    // tc16 = z6 ^ tc8
        "eor r0, r11, r0",    // tc14 = tc4 ^ tc12
        "eor r8, r4, r11",    // tc7 = z12 ^ tc4
        "ldr r11, [sp, #32]", // y10
        "and r11, r3, r11",   // z8 = t41 & y10
        "eor r2, r2, r6",     // s0 = tc3 ^ tc16
        "eor r8, r11, r8",    // tc9 = z8 ^ tc7
        "eor r9, r9, r0",     // tc18 = tc13 ^ tc14
        "eor r11, r5, r6",    // s1 = s3 ^ tc16
        "eor r0, r0, r5",     // s4 = tc14 ^ s3
        "eor r4, r4, r9",     // s7 = z12 ^ tc18
        "ldr lr, [sp, #28]",  // y8
        "and r3, r3, lr",     // z17 = t41 & y8
        "eor r8, r10, r8",    // tc10 = tc8 ^ tc9
        "eor r1, r1, r8",     // tc17 = z14 ^ tc10
        "eor r6, r12, r6",    // tc20 = z15 ^ tc16
        "eor r6, r1, r6",     // tc26 = tc17 ^ tc20
        "eor r3, r6, r3",     // s2 = tc26 ^ z17
        "eor r6, r8, r9",     // s6 = tc10 ^ tc18
        "eor r1, r7, r1",     // s5 = tc21 ^ tc17
        "ldr r7, [sp, #44]",  // planes
        "str r4, [r7, #0]",   // s7
        "str r6, [r7, #4]",   // s6
        "str r1, [r7, #8]",   // s5
        "str r0, [r7, #12]",  // s4
        "str r5, [r7, #16]",  // s3
        "str r3, [r7, #20]",  // s2
        "str r11, [r7, #24]", // s1
        "str r2, [r7, #28]",  // s0
        "add sp, #48",
        "pop {{r4-r11, pc}}",
    )
}

/// InvSubBytes after adding 0x63. Plane i holds bit i of every byte.
///
/// # Safety
///
/// `planes` points to eight words.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn inverse_sub_bytes(planes: *mut u32) {
    naked_asm!(
        "push {{r0, r4-r11, lr}}",
        "sub sp, #56",
        "ldm r0, {{r0-r7}}",  // u7 to u0
        "eor r8, r3, r0",     // t24 = u4 ^ u7
        "eor r9, r7, r4",     // t23 = u0 ^ u3
        "eor r10, r6, r9",    // t8 = u1 ^ t23
        "eor r11, r4, r3",    // t1 = u3 ^ u4
        "eor r12, r0, r11",   // t9 = u7 ^ t1
        "eor lr, r7, r6",     // t2 = u0 ^ u1
        "str r9, [sp, #0]",   // t23
        "and r9, r9, r10",    // m2 = t23 & t8
        "str r10, [sp, #4]",  // t8
        "eor r10, r3, r10",   // t4 = u4 ^ t8
        "str r10, [sp, #8]",  // t4
        "eor r10, r5, r2",    // r17 = u2 ^ u5
        "eor r4, r6, r4",     // t22 = u1 ^ u3
        "eor r0, r1, r0",     // r5 = u6 ^ u7
        "eor r3, r5, r3",     // r19 = u2 ^ u4
        "eor r6, r6, r1",     // r13 = u1 ^ u6
        "eor r7, r7, r10",    // y5 = u0 ^ r17
        "eor r3, r6, r3",     // t16 = r13 ^ r19
        "eor r10, r4, r10",   // t6 = t22 ^ r17
        "str r12, [sp, #12]", // t9
        "and r12, r4, r12",   // m7 = t22 & t9
        "eor r1, r2, r1",     // r18 = u5 ^ u6
        "eor r2, r11, r0",    // t3 = t1 ^ r5
        "str r4, [sp, #16]",  // t22
        "eor r4, r4, r0",     // t19 = t22 ^ r5
        "str r7, [sp, #20]",  // y5
        "and r7, r4, r7",     // m4 = t19 & y5
        "eor r0, lr, r0",     // t13 = t2 ^ r5
        "str r10, [sp, #24]", // t6
        "and r10, r0, r10",   // m1 = t13 & t6
        "str r0, [sp, #28]",  // t13
        "eor r0, r2, r3",     // t26 = t3 ^ t16
        "eor r6, r8, r6",     // t20 = t24 ^ r13
        "eor r7, r7, r10",    // m5 = m4 ^ m1
        "str r2, [sp, #32]",  // t3
        "and r2, r2, r3",     // m6 = t3 & t16
        "eor r7, r7, r8",     // m17 = m5 ^ t24
        "eor r8, lr, r8",     // t10 = t2 ^ t24
        "str r3, [sp, #36]",  // t16
        "eor r3, r8, r1",     // t14 = t10 ^ r18
        "eor r3, r3, r10",    // m3 = t14 ^ m1
        "eor r0, r0, r2",     // m8 = t26 ^ m6
        "eor r10, r5, r4",    // t17 = u2 ^ t19
        "eor r1, r11, r1",    // t27 = t1 ^ r18
        "str r6, [sp, #40]",  // t20
        "and r6, r6, r10",    // m9 = t20 & t17
        "eor r2, r6, r2",     // m10 = m9 ^ m6
        "eor r6, r8, r1",     // t15 = t10 ^ t27
        "eor r3, r3, r9",     // m16 = m3 ^ m2
        "eor r0, r0, r12",    // m18 = m8 ^ m7
        "and r9, r11, r6",    // m11 = t1 & t15
        "ldr r12, [sp, #8]",  // t4
        "and r12, r12, r1",   // m12 = t4 & t27
        "eor r12, r12, r9",   // m13 = m12 ^ m11
        "eor r3, r3, r12",    // m20 = m16 ^ m13
        "eor r0, r0, r12",    // m22 = m18 ^ m13
        "and r12, lr, r8",    // m14 = t2 & t10
        "eor r9, r12, r9",    // m15 = m14 ^ m11
        "and r12, r0, r3",    // m25 = m22 & m20
        "eor r5, r5, r11",    // t25 = u2 ^ t1
        "eor r7, r7, r9",     // m21 = m17 ^ m15
        "eor r2, r2, r9",     // m19 = m10 ^ m15
        "and r9, r7, r0",     // m34 = m21 & m22
        "eor r2, r2, r5",     // m23 = m19 ^ t25
        "eor r0, r0, r2",     // m24 = m22 ^ m23
        "eor r5, r7, r12",    // m26 = m21 ^ m25
        "and r9, r0, r9",     // m35 = m24 & m34
        "and r5, r5, r0",     // m30 = m26 & m24
        "eor r0, r0, r12",    // m36 = m24 ^ m25
        "eor r5, r2, r5",     // m39 = m23 ^ m30
        "eor r0, r9, r0",     // m40 = m35 ^ m36
        "eor r9, r2, r12",    // m28 = m23 ^ m25
        "and r4, r5, r4",     // m57 = m39 & t19
        "and r2, r3, r2",     // m31 = m20 & m23
        "eor r3, r3, r7",     // m27 = m20 ^ m21
        "and r2, r3, r2",     // m32 = m27 & m31
        "eor r12, r3, r12",   // m33 = m27 ^ m25
        "eor r2, r2, r12",    // m38 = m32 ^ m33
        "and r3, r9, r3",     // m29 = m28 & m27
        "ldr r9, [sp, #20]",  // y5
        "and r9, r5, r9",     // m48 = m39 & y5
        "eor r3, r7, r3",     // m37 = m21 ^ m29
        "eor r7, r3, r5",     // m42 = m37 ^ m39
        "eor r5, r5, r0",     // m44 = m39 ^ m40
        "and r11, r7, r11",   // m61 = m42 & t1
        "eor r12, r2, r0",    // m41 = m38 ^ m40
        "and r8, r12, r8",    // m54 = m41 & t10
        "and r6, r7, r6",     // m52 = m42 & t15
        "eor r6, r6, r11",    // p0 = m52 ^ m61
        "str r6, [sp, #44]",  // p0
        "ldr r6, [sp, #12]",  // t9
        "and r6, r2, r6",     // m50 = m38 & t9
        "eor r7, r7, r12",    // m45 = m42 ^ m41
        "eor r11, r4, r11",   // p16 = m57 ^ m61
        "and r1, r7, r1",     // m53 = m45 & t27
        "eor r1, r6, r1",     // p8 = m50 ^ m53
        "and r12, r12, lr",   // m63 = m41 & t2
        "ldr lr, [sp, #28]",  // t13
        "and lr, r5, lr",     // m55 = m44 & t13
        "str r1, [sp, #48]",  // p8
        "ldr r1, [sp, #4]",   // t8
        "and r1, r0, r1",     // m47 = m40 & t8
        "eor r1, r1, r6",     // p3 = m47 ^ m50
        "eor r6, lr, r12",    // p9 = m55 ^ m63
        "ldr lr, [sp, #24]",  // t6
        "and r5, r5, lr",     // m46 = m44 & t6
        "and r10, r3, r10",   // m51 = m37 & t17
        "ldr lr, [sp, #8]",   // t4
        "and r7, r7, lr",     // m62 = m45 & t4
        "eor r11, r6, r11",   // s7 = p9 ^ p16
        "ldr lr, [sp, #0]",   // t23
        "and r0, r0, lr",     // m56 = m40 & t23
        "eor lr, r3, r2",     // m43 = m37 ^ m38
        "str r11, [sp, #52]", // s7
        "ldr r11, [sp, #16]", // t22
        "and r2, r2, r11",    // m59 = m38 & t22
        "eor r0, r9, r0",     // p4 = m48 ^ m56
        "ldr r11, [sp, #40]", // t20
        "and r3, r3, r11",    // m60 = m37 & t20
        "ldr r11, [sp, #36]", // t16
        "and r11, lr, r11",   // m49 = m43 & t16
        "eor r9, r5, r9",     // p12 = m46 ^ m48
        "eor r3, r11, r3",    // p6 = m49 ^ m60
        "eor r5, r5, r10",    // p5 = m46 ^ m51
        "eor r4, r4, r0",     // p10 = m57 ^ p4
        "eor r0, r0, r3",     // p20 = p4 ^ p6
        "eor r12, r12, r5",   // p18 = m63 ^ p5
        "eor r12, r4, r12",   // p27 = p10 ^ p18
        "eor r10, r11, r10",  // p13 = m49 ^ m51
        "eor r11, r11, r7",   // p14 = m49 ^ m62
        "eor r7, r8, r7",     // p2 = m54 ^ m62
        "eor r3, r3, r4",     // p25 = p6 ^ p10
        "eor r4, r8, r2",     // p15 = m54 ^ m59
        "ldr r8, [sp, #32]",  // t3
        "and r8, lr, r8",     // m58 = m43 & t3
        "eor r0, r4, r0",     // p29 = p15 ^ p20
        "eor r2, r8, r2",     // p1 = m58 ^ m59
        "ldr r4, [sp, #44]",  // p0
        "eor lr, r4, r1",     // p11 = p0 ^ p3
        "eor r2, r4, r2",     // p7 = p0 ^ p1
        "eor r3, lr, r3",     // p28 = p11 ^ p25
        "eor r4, r7, r2",     // p22 = p2 ^ p7
        "eor r8, r8, r7",     // p17 = m58 ^ p2
        "eor r3, r8, r3",     // s2 = p17 ^ p28
        "eor r8, r10, r4",    // s0 = p13 ^ p22
        "eor r1, r7, r1",     // p19 = p2 ^ p3
        "eor r6, r6, lr",     // p26 = p9 ^ p11
        "eor r0, r6, r0",     // s1 = p26 ^ p29
        "eor r5, r5, r2",     // p24 = p5 ^ p7
        "eor r4, r9, r4",     // s3 = p12 ^ p22
        "ldr r6, [sp, #48]",  // p8
        "eor r2, r2, r6",     // p23 = p7 ^ p8
        "eor r6, r2, r12",    // s4 = p23 ^ p27
        "eor r1, r1, r5",     // s5 = p19 ^ p24
        "eor r2, r11, r2",    // s6 = p14 ^ p23
        "ldr r5, [sp, #56]",  // planes
        "ldr r7, [sp, #52]",  // s7
        "str r7, [r5, #0]",   // s7
        "str r2, [r5, #4]",   // s6
        "str r1, [r5, #8]",   // s5
        "str r6, [r5, #12]",  // s4
        "str r4, [r5, #16]",  // s3
        "str r3, [r5, #20]",  // s2
        "str r0, [r5, #24]",  // s1
        "str r8, [r5, #28]",  // s0
        "add sp, #60",
        "pop {{r4-r11, pc}}",
    )
}
