# frozen_string_literal: true

require_relative "fake_init"

# What becomes of what a handler returns or raises.
class TestAnswers < WorkerTest
  class OwnError < StandardError; end

  def test_type_and_job_id_come_first
    worker = worker_with { |job| job.args[0] == "fail" ? raise("x") : 1 }
    start(worker)
    @init.greet
    %w[ok fail].each do |word|
      @init.send_frame(job_frame("j1", "t", word))
      assert_match(/\A\{"type":"(ack|fail)","job_id":"j1"/, @init.next_line)
    end
  end

  def test_a_result_that_is_no_json_is_left_out_and_logged_without_its_value
    cycle = []
    cycle << cycle
    ["secret \xff", Float::NAN, Object.new, Time.now, cycle, { nil => 1 }, (1..200).reduce([]) { |inner, _| [inner] }]
      .each do |result|
      @log.truncate(0)
      outcome = worker_with { result }.perform("t", [], id: "j7")
      assert_equal(["ack", nil], [outcome.outcome, outcome.result])
      assert_match(/ERROR.*job j7 .*#{result.class}.*no JSON/, @log.string)
      refute_includes(@log.string, "secret")
    end
  end

  def test_an_error_fails_the_job_with_class_message_and_its_own_backtrace
    error = worker_with { raise OwnError, "broken" }.perform("t").error
    assert_equal(["TestAnswers::OwnError", "broken", "handler_error", true],
                 error.values_at("type", "message", "code", "retryable"))
    assert_match(/test_answers\.rb/, error["backtrace"].first)
    refute(error["backtrace"].any? { |line| line.include?("lib/ojs_worker") })
  end

  def test_whatever_ends_a_handler_is_one_failure
    [-> { exit(3) }, -> { raise Interrupt }, -> { raise NoMemoryError }, -> { Thread.exit }, -> { throw :nothing },
     -> { raise Class.new(StandardError) { def message = raise("no message") } },
     -> { raise Class.new(StandardError) { def message = raise(NotImplementedError) } },
     -> { (deep = -> { deep.call + 1 }).call }, -> { raise "bad \xff" }].each do |ending|
      outcome = worker_with { ending.call }.perform("t")
      assert_equal(["fail", true], [outcome.outcome, outcome.error["retryable"]])
      refute_empty(outcome.error["message"])
    end
  end

  def test_retry_and_discard_describe_the_failure
    options = { code: "x_a", type: "Mine", details: { "a" => 1 } }
    error = worker_with { raise OjsWorker::Retry.new("later", after: 1.5, **options) }.perform("t").error
    assert_equal({ "message" => "later", "code" => "x_a", "type" => "Mine", "retryable" => true,
                   "details" => { "a" => 1, "retry_after_ms" => 1500 } }, error.except("backtrace"))
    error = worker_with { raise OjsWorker::Discard, "never" }.perform("t").error
    assert_equal(["never", false, "Discard"], error.values_at("message", "retryable", "type"))
    assert_raises(ArgumentError) { OjsWorker::Retry.new("x", after: -1) }
  end

  def test_a_retry_in_a_rescue_reports_what_was_rescued
    error = worker_with do
      raise OwnError, "the cause"
    rescue OwnError
      raise OjsWorker::Retry
    end.perform("t").error
    assert_equal(["the cause", "TestAnswers::OwnError"], error.values_at("message", "type"))
  end

  def test_release_gives_back_and_passes_a_rescue
    outcome = worker_with do
      raise OjsWorker::Release.new("no licence", after: 1)
    rescue StandardError
      "caught"
    end.perform("t")
    assert_equal(["release", "no licence"], [outcome.outcome, outcome.reason])
  end

  def test_sleep_ends_when_the_job_is_cancelled
    worker = worker_with { |job| job.sleep(60) }
    outcome = worker.perform("t", [], cancel: "shutdown", cancel_after: 0.01)
    assert_equal(%w[release shutdown], [outcome.outcome, outcome.reason])
    outcome = worker.perform("t", [], timeout: 0.01)
    assert_equal(["timeout", "Timeout", true], outcome.error.values_at("code", "type", "retryable"))
    refute_match(/WARN|ERROR/, @log.string)
  end

  def test_a_handler_that_ends_by_itself_after_a_cancel_decides
    outcome = worker_with { |job| job.wait_cancelled && "done" }.perform("t", [], cancel: "cancelled")
    assert_equal("done", outcome.result)
    outcome = worker_with { |job| job.wait_cancelled && raise("gave up") }.perform("t", [], cancel: "new reason")
    assert_equal("gave up", outcome.error["message"])
  end

  def test_a_failure_is_a_warning_while_attempts_are_left
    worker = worker_with { raise "kaputt" }
    { { attempt: 1, max_attempts: 3 } => "WARN", { attempt: 3, max_attempts: 3 } => "ERROR", {} => "ERROR" }
      .each do |envelope, level|
      @log.truncate(0)
      worker.perform("t", ["secret"], envelope: envelope)
      assert_match(/#{level}.*RuntimeError: kaputt/, @log.string)
      refute_includes(@log.string, "secret")
    end
  end

  def test_own_words_are_not_logged_but_those_of_a_cause_are
    worker_with { raise OjsWorker::Retry, "soon" }.perform("t")
    worker_with { raise OjsWorker::Release, "soon" }.perform("t")
    assert_empty(@log.string)
    worker_with do
      raise "the cause"
    rescue StandardError
      raise OjsWorker::Discard, "never"
    end.perform("t")
    assert_match(/Discard: never.*caused by RuntimeError: the cause/m, @log.string)
  end

  def test_a_failure_is_seen_once_whatever_its_kind
    seen = []
    worker = new_worker
    worker.on_failed { |job, error| seen << [job.type, error.class] }
    worker.on_failed { raise "a hook of its own" }
    worker.job("crash") { raise "x" }
    worker.job("discard") { raise OjsWorker::Discard, "x" }
    worker.job("typed", args: [String]) { |_job, word| word }
    worker.job("sleep") { |job| job.sleep(60) }
    worker.job("back") { raise OjsWorker::Release, "x" }
    %w[crash discard typed unknown back].each { |type| worker.perform(type) }
    worker.perform("sleep", [], timeout: 0.01)
    worker.perform("sleep", [], cancel: "lost")
    assert_equal([["crash", RuntimeError], ["discard", OjsWorker::Discard], ["typed", OjsWorker::InvalidArgs],
                  ["unknown", OjsWorker::Retry], ["sleep", OjsWorker::Cancelled]], seen)
  end

  def test_a_timeout_in_a_hook_works
    seen = Thread::Queue.new
    worker = new_worker
    worker.on_failed { Timeout.timeout(0.05) { sleep(1) } && seen << :late }
    worker.on_failed { seen << :next }
    worker.job("t") { raise "x" }
    start(worker)
    @init.greet
    assert_equal("x", @init.answer_to("j1")["error"]["message"])
    assert_equal(:next, take(seen))
    assert_match(/a hook for failed jobs raises: Timeout::Error/, @log.string)
  end

  def test_middleware_is_around_the_handler_the_first_one_outermost
    worker = new_worker
    worker.middleware { |job, &handler| ["outer", *handler.call] << job.context.delete(:left) }
    inner = Class.new do
      def call(job)
        job.context[:left] = "left"
        ["inner", *yield]
      end
    end
    worker.middleware(inner.new)
    worker.job("t") { ["handler"] }
    assert_equal(%w[outer inner handler left], worker.perform("t").result)
  end

  def test_wrong_arguments_fail_for_good_and_their_values_are_not_told
    worker = new_worker
    worker.job("t", args: [String, [Integer, nil], Float]) { |_job, to, count, ratio| [to, count, ratio] }
    assert_equal(["a", nil, 2], worker.perform("t", ["a", nil, 2]).result)
    {
      [7, 1, 1.0] => "args[0] (to): String expected, Integer given",
      ["a", "secret", 1.0] => "args[1] (count): Integer or nil expected, String given",
      ["a", 1, true] => "args[2] (ratio): Float expected, true given",
      ["a"] => "arguments: 3 expected, 1 given",
      ["a", 1, 1.0, 4] => "arguments: 3 expected, 4 given"
    }.each do |args, message|
      error = worker.perform("t", args).error
      assert_equal(["InvalidArgs", "invalid_args", false, message],
                   error.values_at("type", "code", "retryable", "message"))
    end
  end

  def test_details_that_are_no_json_are_left_out
    error = worker_with { raise OjsWorker::Retry.new("x", details: { a: Object.new }) }.perform("t").error
    assert_nil(error["details"])
    assert_includes(@log.string, "details of a Retry")
  end

  def test_progress_is_clamped_and_a_report_after_the_answer_is_an_error
    kept = nil
    outcome = worker_with do |job|
      kept = job
      [0.5, 2, -1].each { |fraction| job.progress(fraction, "half", data: { a: 1 }) }
      assert_raises(ArgumentError) { job.progress(Float::NAN) }
      assert_raises(TypeError) { job.progress(1, data: Object.new) }
      nil
    end.perform("t")
    assert_equal([0.5, 1.0, 0.0], outcome.progress.map { |report| report["progress"] })
    assert_equal({ "progress" => 0.5, "message" => "half", "data" => { "a" => 1 } }, outcome.progress[0])
    assert_raises(OjsWorker::Error) { kept.heartbeat }
  end

  def test_perform_checks_what_it_is_given
    worker = worker_with { |job| job.sleep(60) }
    assert_raises(ArgumentError) { worker.perform("t", "a") }
    assert_raises(ArgumentError) { worker.perform("t", [Object.new]) }
    go = Thread::Queue.new
    assert_raises(OjsWorker::Error) { worker_with { go.pop }.perform("t", [], patience: 0.05) }
    go << nil
    assert_predicate(worker_with { nil }.perform("t"), :ack?)
  end

  private

  def worker_with(&handler)
    worker = new_worker
    worker.job("t", &handler)
    worker
  end
end
