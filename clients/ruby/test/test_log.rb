# frozen_string_literal: true

require_relative "fake_init"

# JSON lines and the level of a job.
class TestLog < WorkerTest
  TRACE = { "traceparent" => "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" }.freeze

  def setup
    super
    @logger = Logger.new(@lines = StringIO.new, progname: "lib")
    @logger.formatter = OjsWorker::LogFormatter.new
    @logger.extend(OjsWorker::JobLevel)
    OjsWorker.logger = @logger
  end

  def test_a_line_of_a_handler_has_its_job_and_trace
    record = record_of { @logger.info("hello") }
    assert_equal(["INFO", 9, "hello", "worker", "handler", { "logger" => "lib" }],
                 record.values_at("severity", "severity_number", "message", "category", "component", "attributes"))
    assert_equal({ "job_id" => "perform-1", "job_type" => "t", "queue" => "default", "attempt" => 1 }, record["ojs"])
    assert_equal({ "trace_id" => TRACE["traceparent"][3, 32], "span_id" => "b7ad6b7169203331" }, record["trace"])
    assert_match(/\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\z/, record["timestamp"])
  end

  def test_a_line_of_a_thread_of_a_handler_has_its_job_when_it_says_so
    inner = ->(job) { Thread.new { OjsWorker.with_job(job) { @logger.info("inner") } }.join }
    assert_equal("perform-1", record_of(&inner)["ojs"]["job_id"])
    @logger.info("outside")
    refute(last_record.key?("ojs"))
  end

  def test_an_error_has_its_class_message_and_stack
    record_of { raise IOError, "broken" }
    record = last_record
    assert_equal(%w[IOError broken], record["error"].values_at("type", "message"))
    assert_match(/test_log\.rb/, record["error"]["stack"])
    assert_match(/failed\z/, record["message"])
  end

  def test_the_level_of_a_job_is_its_own
    worker = new_worker
    worker.job("t") { @logger.info("seen") }
    worker.perform("t", [], meta: { "log_level" => "error" })
    refute_includes(@lines.string, "seen")
    worker.perform("t")
    assert_includes(@lines.string, "seen")
  end

  def test_texts_are_cut_whole_and_without_raw_control_characters
    @logger.info("a\n\u0001#{"x" * 20_000}")
    assert_equal(10_000, last_record["message"].size)
    assert_equal(1, @lines.string.lines.size)
    [[nil], :symbol, "\xff", IOError.new("x")].each { |message| @logger.info(message) }
    assert_equal("[nil] symbol ? x", @lines.string.lines.last(4).map { |line| JSON.parse(line)["message"] }.join(" "))
  end

  def test_the_librarys_own_lines_have_no_control_characters
    OjsWorker.logger = Logger.new(@lines)
    OjsWorker.log(:warn, "job a\nb")
    assert_includes(@lines.string, 'job a\nb')
  end

  def test_a_logger_that_raises_costs_no_answer
    OjsWorker.logger = BasicObject.new
    worker = new_worker
    worker.job("t") { raise "x" }
    assert_equal("x", worker.perform("t").error["message"])
  end

  def test_the_worker_goes_on_when_nobody_reads_the_log
    reader, writer = IO.pipe
    source = 'OjsWorker.install_logging; log = Logger.new($stderr); w = OjsWorker::Worker.new
              w.job("t") { log.info("lost"); 1 }; w.job("crash") { raise "x" }; w.run'
    pid = spawn_program(source, err: writer)
    writer.close
    @init.greet
    reader.close
    assert_equal(%w[fail ack ack], [@init.answer_to("j1", "crash"), @init.answer_to("j2"), @init.answer_to("j3")]
      .map { |frame| frame["type"] })
    @init.terminate
    assert_equal(0, wait_for(pid).exitstatus)
  end

  private

  # The last line that is logged while the block is a handler.
  def record_of(&block)
    worker = new_worker
    worker.job("t") { |job| block.call(job) && nil }
    worker.perform("t", [], meta: TRACE)
    last_record
  end

  def last_record
    JSON.parse(@lines.string.lines.last)
  end
end
