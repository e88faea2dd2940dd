//! Numbers of commands (part 2, `TPM_CC`) and of what is always there.

pub const EVICT_CONTROL: u32 = 0x120;
pub const NV_DEFINE_SPACE: u32 = 0x12a;
pub const CREATE_PRIMARY: u32 = 0x131;
pub const NV_INCREMENT: u32 = 0x134;
pub const NV_READ: u32 = 0x14e;
pub const CREATE: u32 = 0x153;
pub const LOAD: u32 = 0x157;
pub const UNSEAL: u32 = 0x15e;
pub const FLUSH_CONTEXT: u32 = 0x165;
pub const LOAD_EXTERNAL: u32 = 0x167;
pub const POLICY_AUTHORIZE: u32 = 0x16a;
pub const POLICY_AUTH_VALUE: u32 = 0x16b;
pub const NV_READ_PUBLIC: u32 = 0x169;
pub const READ_PUBLIC: u32 = 0x173;
pub const START_AUTH_SESSION: u32 = 0x176;
pub const VERIFY_SIGNATURE: u32 = 0x177;
pub const PCR_READ: u32 = 0x17e;
pub const POLICY_PCR: u32 = 0x17f;
pub const PCR_EXTEND: u32 = 0x182;
pub const POLICY_GET_DIGEST: u32 = 0x189;

/// Commands whose answer begins with a handle.
pub const MAKES_A_HANDLE: &[u32] = &[CREATE_PRIMARY, LOAD, LOAD_EXTERNAL, START_AUTH_SESSION];

/// `TPM_RH_OWNER` and `TPM_RH_NULL`.
pub const OWNER: u32 = 0x4000_0001;
pub const NULL: u32 = 0x4000_0007;

/// `TPM_ALG_ID`
pub mod algorithm {
    pub const RSA: u16 = 0x0001;
    pub const AES: u16 = 0x0006;
    pub const KEYEDHASH: u16 = 0x0008;
    pub const SHA256: u16 = 0x000b;
    pub const NULL: u16 = 0x0010;
    pub const RSASSA: u16 = 0x0014;
    pub const ECC: u16 = 0x0023;
    pub const CFB: u16 = 0x0043;
}
