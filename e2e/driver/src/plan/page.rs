//! Pages of lists.
//!
//! A token is the sequence number after which the next page starts. Entries are sorted by that
//! number, so entries that appear or disappear between two pages neither hide nor repeat others.

use tonic::Code;

use super::Refusal;

/// One page of `all` (sorted by number), and the token of the next; empty at the end.
pub fn page<T>(
    all: impl Iterator<Item = (u64, T)>,
    token: &str,
    max_entries: i32,
) -> Result<(Vec<T>, String), Refusal> {
    let Ok(max) = usize::try_from(max_entries) else {
        return Err(Refusal::new(
            Code::InvalidArgument,
            "max_entries is negative",
        ));
    };
    let after = match token {
        "" => 0,
        token => token.parse::<u64>().map_err(|_| {
            Refusal::new(
                Code::Aborted,
                format!("starting_token {token:?} is not valid"),
            )
        })?,
    };
    let mut rest: Vec<(u64, T)> = all.filter(|(number, _)| *number > after).collect();
    rest.sort_by_key(|(number, _)| *number);
    let mut next = String::new();
    if max > 0 && rest.len() > max {
        rest.truncate(max);
        next = rest
            .last()
            .map(|(number, _)| number.to_string())
            .unwrap_or_default();
    }
    Ok((rest.into_iter().map(|(_, entry)| entry).collect(), next))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(numbers: &[u64]) -> impl Iterator<Item = (u64, u64)> {
        numbers.iter().map(|number| (*number, *number))
    }

    #[test]
    fn pages_follow_one_another_without_gap_or_repetition() {
        let all = [3, 1, 2, 5, 4];
        let (first, token) = page(list(&all), "", 2).unwrap();
        assert_eq!((first, token.as_str()), (vec![1, 2], "2"));
        let (second, token) = page(list(&[1, 3, 5, 6]), &token, 2).unwrap();
        assert_eq!(
            (second, token.as_str()),
            (vec![3, 5], "5"),
            "2 and 4 went, 6 came"
        );
        let (last, token) = page(list(&[1, 3, 5, 6]), &token, 2).unwrap();
        assert_eq!((last, token.as_str()), (vec![6], ""));
        assert_eq!(page(list(&all), "", 0).unwrap().0.len(), 5);
        assert_eq!(page(list(&all), "", 5).unwrap().1, "");
    }

    #[test]
    fn bad_tokens_abort_and_negative_sizes_are_invalid() {
        assert_eq!(page(list(&[1]), "x", 1).unwrap_err().code, Code::Aborted);
        assert_eq!(
            page(list(&[1]), "", -1).unwrap_err().code,
            Code::InvalidArgument
        );
    }
}
