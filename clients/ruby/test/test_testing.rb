# frozen_string_literal: true

require_relative "fake_init"
require "ojs_worker/testing"

# Tests of handlers: perform and devserver.
class TestTesting < Minitest::Test
  def setup
    @log = StringIO.new
    OjsWorker.logger = Logger.new(@log)
  end

  def teardown
    OjsWorker.logger = nil
  end

  def worker(&handler)
    OjsWorker::Worker.new.tap { |worker| worker.job("t", &handler) }
  end

  def test_perform_gives_the_result_as_json_has_it
    outcome = worker { |job| { sum: job.args.sum, kind: :sum } }.perform("t", [1, 2])
    assert(outcome.ack?)
    assert_equal(["ack", { "sum" => 3, "kind" => "sum" }], [outcome.outcome, outcome.result])
  end

  def test_arguments_go_through_json_and_the_handler_gets_its_own
    given = [{ a: 1 }]
    outcome = worker { |job| job.args.tap { |args| args[0]["b"] = 2 } }.perform("t", given)
    assert_equal([{ "a" => 1, "b" => 2 }], outcome.result)
    assert_equal([{ a: 1 }], given)
    assert_includes(assert_raises(ArgumentError) { worker { 1 }.perform("t", [Object.new]) }.message, "not JSON")
  end

  def test_a_type_without_a_handler_fails_as_it_does_under_ojs_init
    assert_equal("handler_not_found", worker { 1 }.perform("u").error["code"])
  end

  def test_errors_retries_and_releases_are_outcomes
    assert_equal("KeyError", worker { raise KeyError, "x" }.perform("t").error["type"])
    assert_equal(1500, worker { raise OjsWorker::Retry.new("x", after: 1.5) }.perform("t").error["details"]["retry_after_ms"])
    assert_equal(%w[release busy], worker { raise OjsWorker::Release, "busy" }.perform("t").to_h.values_at(:outcome, :reason))
    assert_equal("InvalidResult", worker { Object.new }.perform("t").error["type"])
  end

  def test_middleware_is_around_it
    subject = worker { 1 }
    subject.middleware { |_job, &handler| handler.call + 1 }
    assert_equal(2, subject.perform("t").result)
  end

  def test_progress_and_checkpoints_are_kept_in_order
    outcome = worker do |job|
      job.progress(0.5, "half", data: { n: 1 })
      job.checkpoint(1)
      job.checkpoint({ page: 2 })
      job.last_checkpoint
    end.perform("t", checkpoint: { "page" => 0 })
    assert_equal([1, { "page" => 2 }], outcome.checkpoints)
    assert_equal([{ "progress" => 0.5, "message" => "half", "data" => { "n" => 1 } }], outcome.progress)
    assert_equal({ "page" => 0 }, outcome.result)
  end

  def test_a_timeout_cancels_the_handler
    outcome = worker do |job|
      job.wait_cancelled
      job.raise_if_cancelled
    end.perform("t", timeout: 0.05)
    assert_equal("timeout", outcome.error["code"])
  end

  def test_a_cancel_at_once_is_there_when_the_handler_begins
    assert_equal("lost", worker(&:cancel_reason).perform("t", cancel: "lost").result)
  end

  def test_a_cancel_may_come_later
    outcome = worker { |job| [job.cancelled?, job.wait_cancelled(20)] }.perform("t", cancel: "cancelled", cancel_after: 0.05)
    assert_equal([false, true], outcome.result)
  end

  def test_stopping_is_there_with_the_seconds_that_are_left_and_ends_with_a_cancel
    outcome = worker do |job|
      left = job.remaining
      job.wait_cancelled
      [job.stopping?, left <= 0.3, job.cancel_reason]
    end.perform("t", stopping: 0.3)
    assert_equal([true, true, "shutdown"], outcome.result)
  end

  def test_a_loop_that_is_stopped_goes_on_with_the_checkpoint_of_the_outcome
    subject = worker do |job|
      [].tap do |done|
        job.iterate(0...100) do |row|
          sleep(0.02)
          done << row
        end
      end
    end
    stopped = subject.perform("t", stopping: 1)
    assert_equal(["release", "resumes at its checkpoint"], [stopped.outcome, stopped.reason])
    last = stopped.checkpoints.last["cursors"][""]
    assert_equal((last + 1...100).to_a, subject.perform("t", checkpoint: stopped.checkpoints.last).result)
  end

  def test_the_job_has_what_perform_is_told
    outcome = worker { |job| [job.id, job.queue, job.attempt, job.meta, job.envelope["tags"], job.deadline.nil?, job.raw.size > 9] }
              .perform("t", id: "x", queue: "q", attempt: 3, meta: { a: 1 }, envelope: { tags: ["b"] })
    assert_equal(["x", "q", 3, { "a" => 1 }, ["b"], true, true], outcome.result)
  end

  def test_unknown_options_are_named_with_the_known_ones
    assert_includes(assert_raises(ArgumentError) { worker { 1 }.perform("t", [], stoping: 1) }.message, "cancel_after")
  end

  def test_a_handler_that_does_not_end_is_an_error
    gate = Thread::Queue.new
    assert_raises(OjsWorker::Error) { worker { gate.pop }.perform("t", patience: 0.1) }
    gate << 1
  end

  def test_without_a_devserver_it_says_so
    before = ENV.to_h
    ENV["OJS_DEVSERVER"] = "/no/such/program"
    assert_includes(assert_raises(OjsWorker::Testing::NoDevserver) { OjsWorker::Testing.devserver }.message, "/no/such/program")
    ENV["OJS_DEVSERVER"] = ""
    ENV["PATH"] = "/nowhere"
    assert_includes(assert_raises(OjsWorker::Testing::NoDevserver) { OjsWorker::Testing.devserver }.message, "OJS_DEVSERVER")
    ENV["OJS_DEVSERVER"] = "/bin/false"
    assert_includes(assert_raises(OjsWorker::Testing::NoDevserver) { OjsWorker::Testing.devserver }.message, "has ended")
  ensure
    ENV.replace(before)
  end

  def test_a_devserver_takes_jobs_and_tells_of_them
    begin
      OjsWorker::Testing::Devserver.program
    rescue OjsWorker::Testing::NoDevserver => e
      skip(e.message)
    end
    url = OjsWorker::Testing.devserver do |server|
      id = server.enqueue("email.send", ["a@b.c"], meta: { a: 1 }, queue: "mail")
      job = server.job(id)
      assert_equal(["email.send", "mail", "available", { "a" => 1 }], job.values_at("type", "queue", "state", "meta"))
      assert_raises(OjsWorker::Error) { server.job("none") }
      server.url
    end
    assert_raises(SystemCallError) { Net::HTTP.get(URI(url)) }
  end
end
