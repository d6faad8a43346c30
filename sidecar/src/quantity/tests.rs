use super::*;

#[test]
fn half_a_gibibyte_more_is_not_dropped() {
    let quantity: Quantity = "1.5Gi".parse().unwrap();
    assert_eq!(quantity.value(), 1_610_612_736);
    assert_eq!(quantity.to_string(), "1536Mi");
}
