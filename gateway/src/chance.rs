//! The one place where the gateway takes random bits from the system.

/// Sixty-four random bits.
pub fn bits() -> u64 {
    let mut bytes = [0; 8];
    fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

pub fn fill(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the system gives random bytes; without them no id would be unique");
}
