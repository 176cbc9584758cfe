# frozen_string_literal: true

require "json"
require "logger"
require "time"

module OjsWorker
  # A line of the log with an exception: {LogFormatter} takes it apart, others write it whole.
  # @api private
  class ErrorLine < String
    attr_reader :text, :error

    def initialize(text, error)
      super("#{text}: #{Report.stack(error)[0, LogFormatter::MAX_TEXT]}")
      @text, @error = text, error
    end
  end

  # A formatter for any `Logger`: one JSON object a line, in the format of ojs-init's own log.
  #
  # Lines that are logged while a handler runs have the job's id, type, queue, attempt and trace.
  class LogFormatter < Logger::Formatter
    # Characters of a message or stack; the rest is cut.
    MAX_TEXT = 10_000
    SEVERITIES = { "DEBUG" => 5, "INFO" => 9, "WARN" => 13, "ERROR" => 17, "FATAL" => 21 }.freeze
    TRACEPARENT = /\A(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?\z/

    # @return [String] the line
    def call(severity, time, progname, message)
      severity = "INFO" unless SEVERITIES.key?(severity) # Logger#unknown
      job = OjsWorker.current_job
      error = message.is_a?(ErrorLine) ? message.error : message
      line = {
        timestamp: time.utc.iso8601(3), severity: severity, severity_number: SEVERITIES[severity],
        message: text_of(message), category: "worker", component: job ? "handler" : "worker"
      }
      line.update(LogFormatter.fields(job)) if job
      line[:error] = describe(error) if error.is_a?(Exception)
      line[:attributes] = { logger: Wire.text(progname) } if progname
      "#{JSON.generate(line)}\n"
    end

    # What identifies a job in a record: `ojs`, and `trace` if its traceparent is valid.
    # @param job [JobContext]
    # @return [Hash]
    def self.fields(job)
      ojs = { job_id: job.id, job_type: job.type, queue: job.queue, attempt: job.attempt }.compact
      found = TRACEPARENT.match(Wire.text(job.traceparent))
      found ? { ojs: ojs, trace: { trace_id: found[1], span_id: found[2] } } : { ojs: ojs }
    end

    private

    def text_of(message)
      text = case message
             when ErrorLine then message.text
             when Exception then Report.message_of(message)
             else Wire.text(message)
             end
      text[0, MAX_TEXT]
    end

    def describe(error)
      { type: Report.class_name(error), message: text_of(error), stack: Report.stack(error)[0, MAX_TEXT] }
    end
  end

  # Logs for a thread that must not wait, on a thread of its own: nobody may read the log. Lines that
  # do not fit are dropped.
  # @api private
  class LateLog
    MOST_LINES = 100

    def initialize = @lines = Thread::SizedQueue.new(MOST_LINES)

    def add(*line)
      @lines.push(line, true)
      @thread ||= Thread.new { run }
    rescue ThreadError, ClosedQueueError
      nil # There is no room, or no thread.
    end

    # Wait until all lines are logged, for at most so many seconds.
    def close(seconds)
      @lines.close
      @thread&.join(seconds)
    end

    private

    def run
      while (line = @lines.pop)
        OjsWorker.log(*line)
      end
    end
  end

  # Extend a `Logger` with it, and a job's `meta.log_level` sets the level for that job alone.
  #
  #     logger.extend(OjsWorker::JobLevel)
  module JobLevel
    LEVELS = { "trace" => 0, "debug" => 0, "info" => 1, "warn" => 2, "error" => 3, "fatal" => 4 }.freeze

    # @return [Integer] the level that counts now
    def level = LEVELS[OjsWorker.current_job&.meta&.fetch("log_level", nil)] || super
  end

  # Formats the lines of every Logger.
  # @api private
  module EveryLogger
    include JobLevel

    FORMATTER = LogFormatter.new

    private

    def format_message(*record) = FORMATTER.call(*record)
  end

  class << self
    # Let every `Logger` of this process, those of libraries included, write JSON lines, and let a
    # job's `meta.log_level` set the level for that job alone. Where each logger writes to stays.
    # @return [void]
    def install_logging = Logger.prepend(EveryLogger)

    # @return [JobContext, nil] the job whose handler runs on this thread; nil outside of handlers
    def current_job = Thread.current.thread_variable_get(:ojs_job)

    # Let lines that are logged in the block belong to this job, in a thread that a handler started.
    #
    #     Thread.new { OjsWorker.with_job(job) { ... } }
    # @param job [JobContext]
    # @return [Object] the result of the block
    def with_job(job)
      before = current_job
      Thread.current.thread_variable_set(:ojs_job, job)
      yield
    ensure
      Thread.current.thread_variable_set(:ojs_job, before)
    end
  end
end
