# frozen_string_literal: true

require "json"
require "logger"
require "time"

module OjsWorker
  # A line of the log about an exception: the formatter below takes it apart, any other writes all of it.
  # @api private
  class LogLine < String
    attr_reader :short, :error

    def initialize(short, error)
      super("#{short}: #{Report.in_full(error)}")
      @short = short
      @error = error
    end
  end

  # A formatter for any `Logger`: one JSON object a line, as ojs-init's own log, with the job's id, type, queue, attempt and
  # trace in each line that is logged while a handler runs, lines of libraries included.
  #
  #     logger.formatter = OjsWorker::LogFormatter.new
  class LogFormatter < Logger::Formatter
    SEVERITIES = { "DEBUG" => 5, "INFO" => 9, "WARN" => 13, "ERROR" => 17, "FATAL" => 21 }.freeze
    TRACEPARENT = /\A(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?\z/.freeze
    MAX_TEXT = 10_000
    private_constant :SEVERITIES, :TRACEPARENT, :MAX_TEXT

    # @return [String] the line
    def call(severity, time, progname, message)
      job = OjsWorker.current_job
      severity = "INFO" unless SEVERITIES.key?(severity) # Logger#unknown
      line = {
        "timestamp" => time.utc.iso8601(3), "severity" => severity, "severity_number" => SEVERITIES[severity],
        "message" => text_of(message), "category" => "worker", "component" => job ? "handler" : "worker"
      }
      about(line, job) if job
      error = message.is_a?(LogLine) ? message.error : message
      line["error"] = describe(error) if error.is_a?(Exception)
      line["attributes"] = { "logger" => Wire.clean(progname, 200) } if progname
      "#{JSON.generate(line)}\n"
    end

    # The trace that a job was enqueued in.
    # @param meta [Hash]
    # @return [Hash] `trace_id`, and `span_id` where it is known
    def self.trace_of(meta)
      parent = meta["traceparent"]
      found = parent.is_a?(String) && parent.valid_encoding? && TRACEPARENT.match(parent)
      return { "trace_id" => found[1], "span_id" => found[2] } if found
      id = meta["trace_id"]
      id.is_a?(String) && !id.empty? ? { "trace_id" => Wire.clean(id, 200) } : {}
    end

    private

    def about(line, job)
      ojs = { "job_id" => Wire.clean(job.id, 1024), "job_type" => Wire.clean(job.type, 1024), "queue" => Wire.clean(job.queue, 1024) }
      ojs["attempt"] = job.attempt unless job.attempt.nil?
      line["ojs"] = ojs
      trace = LogFormatter.trace_of(job.meta)
      line["trace"] = trace unless trace.empty?
    end

    def text_of(message)
      case message
      when LogLine then Wire.clean(message.short, MAX_TEXT)
      when String then Wire.clean(message, MAX_TEXT)
      when Exception then Report.message_of(message)
      else Wire.clean(message.inspect, MAX_TEXT)
      end
    rescue StandardError => e # an inspect of the program's own must not cost the line
      "(a #{message.class} that cannot be shown: #{e.class})"
    end

    def describe(error)
      { "type" => Report.class_name(error), "message" => Report.message_of(error),
        "stack" => Wire.clean(Report.in_full(error), MAX_TEXT) }
    end
  end

  # Extend a `Logger` with it, and a job's `meta.log_level` (debug, info, warn, error, fatal) sets the level for that job alone.
  #
  #     logger.extend(OjsWorker::JobLevel)
  module JobLevel
    LEVELS = { "trace" => 0, "debug" => 0, "info" => 1, "warn" => 2, "warning" => 2, "error" => 3, "fatal" => 4, "critical" => 4 }.freeze
    private_constant :LEVELS

    # @return [Integer] the level that counts now
    def level
      job = OjsWorker.current_job
      own = job && job.meta["log_level"]
      (own.is_a?(String) && LEVELS[own.downcase]) || super
    end
  end

  # What {OjsWorker.install_logging} puts before every Logger.
  # @api private
  module EveryLogger
    @formatter = nil

    class << self
      attr_accessor :formatter
    end

    include JobLevel

    private

    def format_message(severity, time, progname, message)
      formatter = EveryLogger.formatter
      formatter ? formatter.call(severity, time, progname, message) : super
    end
  end

  class << self
    # Log as JSON lines with every `Logger` of this process, those of libraries included, wherever each of them writes to.
    # From then on a job's `meta.log_level` sets the level for that job alone.
    # @return [LogFormatter]
    def install_logging
      Logger.prepend(EveryLogger)
      EveryLogger.formatter = LogFormatter.new
    end

    # @return [Job, nil] the job whose handler runs on this thread; nil outside of handlers
    def current_job
      Thread.current.thread_variable_get(:ojs_job)
    end

    # Lines that are logged in the block are about this job: for a thread that a handler has started.
    #
    #     Thread.new { OjsWorker.with_job(job) { ... } }
    # @param job [Job]
    # @return [Object] what the block returns
    def with_job(job)
      thread = Thread.current
      before = thread.thread_variable_get(:ojs_job)
      thread.thread_variable_set(:ojs_job, job)
      yield
    ensure
      thread.thread_variable_set(:ojs_job, before)
    end
  end
end
