# frozen_string_literal: true

require_relative "fake_init"

# What becomes of a handler's result or error.
class TestAnswers < WorkerTest
  def answer_of(*args, **more, &handler)
    serve(&handler)
    @init.answer_to("j1", "t", *args, **more)
  end

  def error_of(*args, &handler)
    answer = answer_of(*args, &handler)
    assert_equal("fail", answer["type"])
    answer["error"]
  end

  def test_a_result_is_acknowledged
    assert_equal({ "type" => "ack", "job_id" => "j1", "result" => { "sum" => 3 } }, answer_of(1, 2) { |job| { sum: job.args.sum } })
  end

  def test_no_result_is_acknowledged_without_one
    assert_equal({ "type" => "ack", "job_id" => "j1" }, answer_of { nil })
  end

  def test_an_error_fails_the_job_with_class_message_and_backtrace_and_is_in_the_log
    error = error_of { |_job| raise KeyError, "no such mailbox" }
    assert_equal(%w[handler_error KeyError], error.values_at("code", "type"))
    assert_equal("no such mailbox", error["message"])
    assert(error["retryable"])
    assert_includes(error["backtrace"][0], "test_answers.rb")
    refute(error["backtrace"].any? { |line| line.include?("lib/ojs_worker") })
    assert_includes(@log.string, "KeyError: no such mailbox")
    assert_includes(@log.string, "test_answers.rb")
  end

  def test_an_error_without_a_message_is_called_by_its_class
    assert_equal("IOError", error_of { |_job| raise IOError, "" }["message"])
  end

  def test_retry_fails_the_job_in_its_own_words
    error = error_of { |_job| raise OjsWorker::Retry.new("busy", after: 2.5, code: "x_busy", details: { "who" => "smtp" }) }
    assert_equal({ "code" => "x_busy", "retryable" => true, "message" => "busy", "type" => "Retry",
                   "details" => { "who" => "smtp", "retry_after_ms" => 2500 } }, error.reject { |name, _| name == "backtrace" })
  end

  def test_a_retry_in_a_rescue_tells_what_was_rescued
    error = error_of do |_job|
      Integer("x")
    rescue ArgumentError
      raise OjsWorker::Retry
    end
    assert_equal("ArgumentError", error["type"])
    assert_includes(error["message"], 'invalid value for Integer(): "x"')
  end

  def test_discard_fails_the_job_for_good
    assert_equal(false, error_of { |_job| raise OjsWorker::Discard, "never" }["retryable"])
  end

  def test_release_gives_the_job_back
    answer = answer_of { raise OjsWorker::Release, "not now" }
    assert_equal({ "type" => "release", "job_id" => "j1", "reason" => "not now" }, answer)
  end

  def test_an_after_that_is_no_time_is_an_error
    [-1, Float::NAN, Float::INFINITY, "5"].each { |after| assert_raises(ArgumentError) { OjsWorker::Retry.new("x", after: after) } }
  end

  cycle = []
  cycle << cycle
  deep = 100.times.inject(1) { |inner, _| [inner] }
  {
    "an_object" => Object.new, "a_time" => Time.at(0), "a_nan" => Float::NAN, "a_cycle" => cycle, "too_deep" => deep,
    "invalid_utf8" => "\xff", "binary" => "\xff".b, "an_object_as_key" => { Object.new => 1 }
  }.each do |name, result|
    define_method("test_a_result_with_#{name}_is_the_failure_invalid_result") do
      error = error_of { |_job| result }
      assert_equal(["InvalidResult", false], error.values_at("type", "retryable"))
      assert(error["message"].start_with?("the handler's result is not JSON"), error["message"])
    end
  end

  def test_a_result_of_99_levels_is_taken
    deep = 99.times.inject(1) { |inner, _| [inner] }
    assert_equal(deep, answer_of { deep }["result"])
  end

  def test_a_result_over_max_frame_is_dropped_and_logged
    worker = new_worker
    worker.job("t") { "x" * 2000 }
    start(worker)
    @init.greet(max_frame: 1000)
    assert_equal({ "type" => "ack", "job_id" => "j1" }, @init.answer_to("j1"))
    assert_includes(@log.string, "its result is dropped")
  end

  def test_a_report_over_max_frame_loses_details_and_backtrace
    worker = new_worker
    worker.job("t") { raise OjsWorker::Retry.new("m" * 500, details: { "x" => "y" * 2000 }) }
    start(worker)
    @init.greet(max_frame: 1000)
    error = @init.answer_to("j1")["error"]
    assert_equal("m" * 200, error["message"])
    refute(error.key?("details"))
  end

  def test_a_handler_that_ends_its_thread_fails_and_the_worker_lives_on
    serve { |job| job.id == "j1" ? Thread.current.kill : 7 }
    assert_equal("fail", @init.answer_to("j1")["type"])
    assert_equal(7, @init.answer_to("j2")["result"])
  end

  def test_an_error_whose_message_cannot_be_made_fails_the_job_all_the_same
    broken = Class.new(StandardError) { define_method(:message) { raise IOError } }
    error = error_of { |_job| raise broken }
    assert_equal("(its message cannot be shown: IOError)", error["message"])
  end

  def test_an_id_with_a_line_break_begins_no_line_of_the_log
    serve { |_job| raise "boom" }
    @init.answer_to("j\nFATAL: forged")
    assert_includes(@log.string, 'job j\nFATAL: forged (t) failed')
    assert_empty(@log.string.lines.grep(/\AFATAL/))
  end

  def test_a_job_that_failed_by_retry_with_a_cause_is_in_the_log_once_with_its_stack
    error_of do |_job|
      raise KeyError, "the cause"
    rescue KeyError
      raise OjsWorker::Retry
    end
    assert_equal(1, @log.string.scan("job j1 (t) failed").size)
    assert_includes(@log.string, "test_answers.rb")
    assert_includes(@log.string, "caused by KeyError: the cause")
  end

  def test_an_option_that_there_is_not_is_named_with_those_that_there_are
    { OjsWorker::Retry => "after, code, type, details", OjsWorker::Discard => "code, type, details" }.each do |kind, options|
      error = assert_raises(ArgumentError) { kind.new("m", afer: 1) }
      assert_equal("#{kind}.new: unknown option :afer; the options are #{options}", error.message)
    end
  end

  def test_a_job_whose_result_is_no_json_is_in_the_log_once
    error_of { Time.now }
    assert_equal(1, @log.string.scan("job j1 (t) failed").size)
    assert_includes(@log.string, "the handler's result is not JSON")
  end

  # How a program's own watchdog ends what it takes for hanging.
  { "killed" => :kill.to_proc, "interrupted" => ->(thread) { thread.raise(Class.new(Exception), "late") } }.each do |how, act|
    define_method("test_a_job_whose_thread_is_#{how}_while_its_position_is_saved_is_answered") do
      saving = Thread::Queue.new
      serve do |job|
        job.define_singleton_method(:save_progress) { (saving << Thread.current) && sleep(0.2) }
        raise "boom"
      end
      @init.send_frame(job_frame("j1"))
      act.call(take(saving))
      assert_equal("boom", @init.answer["error"]["message"])
      assert_equal("pong", @init.send_frame({ type: "ping", id: 1 }) && @init.next_frame["type"])
    end
  end

  def test_a_logger_that_raises_costs_no_answer_and_not_the_worker
    broken = Logger.new(@log)
    broken.formatter = proc { raise KeyError, "a formatter with a mistake" }
    OjsWorker.logger = broken
    serve { |_job| raise "boom" }
    _, errors = capture_io do
      2.times { |n| assert_equal("boom", @init.answer_to("j#{n}")["error"]["message"]) }
      @init.send_frame({ type: "error", code: "unavailable", message: "x", job_id: "j1" })
      assert_equal("boom", @init.answer_to("j3")["error"]["message"])
    end
    assert_equal(1, errors.lines.grep(/KeyError: a formatter with a mistake/).size)
  end

  def test_a_job_that_comes_as_a_handler_ends_its_thread_finds_another_one
    pool = OjsWorker::Pool.new { 1 }
    done = Thread::Queue.new
    pool.submit(-> { Thread.exit })
    tasks = pool.instance_variable_get(:@tasks)
    # The thread has looked for tasks before this one is there.
    tasks.define_singleton_method(:<<) do |task|
      sleep(0.05)
      super(task)
    end
    pool.submit(-> { done << 1 })
    assert_equal(1, take(done))
  ensure
    pool.close
  end

  def test_exit_in_a_handler_fails_its_job_and_ends_the_worker
    _, thread = serve { |_job| exit(3) }
    error = @init.answer_to("j1")["error"]
    assert_equal(["the handler called exit(3)", true], error.values_at("message", "retryable"))
    assert_equal(0, @init.expect("ready")["concurrency"])
    assert_equal(3, thread.value.status)
  end

  def test_messages_that_are_no_utf8_are_mended
    assert_includes(error_of { |_job| raise "caf\xe9 \xff".b }["message"], "caf")
  end
end
