//! Consistency conditions 1 to 4 (clauses 3.3.2.1 to 3.3.2.4), which must hold after any run.

use crate::condition::{Condition, examine};
use crate::db::{DbError, Session};

/// Number, statement, and a query for the numbers of checked groups and violations.
const CONDITIONS: [(u32, &str, &str); 4] = [
    (
        1,
        "W_YTD = sum(D_YTD) for each warehouse",
        "SELECT COUNT(*), SUM(CASE WHEN w_ytd = paid THEN 0 ELSE 1 END) FROM warehouse \
         LEFT JOIN (SELECT d_w_id, SUM(d_ytd) AS paid FROM district GROUP BY d_w_id) d ON d_w_id = w_id",
    ),
    (
        2,
        "D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID) for each district",
        // A district whose orders are all delivered has no NO_O_ID.
        "SELECT COUNT(*), SUM(CASE WHEN d_next_o_id - 1 = o_max \
         AND (no_max IS NULL OR no_max = o_max) THEN 0 ELSE 1 END) FROM district \
         LEFT JOIN (SELECT o_w_id, o_d_id, MAX(o_id) AS o_max FROM orders GROUP BY o_w_id, o_d_id) o \
         ON o_w_id = d_w_id AND o_d_id = d_id \
         LEFT JOIN (SELECT no_w_id, no_d_id, MAX(no_o_id) AS no_max FROM new_orders GROUP BY no_w_id, no_d_id) n \
         ON no_w_id = d_w_id AND no_d_id = d_id",
    ),
    (
        3,
        "max(NO_O_ID) - min(NO_O_ID) + 1 = number of NEW-ORDER rows for each district",
        "SELECT COUNT(*), SUM(CASE WHEN no_count IS NULL OR no_max - no_min + 1 = no_count THEN 0 ELSE 1 END) \
         FROM district LEFT JOIN (SELECT no_w_id, no_d_id, MAX(no_o_id) AS no_max, MIN(no_o_id) AS no_min, \
         COUNT(*) AS no_count FROM new_orders GROUP BY no_w_id, no_d_id) n ON no_w_id = d_w_id AND no_d_id = d_id",
    ),
    (
        4,
        "sum(O_OL_CNT) = number of ORDER-LINE rows for each district",
        "SELECT COUNT(*), SUM(CASE WHEN o_lines = ol_count THEN 0 ELSE 1 END) FROM district \
         LEFT JOIN (SELECT o_w_id, o_d_id, SUM(o_ol_cnt) AS o_lines FROM orders GROUP BY o_w_id, o_d_id) o \
         ON o_w_id = d_w_id AND o_d_id = d_id \
         LEFT JOIN (SELECT ol_w_id, ol_d_id, COUNT(*) AS ol_count FROM order_line GROUP BY ol_w_id, ol_d_id) l \
         ON ol_w_id = d_w_id AND ol_d_id = d_id",
    ),
];

/// Checks all four conditions. The database must be at rest: two tables are read one after the
/// other.
pub fn check(session: &mut dyn Session) -> Result<Vec<Condition>, DbError> {
    CONDITIONS
        .iter()
        .map(|&(number, statement, sql)| {
            let (examined, violations) = examine(session, sql)?;
            Ok(Condition::new(number, statement, examined, violations))
        })
        .collect()
}
