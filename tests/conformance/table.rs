//! placeholder
pub fn run() -> Result<bool, String> {
    Ok(true)
}
