//! One conversation of a client with the server, in steps whose answers are all known beforehand.

use std::time::Duration;

pub use headworks_policy::random::Random;
use headworks_rig::Client;
use headworks_rig::wire::{command, packet};

/// A client, its own table, and what has to be in it.
pub struct Conversation {
    client: Client,
    table: String,
    random: Random,
    rows: u64,
    sum: u64,
}

type Step = fn(&mut Conversation);

/// Every kind of step.
pub const STEPS: [Step; 11] = [
    Conversation::calculates,
    Conversation::executes,
    Conversation::reads_many_rows,
    Conversation::reads_a_long_value,
    Conversation::inserts_in_a_transaction,
    Conversation::rolls_back,
    Conversation::sends_several_statements_in_one_text,
    Conversation::sends_ahead,
    Conversation::sends_byte_by_byte,
    Conversation::uploads_a_file,
    Conversation::makes_a_mistake,
];

impl Conversation {
    /// Begins with an empty table.
    pub fn begin(mut client: Client, table: &str, seed: u64) -> Conversation {
        let create = format!("CREATE TABLE {table} (a BIGINT) ENGINE=InnoDB");
        client.query(&create).unwrap();
        let random = Random::new(seed);
        Conversation { client, table: table.to_owned(), random, rows: 0, sum: 0 }
    }

    /// A step of any kind.
    pub fn step(&mut self) {
        STEPS[self.random.below(STEPS.len() as u64) as usize](self);
    }

    /// Checks that the table holds what was put there, once each, and says goodbye.
    pub fn end(mut self) {
        self.finds_what_it_put_there();
        self.client.ping().unwrap();
        self.client.quit().unwrap();
    }

    fn finds_what_it_put_there(&mut self) {
        let text = format!("SELECT COUNT(*), COALESCE(SUM(a), 0) FROM {}", self.table);
        let answer = self.client.query(&text).unwrap();
        let expected = [self.rows, self.sum].map(|number| Some(number.to_string()));
        assert_eq!(answer.rows, [expected], "{}", self.table);
    }

    fn asks(&mut self, text: &str, expected: u64) {
        let answer = self.client.query(text).unwrap();
        assert_eq!(answer.value(), Some(&*expected.to_string()), "{text}");
    }

    fn calculates(&mut self) {
        let (a, b) = (self.random.below(1000), self.random.below(1000));
        self.asks(&format!("SELECT {a} * {b}"), a * b);
    }

    fn executes(&mut self) {
        let number = self.random.below(1000);
        let statement = self.client.prepare(&format!("SELECT {number} + 1")).unwrap();
        for _ in 0..1 + self.random.below(3) {
            let answer = self.client.execute(statement).unwrap();
            assert_eq!(answer.value(), Some(&*(number + 1).to_string()));
        }
        self.client.close_statement(statement).unwrap();
    }

    fn reads_many_rows(&mut self) {
        let count = 1 + self.random.below(30_000);
        let answer = self.client.query(&format!("SELECT seq FROM seq_1_to_{count}")).unwrap();
        assert_eq!(answer.rows.len() as u64, count);
        for (row, expected) in answer.rows.iter().zip(1_u64..) {
            assert_eq!(row[0].as_deref(), Some(&*expected.to_string()));
        }
    }

    fn reads_a_long_value(&mut self) {
        let count = 1 + self.random.below(400_000);
        let text = format!("SELECT REPEAT('12345678', {count})");
        let answer = self.client.query(&text).unwrap();
        let value = answer.value().unwrap().as_bytes();
        assert_eq!(value.len() as u64, 8 * count);
        assert!(value.chunks(8).all(|chunk| chunk == b"12345678"));
    }

    fn insert(&mut self, number: u64) {
        let text = format!("INSERT INTO {} VALUES ({number})", self.table);
        assert_eq!(self.client.query(&text).unwrap().affected, 1);
    }

    fn inserts_in_a_transaction(&mut self) {
        assert!(self.client.query("BEGIN").unwrap().in_transaction());
        for _ in 0..1 + self.random.below(4) {
            let number = self.random.below(1_000_000);
            self.insert(number);
            (self.rows, self.sum) = (self.rows + 1, self.sum + number);
        }
        self.finds_what_it_put_there();
        assert!(!self.client.query("COMMIT").unwrap().in_transaction());
        self.finds_what_it_put_there();
    }

    fn rolls_back(&mut self) {
        self.client.query("START TRANSACTION").unwrap();
        self.insert(1);
        self.client.query("ROLLBACK").unwrap();
        self.finds_what_it_put_there();
    }

    fn sends_several_statements_in_one_text(&mut self) {
        let (a, b) = (self.random.below(1000), self.random.below(1000));
        let answers = self.client.query_all(&format!("SELECT {a}; DO 1; SELECT {b}")).unwrap();
        let values: Vec<_> = answers.iter().map(|answer| answer.value()).collect();
        assert_eq!(values, [Some(&*a.to_string()), None, Some(&*b.to_string())]);
    }

    fn sends_ahead(&mut self) {
        let numbers: Vec<u64> =
            (0..2 + self.random.below(5)).map(|_| self.random.below(1000)).collect();
        let statement = |number| packet(command::QUERY, format!("SELECT {number}").as_bytes());
        let bytes: Vec<u8> = numbers.iter().flat_map(statement).collect();
        self.client.send_raw(&bytes).unwrap();
        for number in numbers {
            let answer = self.client.read_answer().unwrap();
            assert_eq!(answer.value(), Some(&*number.to_string()), "in order");
        }
    }

    fn sends_byte_by_byte(&mut self) {
        let number = self.random.below(1000);
        let bytes = packet(command::QUERY, format!("SELECT '{number}'").as_bytes());
        let pause = Duration::from_micros(self.random.below(2000));
        self.client.send_split(&bytes, &vec![1; bytes.len()], pause).unwrap();
        let answer = self.client.read_answer().unwrap();
        assert_eq!(answer.value(), Some(&*number.to_string()));
    }

    fn uploads_a_file(&mut self) {
        let count = self.random.below(5000);
        let file: String = (0..count).map(|line| format!("{line}\n")).collect();
        self.client.set_local_file(file.as_bytes());
        let text = format!("LOAD DATA LOCAL INFILE 'file' INTO TABLE {}", self.table);
        assert_eq!(self.client.query(&text).unwrap().affected, count);
        self.rows += count;
        self.sum += (0..count).sum::<u64>();
        self.finds_what_it_put_there();
    }

    fn makes_a_mistake(&mut self) {
        for (text, code) in [("SELEKT 1", 1064), ("SELECT * FROM nowhere", 1146)] {
            assert_eq!(self.client.query(text).unwrap_err().code(), Some(code));
        }
    }

    /// A value of more than 16 MiB, which takes two packets, there and back.
    pub fn sends_a_huge_value(&mut self) {
        const PACKET_BYTES_MAX: usize = 0xff_ffff;
        let value: String = "0123456789abcdef".repeat(17 << 16);
        let table = format!("{}_huge", self.table);
        let create = format!("CREATE TABLE {table} (a LONGTEXT) ENGINE=MyISAM");
        self.client.query(&create).unwrap();
        let mut payload = vec![command::QUERY];
        payload.extend_from_slice(format!("INSERT INTO {table} VALUES ('{value}')").as_bytes());
        let mut bytes = Vec::with_capacity(payload.len() + 8);
        for (number, part) in payload.chunks(PACKET_BYTES_MAX).enumerate() {
            bytes.extend_from_slice(&(part.len() as u32).to_le_bytes()[..3]);
            bytes.push(number as u8);
            bytes.extend_from_slice(part);
        }
        self.client.send_raw(&bytes).unwrap();
        assert_eq!(self.client.read_answer().unwrap().affected, 1);
        let answer = self.client.query(&format!("SELECT a FROM {table}")).unwrap();
        assert_eq!(answer.rows.len(), 1);
        assert!(answer.value() == Some(&*value), "the huge value came back");
        self.client.query(&format!("DROP TABLE {table}")).unwrap();
    }

    /// Rows of an open cursor, fetched two at a time.
    pub fn fetches_from_a_cursor(&mut self) {
        let statement = self.client.prepare("SELECT seq FROM seq_1_to_5").unwrap();
        self.client.send_execute(statement, 1).unwrap();
        self.client.read_answer().unwrap();
        let mut rows = 0;
        for _ in 0..3 {
            let mut body = statement.id.to_le_bytes().to_vec();
            body.extend_from_slice(&2_u32.to_le_bytes());
            self.client.send_command(command::STMT_FETCH, &body).unwrap();
            while self.client.read_packet().unwrap()[0] != 0xfe {
                rows += 1;
            }
        }
        assert_eq!(rows, 5);
        self.client.close_statement(statement).unwrap();
    }
}
