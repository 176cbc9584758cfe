# frozen_string_literal: true

require_relative "fake_init"

# What ends a handler at a row or step ends its job, whatever the handler makes of it; a step that failed is the last one.
class TestEndings < Minitest::Test
  # No error of the language, and none of ours.
  Oops = Class.new(StandardError)

  def setup
    @log = StringIO.new
    OjsWorker.logger = Logger.new(@log)
  end

  def teardown
    OjsWorker.logger = nil
  end

  def perform(args = [], middleware: nil, **options, &handler)
    worker = OjsWorker::Worker.new
    worker.job("t", &handler)
    worker.middleware(&middleware) if middleware
    worker.perform("t", args, **options)
  end

  def form(steps: [], cursors: {}, state: nil)
    { "ojs_resume" => 1, "steps" => steps, "cursors" => cursors, "state" => state }
  end

  def loop_until_stopped(job)
    job.iterate(0...1000) { |_row| job.wait_cancelled(0.01) while job.remaining > 0.2 }
  end

  {
    "rescues_everything_and_returns" => lambda do |job, rows|
      rows.call(job)
    rescue Exception # rubocop:disable Lint/RescueException
      "done"
    end,
    "returns_in_an_ensure" => lambda do |job, rows|
      rows.call(job)
    ensure
      next "done"
    end,
    "rescues_everything_and_raises_an_error_of_its_own" => lambda do |job, rows|
      rows.call(job)
    rescue Exception => e # rubocop:disable Lint/RescueException
      raise Oops, "wrapped: #{e.class}"
    end
  }.each do |what, handler|
    define_method("test_a_handler_that_#{what}_is_ended_all_the_same_and_that_is_in_the_log") do
      outcome = perform(stopping: 0.7) { |job| handler.call(job, method(:loop_until_stopped)) }
      assert_equal(["release", "resumes at its checkpoint"], [outcome.outcome, outcome.reason])
      assert_equal([form(cursors: { "" => 0 })], outcome.checkpoints)
      assert_equal(1, @log.string.lines.grep(/WARN/).size)
      assert_includes(@log.string, "wrapped: OjsWorker::Release") if what.include?("raises")
      assert_includes(@log.string, "test_endings.rb") if what.include?("raises")
    end
  end

  def test_what_a_handler_raises_of_its_own_after_its_end_counts
    { OjsWorker::Retry => true, OjsWorker::Discard => false }.each do |error, retryable|
      outcome = perform(stopping: 0.7) do |job|
        loop_until_stopped(job)
      rescue OjsWorker::Release
        raise error, "mine"
      end
      assert_equal(["mine", retryable], outcome.error.values_at("message", "retryable"))
    end
  end

  def test_a_cancel_that_was_caught_at_a_row_ends_the_job
    { "timeout" => "fail", "cancelled" => "release" }.each do |reason, kind|
      outcome = perform(cancel: reason) do |job|
        job.iterate(0...3) { nil }
      rescue Exception # rubocop:disable Lint/RescueException
        "done"
      end
      assert_equal(kind, outcome.outcome)
    end
  end

  def test_a_step_around_a_loop_that_was_ended_is_not_finished
    outcome = perform(stopping: 0.7) do |job|
      job.step("load") do
        loop_until_stopped(job)
      rescue Exception # rubocop:disable Lint/RescueException
        "A"
      end
    end
    assert_equal(["release", [form(cursors: { "load" => 0 })]], [outcome.outcome, outcome.checkpoints])
  end

  def test_no_step_and_no_row_begins_after_the_end_was_caught
    ran = []
    outcome = perform(stopping: 0.7) do |job|
      begin
        loop_until_stopped(job)
      rescue Exception # rubocop:disable Lint/RescueException
        nil
      end
      job.step("next") { ran << "next" }
    end
    assert_equal(["release", []], [outcome.outcome, ran])
  end

  def test_a_handler_that_ends_the_process_after_its_end_does_so
    outcome = perform(stopping: 0.7) do |job|
      loop_until_stopped(job)
    rescue Exception # rubocop:disable Lint/RescueException
      exit(3)
    end
    assert_equal("release", outcome.outcome)
    assert_includes(@log.string, "SystemExit in its handler: the worker ends")
  end

  def test_other_steps_than_before_end_the_job_also_where_that_is_caught
    outcome = perform(checkpoint: form(steps: [%w[thumbnail T]])) do |job|
      begin
        job.step("other") { 1 }
      rescue OjsWorker::StepsChanged
        nil
      end
      job.step("thumbnail") { 1 }
      "done"
    rescue OjsWorker::StepsChanged
      "done"
    end
    assert_equal(["fail", "StepsChanged"], [outcome.outcome, outcome.error["type"]])
  end

  def test_after_a_step_that_failed_the_same_error_comes_in_place_of_another_step
    ran = []
    outcome = perform do |job|
      begin
        job.step("thumbnail") { raise Oops, "no thumbnail" }
      rescue Oops
        nil
      end
      job.step("pay") { ran << "pay" }
    end
    assert_equal(["fail", ["TestEndings::Oops", "no thumbnail", true]],
                 [outcome.outcome, outcome.error.values_at("type", "message", "retryable")])
    assert_empty(ran)
    assert_empty(outcome.checkpoints)
  end

  def test_a_step_that_failed_may_be_called_again_and_its_rows_go_on
    rows = []
    outcome = perform do |job|
      tries = 0
      begin
        job.step("load") { job.iterate(0...3) { |row| (rows << row) == [0, 1] ? raise(Oops) : nil } }
      rescue Oops
        (tries += 1) < 3 ? retry : raise
      end
      job.step("pay") { "paid" }
    end
    assert_equal("paid", outcome.result)
    assert_equal([0, 1, 1, 2], rows)
  end

  def test_a_step_that_was_left_by_a_break_is_the_last_one
    outcome = perform do |job|
      job.step("load") { break }
      job.step("pay") { 1 }
    end
    assert_equal("fail", outcome.outcome)
    assert_includes(outcome.error["message"], "step load")
  end

  def test_a_step_whose_result_cannot_be_kept_is_one_that_failed
    [Object.new, "x" * 70_000].zip(%w[InvalidResult CheckpointTooLarge]) do |result, type|
      outcome = perform do |job|
        begin
          job.step("a") { result }
        rescue OjsWorker::Discard
          nil
        end
        job.step("b") { 1 }
      end
      assert_equal(type, outcome.error["type"])
    end
  end

  def test_a_step_that_is_called_again_after_its_result_was_too_large_may_return_a_smaller_one
    outcome = perform do |job|
      begin
        job.step("a") { "x" * 70_000 }
      rescue OjsWorker::CheckpointTooLarge
        job.step("a") { "small" }
      end
      job.step("b") { "last" }
    end
    assert_equal("last", outcome.result)
    assert_equal(form(steps: [%w[a small], %w[b last]]), outcome.checkpoints.last)
  end

  # A middleware that calls the handler again, once.
  TRY_AGAIN = lambda do |_job, &handler|
    handler.call
  rescue Oops
    handler.call
  end

  def test_a_middleware_may_call_a_handler_again_and_its_finished_steps_and_rows_stay_finished
    ran = []
    outcome = perform(middleware: TRY_AGAIN) do |job|
      job.iterate(0...3) { |row| (ran << row) == [0, 1] ? raise(Oops) : nil }
      first = job.step("one") { ran << "one" && "ONE" }
      [first, job.step("two") { (ran << "two").count("two") == 1 && "TWO" }]
    end
    assert_equal(%w[ONE TWO], outcome.result)
    assert_equal([0, 1, 1, 2, "one", "two"], ran)
  end

  def test_a_middleware_s_own_steps_are_not_begun_again_when_it_calls_the_handler_again
    around = lambda do |job, &handler|
      [job.step("before") { "B" }] + begin
        handler.call
      rescue Oops
        handler.call
      end
    end
    tries = 0
    outcome = perform(middleware: around) do |job|
      first = job.step("one") { "ONE" }
      job.step("two") { (tries += 1) == 1 ? raise(Oops) : "TWO" }
      [first]
    end
    assert_equal(%w[B ONE], outcome.result)
    assert_equal(%w[before one two], outcome.checkpoints.last["steps"].map(&:first))
  end

  def test_a_handler_that_was_ended_is_not_called_again
    calls = 0
    again = lambda do |_job, &handler|
      handler.call
    rescue Exception # rubocop:disable Lint/RescueException
      handler.call
    end
    outcome = perform(middleware: again, stopping: 0.7) { |job| (calls += 1) && loop_until_stopped(job) }
    assert_equal(["release", 1], [outcome.outcome, calls])
  end
end
