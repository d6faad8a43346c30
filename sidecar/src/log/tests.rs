use super::*;

#[test]
fn vmodule_patterns_match_file_names() {
    let patterns = [("run*".to_owned(), 3), ("src/x/?b".to_owned(), 5)];
    assert_eq!(file_verbosity(&patterns, "src/run.rs"), 3);
    assert_eq!(file_verbosity(&patterns, "src/runner.rs"), 3);
    assert_eq!(file_verbosity(&patterns, "src/x/ab.rs"), 5);
    assert_eq!(file_verbosity(&patterns, "src/x/abc.rs"), 0);
}
