use crate::Answer;
use crate::error::CliError;
/// Stub
#[derive(Debug, clap::Args)]
pub struct Args {}
/// Stub
pub fn run(_args: &Args) -> Result<Answer, CliError> {
    Ok(Answer::Good)
}
