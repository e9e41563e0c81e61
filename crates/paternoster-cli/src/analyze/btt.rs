use super::*;
pub(super) fn run(_: &AnalyzeOptions, _: &Selection) -> Result<(), Failure> {
    Err(Failure::Request("not yet".to_owned()))
}
