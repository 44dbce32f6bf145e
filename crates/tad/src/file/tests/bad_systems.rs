//! Each kind of mistake in a system: its line, its reason, and what would fix it.

use super::*;

#[track_caller]
fn assert_at(errors: &str, line: usize, words: &[&str]) {
    let place = format!("bad.toml:{line}: ");
    assert!(errors.contains(&place), "no {place} in\n{errors}");
    for word in words {
        assert!(errors.contains(word), "no {word:?} in\n{errors}");
    }
}

#[test]
fn what_is_no_toml_is_reported_with_its_line() {
    let errors = errors_after("count = 7", "count = = 7");
    assert_at(&errors, line_of("count = 7"), &["no TOML"]);
}

#[test]
fn all_mistakes_are_reported_at_once_in_the_order_of_lines() {
    let text = GOOD
        .replace("rate = \"1 GHz\"", "rate = \"0 GHz\"")
        .replace("threads = 2", "threads = 0")
        .replace("cpu 50 us", "cpu 50 KB");
    let errors = read_tad("bad.toml", &text).unwrap_err().0;
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert!(errors.is_sorted_by_key(|error| error.line), "{errors:?}");
}

#[test]
fn a_stage_that_nothing_feeds() {
    let stage = "[[stage]]\nname = \"respond\"";
    let lonely = "[[stage]]\nname = \"lonely\"\nprocess = \"server\"\nthreads = 1\n\n";
    let errors = errors_after(stage, &format!("{lonely}{stage}"));
    assert_at(&errors, line_of(stage) + 1, &["nothing feeds stage \"lonely\"", "[[flow]]"]);
}

#[test]
fn a_path_through_a_stage_that_is_missing() {
    let errors = errors_after("stage = \"stream\"\nat", "stage = \"steam\"\nat");
    let line = line_of("stage = \"stream\"\nat");
    assert_at(&errors, line, &["no stage \"steam\"", "Did you mean \"stream\"?"]);
}

#[test]
fn an_arrow_to_a_stage_that_is_missing() {
    let errors = errors_after("to = \"stream\"\nkind", "to = \"river\"\nkind");
    assert_at(
        &errors,
        line_of("to = \"stream\"\nkind"),
        &["no stage \"river\"", "handle, log, stream"],
    );
}

#[test]
fn a_resource_without_a_rate_or_with_rate_zero() {
    let errors = errors_after("rate = \"100 MB/s\"", "rate = \"0 MB/s\"");
    assert_at(&errors, line_of("rate = \"100 MB/s\""), &["\"io\" has rate 0", "100 MB/s"]);
    let errors = errors_after("rate = \"100 MB/s\"", "");
    assert_at(&errors, line_of("name = \"io\"") - 1, &["\"io\" has no rate", "MB/s"]);
}

#[test]
fn a_resource_that_is_unknown() {
    let errors = errors_after("uses = [\"cpu\", \"io?\"]", "uses = [\"cpu\", \"oi?\"]");
    assert_at(&errors, line_of("uses = [\"cpu\", \"io?\"]"), &["no resource \"oi\""]);
    let errors = errors_after("kind = \"lock\"", "kind = \"look\"");
    assert_at(&errors, line_of("kind = \"lock\""), &["no kind of resource"]);
}

#[test]
fn steps_that_wait_for_one_another() {
    // The handler waits for the log, which waits for the handler.
    let log = "stage = \"log\"\nuses";
    let errors = errors_after(log, "stage = \"log\"\nwaits = [\"handle\"]\nuses");
    assert!(errors.contains("request \"put\" never ends"), "{errors}");
    assert!(errors.contains("handle, log") || errors.contains("log, handle"), "{errors}");
}

#[test]
fn a_step_that_waits_for_what_it_submits_only_at_its_end() {
    let errors = errors_after("submits = [\"log\"]", "then = [\"log\"]");
    assert!(errors.contains("request \"put\" never ends"), "{errors}");
}

#[test]
fn pools_whose_threads_need_one_another() {
    // Another request holds a thread of the log while it needs a handler.
    let other = "[[request]]\nname = \"back\"\nanswered-by = [\"log\"]\n\n\
        [[request.step]]\nname = \"log\"\nstage = \"log\"\nuses = [\"cpu 1 us\", \"latch 1 us\"]\ncalls = [\"handle\"]\n\n\
        [[request.step]]\nname = \"handle\"\nstage = \"handle\"\nuses = [\"cpu 1 us\"]\n\n[[control]]";
    let errors = errors_after("[[control]]", other);
    assert!(errors.contains("a deadlock by construction"), "{errors}");
    assert!(errors.contains("asynchronous or on-demand"), "{errors}");
}

#[test]
fn a_pool_whose_threads_need_another_of_the_same_pool() {
    let log = "stage = \"log\"\nuses = [\"cpu 10 us\", \"latch 5 us\"]";
    let inner = "[[request.step]]\nname = \"again\"\nstage = \"handle\"\nuses = [\"cpu 1 us\"]";
    let then = format!("{log}\nthen = [\"again\"]\n\n{inner}");
    // The handler waits for the log, not for what comes after it.
    warnings_after(log, &then);
    let text = GOOD.replace("waits = [\"log\"]", "waits = [\"again\"]").replace(log, &then);
    let errors = read_tad("bad.toml", &text).unwrap_err().to_string();
    assert_at(&errors, line_of("name = \"handle\"\nprocess"), &["deadlock", "the same stage"]);
}

#[test]
fn a_stage_without_a_bound_breaks_the_circle() {
    // As above, but the handlers are made for each request.
    let text = GOOD
        .replace("threads = 30\nqueue = { explicit = true, pluggable = true }", "threads = \"on-demand\"")
        .replace("stage = \"log\"\nuses = [\"cpu 10 us\", \"latch 5 us\"]", "stage = \"log\"\nuses = [\"cpu 10 us\", \"latch 5 us\"]\ncalls = [\"again\"]\n\n[[request.step]]\nname = \"again\"\nstage = \"handle\"\nuses = [\"cpu 1 us\"]");
    read_tad("good.toml", &text).unwrap_or_else(|errors| panic!("{errors}"));
}

#[test]
fn units_of_another_dimension() {
    let errors = errors_after("cpu 100 us", "cpu 100 KB");
    assert_at(&errors, line_of("cpu 100 us"), &["cycles", "\"100 us\""]);
    let errors = errors_after("rate = \"1 Gbps\"", "rate = \"1 GHz\"");
    assert_at(&errors, line_of("rate = \"1 Gbps\""), &["Gbps"]);
    let errors = errors_after("io = \"128 KB\"", "io = \"128 ms\"");
    assert_at(&errors, line_of("io = \"128 KB\""), &["bytes", "64 KB"]);
}

#[test]
fn a_parameter_that_would_count_two_things() {
    let errors = errors_after("cpu 100 us", "cpu $io");
    assert!(errors.contains("parameter \"io\" counts cycles elsewhere and bytes here"), "{errors}");
}

#[test]
fn a_parameter_that_absent_uses_or_knows() {
    let errors = errors_after("\"$reply\"", "\"1 KB\"");
    assert_at(&errors, line_of("parameters = {"), &["\"reply\" is used by no step"]);
    let errors = errors_after("\"$reply\"", "\"$repy\"");
    assert_at(&errors, line_of("\"$reply\""), &["no parameter \"repy\"", "\"reply\"?"]);
}

#[test]
fn a_step_that_uses_what_its_stage_does_not_declare() {
    let errors = errors_after("uses = [\"io $io\"]", "uses = [\"io $io\", \"cpu 1 us\"]");
    assert_at(
        &errors,
        line_of("uses = [\"io $io\"]"),
        &["does not declare", "`uses` of the stage"],
    );
}

#[test]
fn a_step_that_is_submitted_twice_or_never() {
    let errors = errors_after("then = [\"respond\"]", "then = [\"respond\", \"fetch\"]");
    assert_at(&errors, line_of("name = \"fetch\""), &["submitted 2 times"]);
    let errors = errors_after("then = [\"respond\"]", "");
    let line = line_of("name = \"respond\"\nstage");
    assert_at(&errors, line, &["no step submits \"respond\""]);
    let errors = errors_after("at = \"other\"", "at = \"other\"\nthen = [\"handle\"]");
    assert!(errors.contains("\"handle\" is the first"), "{errors}");
}

#[test]
fn a_wait_for_a_step_that_absent_submits() {
    let errors = errors_after("submits = [\"log\"]", "");
    assert!(errors.contains("\"handle\" waits for it for ever"), "{errors}");
}

#[test]
fn steps_that_the_request_does_not_have() {
    let errors = errors_after("calls = [\"fetch\"]", "calls = [\"fetsch\"]");
    assert_at(&errors, line_of("calls = [\"fetch\"]"), &["\"fetsch\"", "\"fetch\"?"]);
    let errors = errors_after("answered-by = [\"respond\"]", "answered-by = [\"absent\"]");
    assert_at(&errors, line_of("answered-by = [\"respond\"]"), &["\"absent\""]);
    let errors = errors_after("answered-by = [\"respond\"]\n", "\n");
    assert!(errors.contains("does not say when its client has the answer"), "{errors}");
}

#[test]
fn two_things_of_one_name() {
    for (old, new, what) in [
        ("name = \"log\"\nprocess", "name = \"handle\"\nprocess", "stage \"handle\""),
        ("name = \"io\"", "name = \"cpu\"", "resource \"cpu\""),
        ("name = \"put\"", "name = \"get\"", "request \"get\""),
        ("name = \"fetch\"", "name = \"handle\"", "step \"handle\""),
    ] {
        let errors = errors_after(old, new);
        assert_at(&errors, line_of(old), &["there are two of", what]);
    }
}

#[test]
fn keys_that_mean_nothing() {
    let errors = errors_after("count = 7", "cuont = 7");
    assert_at(&errors, line_of("count = 7"), &["[[node]] has no key `cuont`", "\"count\"?"]);
    let errors = errors_after("version = \"1\"", "verzion = \"1\"");
    assert_at(&errors, line_of("version"), &["no key `verzion`"]);
    let errors = errors_after("version = \"1\"", "version = 1");
    assert_at(&errors, line_of("version"), &["integer", "in quotes"]);
}

#[test]
fn a_process_on_a_node_that_is_missing() {
    let errors = errors_after("node = \"slave\"", "node = \"master\"");
    assert_at(&errors, line_of("node = \"slave\""), &["runs on node \"master\"", "Known: slave"]);
}

#[test]
fn no_threads() {
    let errors = errors_after("threads = 30", "threads = 0");
    assert_at(&errors, line_of("threads = 30"), &["zero threads", "on-demand"]);
    let errors = errors_after("threads = 30", "threads = \"many\"");
    assert_at(&errors, line_of("threads = 30"), &["no number of threads"]);
}

#[test]
fn a_stage_without_a_queue_has_no_order_and_never_goes_on() {
    let stream = "threads = \"on-demand\"";
    let errors = errors_after(stream, "threads = \"on-demand\"\nasynchronous = true");
    assert_at(&errors, line_of(stream) + 1, &["`asynchronous` means nothing"]);
    let errors = errors_after(stream, "threads = \"on-demand\"\nqueue = { ordered = true }");
    assert_at(&errors, line_of(stream) + 1, &["`queue` means nothing"]);
    let errors = errors_after("{ ordered = true }", "{ ordered = true, pluggable = true }");
    assert_at(&errors, line_of("{ ordered = true }"), &["cannot take another policy"]);
}

#[test]
fn a_place_that_there_is_not() {
    let errors = errors_after("at = \"other\"", "at = \"node 7\"");
    assert_at(&errors, line_of("at = \"other\""), &["no node 7", "7 of them"]);
    let errors = errors_after("at = \"other\"", "at = \"elsewhere\"");
    assert_at(&errors, line_of("at = \"other\""), &["no place"]);
}

#[test]
fn remedies_for_stages_that_are_missing() {
    let line = line_of("remedies = [");
    let errors = errors_after("stage = \"stream\", threads", "stage = \"flood\", threads");
    assert_at(&errors, line, &["names the stage \"flood\"", "\"split\""]);
    let errors = errors_after("stage = \"stream\", threads", "stage = \"log\", threads");
    assert_at(&errors, line, &["has a queue already"]);
    let errors = errors_after("add-scheduling-point", "ad-scheduling-point");
    assert_at(&errors, line, &["no remedy \"ad-scheduling-point\"", "\"add-scheduling-point\"?"]);
    let errors = errors_after("remedy.no-scheduling.d", "remedy.no-schedule.d");
    assert!(errors.contains("no problem \"no-schedule\""), "{errors}");
}

#[test]
fn a_remedy_may_name_a_stage_that_an_earlier_one_makes() {
    let split =
        "{ do = \"split\", stage = \"handle\", resource = \"io\", into = \"reader\", threads = 4 }";
    let set = "{ do = \"set-threads\", stage = \"reader\", threads = 8 }";
    let later = format!(
        "[remedy.unknown-usage.d]\nremedies = [{split}]\n\n[remedy.hidden-contention.d]\nremedies = [{set}]\n"
    );
    read_tad("good.toml", &format!("{GOOD}\n{later}")).unwrap_or_else(|errors| panic!("{errors}"));
    // The order of problems counts, not that of the file; the other way round it is not made yet.
    let earlier = format!(
        "{GOOD}\n[remedy.hidden-contention.d]\nremedies = [{split}]\n\n[remedy.unknown-usage.d]\nremedies = [{set}]\n"
    );
    let errors = read_tad("bad.toml", &earlier).unwrap_err().to_string();
    assert!(errors.contains("names the stage \"reader\""), "{errors}");
}

#[test]
fn a_control_that_changes_the_architecture() {
    let errors = errors_after("do = \"schedule-threads\"", "do = \"unblock\"");
    assert_at(&errors, line_of("do = \"schedule-threads\""), &["changes the architecture"]);
}

#[test]
fn a_shared_queue_of_stages_that_have_none() {
    let shared = "[[shared-queue]]\nname = \"both\"\nstages = [\"handle\", \"stream\"]\nconcurrency = 40\n\n[[control]]";
    let errors = errors_after("[[control]]", shared);
    assert_at(&errors, line_of("[[control]]") + 2, &["\"stream\" has no queue"]);
}

#[test]
fn brackets_that_the_requests_do_not_bear_out_are_a_warning() {
    // No request uses the disk at the handler.
    let warnings = warnings_after("uses-after = [\"io 1 KB\"]", "");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("\"io?\"") && warnings[0].contains("none of its steps"));
    // Every one does.
    let warnings = warnings_after("uses = [\"cpu 100 us\"]", "uses = [\"cpu 100 us\", \"io 1 B\"]");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("every one of its steps"), "{warnings:?}");
    // Some do not although there are no brackets.
    let warnings = warnings_after("cpu 100 us", "io 100 KB");
    assert!(
        warnings.iter().any(|warning| warning.contains("1 of its 2 steps do not")),
        "{warnings:?}"
    );
}
