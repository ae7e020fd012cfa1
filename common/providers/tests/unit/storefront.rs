use serde_json::json;

use super::*;

/// Two lines of three and two units, of which a third is fulfilled (resource FulfillmentOrder).
fn listed() -> FulfillmentOrder {
    let order = json!({
        "id": 7, "status": "open", "line_items": [
            {"id": 70, "fulfillment_order_id": 7, "line_item_id": 1, "quantity": 3, "fulfillable_quantity": 3},
            {"id": 71, "fulfillment_order_id": 7, "line_item_id": 2, "quantity": 4, "fulfillable_quantity": 2},
            {"id": 72, "fulfillment_order_id": 7, "line_item_id": 3, "quantity": 1, "fulfillable_quantity": 0},
        ],
    });
    serde_json::from_value(order).unwrap()
}

#[expect(clippy::option_option, reason = "nothing, all, or these lines")]
fn part(order: &FulfillmentOrder, units: &[(i64, i64)]) -> Option<Option<Vec<(i64, i64)>>> {
    let part = order.part(&mut units.iter().copied().collect());
    part.map(|part| part.lines)
}

#[test]
fn only_the_units_to_ship_are_fulfilled() {
    let order = listed();
    assert_eq!(
        part(&order, &[(1, 3), (2, 2), (3, 1)]),
        Some(None),
        "all that is open"
    );
    assert_eq!(part(&order, &[(1, 2)]), Some(Some(vec![(70, 2)])));
    assert_eq!(part(&order, &[(1, 9), (2, 0)]), Some(Some(vec![(70, 3)])));
    assert_eq!(part(&order, &[(4, 1)]), None, "it is somebody else's");
    assert_eq!(part(&order, &[(WHOLE_ORDER, 1)]), Some(None));
    let mut units = Units::from([(1, 4)]);
    order.part(&mut units);
    assert_eq!(units[&1], 1, "left for another fulfilment order");
}

#[test]
fn a_fulfilment_order_that_lists_no_lines_is_fulfilled_as_a_whole() {
    for lines in [json!(null), json!([]), json!([{"id": 70}])] {
        let order = json!({"id": 7, "status": "open", "line_items": lines});
        let order: FulfillmentOrder = serde_json::from_value(order).unwrap();
        assert_eq!(part(&order, &[(1, 1)]), Some(None));
    }
}
