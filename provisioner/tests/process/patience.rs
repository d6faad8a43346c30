//! Rows 30, 182, 186 and 188: slow rows, all at the same time.

use super::{outcome, shutdown};

#[tokio::test]
async fn rows_30_182_186_and_188_half_a_minute() {
    tokio::join!(
        shutdown::calls_that_do_not_end_are_resumed(),
        outcome::rows_182_and_188_a_final_error_is_repeated_as_long_as_there_is_a_claim(),
        outcome::row_186_an_impossible_request_waits_for_another_class(),
    );
}
