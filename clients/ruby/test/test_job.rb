# frozen_string_literal: true

require_relative "fake_init"
require_relative "fake_backend"

# Job classes.
class TestJob < WorkerTest
  # A job class as a program has it.
  class EmailSend
    include OjsWorker::Job

    job_type "email.send"
    job_options queue: "mail"
    args String, Integer
    retries_exhausted { |job, error| EXHAUSTED << [job.args, error.class] }

    def perform(to, count = 1)
      sleep(60) if to == "sleep"
      raise "broken" if to == "broken"
      { to: to, count: count, id: job.id }
    end
  end

  # Has the options of its superclass.
  class Other < EmailSend
    job_type "email.other"
    job_options retry: { max_attempts: 1 }
  end

  EXHAUSTED = [] # rubocop:disable Style/MutableConstant

  def setup
    super
    EXHAUSTED.clear
    @worker = new_worker
    @worker.register(EmailSend, Other)
  end

  def test_perform_gets_the_arguments_and_the_job_on_request
    assert_equal({ "to" => "a", "count" => 2, "id" => "j1" }, @worker.perform("email.send", ["a", 2], id: "j1").result)
    assert_equal(1, @worker.perform("email.send", ["a"]).result["count"])
  end

  def test_wrong_arguments_fail_for_good
    [[7], %w[a b], [], ["a", 1, 2]].each do |args|
      assert_equal("InvalidArgs", @worker.perform("email.send", args).error["type"])
    end
  end

  def test_sleep_ends_when_the_job_is_cancelled
    assert_equal("shutdown", @worker.perform("email.send", ["sleep"], cancel: "shutdown").reason)
  end

  def test_retries_exhausted_runs_when_a_job_fails_for_good
    @worker.perform("email.send", ["broken"], envelope: { max_attempts: 2 })
    assert_empty(EXHAUSTED)
    @worker.perform("email.send", ["broken"], attempt: 2, envelope: { max_attempts: 2 })
    @worker.perform("email.other", [7])
    assert_equal([[["broken"], RuntimeError], [[7], OjsWorker::InvalidArgs]], EXHAUSTED)
  end

  def test_a_class_that_cannot_work_is_refused_with_the_right_form
    without_perform = Class.new { include OjsWorker::Job }
    without_perform.job_type("t")
    keywords = Class.new(without_perform) { def perform(to:) = to }
    types = Class.new(without_perform) { def perform(to) = to }
    types.args(String, String)
    without_type = Class.new do
      include OjsWorker::Job

      def perform = nil
    end
    { without_perform => /write def perform\(to, body\)/, keywords => /write def perform\(to\)/,
      types => /2 types for 1/, without_type => /write job_type/ }.each do |job_class, message|
      assert_match(message, assert_raises(ArgumentError) { @worker.register(job_class) }.message)
    end
  end

  def test_perform_async_enqueues_what_perform_takes
    backend = FakeBackend.new
    OjsWorker.client = OjsWorker::Client.new(url: backend.url)
    id = EmailSend.perform_async("a", 2)
    assert_equal({ "id" => id, "type" => "email.send", "args" => ["a", 2], "options" => { "queue" => "mail" } },
                 backend.jobs.pop)
    Other.perform_in(60, "a")
    options = backend.jobs.pop["options"]
    assert_equal(["mail", { "max_attempts" => 1 }], options.values_at("queue", "retry"))
    assert_in_delta(Time.now + 60, Time.iso8601(options["delay_until"]), 5)
    assert_raises(OjsWorker::InvalidArgs) { EmailSend.perform_async(7) }
    assert_empty(backend.jobs)
  ensure
    OjsWorker.client = nil
    backend.close
  end
end
