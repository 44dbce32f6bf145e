//! The nine tables (clause 1.3), with tpcc-mysql's names.
//!
//! The primary keys of clause 1.3 are made first. Two further indexes serve the choice of customers
//! by last name and of a customer's last order. They are made once the rows exist, which is faster.

use super::population::NOTE;
use crate::db::{DbError, Dialect, Session};

/// Tables with their columns and constraints, in an order in which foreign keys can be satisfied.
/// `TS` stands for the dialect's date with time.
const TABLES: [(&str, &str); 9] = [
    (
        "item",
        "i_id INT NOT NULL, i_im_id INT NOT NULL, i_name VARCHAR(24) NOT NULL, i_price DECIMAL(5,2) NOT NULL, \
         i_data VARCHAR(50) NOT NULL, PRIMARY KEY (i_id)",
    ),
    (
        "warehouse",
        "w_id INT NOT NULL, w_name VARCHAR(10) NOT NULL, w_street_1 VARCHAR(20) NOT NULL, \
         w_street_2 VARCHAR(20) NOT NULL, w_city VARCHAR(20) NOT NULL, w_state CHAR(2) NOT NULL, \
         w_zip CHAR(9) NOT NULL, w_tax DECIMAL(4,4) NOT NULL, w_ytd DECIMAL(12,2) NOT NULL, PRIMARY KEY (w_id)",
    ),
    (
        "district",
        "d_id SMALLINT NOT NULL, d_w_id INT NOT NULL, d_name VARCHAR(10) NOT NULL, d_street_1 VARCHAR(20) NOT NULL, \
         d_street_2 VARCHAR(20) NOT NULL, d_city VARCHAR(20) NOT NULL, d_state CHAR(2) NOT NULL, \
         d_zip CHAR(9) NOT NULL, d_tax DECIMAL(4,4) NOT NULL, d_ytd DECIMAL(12,2) NOT NULL, \
         d_next_o_id INT NOT NULL, PRIMARY KEY (d_w_id, d_id)",
    ),
    (
        "customer",
        "c_id INT NOT NULL, c_d_id SMALLINT NOT NULL, c_w_id INT NOT NULL, c_first VARCHAR(16) NOT NULL, \
         c_middle CHAR(2) NOT NULL, c_last VARCHAR(16) NOT NULL, c_street_1 VARCHAR(20) NOT NULL, \
         c_street_2 VARCHAR(20) NOT NULL, c_city VARCHAR(20) NOT NULL, c_state CHAR(2) NOT NULL, \
         c_zip CHAR(9) NOT NULL, c_phone CHAR(16) NOT NULL, c_since TS NOT NULL, c_credit CHAR(2) NOT NULL, \
         c_credit_lim DECIMAL(12,2) NOT NULL, c_discount DECIMAL(4,4) NOT NULL, c_balance DECIMAL(12,2) NOT NULL, \
         c_ytd_payment DECIMAL(12,2) NOT NULL, c_payment_cnt INT NOT NULL, c_delivery_cnt INT NOT NULL, \
         c_data VARCHAR(500) NOT NULL, PRIMARY KEY (c_w_id, c_d_id, c_id)",
    ),
    (
        "history",
        "h_c_id INT NOT NULL, h_c_d_id SMALLINT NOT NULL, h_c_w_id INT NOT NULL, h_d_id SMALLINT NOT NULL, \
         h_w_id INT NOT NULL, h_date TS NOT NULL, h_amount DECIMAL(6,2) NOT NULL, h_data VARCHAR(24) NOT NULL",
    ),
    (
        "orders",
        "o_id INT NOT NULL, o_d_id SMALLINT NOT NULL, o_w_id INT NOT NULL, o_c_id INT NOT NULL, \
         o_entry_d TS NOT NULL, o_carrier_id SMALLINT, o_ol_cnt SMALLINT NOT NULL, o_all_local SMALLINT NOT NULL, \
         PRIMARY KEY (o_w_id, o_d_id, o_id)",
    ),
    (
        "new_orders",
        "no_o_id INT NOT NULL, no_d_id SMALLINT NOT NULL, no_w_id INT NOT NULL, \
         PRIMARY KEY (no_w_id, no_d_id, no_o_id)",
    ),
    (
        "stock",
        "s_i_id INT NOT NULL, s_w_id INT NOT NULL, s_quantity SMALLINT NOT NULL, s_dist_01 CHAR(24) NOT NULL, \
         s_dist_02 CHAR(24) NOT NULL, s_dist_03 CHAR(24) NOT NULL, s_dist_04 CHAR(24) NOT NULL, \
         s_dist_05 CHAR(24) NOT NULL, s_dist_06 CHAR(24) NOT NULL, s_dist_07 CHAR(24) NOT NULL, \
         s_dist_08 CHAR(24) NOT NULL, s_dist_09 CHAR(24) NOT NULL, s_dist_10 CHAR(24) NOT NULL, \
         s_ytd DECIMAL(8,0) NOT NULL, s_order_cnt INT NOT NULL, s_remote_cnt INT NOT NULL, \
         s_data VARCHAR(50) NOT NULL, PRIMARY KEY (s_w_id, s_i_id)",
    ),
    (
        "order_line",
        "ol_o_id INT NOT NULL, ol_d_id SMALLINT NOT NULL, ol_w_id INT NOT NULL, ol_number SMALLINT NOT NULL, \
         ol_i_id INT NOT NULL, ol_supply_w_id INT NOT NULL, ol_delivery_d TS, ol_quantity SMALLINT NOT NULL, \
         ol_amount DECIMAL(6,2) NOT NULL, ol_dist_info CHAR(24) NOT NULL, \
         PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)",
    ),
];

const INDEXES: [&str; 2] = [
    "CREATE INDEX idx_customer ON customer (c_w_id, c_d_id, c_last, c_first)",
    "CREATE INDEX idx_orders ON orders (o_w_id, o_d_id, o_c_id, o_id)",
];

/// Table, columns, and what they refer to (clause 1.3).
const FOREIGN_KEYS: [(&str, &str, &str); 9] = [
    ("district", "d_w_id", "warehouse (w_id)"),
    ("customer", "c_w_id, c_d_id", "district (d_w_id, d_id)"),
    ("history", "h_c_w_id, h_c_d_id, h_c_id", "customer (c_w_id, c_d_id, c_id)"),
    ("history", "h_w_id, h_d_id", "district (d_w_id, d_id)"),
    ("orders", "o_w_id, o_d_id, o_c_id", "customer (c_w_id, c_d_id, c_id)"),
    ("new_orders", "no_w_id, no_d_id, no_o_id", "orders (o_w_id, o_d_id, o_id)"),
    ("stock", "s_w_id", "warehouse (w_id)"),
    ("order_line", "ol_w_id, ol_d_id, ol_o_id", "orders (o_w_id, o_d_id, o_id)"),
    ("order_line", "ol_supply_w_id, ol_i_id", "stock (s_w_id, s_i_id)"),
];

/// Creates the empty tables.
pub(super) fn create(session: &mut dyn Session) -> Result<(), DbError> {
    let dialect = session.dialect();
    for (table, columns) in TABLES {
        let columns = columns.replace(" TS", &format!(" {}", dialect.timestamp()));
        // One byte for each character: all text is ASCII, and a wider character set only makes rows
        // longer.
        let charset = if dialect == Dialect::MariaDb { " DEFAULT CHARSET=latin1" } else { "" };
        session
            .run(&format!("CREATE TABLE {table} ({columns}){}{charset}", dialect.table_suffix()))?;
    }
    session.run(&format!(
        "CREATE TABLE {NOTE} (warehouses INT NOT NULL, scale INT NOT NULL, seed BIGINT NOT NULL){}",
        dialect.table_suffix()
    ))
}

/// Removes what [`create`] makes, as far as it exists.
pub(super) fn drop(session: &mut dyn Session) -> Result<(), DbError> {
    session.run(&format!("DROP TABLE IF EXISTS {NOTE}"))?;
    for (table, _) in TABLES.iter().rev() {
        session.run(&format!("DROP TABLE IF EXISTS {table}"))?;
    }
    Ok(())
}

/// Makes the further indexes, and foreign keys if wanted, and has the server analyse the data.
pub(super) fn finish(session: &mut dyn Session, foreign_keys: bool) -> Result<(), DbError> {
    for index in INDEXES {
        session.run(index)?;
    }
    if foreign_keys {
        for (number, (table, columns, target)) in FOREIGN_KEYS.into_iter().enumerate() {
            session.run(&format!(
                "ALTER TABLE {table} ADD CONSTRAINT tpcc_fk_{number} FOREIGN KEY ({columns}) REFERENCES {target}"
            ))?;
        }
    }
    for (table, _) in TABLES {
        session.run(&match session.dialect() {
            Dialect::MariaDb => format!("ANALYZE TABLE {table}"),
            Dialect::PostgreSql => format!("ANALYZE {table}"),
        })?;
    }
    Ok(())
}
