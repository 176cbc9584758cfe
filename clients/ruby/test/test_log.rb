# frozen_string_literal: true

require_relative "fake_init"

# Lines that say which job they are about.
class TestLog < WorkerTest
  TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"

  def setup
    super
    @lines = StringIO.new
    @library = Logger.new(@lines, progname: "lib", level: :info)
    @library.formatter = OjsWorker::LogFormatter.new
    @library.extend(OjsWorker::JobLevel)
  end

  def lines
    @lines.string.lines.map { |line| JSON.parse(line) }
  end

  def test_a_line_in_a_handler_has_job_type_queue_attempt_and_trace
    serve { |_job| @library.info("hello\nthere") && nil }
    @init.answer_to("j1", "t", meta: { traceparent: "00-#{TRACE}-00f067aa0ba902b7-01" })
    line = lines.fetch(0)
    assert_match(/\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\z/, line.delete("timestamp"))
    assert_equal({
                   "severity" => "INFO", "severity_number" => 9, "message" => "hello\nthere", "category" => "worker",
                   "component" => "handler", "attributes" => { "logger" => "lib" },
                   "ojs" => { "job_id" => "j1", "job_type" => "t", "queue" => "default", "attempt" => 1 },
                   "trace" => { "trace_id" => TRACE, "span_id" => "00f067aa0ba902b7" }
                 }, line)
  end

  def test_a_line_outside_of_handlers_has_no_job
    @library.warn("idle")
    assert_equal([nil, "worker", 13], lines[0].values_at("ojs", "component", "severity_number"))
  end

  def test_a_trace_id_alone_is_taken_and_a_traceparent_that_is_none_is_not
    assert_equal({ "trace_id" => "abc" }, OjsWorker::LogFormatter.trace_of({ "trace_id" => "abc" }))
    ["00-#{"0" * 32}-00f067aa0ba902b7-01", "ff-#{TRACE}-00f067aa0ba902b7-01", 5, "\xff"].each do |bad|
      assert_equal({}, OjsWorker::LogFormatter.trace_of({ "traceparent" => bad }))
    end
  end

  def test_log_level_of_a_job_counts_for_that_job_alone
    serve { |_job| @library.debug("detail") && nil }
    @init.answer_to("j1", "t", meta: { log_level: "debug" })
    @init.answer_to("j2")
    @init.answer_to("j3", "t", meta: { log_level: "nonsense" })
    assert_equal(["j1"], lines.map { |line| line["ojs"]["job_id"] })
  end

  def test_lines_of_jobs_side_by_side_are_each_about_their_own
    gate = Thread::Queue.new
    serve do |job|
      gate.pop
      @library.info(job.id)
      nil
    end
    6.times { |n| @init.send_frame(job_frame("j#{n}")) }
    6.times { gate << 1 }
    6.times { @init.answer }
    assert_equal(6, lines.size)
    lines.each { |line| assert_equal(line["message"], line["ojs"]["job_id"]) }
  end

  def test_a_thread_that_a_handler_starts_can_be_about_the_job
    serve { |job| Thread.new { OjsWorker.with_job(job) { @library.info("x") } }.join && nil }
    @init.answer_to("j1")
    assert_equal("j1", lines[0]["ojs"]["job_id"])
  end

  def test_a_failed_job_s_stack_is_in_the_log_as_an_error_of_its_line
    OjsWorker.logger = Logger.new(@lines, formatter: OjsWorker::LogFormatter.new)
    serve { |_job| raise KeyError, "boom" }
    @init.answer_to("j1")
    line = lines.find { |each| each["severity"] == "ERROR" }
    assert_equal("job j1 (t) failed", line["message"])
    assert_equal(%w[KeyError boom], line["error"].values_at("type", "message"))
    assert_includes(line["error"]["stack"], "test_log.rb")
    assert_equal("j1", line["ojs"]["job_id"])
  end

  def test_a_failure_in_the_handler_s_own_words_is_no_line_and_one_with_a_cause_or_of_the_library_is
    OjsWorker.logger = Logger.new(@lines, formatter: OjsWorker::LogFormatter.new)
    serve do |job|
      case job.id
      when "j0"
        job.cancel("timeout")
        job.raise_if_cancelled
      when "j1" then raise OjsWorker::Discard, "no such user"
      when "j2"
        begin
          raise KeyError, "boom"
        rescue KeyError
          raise OjsWorker::Retry, "later"
        end
      else raise OjsWorker::StepsChanged, "other steps"
      end
    end
    %w[j0 j1 j2 j3].each { |id| @init.answer_to(id) }
    failed = lines.select { |line| line["severity"] == "ERROR" }
    assert_equal(["job j2 (t) failed", "job j3 (t) failed"], failed.map { |line| line["message"] })
  end

  def test_an_exception_that_is_logged_is_an_error
    @library.error(IOError.new("gone"))
    assert_equal([{ "type" => "IOError", "message" => "gone", "stack" => "IOError: gone" }, "gone"], lines[0].values_at("error", "message"))
  end

  def test_messages_that_are_no_text_are_lines_too
    @library.info("\xff\xfe")
    @library.info(5)
    @library.info([1])
    @library.info(Object.new.tap { |object| def object.inspect = raise("no") })
    assert_equal(["??", "5", "[1]", "(a Object that cannot be shown: RuntimeError)"], lines.map { |line| line["message"] })
  end

  def test_installed_every_logger_of_the_process_writes_such_lines_also_one_that_is_made_before
    pid_lines = run_program(<<~RUBY)
      early = Logger.new($stderr, progname: "early", formatter: proc { |*, m| "plain \#{m}\n" })
      OjsWorker.install_logging
      worker = OjsWorker::Worker.new
      worker.job("t") { early.debug("dropped by its level"); early.level = :warn; early.info("one"); Logger.new($stderr).info("two"); nil }
      early.level = :info
      worker.run
    RUBY
    messages = pid_lines.map { |line| JSON.parse(line) }.to_h { |line| [line["message"], line.dig("ojs", "job_id")] }
    assert_equal({ "dropped by its level" => "j1", "one" => "j1", "two" => "j1" }, messages)
  end

  private

  def run_program(source)
    reader, writer = IO.pipe
    pid = spawn_program(source, err: writer)
    writer.close
    @init.greet
    @init.answer_to("j1", "t", meta: { log_level: "debug" })
    @init.terminate
    assert_equal(0, wait_for(pid).exitstatus)
    reader.readlines
  end
end
