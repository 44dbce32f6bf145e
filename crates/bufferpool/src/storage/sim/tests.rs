use super::*;

fn model() -> DeviceModel {
    DeviceModel { units: 2, read_ns: 10, write_ns: 100, ..DeviceModel::ssd_c() }
}

fn request(kind: CommandKind, index: usize) -> (Request, Arc<Waiter>) {
    let waiter = Arc::new(Waiter::default());
    let command = Command { kind, page: PageId(index as u64), pages: 1, page_size: 4096 };
    (Request { command, waiter: Arc::clone(&waiter), index }, waiter)
}

fn state(model: DeviceModel) -> State {
    State::new(Box::new(model), model.host)
}

/// Two units, three reads of 10 ns that arrive together end at 10, 10 and 20.
#[test]
fn units_work_in_parallel_and_in_order() {
    let model = model();
    let mut state = state(model);
    let waiters: Vec<_> = (0..3)
        .map(|index| {
            let (request, waiter) = request(CommandKind::Read, index);
            state.reads.push_back(request);
            waiter
        })
        .collect();
    state.dispatch(0);
    assert_eq!(state.next_event_ns(), Some(10));
    state.advance(15);
    assert_eq!(waiters[0].wait(), [0]);
    assert_eq!(waiters[1].wait(), [1]);
    // The third began when a unit was free, at 10, and not at the call at 15.
    assert_eq!(state.next_event_ns(), Some(20));
    assert_eq!(state.stats.busy_ns, 30);
}

/// A flush on a draining device begins after the commands in progress, before the queued ones.
#[test]
fn a_draining_flush_waits_and_holds_others_back() {
    let model = DeviceModel { sync_ns: 5, ..model() };
    let mut state = state(model);
    for index in 0..2 {
        state.writes.push_back(request(CommandKind::Write, index).0);
    }
    state.dispatch(0);
    let sync = Arc::new(Waiter::default());
    state.syncs.push(Arc::clone(&sync));
    state.begin_flush(1);
    let (late, _waiter) = request(CommandKind::Read, 9);
    state.reads.push_back(late);
    state.dispatch(2);
    assert_eq!(state.running.len(), 2);
    state.advance(100);
    assert_eq!(state.next_event_ns(), Some(105));
    state.advance(105);
    assert_eq!(sync.wait(), [0]);
    assert_eq!(state.next_event_ns(), Some(115));
}

#[test]
fn writes_get_their_turn() {
    let model = DeviceModel {
        units: 1,
        host: HostQueue { reads_per_turn: 2, writes_per_turn: 1 },
        ..model()
    };
    let mut state = state(model);
    for index in 0..6 {
        state.reads.push_back(request(CommandKind::Read, index).0);
        state.writes.push_back(request(CommandKind::Write, 100 + index).0);
    }
    let mut order = Vec::new();
    while let Some(request) = state.next() {
        order.push(request.index);
    }
    assert_eq!(order[..6], [0, 1, 100, 2, 3, 101]);
    assert_eq!(order.len(), 12);
}
